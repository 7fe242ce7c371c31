/* SPDX-License-Identifier: Apache-2.0
 * threads.c: eight threads work at the same time, each in a stream of its own
 */
#include <pthread.h>

#include "check.h"

static CUcontext context;
static CUfunction add;

static void* work(void* number) {
    enum { n = 2000 };
    int numbers[n], i;
    CUstream stream;
    CUdeviceptr p;
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemAlloc(&p, sizeof numbers));
    CHECK(cuMemsetD32Async(p, (unsigned)(size_t)number, n, stream));
    for (i = 0; i < 100; ++i) launch_add(add, p, n, 1, stream);
    CHECK(cuMemcpyDtoHAsync(numbers, p, sizeof numbers, stream));
    CHECK(cuStreamSynchronize(stream));
    for (i = 0; i < n; ++i) EXPECT(numbers[i] == 100 + (int)(size_t)number);
    CHECK(cuMemFree(p));
    CHECK(cuStreamDestroy(stream));
    return NULL;
}

int main(void) {
    pthread_t threads[8];
    long i;
    CUmodule module;
    begin();
    CHECK(cuCtxGetCurrent(&context));
    add = function(&module, "add");
    for (i = 0; i < 8; ++i) EXPECT(!pthread_create(&threads[i], NULL, work, (void*)(size_t)i));
    for (i = 0; i < 8; ++i) EXPECT(!pthread_join(threads[i], NULL));
    return passed();
}
