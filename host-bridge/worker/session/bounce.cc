// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/worker/session/bounce.h"

#include <algorithm>
#include <cstring>

namespace barcuda {
namespace {

constexpr std::size_t whole_lines(std::size_t bytes) { return (bytes + 63) & ~std::size_t{63}; }

}  // namespace

std::span<std::byte> Bounce::memory() {
    alignas(64 << 10) static std::byte all[segments * segment_bytes];  // whole pages: kernels could reach them
    return all;
}

bool Bounce::fits(std::size_t size, CUstream stream) const {
    if (size <= above || size > most || !extents_.lent_is_registered()) return false;
    // A stream of another context than the command's; events belong to one context.
    if (stream && contexts_.living().size() > 1 && contexts_.of(stream) != contexts_.current()) return false;
    // The worker thread's own default stream is in no list of streams: Deferred does not ask whether it is idle.
    return stream != CU_STREAM_PER_THREAD && streams_.askable(stream);
}

const void* Bounce::take(const void* bytes, std::size_t size, CUstream stream) {
    if (stream == CU_STREAM_LEGACY) stream = nullptr;  // two names of one stream
    if (!fits(size, stream)) return nullptr;
    const CUcontext context = contexts_.current();
    Segment* its = open_of(stream, context);
    if (its && its->idle != in_flight_.times_idle()) its->used = 0;  // all of it has been read
    if (its && segment_bytes - its->used < whole_lines(size)) {
        close(*its);
        its = nullptr;
    }
    if (!its) {
        if (!(its = find_free())) return nullptr;
        its->state = State::open;
        its->stream = stream;
        its->context = context;
        its->used = 0;
    }
    last_ = static_cast<std::size_t>(its - all_.data());
    its->idle = in_flight_.times_idle();
    std::byte* const at = extents_.lent().data() + last_ * segment_bytes + its->used;
    its->used += whole_lines(size);
    return std::memcpy(at, bytes, size);
}

Bounce::Segment* Bounce::open_of(CUstream stream, CUcontext context) {
    const auto is_its = [&](const Segment& s) {
        return s.state == State::open && s.stream == stream && s.context == context;
    };
    if (is_its(all_[last_])) return &all_[last_];
    const auto at = std::ranges::find_if(all_, is_its);
    return at == all_.end() ? nullptr : &*at;
}

Bounce::Segment* Bounce::find_free() {
    const auto is_free = [this](const Segment& s) {
        return s.state == State::free || s.idle != in_flight_.times_idle();
    };
    if (const auto at = std::ranges::find_if(all_, is_free); at != all_.end()) return &*at;
    look_at_one();
    const auto at = std::ranges::find(all_, State::free, &Segment::state);
    return at == all_.end() ? nullptr : &*at;
}

// One event at each call, one after the other: a question costs as much as is to be won. If that one is not reached, an
// open segment gets its event: its stream may have no more copies, and others need the memory.
void Bounce::look_at_one() {
    for (std::size_t i = 0; i < segments; ++i) {
        Segment& s = all_[looked_++ % segments];
        if (s.state != State::behind) continue;
        if (driver_.cuEventQuery(s.event) == CUDA_ERROR_NOT_READY) break;
        s.state = State::free;
        return;
    }
    for (Segment& s : all_)
        if (s.state == State::open && s.context == contexts_.current() && streams_.askable(s.stream)) return close(s);
}

// In the segment's context, and not in a capture.
void Bounce::close(Segment& s) {
    s.state = State::left;
    if (s.event && s.event_of != s.context) {
        driver_.cuEventDestroy_v2(s.event);
        s.event = nullptr;
    }
    if (!s.event && driver_.cuEventCreate(&s.event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS) {
        s.event = nullptr;
        return;
    }
    s.event_of = s.context;
    if (driver_.cuEventRecord(s.event, s.stream) == CUDA_SUCCESS) s.state = State::behind;
}

void Bounce::stream_gone(CUstream stream) {
    for (Segment& s : all_)
        if (s.state == State::open && s.stream == stream) s.state = State::left;
}

void Bounce::context_gone(CUcontext context) {
    for (Segment& s : all_) {
        if (s.state != State::free && s.context == context) s.state = State::left;
        if (!s.event || s.event_of != context) continue;
        driver_.cuEventDestroy_v2(s.event);
        s.event = nullptr;
    }
}

}  // namespace barcuda
