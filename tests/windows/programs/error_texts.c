/* SPDX-License-Identifier: Apache-2.0
 * error_texts.c: names and texts of all results
 */
#include "check.h"

int main(void) {
    const char *name, *text;
    int i, known = 0;
    for (i = 0; i < 1000; ++i) {
        if (cuGetErrorName((CUresult)i, &name) != CUDA_SUCCESS) continue;
        CHECK(cuGetErrorString((CUresult)i, &text));
        printf("%d %s: %s\n", i, name, text);
        ++known;
    }
    EXPECT(known > 80);
    EXPECT(cuGetErrorName((CUresult)12345, &name) == CUDA_ERROR_INVALID_VALUE && !name);
    return passed();
}
