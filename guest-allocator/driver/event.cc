// SPDX-License-Identifier: Apache-2.0
// event.cc: events, and those that processes share. A record is posted as the driver's own record (for its time) and a
// fence that the GPU writes behind it: query and synchronize look at the fence. An event that is recorded again in
// another queue takes another fence: on two streams the later record can be done first, and the older one's value must
// not come over its own.
//
// A fence costs a driver five times what the record does, and most events only order streams: no thread looks at them.
// So an event whose last two records no thread has looked at gets no fence at the next. A thread that looks then has
// the driver asked, and from then on each record of the event has a fence.
#include <chrono>
#include <thread>

#include "guest-allocator/client/command.h"
#include "guest-allocator/client/id_table.h"
#include "guest-allocator/driver/capture.h"
#include "guest-allocator/driver/context.h"
#include "guest-allocator/driver/export.h"
#include "guest-allocator/driver/fence.h"
#include "guest-allocator/driver/streams.h"
#include "shm-device/queue/sync.h"

namespace barcuda::guest {
namespace {

// When a thread last looked at an event: queried it, or waited for it.
enum class Looked : std::uint8_t {
    lately,         // at the last record, or the event is new
    one_ago,        // one record was not looked at
    two_ago,        // the next record gets no fence
    unfenced,       // the last record has none
    unfenced_seen,  // and was looked at
    unfenced_done,  // and is done, as the driver has said
    always,         // each record has a fence from now on
};

struct EventRecord {
    std::atomic<Fence*> fence;    // null: the region was full, the worker is asked instead
    std::atomic<bool> in_graph;   // last recorded by a capture, or by a context: the driver must be asked
    std::atomic<bool> captured;   // and that record is part of a capture
    std::atomic<bool> in_graphs;  // graphs may record it at any launch: so from the first one on
    std::atomic<bool> shared;     // other processes record it: the driver must be asked
    std::atomic<bool> asleep;     // waiting threads sleep (CU_EVENT_BLOCKING_SYNC)
    std::atomic<bool> awaited;    // work has been told to wait for it, and may be done before the fence is written
    std::atomic<bool> polled;     // a thread has waited for its fence: the next one lies apart
    std::atomic<std::uint32_t> looked;  // Looked; above its 8 bits, how many records have had no fence
    std::atomic<std::uint64_t> context;
    std::atomic<std::uint32_t> ends;  // of the context, when the event was made: it goes with it
    CUcontext its_context() const { return reinterpret_cast<CUcontext>(context.load(std::memory_order_relaxed)); }
    const Fence* own_fence() const {
        const Looked now = state(looked.load(std::memory_order_acquire));
        const bool unfenced = now >= Looked::unfenced && now <= Looked::unfenced_done;
        return others_record() || unfenced ? nullptr : fence.load(std::memory_order_acquire);
    }
    void set_in_graph(bool is, bool in_capture = false) {
        in_graph.store(is, std::memory_order_relaxed);
        captured.store(in_capture, std::memory_order_relaxed);
    }
    bool others_record() const {
        return in_graph.load(std::memory_order_relaxed) || in_graphs.load(std::memory_order_relaxed) ||
               shared.load(std::memory_order_relaxed);
    }
    static Looked state(std::uint32_t word) { return static_cast<Looked>(word & 0xff); }
    static std::uint32_t with(std::uint32_t word, Looked state) {
        return (word & ~0xffu) | static_cast<std::uint32_t>(state);
    }

