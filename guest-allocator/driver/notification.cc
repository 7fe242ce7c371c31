// SPDX-License-Identifier: Apache-2.0
// notification.cc: functions of the program that would hear that it uses more of a device's memory than its budget. A
// guest has no budget: a limit of the host's is one at which allocations fail. So none is ever called, as where
// NVIDIA's driver for Linux has no budget either.
#include <algorithm>
#include <memory>
#include <mutex>
#include <vector>

#include "guest-allocator/client/client.h"
#include "guest-allocator/client/mutex.h"
#include "guest-allocator/driver/export.h"

namespace barcuda::guest {
namespace {

struct Listener {
    CUdevice device;
};
Mutex mutex;
std::vector<std::unique_ptr<Listener>>& listeners() {
    static auto* const all = new std::vector<std::unique_ptr<Listener>>;
    return *all;
}

}  // namespace
}  // namespace barcuda::guest

using namespace barcuda::guest;

CU cuDeviceRegisterAsyncNotification(CUdevice device, CUasyncCallback function, void*, CUasyncCallbackHandle* handle) {
    if (!function || !handle) return CUDA_ERROR_INVALID_VALUE;
    if (!Client::initialized()) return CUDA_ERROR_NOT_INITIALIZED;
    if (!Client::current()->device(device)) return CUDA_ERROR_INVALID_DEVICE;
    std::lock_guard lock(mutex);
    const auto& its = listeners().emplace_back(new Listener{device});
    *handle = reinterpret_cast<CUasyncCallbackHandle>(its.get());
    return CUDA_SUCCESS;
}

CU cuDeviceUnregisterAsyncNotification(CUdevice device, CUasyncCallbackHandle handle) {
    if (!Client::initialized()) return CUDA_ERROR_NOT_INITIALIZED;
    std::lock_guard lock(mutex);
    const auto gone = std::erase_if(listeners(), [&](const auto& its) {
        return reinterpret_cast<CUasyncCallbackHandle>(its.get()) == handle && its->device == device;
    });
    return gone ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
