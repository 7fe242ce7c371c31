// SPDX-License-Identifier: Apache-2.0
#include "guest-allocator/driver/managed/mechanism/access.h"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <utility>

#include "guest-allocator/client/client.h"
#include "guest-allocator/driver/fence.h"
#include "guest-allocator/driver/host_function.h"
#include "guest-allocator/driver/managed/mechanism/migration.h"
#include "guest-allocator/driver/managed/state/state.h"

namespace barcuda::guest::managed {
namespace {

// False: the process has too many mappings for one more boundary (vm.max_map_count).
bool protect(const Range& range, const Run& run, int protection) {
    return !mprotect(range.at(run), range.bytes(run), protection);
}

// The device's work is lost with its memory (a killed worker, a fault of the GPU), and no load can fail with an error.
// The host side has its last contents: if kernels have only read the memory, that is everything.
void report_lost(const Range& range, const Run& run) {
    static std::atomic_flag told;
    if (told.test_and_set()) return;
    char line[240];
    const int n =
        snprintf(line, sizeof line,
                 "barcuda: managed memory at %p was on the GPU, which is lost: the CPU reads there what it last "
                 "had of it (the same holds for all such memory; this message appears once)\n",
                 static_cast<void*>(range.at(run)));
    if (n > 0 && write(STDERR_FILENO, line, static_cast<std::size_t>(n)) < 0) return;
}

// All other blocks of the device's side come to the host, too: then the range needs no boundary.
bool fetch_rest(const Range& range, const Run& run) {
    for (const Run& other : {Run{0, run.first}, Run{run.last, range.blocks.count()}})
        for (std::size_t i = other.first; i < other.last; ++i)
            if (range.blocks[i] == Side::device && !fetch_now(range, {i, i + 1})) return false;
    return true;
}

}  // namespace

bool allow(Range& range, Run run, bool write) noexcept {
    return allow_alone(range, run, write) || (fetch_rest(range, run) && allow_alone(range, range.all(), true));
}

bool allow_alone(Range& range, const Run& run, bool write) noexcept {
    if (!protect(range, run, write ? PROT_READ | PROT_WRITE : PROT_READ)) return false;
    // All page faults at once. It costs almost nothing if the kernel cannot do it, or has done it before.
    if (run.count() > 1) madvise(range.at(run), range.bytes(run), write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ);
    range.blocks.open(run, write);
    state().ranges.set_accessible(range, true);
    state().gates.end_fast_path();
    return true;
}

bool fetch(Range& range, Run run, bool write) noexcept {
    if (range.untouched) {
        // Zeros on both sides; but the region's pages may have been used before.
        memset(range.alias_of(run), 0, range.bytes(run));
    } else if (!fetch_now(range, run)) {
        if (Client::current()->ended() == CUDA_SUCCESS && Client::current()->take_error() == CUDA_SUCCESS) return false;
        report_lost(range, run);
    }
    return allow(range, run, write);
}

void invalidate(Range& range, Run within, const Ride& ride) noexcept {
    if (!range.blocks.any_open()) return;
    state().ranges.set_touched(range);
    bool sent = false;
    const auto forbid = [&](const Run& run) { return protect(range, run, PROT_NONE); };
    const auto send = [&](const Run& run) { sent |= write_back(range, run, ride); };
    if (!range.blocks.close(within, forbid, send)) {
        // Too many mappings: without a boundary all of the range goes.
        mprotect(range.at(range.all()), range.bytes(), PROT_NONE);
        range.blocks.close(
            range.all(), [](const Run&) { return true; }, send);
    }
    if (!range.blocks.any_open()) state().ranges.set_accessible(range, false);
    if (sent) begin_epoch(range, ride);
}

void show_block(const Range& range, std::size_t block, bool show) noexcept {
    protect(range, {block, block + 1}, show ? PROT_READ : PROT_NONE);
}

void add_range(std::unique_ptr<Range> range) noexcept {
    const Range& added = *range;
    state().ranges.add(std::move(range));
    migration_streams().try_emplace(added.context);
    // Now, and not first in the middle of such a function, which blocks queues.
    if (host_functions_given()) migration_stream_for(added);
    state().gates.end_fast_path();
}

std::unique_ptr<Range> withdraw(Range& range) noexcept {
    for (const Prefetch& p : range.prefetches) {
        wait_until(*p.fence->word, p.value);
        if (!p.waits) recycle_fence(p.fence);
    }
    finish_migrations(range.context);
    return state().ranges.remove(range);
}

}  // namespace barcuda::guest::managed