    // A thread looks, another one may record: each changes what it has read, or reads again.
    template <class Next> void change(Next next) {
        std::uint32_t now = looked.load(std::memory_order_relaxed);
        for (std::uint32_t then; (then = next(now)) != now;)
            if (looked.compare_exchange_weak(now, then, std::memory_order_release, std::memory_order_relaxed)) return;
    }
    template <class Next> void look_again(Next next) {
        change([&](std::uint32_t now) { return with(now, next(state(now))); });
    }
    // The last record has no fence, and the driver has said that it is done. (`before`: as of before it was asked.)
    bool is_known_done() const {
        return !others_record() && state(looked.load(std::memory_order_acquire)) == Looked::unfenced_done;
    }
    void note_done(std::uint32_t before) {
        if (state(before) != Looked::unfenced_seen) return;
        looked.compare_exchange_strong(before, with(before, Looked::unfenced_done), std::memory_order_release,
                                       std::memory_order_relaxed);
    }
    // A record without a fence has been posted: what the driver said before was of another one.
    void note_unfenced() {
        change([](std::uint32_t now) {
            return with(now, state(now) == Looked::unfenced_done ? Looked::unfenced_seen : state(now)) + 0x100;
        });
    }
    void poll() {
        if (!polled.load(std::memory_order_relaxed)) polled.store(true, std::memory_order_relaxed);
    }
    void look() {
        look_again([](Looked now) {
            if (now == Looked::unfenced) return Looked::unfenced_seen;
            return now == Looked::one_ago || now == Looked::two_ago ? Looked::lately : now;
        });
    }
    // Before a record: whether it is one without a fence. A thread that looks asks the driver from now on.
    bool goes_unfenced() {
        look_again([](Looked now) { return now == Looked::two_ago ? Looked::unfenced : now; });
        return state(looked.load(std::memory_order_relaxed)) == Looked::unfenced;
    }
    // A record has been given a fence, which is pending: a thread that looks may look at that.
    void note_fenced() {
        look_again([](Looked now) {
            switch (now) {
                case Looked::lately: return Looked::one_ago;
                case Looked::one_ago: return Looked::two_ago;
                case Looked::unfenced_seen:
                case Looked::unfenced_done: return Looked::always;
                default: return now;
            }
        });
    }
};
IdTable<EventRecord> events;

// Null: there is no such event, or it went with its context.
EventRecord* find(CUevent event) {
    const Client* client = Client::current();
    if (!event || !client || !client->knows(reinterpret_cast<std::uint64_t>(event))) return nullptr;
    EventRecord* e = events.of(event);
    return e && e->ends.load(std::memory_order_relaxed) == ends_of(e->its_context()) ? e : nullptr;
}

// The event's fence, and the value that its next record writes. Null: no room. Values that come by another queue, or
// that disturb others, are another fence's: it is pending before a thread can look at it.
Fence* ask(EventRecord& e, CUstream stream, std::uint64_t& value) {
    const std::uint64_t order = order_of(stream);
    for (Fence* f = e.fence.load(std::memory_order_acquire); f;) {
        const bool apart = e.polled.load(std::memory_order_relaxed);
        if (f->order == order && f->apart == apart) {
            value = f->asked.fetch_add(1, std::memory_order_relaxed) + 1;
            return f;
        }
        Fence* const another = take_fence(order, apart);
        if (another) value = another->asked.fetch_add(1, std::memory_order_relaxed) + 1;
        if (e.fence.compare_exchange_strong(f, another, std::memory_order_acq_rel)) {
            recycle_fence(f);
            return another;
        }
        if (!another) continue;
        another->asked.fetch_sub(1, std::memory_order_relaxed);  // no thread has seen it
        recycle_fence(another);
    }
    return nullptr;
}

// Of a record or a wait. External ones are nodes of a graph: they have no meaning in a stream that does not capture.
CUresult check_flags(unsigned flags, CUstream stream) {
    static_assert(CU_EVENT_RECORD_EXTERNAL == 1 && CU_EVENT_WAIT_EXTERNAL == 1);
    if (flags & ~1u) return CUDA_ERROR_INVALID_VALUE;
    return flags && !capturing(stream) ? CUDA_ERROR_ILLEGAL_STATE : CUDA_SUCCESS;
}

CUresult record(CUevent event, CUstream stream, unsigned flags) {
    if (flags)
        if (const CUresult r = check_flags(flags, stream)) return r;
    EventRecord* e = find(event);
    // The driver would refuse it, and the event's fence would have been asked for a value that another stream writes.
    const CUcontext given = context_of(stream);
    if (!e || (e->its_context() != given && e->its_context() != owner_of(given)))
        return current_context() || real(stream) ? unknown_object(event) : CUDA_ERROR_INVALID_CONTEXT;
    if (capturing(stream)) {
        e->set_in_graph(true, !flags);
        if (flags) e->in_graphs.store(true, std::memory_order_relaxed);
        return command<Op::cuEventRecordWithFlags>(event, stream, flags);
    }
    const auto leave_graph = [e] {
        if (e->in_graph.load(std::memory_order_relaxed)) e->set_in_graph(false);
    };
    if (e->shared.load(std::memory_order_relaxed)) {
        leave_graph();
        const CUresult r = command<Op::cuEventRecordWithFlags>(event, stream, flags);
        if (r != CUDA_SUCCESS) return r;
        // When this call has returned, the program may tell another process: the record must be the driver's by then.
        const CUresult now = command<Op::cuEventQuery>(event);
        return now == CUDA_ERROR_NOT_READY ? CUDA_SUCCESS : now;
    }
    std::uint64_t value = 0;
    const bool fenced = !e->goes_unfenced();
    const Fence* f = fenced ? ask(*e, stream, value) : nullptr;
    if (f) e->note_fenced();
    leave_graph();  // until then the driver is asked
    const CUresult r = command<Op::record_event>(event, stream, flags,
                                                 ext::Fence{f ? Client::current()->offset_of(f->word) : 0, value});
    if (!fenced) e->note_unfenced();
    return r;
}

// Of an event whose last record has no fence.
CUresult ask_driver(EventRecord& e, CUevent event) {
    if (!e.is_known_done()) {
        const std::uint32_t before = e.looked.load(std::memory_order_relaxed);
        const CUresult r = command<Op::cuEventQuery>(event);
        if (r != CUDA_SUCCESS) return r;
        e.note_done(before);
    }
    return Client::current()->take_error();
}

// A new event whose id other events may have had: what those recorded does not concern it.
CUresult begin(CUevent event, unsigned flags) {
    EventRecord* e = events.of(event);
    if (!e) return CUDA_ERROR_OUT_OF_MEMORY;
    e->set_in_graph(false);
    e->in_graphs.store(false, std::memory_order_relaxed);
    e->shared.store(flags & CU_EVENT_INTERPROCESS, std::memory_order_relaxed);
    e->asleep.store(flags & CU_EVENT_BLOCKING_SYNC, std::memory_order_relaxed);
    e->awaited.store(false, std::memory_order_relaxed);
    e->polled.store(false, std::memory_order_relaxed);
    e->looked.store(0, std::memory_order_relaxed);  // Looked::lately
    const CUcontext owner = owner_of(current_context());
    e->context.store(reinterpret_cast<std::uint64_t>(owner), std::memory_order_relaxed);
    e->ends.store(ends_of(owner), std::memory_order_relaxed);
    if (Fence* const f = e->fence.load(); !f || f->pending())  // its values are still to come
        recycle_fence(e->fence.exchange(take_fence(0), std::memory_order_acq_rel));
    return CUDA_SUCCESS;
}

}  // namespace

void recorded_by_graph(CUevent event) noexcept {
    if (EventRecord* e = events.of(event); event && e) e->in_graphs.store(true, std::memory_order_relaxed);
}
bool was_captured(CUevent event) noexcept {
    const EventRecord* const e = find(event);
    return e && e->captured.load(std::memory_order_relaxed);
}

}  // namespace barcuda::guest

