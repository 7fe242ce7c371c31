// SPDX-License-Identifier: Apache-2.0
// copy.cc: one-dimensional copies. Where the host side lies decides how it travels:
//
//   in the region       an offset in the command; the GPU reads or writes the program's own buffer (zero-copy); so it
//                       is with registered memory outside, where pages of the region were lent to it (heap/registered)
//   elsewhere, small    inside the command (to the device), or by way of a small buffer in the region (to the host)
//   elsewhere, large    in pieces through buffers in the region, the copying of one overlapped with the DMA of another
#include "guest-allocator/driver/copy.h"

#include <emmintrin.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <array>
#include <span>

#include "guest-allocator/client/command.h"
#include "guest-allocator/client/given_work.h"
#include "guest-allocator/driver/capture.h"
#include "guest-allocator/driver/context.h"
#include "guest-allocator/driver/export.h"
#include "guest-allocator/driver/fence.h"
#include "guest-allocator/heap/heap.h"
#include "guest-allocator/heap/statistics.h"

namespace barcuda::guest {
namespace {

// Up to here the bytes ride in the command, even of memory in the region: posting 4 KiB is cheaper than waiting for a
// DMA of it.
constexpr std::size_t inline_bytes = 16 * 1024;

// A synchronous copy of which the worker has all that it needs. With several contexts the thread waits all the same:
// the memory may be another device's than the stream, and that device's work is not ordered with the stream.
CUresult done_by(CUstream stream, CUresult sent, Until until) {
    return sent == CUDA_SUCCESS && until == Until::done && several_contexts() ? wait_for(stream) : sent;
}

// Buffers in the region for memory outside it: two pieces, each with a fence that says when the GPU has finished with
// it. The fences are not in the buffers: the worker looks at a fence's word for a while after the guest has seen its
// value, and another thread may have the buffers by then.
class Stage {
  public:
    static constexpr std::size_t piece = 1 << 20;  // about 20 us of DMA: enough to hide a wake-up, small for a cache
    explicit Stage(std::size_t bytes)
        : piece_(std::min(piece, bytes)),
          memory_(static_cast<std::byte*>(heap::staging_alloc(2 * padded(piece_)))),
          fences_{take_fence(0), take_fence(0)} {}
    ~Stage() {
        for (int i : {0, 1}) {
            if (fences_[i]) wait(i);
            recycle_fence(fences_[i]);
        }
        if (memory_) heap::staging_free(memory_);
    }
    Stage(const Stage&) = delete;
    explicit operator bool() const { return memory_ && fences_[0] && fences_[1]; }
    std::size_t size() const { return piece_; }
    std::byte* buffer(int i) { return memory_ + static_cast<std::size_t>(i) * padded(piece_); }
    CUresult fence(int i, CUstream stream) {
        const std::uint64_t value = fences_[i]->asked.fetch_add(1, std::memory_order_relaxed) + 1;
        return command<Op::write_fence>(stream, ext::Fence{Client::current()->offset_of(fences_[i]->word), value});
    }
    CUresult wait(int i) { return wait_until(*fences_[i]->word, fences_[i]->asked.load(std::memory_order_relaxed)); }

