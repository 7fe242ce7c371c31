/* SPDX-License-Identifier: Apache-2.0
 * fibers.c: calls from several fibers in turn, with small stacks. The current context is the thread's: all of its
 * fibers have the same one, and a fiber that goes on in another thread has that thread's. A fiber may be deleted, and
 * the thread's next call come from another.
 */
#include <windows.h>

#include "../programs/check.h"

enum { fibers = 4, rounds = 25 };
static void *own, *all[fibers];
static CUcontext context;
static CUfunction add;
static CUdeviceptr words[fibers];
static CUstream streams[fibers];
static int sums[fibers];

static void CUDA_CB take(void* sum) { ++*(int*)sum; }

static void WINAPI work(void* number) {
    const int i = (int)(ULONG_PTR)number;
    int round;
    CUcontext current;
    for (;;) {
        CHECK(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
        CHECK(cuMemAllocAsync(&words[i], sizeof(int), streams[i]));
        SwitchToFiber(own);
        CHECK(cuMemsetD32Async(words[i], 0, 1, streams[i]));
        for (round = 0; round < rounds; ++round) {
            launch_add(add, words[i], 1, 1 + i, streams[i]);
            CHECK(cuLaunchHostFunc(streams[i], take, &sums[i]));
            SwitchToFiber(own);
        }
        CHECK(cuMemcpyDtoHAsync(&round, words[i], sizeof round, streams[i]));
        CHECK(cuStreamSynchronize(streams[i]));
        EXPECT(round == rounds * (1 + i) && sums[i] == rounds);
        SwitchToFiber(own);
        /* In the other thread. */
        CHECK(cuCtxGetCurrent(&current));
        EXPECT(current == NULL && cuStreamQuery(NULL) == CUDA_ERROR_INVALID_CONTEXT);
        CHECK(cuCtxSetCurrent(context));
        CHECK(cuMemFreeAsync(words[i], streams[i]));
        CHECK(cuStreamSynchronize(streams[i]));
        CHECK(cuCtxSetCurrent(NULL));
        SwitchToFiber(own);
    }
}

static DWORD WINAPI go_on(void* none) {
    int i;
    own = ConvertThreadToFiber(none);
    for (i = 0; i < fibers; ++i) SwitchToFiber(all[i]);
    EXPECT(ConvertFiberToThread());
    return 0;
}

int main(void) {
    CUmodule module;
    HANDLE other;
    int i, round;
    own = ConvertThreadToFiber(NULL);
    begin();
    CHECK(cuCtxGetCurrent(&context));
    add = function(&module, "add");
    for (i = 0; i < fibers; ++i) {
        all[i] = CreateFiber(64 << 10, work, (void*)(ULONG_PTR)i);
        EXPECT(all[i] != NULL);
    }
    for (round = 0; round < rounds + 2; ++round)
        for (i = 0; i < fibers; ++i) SwitchToFiber(all[i]);
    other = CreateThread(NULL, 0, go_on, NULL, 0, NULL);
    WaitForSingleObject(other, INFINITE);
    for (i = 0; i < fibers; ++i) DeleteFiber(all[i]);
    CHECK(cuCtxSynchronize());
    EXPECT(ConvertFiberToThread());
    CHECK(cuCtxSynchronize());
    return passed();
}
