// SPDX-License-Identifier: Apache-2.0
// context.cc: the current device, which the driver knows only as a current context.
//
// Nothing happens before the first call. Then the driver is initialized, and the primary context of the thread's device
// is retained and made current. A context that the program has made current (by the driver API, or by another library)
// stays: if it is a primary context of this library's, its device is adopted; else the thread is under a *foreign*
// context and nothing is cached for it.
#include "guest-allocator/runtime/context.h"

#include <algorithm>
#include <cstdlib>

namespace barcuda::runtime {

thread_local constinit Thread thread;
constinit std::atomic<unsigned> resets{0};

namespace {

constinit std::atomic<bool> initialized{false};
constinit std::atomic<bool> over{false};
constinit std::atomic<int> devices{0};
constinit std::atomic<CUcontext> primaries[max_devices] = {};

struct Preferred {
    int devices[max_devices] = {};
    int count = 1;  // the first device alone
};
constinit Preferred preferred;  // under state_lock
Preferred preferred_devices() {
    std::lock_guard hold(state_lock);
    return preferred;
}

CUresult first_init() {
    // Before the lock: a driver that begins calls the loader.
    if (CUresult result = cuInit(0)) return result;  // not remembered: the next call may find a device
    int count = 0;
    if (CUresult result = cuDeviceGetCount(&count)) return result;
    if (count == 0) return CUDA_ERROR_NO_DEVICE;
    std::lock_guard hold(state_lock);
    if (initialized.load(std::memory_order_relaxed)) return CUDA_SUCCESS;
    devices.store(count < max_devices ? count : max_devices, std::memory_order_relaxed);
    // Programs register their fat binaries' atexit handlers before their first CUDA call, so this one runs before
    // those.
    std::atexit([] { over.store(true, std::memory_order_relaxed); });
    initialized.store(true, std::memory_order_release);
    return CUDA_SUCCESS;
}

}  // namespace

constinit guest::Mutex state_lock;

CUresult init() {
    if (guest::forked_after_init()) return CUDA_ERROR_NOT_INITIALIZED;  // what is remembered here is the parent's
    return initialized.load(std::memory_order_acquire) ? CUDA_SUCCESS : first_init();
}

bool exiting() { return over.load(std::memory_order_relaxed); }

int known_device_count() { return devices.load(std::memory_order_relaxed); }
int device_count() { return init() == CUDA_SUCCESS ? devices.load(std::memory_order_relaxed) : 0; }

CUresult primary(int device, CUcontext* context) {
    if (CUresult result = init()) return result;
    if (device < 0 || device >= device_count()) return CUDA_ERROR_INVALID_DEVICE;
    *context = primaries[device].load(std::memory_order_acquire);
    if (*context) return CUDA_SUCCESS;
    std::lock_guard hold(state_lock);
    *context = primaries[device].load(std::memory_order_relaxed);
    if (*context) return CUDA_SUCCESS;
    CUdevice handle = 0;
    if (CUresult result = cuDeviceGet(&handle, device)) return result;
    if (CUresult result = cuDevicePrimaryCtxRetain(context, handle)) return result;
    primaries[device].store(*context, std::memory_order_release);
    return CUDA_SUCCESS;
}

namespace {

// Whether the program made the device's primary context current itself. It may have retained it before we did.
bool is_primary(CUdevice device, CUcontext current) {
    if (device < 0 || device >= device_count()) return false;
    CUcontext known = primaries[device].load(std::memory_order_acquire);
    if (known) return known == current;
    unsigned flags = 0;
    int active = 0;
    if (cuDevicePrimaryCtxGetState(device, &flags, &active) != CUDA_SUCCESS || !active) return false;
    return primary(device, &known) == CUDA_SUCCESS && known == current;
}

// The first of them that has a context.
CUresult bind_preferred() {
    const Preferred in_order = preferred_devices();
    CUresult result = CUDA_ERROR_NO_DEVICE;
    for (int i = 0; i < in_order.count && result != CUDA_SUCCESS; ++i) result = bind(in_order.devices[i]);
    return result;
}

}  // namespace

CUresult bind() {
    if (CUresult result = init()) return result;
    CUcontext current = nullptr;
    if (CUresult result = cuCtxGetCurrent(&current)) return result;
    unsigned now = resets.load(std::memory_order_acquire);
    bool died = current && current == thread.bound && thread.resets != now;
    if (!current || died) return thread.chosen ? bind(thread.device) : bind_preferred();
    CUdevice device = 0;
    bool ours = cuCtxGetDevice(&device) == CUDA_SUCCESS && is_primary(device, current);
    thread.bound = ours ? current : nullptr;
    if (ours) {
        thread.device = device;
        thread.chosen = true;
        thread.resets = now;
    }
    return CUDA_SUCCESS;
}

CUresult bind(int device) {
    unsigned now = resets.load(std::memory_order_acquire);
    CUcontext context = nullptr;
    if (CUresult result = primary(device, &context)) return result;
    if (CUresult result = cuCtxSetCurrent(context)) return result;
    thread.bound = context;
    thread.device = device;
    thread.chosen = true;
    thread.resets = now;
    return CUDA_SUCCESS;
}

void prefer_devices(std::span<const int> devices) {
    std::lock_guard hold(state_lock);
    preferred = {};
    if (devices.empty()) return;
    std::ranges::copy(devices, preferred.devices);
    preferred.count = static_cast<int>(devices.size());
}

CUresult current_device(int* device) {
    if (CUresult result = init()) return result;
    CUcontext current = nullptr;
    *device = thread.chosen ? thread.device : preferred_devices().devices[0];
    const CUresult asked = cuCtxGetCurrent(&current);
    if (asked == CUDA_ERROR_NOT_PERMITTED) return asked;  // in a host function
    if (asked != CUDA_SUCCESS || !current || current == thread.bound) return CUDA_SUCCESS;
    CUdevice handle = 0;
    if (cuCtxGetDevice(&handle) == CUDA_SUCCESS) *device = handle;
    return CUDA_SUCCESS;
}

CUresult reset(int device) {
    std::lock_guard hold(state_lock);
    CUcontext context = primaries[device].exchange(nullptr, std::memory_order_acq_rel);
    CUdevice handle = 0;
    if (CUresult result = cuDeviceGet(&handle, device)) return result;
    resets.fetch_add(1, std::memory_order_acq_rel);  // it stays current where it is, until a thread needs another
    CUresult result = cuDevicePrimaryCtxReset(handle);
    if (context) cuDevicePrimaryCtxRelease(handle);  // this library's; others of this process keep theirs
    return result;
}

}  // namespace barcuda::runtime
