// SPDX-License-Identifier: Apache-2.0
// exclusive.cc: functions of the program's that a stream calls (cudaLaunchHostFunc). They touch managed memory as any
// thread does, but may not wait for a stream. So nothing else works on managed memory while such a function runs; and
// what it has written goes to the device before its stream continues, where kernels that were given long ago find it.
#include <utility>

#include "guest-allocator/client/command.h"
#include "guest-allocator/driver/capture.h"
#include "guest-allocator/driver/context.h"
#include "guest-allocator/driver/host_function.h"
#include "guest-allocator/driver/managed.h"
#include "guest-allocator/driver/managed/mechanism/access.h"
#include "guest-allocator/driver/managed/mechanism/exclusion.h"
#include "guest-allocator/driver/managed/mechanism/migration.h"
#include "guest-allocator/driver/managed/state/state.h"
#include "guest-allocator/driver/streams.h"

namespace barcuda::guest::managed {

struct Exclusive::Held {
    CUstream stream;
    CUcontext context;
    std::lock_guard<Mutex> turn{exclusive_turn()};
    Gate gate{};
};

namespace {

// Waits for work whose stream is unknown (a library's). While other functions still have to run, that work may be
// behind one that waits for this thread, so this thread does not wait for it.
void wait_for_unnamed(std::unique_lock<Mutex>& lock) {
    Outstanding& unnamed = state().epochs.unnamed;
    for (const bool may_wait = !other_functions_awaited(); may_wait && unnamed.any();) {
        const std::uint64_t given = unnamed.given();
        lock.unlock();
        wait_for_contexts_quietly();
        lock.lock();
        unnamed.done(given);
    }
}

// This stream's later work waits for the other one's work so far.
void order_after(const ActiveStream& own, const ActiveStream& other) {
    if (is_closed(other.stream, other.context)) {
        if (other.before_capture) bare_command<Op::cuStreamWaitEvent>(own.stream, other.before_capture, 0u);
    } else if (const MigrationStream* const m = migration_stream(other.context)) {
        const InContext in(other.context);
        bare_command<Op::cuEventRecordWithFlags>(m->order, other.stream, 0u);
        const InContext back(own.context);
        bare_command<Op::cuStreamWaitEvent>(own.stream, m->order, 0u);
    }
}

}  // namespace

void Exclusive::begin(CUstream given) noexcept {
    const CUstream stream = real(given);
    if (forked_after_init() || !current_context() || capturing(stream)) return;
    held_ = new Held{stream, current_context()};
    std::unique_lock lock(state().mutex);
    wait_for_unnamed(lock);
    const ActiveStream& own = active_stream(stream);
    migration_stream(own.context);
    for (const auto& [context, m] : migration_streams())
        migration_stream(context);  // made now, while nothing waits for the function yet
    for (const auto& [context, m] : migration_streams())
        if (m.destroyed) bare_command<Op::cuStreamWaitEvent>(own.stream, m.destroyed, 0u);
    const std::unique_lock no_capture_begins = hold_captures();
    state().epochs.each([&](const ActiveStream& other) {
        if (&other != &own && !is_idle(other)) order_after(own, other);
    });
}

void capture_begins(CUstream stream, bool legacy) noexcept {
    if (!exists() || forked_after_init()) return;
    const CUcontext context = context_of(stream);
    if (!context) return;
    const InContext in(context);
    std::lock_guard lock(state().mutex);
    const std::unique_lock no_capture_begins = hold_captures();
    for (const CUstream closed : {stream, CUstream{}}) {
        if (!closed && !legacy) continue;
        ActiveStream* const active = state().epochs.find(closed, context);
        if (!active || is_closed(active->stream, context)) continue;
        CUevent& event = active->before_capture;
        if (event || bare_command<Op::cuEventCreate>(&event, unsigned{CU_EVENT_DISABLE_TIMING}) == CUDA_SUCCESS)
            bare_command<Op::cuEventRecordWithFlags>(event, active->stream, 0u);
    }
}

void Exclusive::end() noexcept {
    const std::unique_ptr<Held> held(std::exchange(held_, nullptr));
    const InContext in(held->context);
    std::lock_guard lock(state().mutex);
    MigrationStream* const m = migration_stream(held->context);
    if (!m) return;
    bare_command<Op::cuEventRecordWithFlags>(m->last_function.event, active_stream(held->stream).stream, 0u);
    m->last_function.epoch = state().epochs.begin();
}

void host_function_done() noexcept {
    if (!exists() || forked_after_init()) return;
    State& s = state();
    std::unique_lock lock(s.mutex);
    if (!s.ranges.any_used_by_functions()) return;
    s.calls.exclude(lock, [&] {
        for (Range* range : s.ranges.take_used_by_functions()) invalidate(*range, range->all(), {});
        finish_all_migrations();  // also those that other threads have posted meanwhile
    });
}

}  // namespace barcuda::guest::managed
