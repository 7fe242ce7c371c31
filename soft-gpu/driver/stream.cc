// SPDX-License-Identifier: Apache-2.0
// stream.cc: the thread of a stream. It starts with the first work that finds no thread, and ends after some time
// without work, so that a thousand idle streams cost no threads. Threads are detached: a program that exits does not
// wait for its device.
#include "soft-gpu/driver/stream.h"

#include <chrono>
#include <thread>

#include "soft-gpu/driver/context.h"
#include "soft-gpu/driver/driver.h"

namespace barcuda::soft::driver {

namespace {
constexpr std::chrono::seconds idle_before_leaving{5};
}

bool Mark::done() const { return !stream || stream->done(ticket); }
void Mark::wait() const {
    if (stream) stream->wait(ticket);
}

Stream::Stream(std::shared_ptr<Context> context, unsigned flags, int priority, unsigned queue)
    : flags(flags), priority(priority), id(Driver::get().next_id++), queue(queue), context_(std::move(context)) {}

void Stream::wait(std::uint64_t ticket) {
    if (done(ticket)) return;
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done(ticket); });
}

Mark Stream::last() {
    std::lock_guard lock(mutex_);
    return {shared_from_this(), submitted_};
}

Mark Stream::enqueue(std::shared_ptr<Operation> operation, std::vector<Mark> after) {
    std::lock_guard lock(mutex_);
    queue_.push_back({std::move(operation), std::move(after), tracing::current_call()});
    ++submitted_;
    if (!threaded_) {
        std::thread([self = shared_from_this()] { self->work(); }).detach();
        threaded_ = true;
    } else {
        changed_.notify_all();
    }
    return {shared_from_this(), submitted_};
}

bool Stream::begin_here(const std::vector<Mark>& after) {
    for (const Mark& mark : after)
        if (!mark.done()) return false;
    std::lock_guard lock(mutex_);
    if (busy_ || !queue_.empty()) return false;
    busy_ = true;
    ++submitted_;
    return true;
}

void Stream::end_here() {
    std::lock_guard lock(mutex_);
    busy_ = false;
    completed_.fetch_add(1, std::memory_order_release);
    changed_.notify_all();
}

void Stream::execute(Operation& operation, const std::vector<Mark>& after, std::uint32_t call, bool asynchronous) {
    for (const Mark& mark : after) mark.wait();
    const tracing::RunningWork running(id, call, asynchronous);
    if (context_->fault() != CUDA_SUCCESS && !operation.runs_after_fault()) return;
    try {
        operation.run(*context_);
    } catch (const Error& error) {
        context_->set_fault(static_cast<CUresult>(error.code), error.message);
    } catch (const std::bad_alloc&) {
        context_->set_fault(CUDA_ERROR_LAUNCH_FAILED, "the host has no memory left to run it");
    }
}

void Stream::work() {
    std::unique_lock lock(mutex_);
    for (;;) {
        if (!changed_.wait_for(lock, idle_before_leaving, [&] { return !busy_ && !queue_.empty(); })) {
            if (busy_ || !queue_.empty()) continue;
            threaded_ = false;
            return;
        }
        Entry entry = std::move(queue_.front());
        queue_.pop_front();
        busy_ = true;
        lock.unlock();
        execute(*entry.operation, entry.after, entry.call, true);
        entry = {};  // release what it held before a waiter learns that it is done
        lock.lock();
        busy_ = false;
        completed_.fetch_add(1, std::memory_order_release);
        changed_.notify_all();
    }
}

}  // namespace barcuda::soft::driver
