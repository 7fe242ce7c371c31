/* SPDX-License-Identifier: Apache-2.0
 * interrupts.c: a program that answers its console's Ctrl-C itself. The first one comes while a thread waits for the
 * GPU: the handler launches a kernel, on a thread of the system's, lets the GPU go on, and so does the program. The
 * second one ends it.
 */
#include <windows.h>

#include "../programs/check.h"

static CUcontext context;
static CUfunction add;
static CUdeviceptr word;
static CUstream other;
static HANDLE pressed;
static volatile LONG presses;

static BOOL WINAPI on_key(DWORD key) {
    if (key != CTRL_C_EVENT || InterlockedIncrement(&presses) > 1) return FALSE;
    CHECK(cuCtxSetCurrent(context));
    launch_add(add, word, 1, 40, other);
    CHECK(cuStreamSynchronize(other));
    SetEvent(pressed);
    return TRUE;
}

static void CUDA_CB wait_for_key(void* none) {
    (void)none;
    printf("running\n");
    fflush(stdout);
    WaitForSingleObject(pressed, INFINITE);
}

int main(void) {
    CUmodule module;
    int value = 0;
    begin();
    CHECK(cuCtxGetCurrent(&context));
    add = function(&module, "add");
    CHECK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemAlloc(&word, sizeof value));
    CHECK(cuMemsetD32(word, 2, 1));
    CHECK(cuStreamSynchronize(NULL));
    pressed = CreateEventA(NULL, FALSE, FALSE, NULL);
    EXPECT(SetConsoleCtrlHandler(on_key, TRUE));
    CHECK(cuLaunchHostFunc(NULL, wait_for_key, NULL));
    CHECK(cuStreamSynchronize(NULL));
    CHECK(cuMemcpyDtoH(&value, word, sizeof value));
    printf("goes on with %d\n", value);
    fflush(stdout);
    for (;;) launch_add(add, word, 1, 1, NULL);
}
