// SPDX-License-Identifier: Apache-2.0
// ahead.cc: the program waits for a stream, and blocks that the CPU has touched behind each such wait lately (Habit)
// come with it: the copy is between the stream's work and the wait's fence, and when the wait is over the CPU may touch
// them. A loop whose CPU and kernels take turns saves the fault, and a second way to the GPU and back.
//
// Nothing but this stream may change the blocks, or the copy might be out of date when it arrives. All that other
// streams were given has been waited for, as far as this process knows, and no thread is about to give them more. What
// is given later makes the copy stale (Ranges::outdate_prefetches), like one that the program has asked for
// (cudaMemPrefetchAsync).
#include <algorithm>
#include <mutex>
#include <vector>

#include "guest-allocator/client/client.h"
#include "guest-allocator/driver/capture.h"
#include "guest-allocator/driver/context.h"
#include "guest-allocator/driver/fence.h"
#include "guest-allocator/driver/host_function.h"
#include "guest-allocator/driver/managed.h"
#include "guest-allocator/driver/managed/mechanism/access.h"
#include "guest-allocator/driver/managed/mechanism/migration.h"
#include "guest-allocator/driver/managed/state/state.h"
#include "guest-allocator/driver/streams.h"

namespace barcuda::guest::managed {
namespace {

// Variables may get neighbours on their pages (adopt). A range that was attached again may have work of streams of
// before.
bool may_come_with(const ActiveStream& stream, const Range& range) {
    return range.context == stream.context && !range.of_variables && !range.untouched && !range.reattached &&
           range.attachment.concerns(real(stream.stream)) && !range.blocks.any_open() && range.prefetches.empty();
}

// The captures' lock is held.
bool others_are_idle(const ActiveStream& stream) {
    return open_captures.load(std::memory_order_relaxed) == 0 && !state().epochs.unknown.any() &&
           state().epochs.all([&](const ActiveStream& other) { return &other == &stream || is_idle(other); });
}

bool client_lives() {
    Client& client = *Client::current();
    return client.ended() == CUDA_SUCCESS && observe(client.status().context_error) == CUDA_SUCCESS;
}

}  // namespace

// A thread that waits for a fetch has the lock: this one's wait goes without blocks then.
bool fetch_ahead(CUstream given, Fence& fence, unsigned long long value) noexcept {
    if (forked_after_init() || host_functions_given()) return false;
    State& s = state();
    const std::unique_lock lock(s.mutex, std::try_to_lock);
    if (!lock || s.ranges.watched().empty()) return false;
    const CUstream stream = real(given);
    ActiveStream* const active = s.epochs.find(stream, context_of(stream));
    if (!active) return false;
    std::vector<Range*> coming;
    for (Range* range : s.ranges.watched())
        if (may_come_with(*active, *range)) coming.push_back(range);
    if (coming.empty()) return false;
    const std::unique_lock no_capture_begins = hold_captures();
    if (!others_are_idle(*active) || !s.gates.try_exclude()) return false;
    bool any = false;
    const InContext in(active->context);
    order_after_migrations(*active);
    for (Range* range : coming) {
        const auto [run, write] = range->habit.at_wait();
        s.ranges.set_watched(*range);
        if (run.empty() || post_fetch(*range, run, active->stream) != CUDA_SUCCESS) continue;
        s.ranges.add_prefetch(*range, {run, &fence, value, false, true, write});
        any = true;
    }
    return any;
}

void open_fetched(const Fence& fence, unsigned long long value, bool done) noexcept {
    State& s = state();
    std::lock_guard lock(s.mutex);
    const bool right = done && client_lives();
    for (Range* range : s.ranges.watched()) {
        const auto its = [&](const Prefetch& p) { return p.waits && p.fence == &fence && p.value == value; };
        const auto at = std::ranges::find_if(range->prefetches, its);
        if (at == range->prefetches.end()) continue;
        const Prefetch p = *at;
        range->prefetches.erase(at);
        if (!right || p.stale) continue;
        // But not blocks that another thread has had meanwhile: it has them, or has given them back.
        for (std::size_t from = p.run.first, to; from < p.run.last; from = to + 1) {
            for (to = from; to < p.run.last && range->blocks[to] == Side::device;) ++to;
            if (from < to) allow_alone(*range, {from, to}, p.write);
        }
    }
}

CUstream only_busy_stream(CUcontext context) noexcept {
    if (forked_after_init() || host_functions_given()) return nullptr;
    State& s = state();
    const std::unique_lock lock(s.mutex, std::try_to_lock);
    if (!lock || s.ranges.watched().empty() || open_captures.load(std::memory_order_relaxed) > 0) return nullptr;
    const ActiveStream* only = nullptr;
    const bool one = s.epochs.all([&](const ActiveStream& stream) {
        return is_idle(stream) || (stream.context == context && !std::exchange(only, &stream));
    });
    return one && only ? only->stream : nullptr;
}

}  // namespace barcuda::guest::managed
