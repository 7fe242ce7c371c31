// SPDX-License-Identifier: Apache-2.0
// held.cc: a program that ends while a thread of it has the lock of the library's view of a device, as Windows may end
// a thread at any point.
#include <cuda.h>
#include <windows.h>

#include <cstdio>

#include "base/os/view.h"

namespace {

HANDLE is_held;

DWORD WINAPI hold(void*) {
    if (!barcuda_views.all[0].held_mutex.try_lock()) std::printf("the lock was not free\n");
    SetEvent(is_held);
    Sleep(INFINITE);
    return 0;
}

}  // namespace

int main() {
    is_held = CreateEventA(nullptr, FALSE, FALSE, nullptr);
    CUcontext context = nullptr;
    if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || !barcuda_views.all[0].device) return 1;
    CreateThread(nullptr, 0, hold, nullptr, 0, nullptr);
    WaitForSingleObject(is_held, INFINITE);
    std::printf("held\n");
    return 0;
}
