/* SPDX-License-Identifier: Apache-2.0
 * not_there.c: what is refused says so, and is found by its name
 */
#include "check.h"

int main(void) {
    void* f = &f;
    CUdriverProcAddressQueryResult status;
    CUgraphicsResource* none = NULL;
    begin();
    EXPECT(cuGraphicsMapResources(0, none, NULL) != CUDA_SUCCESS);
    CHECK(cuGetProcAddress("cuGraphicsMapResources", &f, 12000, CU_GET_PROC_ADDRESS_DEFAULT, &status));
    printf("%d %d\n", f != NULL, status);
    return passed();
}
