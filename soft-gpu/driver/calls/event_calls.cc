// SPDX-License-Identifier: Apache-2.0
// event_calls.cc: cuEvent* and cuStreamWaitEvent. An event's record is a mark in its stream; the time is taken when the
// stream reaches it.
#include <chrono>
#include <thread>

#include "soft-gpu/driver/capture.h"
#include "soft-gpu/driver/driver.h"
#include "soft-gpu/driver/operations.h"

namespace barcuda::soft::driver {

void EventRecord::run(Context&) {
    record->nanoseconds = std::chrono::steady_clock::now().time_since_epoch().count();
    if (event->shared) event->shared->reach(number ? number : event->shared->ask());
}

namespace {

// A stream's thread waits for another process.
void wait_for(const SharedEvent& event, std::uint64_t number, const Context& context) {
    while (!event.reached(number) && context.fault() == CUDA_SUCCESS)
        std::this_thread::sleep_for(std::chrono::microseconds(50));
}

bool reached(const Event& event, const std::shared_ptr<Event::Record>& last) {
    if (event.shared) return event.shared->reached(event.shared->asked());
    return !last || last->mark.done();
}

}  // namespace

void EventWait::run(Context& context) {
    if (event->shared) return wait_for(*event->shared, number, context);
    if (record) record->mark.wait();
}

namespace {

// `post` puts the record into the stream.
template <class Post> void record(const std::shared_ptr<Event>& event, const Context& context, const Post& post) {
    require(event->context.get() == &context.owner(), CUDA_ERROR_INVALID_HANDLE);
    auto operation = std::make_shared<EventRecord>();
    operation->event = event;
    auto fresh = operation->record = std::make_shared<Event::Record>();
    if (event->shared) operation->number = event->shared->ask();
    const Mark mark = post(std::move(operation));
    if (!mark.stream) return;  // became a graph's node
    std::lock_guard lock(event->mutex);
    fresh->mark = mark;
    event->record = std::move(fresh);
    event->capture = nullptr;
}

void record(CUevent handle, CUstream stream_handle, unsigned flags) {
    require((flags & ~static_cast<unsigned>(CU_EVENT_RECORD_EXTERNAL)) == 0);
    const auto stream = stream_of(stream_handle);
    const auto event = Driver::get().events.find(handle);
    require(event->context.get() == &stream->context().owner(), CUDA_ERROR_INVALID_HANDLE);
    if (!(flags & CU_EVENT_RECORD_EXTERNAL) && record_in_capture(*stream, *event)) return;
    record(event, stream->context(),
           [&](auto operation) { return stream->context().post(*stream, std::move(operation)); });
}

}  // namespace
}  // namespace barcuda::soft::driver

using namespace barcuda::soft::driver;

CUresult cuEventCreate(CUevent* phEvent, unsigned int Flags) {
    return api([&] {
        constexpr unsigned known = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
        require(phEvent && (Flags & ~known) == 0);
        require(!(Flags & CU_EVENT_INTERPROCESS) || (Flags & CU_EVENT_DISABLE_TIMING));
        auto event = std::make_shared<Event>(current_context(), Flags);
        if (Flags & CU_EVENT_INTERPROCESS) event->shared = SharedEvent::make();
        *phEvent = Driver::get().events.add(std::move(event));
    });
}

CUresult cuEventDestroy_v2(CUevent hEvent) {
    return api([&] { Driver::get().events.take(hEvent); });  // waits for it continue
}

CUresult cuEventRecord(CUevent hEvent, CUstream hStream) {
    return api([&] { record(hEvent, hStream, CU_EVENT_RECORD_DEFAULT); });
}
CUresult cuEventRecordWithFlags(CUevent hEvent, CUstream hStream, unsigned int flags) {
    return api([&] { record(hEvent, hStream, flags); });
}

CUresult cuCtxRecordEvent(CUcontext hCtx, CUevent hEvent) {
    return api([&] {
        const auto context = Driver::get().contexts.find(hCtx);
        record(Driver::get().events.find(hEvent), *context,
               [&](auto operation) { return context->post_behind_all(std::move(operation)); });
    });
}

CUresult cuCtxWaitEvent(CUcontext hCtx, CUevent hEvent) {
    return api([&] {
        const auto context = Driver::get().contexts.find(hCtx);
        const auto event = Driver::get().events.find(hEvent);
        require(!context->capturing_anywhere(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        if (const auto last = event->last(); last && !last->mark.done()) context->hold_until(last->mark);
    });
}

CUresult cuEventQuery(CUevent hEvent) {
    return api([&] {
        const auto event = Driver::get().events.find(hEvent);
        refuse_captured(*event);
        const bool done = reached(*event, event->last());
        event->context->check();
        return done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
    });
}

CUresult cuEventSynchronize(CUevent hEvent) {
    return api([&] {
        const auto event = Driver::get().events.find(hEvent);
        refuse_captured(*event);
        if (event->shared) wait_for(*event->shared, event->shared->asked(), *event->context);
        else if (const auto last = event->last()) last->mark.wait();
        event->context->check();
    });
}

CUresult cuEventElapsedTime_v2(float* pMilliseconds, CUevent hStart, CUevent hEnd) {
    return api([&] {
        require(pMilliseconds);
        const auto start = Driver::get().events.find(hStart), end = Driver::get().events.find(hEnd);
        require(!((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING), CUDA_ERROR_INVALID_HANDLE);
        require(!start->is_captured() && !end->is_captured(), CUDA_ERROR_CAPTURED_EVENT);
        const auto first = start->last(), second = end->last();
        require(first && second, CUDA_ERROR_INVALID_HANDLE);
        start->context->check();
        if (!first->mark.done() || !second->mark.done()) return CUDA_ERROR_NOT_READY;
        *pMilliseconds = static_cast<float>(static_cast<double>(second->nanoseconds - first->nanoseconds) * 1e-6);
        return CUDA_SUCCESS;
    });
}
CUresult cuEventElapsedTime(float* pMilliseconds, CUevent hStart, CUevent hEnd) {
    return cuEventElapsedTime_v2(pMilliseconds, hStart, hEnd);
}

CUresult cuStreamWaitEvent(CUstream hStream, CUevent hEvent, unsigned int Flags) {
    return api([&] {
        require((Flags & ~static_cast<unsigned>(CU_EVENT_WAIT_EXTERNAL)) == 0);
        const auto stream = stream_of(hStream);
        const auto event = Driver::get().events.find(hEvent);
        if (wait_in_capture(*stream, event, Flags)) return;
        if (event->shared) {
            const std::uint64_t number = event->shared->asked();
            if (event->shared->reached(number)) return;
            stream->context().post(*stream, std::make_shared<Action>([event, number](Context& context) {
                wait_for(*event->shared, number, context);
            }));
            return;
        }
        const auto last = event->last();
        if (!last || last->mark.done()) return;
        // Nothing to run: it only waits for the marks before it.
        stream->context().post(*stream, std::make_shared<Action>([](Context&) {}), {last->mark});
    });
}
