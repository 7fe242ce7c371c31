/* SPDX-License-Identifier: Apache-2.0
 * limits.c: limits of a context are read and set
 */
#include "check.h"

int main(void) {
    size_t stack = 0, heap = 0;
    begin();
    CHECK(cuCtxGetLimit(&stack, CU_LIMIT_STACK_SIZE));
    CHECK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 4096));
    CHECK(cuCtxGetLimit(&stack, CU_LIMIT_STACK_SIZE));
    CHECK(cuCtxGetLimit(&heap, CU_LIMIT_MALLOC_HEAP_SIZE));
    EXPECT(stack >= 4096 && heap > 0);
    printf("%zu %zu\n", stack, heap);
    return passed();
}
