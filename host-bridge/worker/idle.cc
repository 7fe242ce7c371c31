// idle.cc: what a session puts off until the GPU is idle. To give memory or code back (cuMemFree, cuMemHostUnregister,
// cuModuleUnload) a driver waits for all that its GPU was given. If the worker waited with it, no command of any thread
// would be taken meanwhile: a thread that asks for memory of the region, in a malloc, would stand still, and the GPU
// might wait for that thread. One thread gives the GPU its work, this one: while it sees all streams done, they stay
// so. (A pool that is destroyed while some of its memory is still to be freed is another matter: NVIDIA's driver may
// crash, 580.159 within some hundred pools, with nothing of ours in the process.)
#include <algorithm>
#include <utility>

#include "host-bridge/worker/session.h"

namespace barcuda {

void Session::switch_to(CUcontext context) {
    if (context && context != current_ && driver_.cuCtxSetCurrent(context) == CUDA_SUCCESS) current_ = context;
}

// A question that a capture forbids would spoil the capture.
bool Session::askable(CUstream stream) const {
    if (!captures_) return true;
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    return driver_.cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS && status == CU_STREAM_CAPTURE_STATUS_NONE;
}

bool Session::done(CUstream stream) {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    if (captures_) {
        if (driver_.cuStreamIsCapturing(stream, &status) != CUDA_SUCCESS) return false;  // it waits for one that is
        if (status != CU_STREAM_CAPTURE_STATUS_NONE) return true;  // an error, and the driver's to name
    }
    return driver_.cuStreamQuery(stream) != CUDA_ERROR_NOT_READY;
}

// Streams that the client has destroyed are behind fences of its library (guest-allocator/driver/stream.cc).
bool Session::idle() {
    if (!worked_) return true;
    if (collect_fences()) return false;
    const CUcontext before = current_;
    bool all = true;
    const auto ask = [&](CUstream s) {  // an error is an end too: after it the driver waits for nothing
        all = all && askable(s) && driver_.cuStreamQuery(s) != CUDA_ERROR_NOT_READY;
    };
    for (const Living& l : contexts_) switch_to(l.context), ask(nullptr);
    handles_.each<CUstream>(ask);
    if (ending_) {
        switch_to(ending_->context), ask(nullptr);
        for (CUstream s : ending_->streams) ask(s);
    }
    switch_to(before);
    worked_ = !all;
    return all;
}

CUresult Session::leave(const Leaving& l) {
    if (l.bytes == 0) {
        switch_to(l.context);
        forget_addresses();
        if (l.module || l.library) launches_.forget();
        if (l.module) return driver_.cuModuleUnload(l.module);
        if (l.library) return driver_.cuLibraryUnload(l.library);
        if (l.pool) return driver_.cuMemPoolDestroy(l.pool);
        return l.opened ? driver_.cuIpcCloseMemHandle(l.address) : driver_.cuMemFree_v2(l.address);
    }
    if (!current_) switch_to(home_);
    if (!extents_.unmap(driver_, l.offset, l.bytes)) return CUDA_ERROR_INVALID_VALUE;
    granter_.give_back(l.offset, l.bytes);
    return CUDA_SUCCESS;
}

CUresult Session::leave_when_idle(const Leaving& l) {
    constexpr std::size_t most = 1 << 16;  // a guest may free while its GPU never rests
    if (idle()) return tidy(), leave(l);   // in the order in which they came
    // The answer to that is to wait for the GPU, as CUDA does (worker.cc).
    if (leaving_.size() >= most) return CUDA_ERROR_OUT_OF_MEMORY;
    leaving_.push_back(l);
    return CUDA_SUCCESS;
}

bool Session::is_leaving(CUdeviceptr address) const {
    return std::ranges::any_of(leaving_, [=](const Leaving& l) { return l.address && l.address == address; });
}

// Allocating and freeing cost a driver 50 us and more; programs do it in loops. So memory that has been freed (the
// guest has waited for the GPU then, as CUDA does) stays until the worker has nothing else to do, or somebody asks what
// memory there is: who asks for as much meanwhile gets it again. That is for a few blocks, in the context that they
// were allocated in: for any other the guest has not waited; and other clients of the GPU need memory too.
CUresult Session::allocate(CUdeviceptr& address, std::size_t bytes) {
    const auto again = std::ranges::find_if(
        leaving_, [&](const Leaving& l) { return l.size && l.size == bytes && l.context == current_; });
    if (again != leaving_.end()) {
        address = again->address;
        leaving_.erase(again);
    } else if (const CUresult r = driver_.cuMemAlloc_v2(&address, bytes); r != CUDA_SUCCESS) {
        return r;
    }
    allocated_[address] = {bytes, current_};
    return CUDA_SUCCESS;
}

CUresult Session::free_when_idle(CUdeviceptr address) {
    constexpr std::size_t most = 64;
    constexpr std::uint64_t most_bytes = 256 << 20;  // of them all
    Leaving l{address, current_, 0, 0};
    std::uint64_t kept = 0;
    for (const Leaving& other : leaving_) kept += other.size;
    const auto known = allocated_.find(address);
    if (known == allocated_.end() || known->second.context != current_ || known->second.bytes > most_bytes - kept)
        return leave_when_idle(l);
    l.size = known->second.bytes;
    allocated_.erase(known);
    leaving_.push_back(l);
    if (leaving_.size() >= most) tidy();
    return CUDA_SUCCESS;
}
CUresult Session::unload_when_idle(CUmodule module, CUlibrary library) {
    return leave_when_idle({0, current_, 0, 0, module, library});
}
CUresult Session::destroy_when_idle(CUmemoryPool pool) {
    return leave_when_idle({0, current_, 0, 0, nullptr, nullptr, pool});
}

CUresult Session::release_when_idle(std::uint64_t offset, std::uint64_t bytes) {
    if (!extents_.holds(offset, bytes)) return CUDA_ERROR_INVALID_VALUE;
    if (std::ranges::any_of(leaving_, [&](const Leaving& o) { return o.bytes && o.offset == offset; }))
        return CUDA_ERROR_INVALID_VALUE;  // twice
    return leave_when_idle({0, nullptr, offset, bytes});
}

// What the worker may say at once, so that the guest hears it.
CUresult Session::close_when_idle(CUdeviceptr address) {
    const auto known = opened_.find(address);
    if (known == opened_.end()) return CUDA_ERROR_INVALID_VALUE;
    if (--known->second == 0) opened_.erase(known);
    Leaving l{address, current_, 0, 0};
    l.opened = true;
    return leave_when_idle(l);
}

void Session::note_shared(CUdeviceptr address) {
    CUdeviceptr base = 0;
    if (driver_.cuMemGetAddressRange_v2(&base, nullptr, address) == CUDA_SUCCESS) allocated_.erase(base);
}

bool Session::tidy(bool wait) {
    if (!untidy()) return false;
    const CUcontext before = ending_ && current_ == ending_->context ? nullptr : current_;
    const bool now = wait || idle();
    if (now) {
        for (const Leaving& l : leaving_)
            if (CUresult r = leave(l); r != CUDA_SUCCESS) posted_failure(static_cast<std::uint32_t>(Op::cuMemFree_v2), r);
        leaving_.clear();
        if (ending_) end_now(*std::exchange(ending_, {}));
    }
    switch_to(before);  // whoever asked goes on there
    return now;
}

void Session::forget_memory(CUcontext context) {
    std::erase_if(leaving_, [&](const Leaving& l) { return l.context == context && (l.address || l.module); });
    for (Leaving& l : leaving_)  // libraries and pools outlive a context
        if (l.context == context) l.context = nullptr;
    std::erase_if(allocated_, [&](const auto& a) { return a.second.context == context; });
    forget_addresses();
}

}  // namespace barcuda