using namespace barcuda::guest;

CU cuEventCreate(CUevent* event, unsigned flags) {
    if (!current_context()) return CUDA_ERROR_INVALID_CONTEXT;
    const CUresult r = command<Op::cuEventCreate>(event, flags);
    return r == CUDA_SUCCESS ? begin(*event, flags) : r;
}

CU cuIpcGetEventHandle(CUipcEventHandle* handle, CUevent event) {
    return handle ? command<Op::cuIpcGetEventHandle>(handle, event) : CUDA_ERROR_INVALID_VALUE;
}

CU cuIpcOpenEventHandle(CUevent* event, CUipcEventHandle handle) {
    if (!current_context()) return CUDA_ERROR_INVALID_CONTEXT;
    if (!event) return CUDA_ERROR_INVALID_VALUE;
    const CUresult r = command<Op::cuIpcOpenEventHandle>(event, handle);
    return r == CUDA_SUCCESS ? begin(*event, CU_EVENT_INTERPROCESS) : r;
}

CU cuEventDestroy_v2(CUevent event) {
    return find(event) ? command<Op::cuEventDestroy_v2>(event) : unknown_object(event);
}
CU cuEventRecord(CUevent event, CUstream stream) { return record(event, stream, CU_EVENT_RECORD_DEFAULT); }
CU cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned flags) { return record(event, stream, flags); }