  private:
    std::size_t piece_;
    std::byte* memory_;
    Fence* fences_[2];
};

// memcpy past the caches: what is written is not read here soon, and need not be fetched before it is overwritten.
void write_past_caches(std::byte* to, const std::byte* from, std::size_t bytes) {
    const std::size_t head = std::min(bytes, -reinterpret_cast<std::uintptr_t>(to) % 16);
    memcpy(to, from, head);
    to += head;
    from += head;
    bytes -= head;
    for (; bytes >= 64; to += 64, from += 64, bytes -= 64) {
        const auto* source = reinterpret_cast<const __m128i*>(from);
        auto* target = reinterpret_cast<__m128i*>(to);
        const __m128i a = _mm_loadu_si128(source), b = _mm_loadu_si128(source + 1), c = _mm_loadu_si128(source + 2),
                      d = _mm_loadu_si128(source + 3);
        _mm_stream_si128(target, a);
        _mm_stream_si128(target + 1, b);
        _mm_stream_si128(target + 2, c);
        _mm_stream_si128(target + 3, d);
    }
    _mm_sfence();
    memcpy(to, from, bytes);
}

CUresult send_inline(CUdeviceptr to, const void* from, std::size_t bytes, CUstream stream) {
    heap::statistics.inlined.add(bytes);
    const auto* at = static_cast<const std::byte*>(from);
    for (std::size_t n; bytes; at += n, to += n, bytes -= n) {
        n = std::min(bytes, most_inline_bytes);
        if (CUresult r = command<Op::copy_in>(to, static_cast<const void*>(at), n, stream); r != CUDA_SUCCESS) return r;
    }
    return CUDA_SUCCESS;
}

CUresult send_staged(CUdeviceptr to, const void* from, std::size_t bytes, CUstream stream) {
    if (!is_there(to, bytes)) return CUDA_ERROR_INVALID_VALUE;
    Stage stage(bytes);
    if (stage) heap::statistics.staged.add(bytes);
    if (!stage) return send_inline(to, from, bytes, stream);  // the region is full: slower, but right
    const auto* at = static_cast<const std::byte*>(from);
    CUresult r = CUDA_SUCCESS;
    for (int i = 0; bytes && r == CUDA_SUCCESS; i ^= 1) {
        const std::size_t n = std::min(bytes, stage.size());
        if ((r = stage.wait(i)) != CUDA_SUCCESS) break;
        write_past_caches(stage.buffer(i), at, n);
        r = command<Op::cuMemcpyHtoDAsync_v2>(to, static_cast<const void*>(stage.buffer(i)), n, stream);
        if (r == CUDA_SUCCESS) r = stage.fence(i, stream);
        at += n;
        to += n;
        bytes -= n;
    }
    for (int i : {0, 1})
        if (CUresult w = stage.wait(i); r == CUDA_SUCCESS) r = w;
    return finished(r);
}

CUresult fetch_inline(void* to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
    auto* at = static_cast<std::byte*>(to);
    for (std::size_t n; bytes; at += n, from += n, bytes -= n) {
        n = std::min(bytes, max_result_bytes);
        CUresult r = CUDA_ERROR_NOT_READY;
        while (r == CUDA_ERROR_NOT_READY)
            if (r = wait_for(stream); r == CUDA_SUCCESS)
                r = command<Op::copy_out>(static_cast<void*>(at), from, n, stream);
        if (r != CUDA_SUCCESS) return r;
    }
    return finished(CUDA_SUCCESS);
}

CUresult fetch_staged(void* to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
    if (!is_there(from, bytes)) return CUDA_ERROR_INVALID_VALUE;
    Stage stage(bytes);
    if (stage) heap::statistics.staged.add(bytes);
    if (!stage) return fetch_inline(to, from, bytes, stream);
    auto* at = static_cast<std::byte*>(to);
    const auto ask = [&](int i, std::size_t start) {
        const std::size_t n = std::min(bytes - start, stage.size());
        const CUresult r =
            command<Op::cuMemcpyDtoHAsync_v2>(static_cast<void*>(stage.buffer(i)), from + start, n, stream);
        return r == CUDA_SUCCESS ? stage.fence(i, stream) : r;
    };
    CUresult r = ask(0, 0);
    for (std::size_t start = 0, i = 0; start < bytes && r == CUDA_SUCCESS; start += stage.size(), i ^= 1) {
        if (start + stage.size() < bytes && (r = ask(static_cast<int>(i ^ 1), start + stage.size())) != CUDA_SUCCESS)
            break;
        if ((r = stage.wait(static_cast<int>(i))) != CUDA_SUCCESS) break;
        if ((r = finished(r)) != CUDA_SUCCESS) break;  // never hand out bytes that the GPU has not written
        const std::size_t n = std::min(bytes - start, stage.size());
        if (bytes > n) write_past_caches(at + start, stage.buffer(static_cast<int>(i)), n);
        else memcpy(at, stage.buffer(static_cast<int>(i)), n);
    }
    return r == CUDA_SUCCESS && may_print() ? finish_wait(stream, Client::current()->queue().work()) : r;
}

// A copy of a stream that captures becomes a node of the graph: a box of one row, whose sides box.cc finds.
CUresult capture_copy(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
    CUDA_MEMCPY3D box{};
    box.srcMemoryType = box.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
    box.srcDevice = from;
    box.dstDevice = to;
    box.WidthInBytes = bytes;
    box.Height = box.Depth = 1;
    return copy_box(box, stream, Until::reusable);
}

// Work between contexts, which the driver orders against the work of each of them. given_work has it as the current
// context's alone.
void note_given_to(std::span<const CUcontext> contexts) {
    const std::uint64_t now = Client::current()->queue().work();
    for (const CUcontext context : contexts) {
        GivenWork::Time& its = given_work.of_unnamed(context);
        for (std::uint64_t seen = its.load(std::memory_order_relaxed); seen < now;)
            if (its.compare_exchange_weak(seen, now, std::memory_order_relaxed)) break;
    }
}

}  // namespace

bool takes_bytes_along(const void* from, std::size_t bytes, Until until) noexcept {
    return until == Until::reusable && bytes <= most_inline_bytes && !pinned(from, bytes) && gpu_busy();
}

CUresult finished(CUresult r) noexcept {
    const CUresult posted = Client::current()->take_error();
    return r == CUDA_SUCCESS ? posted : r;
}

// A call that waits may not, while streams capture that it would wait for.
CUresult copy_of_nothing(CUstream stream, Until until) noexcept {
    return until == Until::done ? spoil_captures_that_hold(stream) : CUDA_SUCCESS;
}

// A host pointer may be managed memory's, which copies find on the device. A stream that captures takes any copy as a
// node. What is left is decided in this order: small copies travel inside the command if nothing that the GPU was
// given before may still change the bytes; memory that the device does not reach is copied through a buffer; the rest
// is a DMA of the program's own buffer.
CUresult copy_to_device(CUdeviceptr to, const void* from, std::size_t bytes, CUstream stream, Until until) noexcept {
    const InStreamsContext in{stream};
    if (in.error) return in.error;
    if (bytes == 0) return copy_of_nothing(stream, until);
    if (!from || !to) return CUDA_ERROR_INVALID_VALUE;
    if (is_device(from)) return copy_any(to, reinterpret_cast<CUdeviceptr>(from), bytes, stream, until);
    // The device's pointer of host memory: the CPU may look at the bytes when the call returns.
    if (until == Until::done && !is_device(to) && heap::reach(reinterpret_cast<void*>(to), bytes))
        return copy_any(to, reinterpret_cast<CUdeviceptr>(from), bytes, stream, until);
    const bool zero_copy = heap::reach(from, bytes);
    if (capturing(stream)) return capture_copy(to, reinterpret_cast<CUdeviceptr>(from), bytes, stream);
    const bool asynchronous = until == Until::reusable && zero_copy && pinned(from, bytes);
    // Pinned memory may still be written by what the GPU was given before: then it is read in its turn.
    const bool settled = !pinned(from, bytes) || !gpu_busy();
    const bool small = bytes <= inline_bytes || takes_bytes_along(from, bytes, until);
    if (small && !asynchronous && settled) return done_by(stream, send_inline(to, from, bytes, stream), until);
    if (!zero_copy)
        return bytes <= most_inline_bytes ? done_by(stream, send_inline(to, from, bytes, stream), until)
                                          : send_staged(to, from, bytes, stream);
    heap::statistics.zero_copy.add(bytes);
    if (CUresult r = command<Op::cuMemcpyHtoDAsync_v2>(to, from, bytes, stream); r != CUDA_SUCCESS) return r;
    return asynchronous ? CUDA_SUCCESS : wait_for(stream);
}

CUresult copy_to_host(void* to, CUdeviceptr from, std::size_t bytes, CUstream stream, Until until) noexcept {
    const InStreamsContext in{stream};
    if (in.error) return in.error;
    if (bytes == 0) return copy_of_nothing(stream, until);
    if (!from || !to) return CUDA_ERROR_INVALID_VALUE;
    if (is_device(to)) return copy_any(reinterpret_cast<CUdeviceptr>(to), from, bytes, stream, until);
    if (capturing(stream)) return capture_copy(reinterpret_cast<CUdeviceptr>(to), from, bytes, stream);
    const void* const near = heap::reach(to, bytes);
    if (!near) return fetch_staged(to, from, bytes, stream);
    heap::break_copy_on_write(near, bytes);
    heap::statistics.zero_copy.add(bytes);
    if (CUresult r = command<Op::cuMemcpyDtoHAsync_v2>(to, from, bytes, stream); r != CUDA_SUCCESS) return r;
    return until == Until::reusable && pinned(to, bytes) ? CUDA_SUCCESS : wait_for(stream);
}

CUresult copy_any(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream, Until until) noexcept {
    const InStreamsContext in{stream};
    if (in.error) return in.error;
    if (bytes == 0) return copy_of_nothing(stream, until);
    if (!to || !from) return CUDA_ERROR_INVALID_VALUE;
    void* const to_host = reinterpret_cast<void*>(to);
    const void* const from_host = reinterpret_cast<const void*>(from);
    if (is_device(to)) {
        if (!is_device(from)) return copy_to_device(to, from_host, bytes, stream, until);
        // Between two devices the driver orders it against the work of both.
        if (until == Until::done && !real(stream)) return cuMemcpyDtoD_v2(to, from, bytes);
        return command<Op::cuMemcpyDtoDAsync_v2>(to, from, bytes, stream);
    }
    if (is_device(from)) return copy_to_host(to_host, from, bytes, stream, until);
    if (capturing(stream)) return capture_copy(to, from, bytes, stream);
    // Host to host: in stream order, and done when the call returns ("API synchronization behavior").
    if (CUresult r = wait_for(stream); r != CUDA_SUCCESS) return r;
    memmove(to_host, from_host, bytes);
    return CUDA_SUCCESS;
}

}  // namespace barcuda::guest

