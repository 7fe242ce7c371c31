// SPDX-License-Identifier: Apache-2.0
// exclusive.cc: functions of the program's that a stream calls (cudaLaunchHostFunc). They touch managed memory as any thread does, but
// none may wait for a stream. So nothing else works on managed memory while one runs; and what it has written goes to the device
// before its stream goes on, where kernels that were given long ago find it.
#include <algorithm>
#include <utility>

#include "guest-allocator/client/command.h"
#include "guest-allocator/driver/capture.h"
#include "guest-allocator/driver/context.h"
#include "guest-allocator/driver/host_function.h"
#include "guest-allocator/driver/managed/managed.h"
#include "guest-allocator/driver/managed/state/table.h"
#include "guest-allocator/driver/streams.h"

namespace barcuda::guest::managed {

Mutex& one_by_one() noexcept {
    static constinit Mutex mutex;
    return mutex;
}

Stillness::Stillness() noexcept { wait_for_contexts_quietly(); }

struct Alone::State {
    CUstream stream;
    CUcontext context;
    std::lock_guard<Mutex> turn{one_by_one()};
    Gate gate{};
};

void Alone::begin(CUstream given) noexcept {
    const CUstream stream = real(given);
    if (forked_after_init() || !current_context() || capturing(stream)) return;
    state_ = new State{stream, current_context()};
    Table& t = table();
    std::unique_lock lock(t.mutex);
    // Work that nobody knows the stream of (a library's). Where other functions are awaited it may stand behind one that waits for this
    // thread, so nobody waits for it.
    for (const bool may_wait = !other_functions_awaited(); may_wait && t.unnamed != t.unnamed_done;) {
        const std::uint64_t unnamed = t.unnamed;
        lock.unlock();
        wait_for_contexts_quietly();
        lock.lock();
        t.unnamed_done = std::max(t.unnamed_done, unnamed);
    }
    Worker& own = worker_of(stream);
    mover(own.context);
    for (const auto& [context, its] : t.movers) mover(context);  // now, since nothing waits for the function yet
    for (const auto& [context, its] : t.movers)
        if (its.gone) unannounced<Op::cuStreamWaitEvent>(own.stream, its.gone, 0u);
    const std::unique_lock no_capture_begins = hold_captures();
    for (const auto& [key, other] : t.workers) {
        if (&other == &own || is_idle(other.stream, other.context)) continue;
        if (is_closed(other.stream, other.context)) {
            if (other.before_capture) unannounced<Op::cuStreamWaitEvent>(own.stream, other.before_capture, 0u);
        } else if (Mover* const m = mover(other.context)) {
            const InContext in(other.context);
            unannounced<Op::cuEventRecordWithFlags>(m->turn, other.stream, 0u);
            const InContext back(own.context);
            unannounced<Op::cuStreamWaitEvent>(own.stream, m->turn, 0u);
        }
    }
}

void capture_begins(CUstream stream, bool legacy) noexcept {
    if (!exists() || forked_after_init()) return;
    const CUcontext context = context_of(stream);
    if (!context) return;
    const InContext in(context);
    std::lock_guard lock(table().mutex);
    const std::unique_lock no_capture_begins = hold_captures();
    for (const CUstream closed : {stream, CUstream{}}) {
        if (!closed && !legacy) continue;
        const auto w = table().workers.find(key_of(closed, context));
        if (w == table().workers.end() || is_closed(w->second.stream, context)) continue;
        CUevent& event = w->second.before_capture;
        if (event || unannounced<Op::cuEventCreate>(&event, unsigned{CU_EVENT_DISABLE_TIMING}) == CUDA_SUCCESS)
            unannounced<Op::cuEventRecordWithFlags>(event, w->second.stream, 0u);
    }
}

void Alone::end() noexcept {
    const std::unique_ptr<State> state(std::exchange(state_, nullptr));
    const InContext in(state->context);
    std::lock_guard lock(table().mutex);
    Mover* const m = mover(state->context);
    if (!m) return;
    unannounced<Op::cuEventRecordWithFlags>(m->called.event, worker_of(state->stream).stream, 0u);
    m->called.last = ++table().moves;
}

void host_function_done() noexcept {
    if (!exists() || forked_after_init()) return;
    Table& t = table();
    std::unique_lock lock(t.mutex);
    if (t.lent.empty()) return;
    t.calls.exclude(lock, [&] {
        for (Home* home : std::exchange(t.lent, {})) close(*home, home->all());
        // Also what others have closed meanwhile, and is on its way.
        for (const auto& [context, m] : t.movers) finish_moves(context);
    });
}

}  // namespace barcuda::guest::managed
