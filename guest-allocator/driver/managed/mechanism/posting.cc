// SPDX-License-Identifier: Apache-2.0
// posting.cc: what happens before a command is posted that may touch managed memory: blocks that the CPU has go to the
// device, and the command's stream waits for that.
#include <iterator>

#include "guest-allocator/client/command.h"
#include "guest-allocator/driver/capture.h"
#include "guest-allocator/driver/context.h"
#include "guest-allocator/driver/managed.h"
#include "guest-allocator/driver/managed/mechanism/access.h"
#include "guest-allocator/driver/managed/mechanism/exclusion.h"
#include "guest-allocator/driver/managed/mechanism/faults.h"
#include "guest-allocator/driver/managed/mechanism/migration.h"
#include "guest-allocator/driver/managed/state/state.h"

namespace barcuda::guest::managed {
namespace {

// At the end of the slow path: may the stream's next kernels take the fast one?
void update_fast_path(const CUstream* stream) {
    State& s = state();
    if (stream && !s.gates.any_shut() && s.ranges.nothing_to_do_for(*stream) &&
        active_stream(*stream).epoch == s.epochs.now())
        s.gates.open_fast_path(key_of(*stream, current_context()));
    else s.gates.end_fast_path();
}

Ride ride_in(const CUstream* stream) { return stream ? Ride(active_stream(*stream)) : Ride(); }

// The command's work comes after the migrations so far. If its stream is unknown, they must be done.
void order_command(const CUstream* stream) {
    if (stream) return order_after_migrations(active_stream(*stream));
    state().epochs.add_unnamed();
    finish_new_migrations();
}

}  // namespace

// Kernels may touch all memory that their stream may. No such range counts as untouched from now on.
void Posting::kernels(const CUstream* given) noexcept {
    if (forked_after_init()) return;
    CUstream stream = given ? real(*given) : nullptr;
    if (given) given = &stream;
    State& s = state();
    if (given && s.gates.try_post(key_of(stream, current_context()))) {
        counted_ = true;
        return;
    }
    if (given && capturing(stream)) return;  // when the graph is launched
    std::unique_lock lock(s.mutex);
    s.gates.await_open(lock, own_gates());
    s.gates.begin_post();
    counted_ = true;
    const auto concerns = [&](const Range& range) {
        return given ? range.attachment.concerns(stream) : range.attachment.mode != Attachment::host;
    };
    if (const std::vector<Range*> accessible = s.ranges.accessible(); !accessible.empty()) {
        const Ride ride = ride_in(given);
        for (Range* range : accessible)
            if (concerns(*range)) invalidate(*range, range->all(), ride);
    }
    for (Range* range : std::vector(s.ranges.untouched()))
        if (concerns(*range)) s.ranges.set_touched(*range);
    s.ranges.outdate_prefetches(concerns);
    order_command(given);
    update_fast_path(given);
}

void Posting::range(std::uint64_t address, std::size_t bytes, const CUstream* given) noexcept {
    if (!bytes || forked_after_init() || !may_be_managed(address, bytes)) return;
    CUstream stream = given ? real(*given) : nullptr;
    if (given) given = &stream;
    if (given && capturing(stream)) return;
    State& s = state();
    std::unique_lock lock(s.mutex);
    // A thread that shuts a gate waits for commands that are counted already.
    if (!counted_) s.gates.await_open(lock, own_gates());
    bool any = false;
    const Ride ride = s.ranges.accessible().empty() ? Ride() : ride_in(given);
    for (Range* r = s.ranges.next(address); r && r->begin < address + bytes; r = s.ranges.next(r->end)) {
        const Run run = r->blocks_of(address, address + bytes);
        any = true;
        invalidate(*r, run, ride);
        s.ranges.set_touched(*r);
        r->outdate_prefetches(run);
    }
    if (!any) return;
    if (!counted_) s.gates.begin_post();
    counted_ = true;
    order_command(given);
    update_fast_path(given);
}

void Posting::argument(const void* p, bool written) noexcept {
    const auto at = reinterpret_cast<std::uintptr_t>(p);
    if (!may_be_managed(at, 1) || shown_ == std::size(arguments_) || !fault_in(at, 1, written)) return;
    arguments_[shown_++] = at;
}

namespace {

// While the command is written the CPU may read a block that is on the device's side: its own copy has not changed.
void protect_arguments(const std::uintptr_t* arguments, unsigned count, bool show) {
    std::lock_guard lock(state().mutex);
    for (unsigned i = 0; i < count; ++i) {
        const Range* const range = state().ranges.find(arguments[i]);
        const std::size_t block = range ? range->block_of(arguments[i]) : 0;
        if (range && range->blocks[block] == Side::device) show_block(*range, block, show);
    }
}

}  // namespace

void Posting::show_arguments() noexcept {
    if (shown_) protect_arguments(arguments_, shown_, true);
}

void Posting::end() noexcept {
    if (shown_) protect_arguments(arguments_, shown_, false);
    if (counted_) state().gates.end_post();
}

void stream_gone(CUstream stream) noexcept {
    if (!exists() || forked_after_init()) return;
    State& s = state();
    std::lock_guard lock(s.mutex);
    stream_ends(stream);
    // Its work may continue, and its id may become another stream's.
    if (const ActiveStream* const active = s.epochs.find(stream, nullptr)) {
        const InContext in(active->context);
        MigrationStream* const m = capturing(stream) ? nullptr : migration_stream(active->context);
        if (m && m->destroyed) bare_command<Op::cuStreamWaitEvent>(stream, m->destroyed, 0u);
        else if (m) bare_command<Op::cuEventCreate>(&m->destroyed, unsigned{CU_EVENT_DISABLE_TIMING});
        if (m && m->destroyed) bare_command<Op::cuEventRecordWithFlags>(m->destroyed, stream, 0u);
        else s.epochs.unnamed.add();
        if (active->before_capture) bare_command<Op::cuEventDestroy_v2>(active->before_capture);
        s.epochs.forget(stream, nullptr);
        s.epochs.unknown.add();
    }
    s.gates.end_fast_path();
    s.ranges.each([&](Range& range) {
        if (range.attachment.mode == Attachment::single && range.attachment.stream == stream) range.attachment = {};
    });
}

}  // namespace barcuda::guest::managed
