// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/worker/session/contexts.h"

#include <utility>

namespace barcuda {

CUresult Contexts::make_current(CUcontext context) {
    const CUresult r = driver_.cuCtxSetCurrent(context);
    if (r == CUDA_SUCCESS) current_ = context;
    return r;
}

void Contexts::leave_ending() {
    if (in_ending()) {
        driver_.cuCtxSetCurrent(nullptr);
        current_ = nullptr;
    }
}

// A client that begins with another device than its worker did has nothing on the worker's device, as natively.
void Contexts::leave_warm(CUdevice device) {
    const std::optional<CUdevice> warm = std::exchange(warm_, {});
    if (!warm || *warm == device) return;
    driver_.cuCtxSetCurrent(home_);
    extents_.unregister_all(driver_);
    home_ = nullptr;
    driver_.cuCtxSetCurrent(current_);
    driver_.cuDevicePrimaryCtxRelease_v2(*warm);
}

CUresult Contexts::ready(const Living& fresh, CUdevice device) {
    leave_warm(device);
    if (CUresult r = make_current(fresh.context); r != CUDA_SUCCESS) return r;
    if (!find(fresh.context)) living_.push_back(fresh);
    return register_at_home();
}

CUresult Contexts::retain(CUcontext& context, CUdevice device) {
    if (const Living* known = device >= 0 ? primary(device) : nullptr) {
        context = known->context;
        return CUDA_SUCCESS;
    }
    const bool made = ending_ && ending_->primary_of == device;  // the driver's own has not been freed yet
    if (made && !driver_.cuCtxCreate_v4) return CUDA_ERROR_NOT_SUPPORTED;
    const CUresult r = made ? driver_.cuCtxCreate_v4(&context, nullptr, 0, device)
                            : driver_.cuDevicePrimaryCtxRetain(&context, device);
    return r == CUDA_SUCCESS ? ready({context, device, made}, device) : r;
}

CUresult Contexts::register_at_home() {
    if (!home_) home_ = current_;
    if (home_ != current_)
        if (CUresult r = driver_.cuCtxSetCurrent(home_); r != CUDA_SUCCESS) return r;
    const CUresult r = extents_.register_all(driver_);
    if (home_ != current_) driver_.cuCtxSetCurrent(current_);
    return r;
}

CUresult Contexts::register_extents() {
    if (living_.empty()) return CUDA_SUCCESS;
    if (!current_) switch_to(living_.front().context);
    return register_at_home();
}

void Contexts::put_off(const Ending& ending) {
    ending_ = ending;
    gone(ending.context);
    if (in_ending()) switch_to(living_.front().context);
}

Contexts::Ending Contexts::take_ending() { return *std::exchange(ending_, {}); }

CUresult Contexts::end(const Living& l) {
    const CUcontext before = current_;
    const bool registered = l.context == home_;
    if (registered) {
        switch_to(l.context);
        extents_.unregister_all(driver_);
        home_ = nullptr;
    }
    const CUresult r = l.green  ? driver_.cuGreenCtxDestroy(l.green)
                       : l.made ? driver_.cuCtxDestroy_v2(l.context)
                                : driver_.cuDevicePrimaryCtxReset_v2(l.primary_of);
    if (current_ == l.context) {
        driver_.cuCtxSetCurrent(nullptr);
        current_ = nullptr;
    }
    if (before != l.context) switch_to(before);
    if (registered) register_extents();
    return r;
}

}  // namespace barcuda
