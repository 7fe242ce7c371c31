// SPDX-License-Identifier: Apache-2.0
// faults.cc: the CPU touches a block that is on the device's side, or writes one that it may only read. The
// processor's fault becomes a signal, whose handler (signals.cc) asks here for what the thread wants, on a stack of
// ours, as if the thread had called us where it stood: so it may wait and take locks, however small its own stack is.
#include <errno.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "guest-allocator/client/command.h"
#include "guest-allocator/client/patience.h"
#include "guest-allocator/driver/context.h"
#include "guest-allocator/driver/fence.h"
#include "guest-allocator/driver/host_function.h"
#include "guest-allocator/driver/managed/managed.h"
#include "guest-allocator/driver/managed/mechanism/signals.h"
#include "guest-allocator/driver/managed/state/table.h"
#include "guest-allocator/driver/streams.h"
#include "guest-allocator/heap/statistics.h"
#include "guest-allocator/heap/uncancelled.h"

namespace barcuda::guest::managed {
namespace {

using Fences = std::vector<std::pair<Fence*, unsigned long long>>;

// What is on its way to these blocks comes in any case: it must have arrived before anything else is done with them.
void wait_for_inbound(const Fences& fences) {
    for (const auto& [fence, value] : fences) wait_until(*fence->word, value);
}
void inbound(const Home& home, Fences& fences) {
    for (const Inbound& in : home.inbound) fences.emplace_back(in.fence, in.value);
}
// It has arrived. True: the block is as it came.
bool take_inbound(Home& home, std::size_t block, bool write) {
    Run run{0, 0};
    for (const Inbound& in : home.inbound)
        if (!in.stale && in.run.first <= block && block < in.run.last) run = in.run;
    std::erase_if(home.inbound, [&](const Inbound& in) {
        const bool done =
            observe(*in.fence->word) >= in.value && (in.stale || in.run.with(run).count() == in.run.count());
        if (done) recycle_fence(in.fence);
        return done;
    });
    // Of what was fetched only blocks that nobody has opened meanwhile: a stream may have brought what is open already.
    Run here{block, block + 1};
    if (run.empty()) return false;
    while (here.last < run.last && home.blocks[here.last] == Side::device) ++here.last;
    while (here.first > run.first && home.blocks[here.first - 1] == Side::device) --here.first;
    return open(home, here, write);
}

// Those that may still write to memory of this attachment, and to no other. The gate is shut.
void wait_for_writers(const Attachment& attachment) {
    std::vector<std::pair<CUstream, CUcontext>> workers;
    std::uint64_t unknown = 0;
    bool everybody = false;
    {
        std::lock_guard lock(table().mutex);
        unknown = table().unknown_streams;
        everybody = unknown != table().unknown_done;
        for (const auto& [key, worker] : table().workers)
            if (attachment.mode != Attachment::single || worker.stream == attachment.stream)
                workers.emplace_back(worker.stream, worker.context);
    }
    if (everybody) {
        wait_for_contexts_quietly();
        std::lock_guard lock(table().mutex);
        table().unknown_done = std::max(table().unknown_done, unknown);
        return;
    }
    std::erase_if(workers, [](const auto& worker) {
        const InContext in(worker.second);
        return !gpu_busy(worker.second) || idle_since_wait(worker.first) || is_idle(worker.first, worker.second);
    });
    if (!workers.empty()) wait_for_streams_quietly(workers);
}

enum class Next { done, foreign, wait };

// What can be done without waiting for streams. Under the lock.
Next settle_at_once(std::uintptr_t address, std::size_t bytes, bool write, Home*& home) {
    if (!(home = table().find(address))) return Next::foreign;
    Home& h = *home;
    auto& lent = table().lent;
    if (in_host_function() && std::ranges::find(lent, &h) == lent.end()) lent.push_back(&h);
    const std::size_t block = h.block_of(address);
    if (h.blocks.allows(block, write)) return Next::done;
    const std::size_t least = h.blocks_of(address, address + bytes).last;
    if (h.blocks[block] == Side::both) return open(h, h.blocks.fetch(block, least), true) ? Next::done : Next::foreign;
    if (h.young && h.inbound.empty()) return fetch(h, h.blocks.fetch(block, least), write) ? Next::done : Next::foreign;
    return Next::wait;
}

// [begin, end) of it, from the first byte that needs to wait for streams on.
Next settle_all(std::uintptr_t& begin, std::uintptr_t end, bool write, Home*& home) {
    while (begin < end) {
        if (const Next next = settle_at_once(begin, end - begin, write, home); next != Next::done) return next;
        const std::size_t block = home->block_of(begin);
        const Run run{block, block + 1};
        begin = home->start(run) + home->bytes(run);
    }
    return Next::done;
}

}  // namespace

bool is_here(std::uintptr_t address, std::size_t bytes, bool write) noexcept {
    for (const std::uintptr_t end = address + bytes; address < end;) {
        Home* const home = table().find(address);
        if (!home) return true;  // the rest is not managed
        const std::size_t block = home->block_of(address);
        if (!home->blocks.allows(block, write)) return false;
        const Run run{block, block + 1};
        address = home->start(run) + home->bytes(run);
    }
    return true;
}

bool bring(std::uintptr_t address, std::size_t bytes, bool write) noexcept {
    if (forked_after_init() || !near_homes(address, bytes)) return false;
    const heap::Uncancelled uncancelled;
    const HandlersWait wait;  // for system_calls.cc; in a touch they do already
    struct Errno {
        const int before = errno;
        ~Errno() { errno = before; }
    } error;
    const std::uintptr_t end = address + bytes;
    std::uintptr_t at = address;
    Attachment attachment;
    Fences coming;
    Home* home = nullptr;
    {
        std::lock_guard lock(table().mutex);
        if (const Next next = settle_all(at, end, write, home); next != Next::wait) return next == Next::done;
        if (!home->reattached && end <= home->end) attachment = home->attachment;  // else everybody may have been at it
        for (std::uintptr_t from = at; from < end && (home = table().find(from)); from = home->end)
            inbound(*home, coming);
    }
    heap::statistics.managed_faults.add();
    const LongWait about(
        "the CPU has touched managed memory, and waits for the kernels that may use it, ten seconds now. A kernel that "
        "waits for the CPU waits for ever: BARCUDA_MANAGED=host lets both use such memory at the same time "
        "(docs/managed.md)");
    wait_for_inbound(coming);
    // A host function's stream is held until it returns, and so may be others: nothing can be waited for, and need
    // not be (exclusive.cc).
    std::optional<Gate> gate;
    if (!in_host_function()) {
        gate.emplace();
        if (attachment.mode != Attachment::host) wait_for_writers(attachment);
    }
    std::lock_guard lock(table().mutex);
    // From the beginning: what was done at once somebody else may have undone meanwhile.
    for (at = address;;) {
        if (const Next next = settle_all(at, end, write, home); next != Next::wait) return next == Next::done;
        if (gate && attachment.mode == Attachment::global) home->reattached = false;
        const std::size_t block = home->block_of(at);
        if (!take_inbound(*home, block, write) &&
            !fetch(*home, home->blocks.fetch(block, home->blocks_of(at, end).last), write))
            return false;
    }
}

}  // namespace barcuda::guest::managed