using namespace barcuda::guest;

// The device's side of these forms may be any memory that CUDA knows, and no other; the other side any memory.
static bool is_known(CUdeviceptr p, std::size_t bytes) { return !p || look_at(p, bytes) != Named::refused; }

CU cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
    const CUresult r = command<Op::cuMemcpyDtoD_v2>(to, from, bytes);
    // Whose memory it is, the driver knows.
    if (r == CUDA_SUCCESS && several_contexts()) note_given_to(living_contexts());
    return r;
}
CU cuMemcpyHtoD_v2(CUdeviceptr to, const void* from, size_t bytes) {
    return is_known(to, bytes) ? copy_to_device(to, from, bytes, nullptr, Until::done) : CUDA_ERROR_INVALID_VALUE;
}
CU cuMemcpyDtoH_v2(void* to, CUdeviceptr from, size_t bytes) {
    return is_known(from, bytes) ? copy_to_host(to, from, bytes, nullptr, Until::done) : CUDA_ERROR_INVALID_VALUE;
}
CU cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, size_t bytes, CUstream s) {
    return is_known(to, bytes) ? copy_to_device(to, from, bytes, s, Until::reusable) : CUDA_ERROR_INVALID_VALUE;
}
CU cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, size_t bytes, CUstream s) {
    return is_known(from, bytes) ? copy_to_host(to, from, bytes, s, Until::reusable) : CUDA_ERROR_INVALID_VALUE;
}

