/* SPDX-License-Identifier: Apache-2.0
 * occupancy.c: how many blocks of a kernel a multiprocessor takes
 */
#include "check.h"

int main(void) {
    int blocks, least, size;
    CUmodule module;
    CUfunction f;
    begin();
    f = function(&module, "add");
    CHECK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, f, 128, 0));
    CHECK(cuOccupancyMaxPotentialBlockSize(&least, &size, f, NULL, 0, 0));
    EXPECT(blocks > 0 && least > 0 && size > 0);
    printf("%d %d %d\n", blocks, least, size);
    return passed();
}
