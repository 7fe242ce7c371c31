/* SPDX-License-Identifier: Apache-2.0
 * ends.c WAY: a program that takes all device memory that it gets, says how many blocks that is, has a kernel posted,
 * and ends in this way:
 *   crash      by an access violation that is not handled
 *   abort      by abort()
 *   terminate  by TerminateProcess() of itself: no library hears of it
 *   return     main() returns while four threads launch kernels
 *   exit       a thread calls exit() while the others launch kernels
 */
#include <windows.h>

#include "../programs/check.h"

static CUcontext context;
static CUfunction add;
static CUdeviceptr words;
static volatile LONG launching;

static DWORD WINAPI launch(void* ends) {
    int i;
    CHECK(cuCtxSetCurrent(context));
    for (i = 0; !ends || i < 100; ++i) {
        launch_add(add, words, 1 << 10, 1, NULL);
        if (i % 8 == 0) CHECK(cuStreamSynchronize(NULL));
        if (i == 20) InterlockedIncrement(&launching);
    }
    exit(7);
}

static void start_threads(int one_ends) {
    enum { threads = 4 };
    int i;
    for (i = 0; i < threads; ++i)
        EXPECT(CreateThread(NULL, 0, launch, one_ends && i == 0 ? context : NULL, 0, NULL) != NULL);
    while (launching < threads) Sleep(1);
}

int main(int argc, char** argv) {
    enum { block = 16 << 20 };
    const char* const way = argc == 2 ? argv[1] : "";
    CUdeviceptr p;
    CUmodule module;
    void* pinned;
    int count = 0;
    begin();
    CHECK(cuCtxGetCurrent(&context));
    add = function(&module, "add");
    CHECK(cuMemHostAlloc(&pinned, 1 << 20, 0));
    while (cuMemAlloc(&p, block) == CUDA_SUCCESS) {
        words = p;
        ++count;
    }
    EXPECT(count > 0);
    launch_add(add, words, 1 << 10, 1, NULL);
    printf("running: %d blocks\n", count);
    fflush(stdout);
    if (strcmp(way, "crash") == 0) *(volatile int*)(ULONG_PTR)argc = 1;
    if (strcmp(way, "abort") == 0) abort();
    if (strcmp(way, "terminate") == 0) TerminateProcess(GetCurrentProcess(), 9);
    if (strcmp(way, "exit") == 0) {
        start_threads(1);
        Sleep(INFINITE);
    }
    EXPECT(strcmp(way, "return") == 0);
    start_threads(0);
    return 6;
}