// Of these forms either side may be any memory; but what begins in memory that CUDA knows does not run past its end,
// though memory that is registered, too, may follow.
static bool runs_past(CUdeviceptr p, std::size_t bytes) {
    if (!bytes || is_device(p)) return false;
    const void* const at = reinterpret_cast<const void*>(p);
    const heap::Found f = heap::find(at);
    return f.is_cudas() && bytes > f.bytes - f.offset_of(at);
}
CU cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
    return runs_past(to, bytes) || runs_past(from, bytes) ? CUDA_ERROR_INVALID_VALUE
                                                          : copy_any(to, from, bytes, nullptr, Until::done);
}
CU cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream s) {
    return runs_past(to, bytes) || runs_past(from, bytes) ? CUDA_ERROR_INVALID_VALUE
                                                          : copy_any(to, from, bytes, s, Until::reusable);
}

// Ordered against all work of both contexts. A thread's own default stream has no such order.
CU cuMemcpyPeer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes) {
    if (!is_known(to, bytes) || !is_known(from, bytes)) return CUDA_ERROR_INVALID_VALUE;
    if (bytes == 0 || !is_device(to) || !is_device(from) || real(nullptr))
        return copy_any(to, from, bytes, nullptr, Until::done);
    if (!current_context()) return CUDA_ERROR_INVALID_CONTEXT;
    const CUresult r = command<Op::cuMemcpyPeer>(to, to_context, from, from_context, bytes);
    if (r == CUDA_SUCCESS) note_given_to(std::array{to_context, from_context});
    return r;
}
// Addresses are unique across devices: which context each belongs to need not be said.
CU cuMemcpyPeerAsync(CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, size_t bytes, CUstream s) {
    return is_known(to, bytes) && is_known(from, bytes) ? copy_any(to, from, bytes, s, Until::reusable)
                                                        : CUDA_ERROR_INVALID_VALUE;
}
