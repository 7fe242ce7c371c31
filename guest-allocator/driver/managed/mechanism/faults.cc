// SPDX-License-Identifier: Apache-2.0
// faults.cc: the CPU touches a block that is on the device's side, or writes one that it may only read. The processor's
// fault becomes a signal, whose handler (signals.cc) calls fault_in() on a stack of the library's own, as if the thread
// had called it where it stood: so it may wait and take locks, and the size of the thread's own stack does not matter.
#include "guest-allocator/driver/managed/mechanism/faults.h"

#include <errno.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/os/thread.h"
#include "guest-allocator/client/client.h"
#include "guest-allocator/client/patience.h"
#include "guest-allocator/driver/context.h"
#include "guest-allocator/driver/fence.h"
#include "guest-allocator/driver/host_function.h"
#include "guest-allocator/driver/managed/mechanism/access.h"
#include "guest-allocator/driver/managed/mechanism/exclusion.h"
#include "guest-allocator/driver/managed/mechanism/migration.h"
#include "guest-allocator/driver/managed/mechanism/signals.h"
#include "guest-allocator/driver/managed/state/state.h"
#include "guest-allocator/driver/streams.h"
#include "guest-allocator/heap/statistics.h"

namespace barcuda::guest::managed {
namespace {

using Fences = std::vector<std::pair<Fence*, unsigned long long>>;

// A prefetch arrives in any case: it must have arrived before anything else is done with its blocks.
void wait_for_prefetches(const Fences& fences) {
    for (const auto& [fence, value] : fences) wait_until(*fence->word, value);
}
void add_prefetches(const Range& range, Fences& fences) {
    for (const Prefetch& p : range.prefetches) fences.emplace_back(p.fence, p.value);
}
// True: a prefetch has brought the block, and it is up to date.
bool take_prefetch(Range& range, std::size_t block, bool write) {
    Run run{0, 0};
    for (const Prefetch& p : range.prefetches)
        if (!p.stale && p.run.first <= block && block < p.run.last) run = p.run;
    std::erase_if(range.prefetches, [&](const Prefetch& p) {
        const bool done = observe(*p.fence->word) >= p.value && (p.stale || p.run.with(run).count() == p.run.count());
        if (done && !p.waits) recycle_fence(p.fence);
        return done;
    });
    // Only blocks that no other thread has got access to meanwhile: a stream may have brought what the CPU has already.
    Run here{block, block + 1};
    if (run.empty()) return false;
    while (here.last < run.last && range.blocks[here.last] == Side::device) ++here.last;
    while (here.first > run.first && range.blocks[here.first - 1] == Side::device) --here.first;
    return allow(range, here, write);
}

// Waits for the streams that may still write to memory of this attachment, and for no other. The gate is shut.
void wait_for_writers(const Attachment& attachment) {
    std::vector<ActiveStream> streams;
    bool all = false;
    std::uint64_t unknown = 0;
    Epochs& epochs = state().epochs;
    {
        std::lock_guard lock(state().mutex);
        unknown = epochs.unknown.given();
        all = epochs.unknown.any();
        epochs.each([&](const ActiveStream& stream) {
            if (attachment.mode != Attachment::single || stream.stream == attachment.stream) streams.push_back(stream);
        });
    }
    if (all) {
        wait_for_contexts_quietly();
        std::lock_guard lock(state().mutex);
        epochs.unknown.done(unknown);
        return;
    }
    std::vector<std::pair<CUstream, CUcontext>> busy;
    for (const ActiveStream& stream : streams) {
        const InContext in(stream.context);
        if (gpu_busy(stream.context) && !idle_since_wait(stream.stream) && !is_idle(stream))
            busy.emplace_back(stream.stream, stream.context);
    }
    if (!busy.empty()) wait_for_streams_quietly(busy);
}

enum class Resolved { yes, not_managed, must_wait };

// What can be done without waiting for streams. Under the lock.
Resolved resolve_at_once(std::uintptr_t address, std::size_t bytes, bool write, Range*& range) {
    if (!(range = state().ranges.find(address))) return Resolved::not_managed;
    Range& r = *range;
    if (in_host_function()) {
        state().ranges.set_used_by_function(r);
        when_function_returns(host_function_done);
    }
    const auto resolved = [](bool is) { return is ? Resolved::yes : Resolved::not_managed; };
    const std::size_t block = r.block_of(address);
    if (r.blocks.allows(block, write)) return Resolved::yes;
    const std::size_t least = r.blocks_of(address, address + bytes).last;
    if (r.blocks[block] == Side::both) {
        r.habit.written();
        return resolved(allow(r, r.blocks.fetch(block, least), true));
    }
    if (r.untouched && r.prefetches.empty()) return resolved(fetch(r, r.blocks.fetch(block, least), write));
    return Resolved::must_wait;
}

// Of [begin, end); `begin` becomes the first byte that must wait for streams.
Resolved resolve(std::uintptr_t& begin, std::uintptr_t end, bool write, Range*& range) {
    while (begin < end) {
        if (const Resolved r = resolve_at_once(begin, end - begin, write, range); r != Resolved::yes) return r;
        const std::size_t block = range->block_of(begin);
        const Run run{block, block + 1};
        begin = range->start(run) + range->bytes(run);
    }
    return Resolved::yes;
}

}  // namespace

bool is_accessible(std::uintptr_t address, std::size_t bytes, bool write) noexcept {
    for (const std::uintptr_t end = address + bytes; address < end;) {
        const Range* const range = state().ranges.find(address);
        if (!range) return true;  // the rest is not managed
        const std::size_t block = range->block_of(address);
        if (!range->blocks.allows(block, write)) return false;
        const Run run{block, block + 1};
        address = range->start(run) + range->bytes(run);
    }
    return true;
}

bool fault_in(std::uintptr_t address, std::size_t bytes, bool write) noexcept {
    if (forked_after_init() || !may_be_managed(address, bytes)) return false;
    const os::Uncancelled uncancelled;
    const HandlersDeferred deferred;  // for system_calls.cc; in a fault they are deferred already
    struct Errno {
        const int before = errno;
        ~Errno() { errno = before; }
    } error;
    const std::uintptr_t end = address + bytes;
    std::uintptr_t at = address;
    Attachment attachment;
    Fences coming;
    Range* range = nullptr;
    {
        std::lock_guard lock(state().mutex);
        if (const Resolved r = resolve(at, end, write, range); r != Resolved::must_wait) return r == Resolved::yes;
        // Else streams of any attachment may have worked on it.
        if (!range->reattached && end <= range->end) attachment = range->attachment;
        for (std::uintptr_t from = at; from < end && (range = state().ranges.find(from)); from = range->end)
            add_prefetches(*range, coming);
    }
    heap::statistics.managed_faults.add();
    const LongWait about(
        "the CPU has touched managed memory, and has waited for ten seconds for the kernels that may use it. A kernel "
        "that waits for the CPU waits forever: BARCUDA_MANAGED=host lets both use such memory at the same time "
        "(docs/managed.md)");
    wait_for_prefetches(coming);
    // A host function's stream is held until the function returns, and other streams may be held with it: the function
    // can wait for none of them, and need not (exclusive.cc).
    std::optional<Gate> gate;
    if (!in_host_function()) {
        gate.emplace();
        if (attachment.mode != Attachment::host) wait_for_writers(attachment);
    }
    std::lock_guard lock(state().mutex);
    // From the beginning: another thread may have taken back meanwhile what was resolved at once.
    for (at = address;;) {
        if (const Resolved r = resolve(at, end, write, range); r != Resolved::must_wait) return r == Resolved::yes;
        if (gate && attachment.mode == Attachment::global) range->reattached = false;
        const std::size_t block = range->block_of(at);
        if (take_prefetch(*range, block, write)) continue;
        const Run run = range->blocks.fetch(block, range->blocks_of(at, end).last);
        if (!fetch(*range, run, write)) return false;
        range->habit.touched(run, write);
        state().ranges.set_watched(*range);
    }
}

}  // namespace barcuda::guest::managed