CU cuCtxRecordEvent(CUcontext context, CUevent event) {
    if (!context) return CUDA_ERROR_INVALID_CONTEXT;
    EventRecord* e = find(event);
    if (!e) return unknown_object(event);
    const CUresult r = command<Op::cuCtxRecordEvent>(context, event);
    if (r == CUDA_SUCCESS) e->set_in_graph(true);  // no stream writes its fence for us
    return r;
}

// To wait for an event of a capture is to join it.
CU cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
    if (!current_context() && !real(stream)) return CUDA_ERROR_INVALID_CONTEXT;
    if (!event) return CUDA_ERROR_INVALID_HANDLE;
    if (flags)
        if (const CUresult r = check_flags(flags, stream)) return r;
    if (EventRecord* e = find(event)) e->awaited.store(true, std::memory_order_relaxed);
    std::unique_lock<Mutex> nobody_else;
    if (open_captures.load(std::memory_order_relaxed) > 0) {
        if (const CUresult r = spoil_captures_that_hold(stream)) return r;
        nobody_else = before_capture(stream);
    }
    return command<Op::cuStreamWaitEvent>(stream, event, flags);
}

CU cuEventQuery(CUevent event) {
    Client* client = Client::current();
    EventRecord* e = find(event);
    if (!e) return unknown_object(event);
    const Fence* f = e->own_fence();
    e->look();
    if (!f) return ask_driver(*e, event);
    if (f->pending()) {
        e->poll();
        // A program that has seen that work behind a wait for the event is done must not be told that the event is not.
        // The driver knows.
        if (e->awaited.load(std::memory_order_relaxed)) return command<Op::cuEventQuery>(event);
        const CUresult ended = client->ended();
        return ended == CUDA_SUCCESS ? CUDA_ERROR_NOT_READY : ended;
    }
    return client->take_error();
}

CU cuEventSynchronize(CUevent event) {
    Client* client = Client::current();
    EventRecord* e = find(event);
    if (!e) return unknown_object(event);
    const Fence* f = e->own_fence();
    e->look();
    if (!f) {
        for (unsigned asked = 0;; ++asked) {
            const CUresult r = ask_driver(*e, event);
            if (r == CUDA_SUCCESS && may_print()) {
                command<Op::cuEventSynchronize>(event);
                show_output();
            }
            if (r != CUDA_ERROR_NOT_READY) return r;
            if (asked < 1000) std::this_thread::yield();
            else std::this_thread::sleep_for(std::chrono::microseconds(100));  // another process may take its time
        }
    }
    if (f->pending()) e->poll();
    const std::uint64_t asked = f->asked.load(std::memory_order_relaxed);
    const auto until = e->asleep.load(std::memory_order_relaxed) ? sleep_until : wait_until;
    if (CUresult r = until(*f->word, asked); r != CUDA_SUCCESS) return r;
    if (may_print()) {  // as in finish_wait()
        const auto still_it = [&] { return e->fence.load() == f && f->asked.load(std::memory_order_relaxed) == asked; };
        while (command<Op::cuEventSynchronize>(event) == CUDA_ERROR_NOT_READY && still_it()) std::this_thread::yield();
        show_output();
    }
    return client->take_error();
}
