// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/worker/session/deferred.h"

#include <algorithm>
#include <utility>

namespace barcuda {

// Streams that the client has destroyed have fences of its library behind them (guest-allocator/driver/stream.cc).
bool Deferred::check_idle() {
    if (fences_.collect()) return false;  // also for a client that has done no work
    if (!worked_) return true;
    const Contexts::Visit visit(contexts_);
    bool all = true;
    const auto ask = [&](CUstream s) { all = all && streams_.idle(s); };
    for (const Contexts::Living& l : contexts_.living()) {
        contexts_.switch_to(l.context);
        ask(nullptr);
    }
    handles_.each_stream(ask);
    if (const auto& ending = contexts_.ending()) {
        contexts_.switch_to(ending->context);
        ask(nullptr);
        for (CUstream s : ending->streams) ask(s);
    }
    worked_ = !all;
    if (all) in_flight_.all_done();
    return all;
}

CUresult Deferred::release(const Entry& e) {
    if (e.what == What::extent) {
        contexts_.go_home();
        if (const std::byte* const memory = extents_.locate(e.name, e.bytes)) fences_.forget(memory, e.bytes);
        if (!extents_.unmap(driver_, e.name, e.bytes)) return CUDA_ERROR_INVALID_VALUE;
        granter_.release(e.name, e.bytes);
        return CUDA_SUCCESS;
    }
    contexts_.switch_to(e.context);
    addresses_.forget();
    if (e.is_code()) {
        launches_.forget();
        addresses_.end_variables(e.name);
    }
    switch (e.what) {
        case What::module: return driver_.cuModuleUnload(reinterpret_cast<CUmodule>(e.name));
        case What::library: return driver_.cuLibraryUnload(reinterpret_cast<CUlibrary>(e.name));
        case What::pool: return driver_.cuMemPoolDestroy(reinterpret_cast<CUmemoryPool>(e.name));
        case What::opened: return driver_.cuIpcCloseMemHandle(e.name);
        default: return driver_.cuMemFree_v2(e.name);
    }
}

void Deferred::keep(const Entry& e) {
    if (e.is_address()) addresses_.retire(e.name);
    if (e.is_code()) addresses_.retire_variables(e.name);
    entries_.push_back(e);
}

CUresult Deferred::defer(const Entry& e) {
    constexpr std::size_t most = 1 << 16;                // a guest may free while its GPU is never idle
    if (check_idle() && !(kept_ != 0 && e.is_code())) {  // in the order of the requests
        reap();
        return release(e);
    }
    // The caller then waits for the GPU, as CUDA does (execute.cc).
    if (entries_.size() >= most) return CUDA_ERROR_OUT_OF_MEMORY;
    keep(e);
    return CUDA_SUCCESS;
}

bool Deferred::reap(bool wait) {
    if (!pending() || !(wait || check_idle())) return false;
    const Contexts::Visit visit(contexts_);
    std::size_t code = kept_ == 0 ? 0 : unloaded();
    for (const Entry& e : std::exchange(entries_, {})) {
        if (e.is_code() && code != 0 && code-- <= kept_) {
            entries_.push_back(e);
            continue;
        }
        if (e.is_address()) addresses_.end_retirement(e.name);
        if (CUresult r = release(e); r != CUDA_SUCCESS)
            fences_.post_failure(static_cast<std::uint32_t>(Op::cuMemFree_v2), r);
    }
    wait_where_freed();
    if (contexts_.ending()) {
        const Contexts::Ending ending = contexts_.take_ending();
        contexts_.end(ending);
        fences_.context_gone(ending.context);
    }
    return true;
}

// The driver gives memory back that was freed in a stream's order when a thread waits for that stream.
void Deferred::wait_where_freed() {
    if (freed_in_.empty()) return;
    std::vector<CUstream> living;
    handles_.each_stream([&](CUstream stream) { living.push_back(stream); });
    std::erase_if(freed_in_, [&](const FreedIn& f) {
        if (f.stream && std::ranges::find(living, f.stream) == living.end()) return true;
        contexts_.switch_to(f.context);
        const bool may = streams_.askable(f.stream);  // else a capture would be spoiled
        if (may) driver_.cuStreamSynchronize(f.stream);
        return may;
    });
    addresses_.forget_freed();
}

std::size_t Deferred::unloaded() const {
    return static_cast<std::size_t>(std::ranges::count_if(entries_, &Entry::is_code));
}

void Deferred::note_freed(CUstream stream) {
    if (stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD) stream = nullptr;
    for (const FreedIn f : {FreedIn{contexts_.current(), nullptr}, FreedIn{contexts_.current(), stream}})
        if (std::ranges::find(freed_in_, f) == freed_in_.end()) freed_in_.push_back(f);
}

void Deferred::context_gone(CUcontext context) {
    std::erase_if(freed_in_, [context](const FreedIn& f) { return f.context == context; });
    std::erase_if(entries_, [&](const Entry& e) {
        if (e.context != context || !(e.is_address() || e.what == What::module)) return false;
        if (e.is_address()) addresses_.end_retirement(e.name);
        else addresses_.end_variables(e.name);
        return true;
    });
    for (Entry& e : entries_)  // libraries and pools outlive a context
        if (e.context == context) e.context = nullptr;
}

CUresult Deferred::allocate(CUdeviceptr& address, std::size_t bytes) {
    if (CUresult lost = fences_.lasting_error(); lost != CUDA_SUCCESS) return lost;  // recycled memory is lost, too
    const CUcontext context = contexts_.owner();
    const auto recycled = std::ranges::find_if(entries_, [&](const Entry& e) {
        return e.what == What::memory && e.bytes && e.bytes == bytes && e.context == context;
    });
    if (recycled != entries_.end()) {
        address = recycled->name;
        entries_.erase(recycled);
    } else if (const CUresult r = driver_.cuMemAlloc_v2(&address, bytes); r != CUDA_SUCCESS) {
        return r;
    }
    addresses_.allocated(address, {bytes, context});
    return CUDA_SUCCESS;
}

CUresult Deferred::free(CUdeviceptr address) {
    constexpr std::size_t most = 64;
    constexpr std::uint64_t most_bytes = 256 << 20;  // of all blocks
    const CUcontext context = contexts_.owner();
    std::uint64_t kept = 0;
    for (const Entry& e : entries_)
        if (e.what == What::memory) kept += e.bytes;
    // A graph is not launched again while the driver has its memory, and this memory was freed before that: so free it
    // in the order of the calls. The GPU does that; an allocation that fails until then waits for it (reap).
    if (addresses_.is_a_graphs(address) && driver_.cuMemFreeAsync) {
        addresses_.forget(address);
        note_work();
        note_freed(nullptr);
        return driver_.cuMemFreeAsync(address, nullptr);
    }
    const Addresses::Allocation known = addresses_.allocation(address);
    // If this free were deferred, the driver's refusal would come too late for the client.
    if (known.bytes == 0 && (addresses_.is_variable(address) || addresses_.went_with_its_code(address, 1)))
        return CUDA_ERROR_INVALID_VALUE;
    if (known.bytes == 0 || known.context != context || known.bytes > most_bytes - kept) {
        const std::uint64_t buffer = addresses_.buffer_at(address);
        const CUresult r = defer({What::memory, address, 0, known.context ? known.context : context});
        if (r == CUDA_SUCCESS && known.bytes == 0) {  // a pool's, perhaps, which may have it until a thread waits
            addresses_.freed_in_order(address, buffer);
            note_freed(nullptr);
        }
        return r;
    }
    keep({What::memory, address, known.bytes, context});
    if (entries_.size() >= most) reap();
    return CUDA_SUCCESS;
}

CUresult Deferred::release(std::uint64_t offset, std::uint64_t bytes) {
    if (!extents_.releasable(offset, bytes)) return CUDA_ERROR_INVALID_VALUE;
    if (std::ranges::any_of(entries_, [&](const Entry& e) { return e.what == What::extent && e.name == offset; }))
        return CUDA_ERROR_INVALID_VALUE;  // freed twice
    return defer({What::extent, offset, bytes, nullptr});
}

// Memory that this client has not opened is refused at once: the deferred close would report its error at another call.
CUresult Deferred::close(CUdeviceptr opened) {
    return addresses_.close(opened) ? defer({What::opened, opened, 0, contexts_.owner()}) : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace barcuda
