// SPDX-License-Identifier: Apache-2.0
// context.cc: submission and the rules of the legacy default stream: its work waits for all earlier work of the
// blocking streams, and their later work waits for it.
#include "soft-gpu/driver/context.h"

#include <algorithm>
#include <cstdio>

#include "soft-gpu/driver/array.h"
#include "soft-gpu/driver/capture.h"
#include "soft-gpu/driver/driver.h"
#include "soft-gpu/driver/module.h"

namespace barcuda::soft::driver {

Context::Context(int device, unsigned flags, bool primary)
    : id(Driver::get().next_id++), device(device), primary(primary), flags(flags), alive_(!primary) {
    const Settings& settings = Driver::get().settings;
    limits.compute_capability = settings.compute_capability();
    limits.multiprocessors = settings.cores;
    queues_.resize(std::size_t{2} * settings.queues);
    if (alive_) ++Ledger::of(device).contexts;
}

Context::Context(std::shared_ptr<Context> whole, int multiprocessors)
    : id(Driver::get().next_id++),
      whole(std::move(whole)),
      device(this->whole->device),
      primary(false),
      flags(this->whole->flags.load()),
      limits(this->whole->limits),
      alive_(true) {
    limits.multiprocessors = multiprocessors;
    queues_.resize(std::size_t{2} * Driver::get().settings.queues);
}

void Context::set_fault(CUresult code, const std::string& message) {
    if (whole) return whole->set_fault(code, message);
    static std::mutex first;  // an error is visible only after its message was printed
    std::lock_guard lock(first);
    if (fault() != CUDA_SUCCESS) return;
    const char* name = "?";
    cuGetErrorName(code, &name);
    if (code == CUDA_ERROR_ASSERT) std::fprintf(stderr, "%s\n", message.c_str());  // as CUDA writes it
    else log(std::string(name) + ": " + message);
    fault_.store(code, std::memory_order_release);
}

void Context::check() const {
    if (!alive_) fail(CUDA_ERROR_CONTEXT_IS_DESTROYED);
    if (fault() != CUDA_SUCCESS) fail(fault());
}

std::shared_ptr<Stream> Context::make_stream(unsigned stream_flags, int priority) {
    const unsigned queue = queues_.empty() ? 0 : next_queue_++ % (static_cast<unsigned>(queues_.size()) / 2);
    return std::make_shared<Stream>(shared_from_this(), stream_flags, priority, queue);
}

std::shared_ptr<Stream> Context::legacy() {
    std::lock_guard lock(order);
    if (!legacy_) legacy_ = make_stream(CU_STREAM_DEFAULT, 0);
    return legacy_;
}

namespace {
// Numbers threads, and drops a thread's default streams when it ends.
struct ThreadNumber {
    const std::uint64_t value = [] {
        static std::atomic<std::uint64_t> next{1};
        return next++;
    }();
    std::vector<std::weak_ptr<Context>> used;
    ~ThreadNumber() {
        for (const auto& each : used)
            if (const auto context = each.lock()) context->drop_per_thread(value);
    }
};
thread_local ThreadNumber thread_number;
}  // namespace

std::shared_ptr<Stream> Context::per_thread() {
    std::lock_guard lock(order);
    auto& stream = per_thread_[thread_number.value];
    if (!stream) {
        stream = make_stream(CU_STREAM_DEFAULT, 0);
        streams_.push_back(stream);
        thread_number.used.push_back(weak_from_this());
    }
    return stream;
}

void Context::drop_per_thread(std::uint64_t thread) {
    std::lock_guard lock(order);
    const auto found = per_thread_.find(thread);
    if (found == per_thread_.end()) return;
    found->second->dropped = true;
    per_thread_.erase(found);
    forget_dropped();
}

std::shared_ptr<Stream> Context::add_stream(unsigned stream_flags, int priority) {
    std::lock_guard lock(order);
    auto stream = make_stream(stream_flags, priority);
    forget_dropped();
    streams_.push_back(stream);
    return stream;
}

void Context::drop_stream(Stream& stream) {
    std::lock_guard lock(order);
    abandon_capture(stream);
    stream.dropped = true;
    forget_dropped();
}

// A stream with work left stays, so that synchronize() and the default stream still see it.
void Context::forget_dropped() {
    std::erase_if(streams_, [](const auto& each) { return each->dropped && each->idle(); });
}

std::vector<Mark> Context::before(Stream& stream) {
    std::vector<Mark> marks;
    if (&stream == legacy_.get()) {
        refuse_legacy_while_capturing(streams_);
        for (const auto& other : streams_)
            if (other->blocking())
                if (Mark mark = other->last(); !mark.done()) marks.push_back(std::move(mark));
    } else if (stream.blocking() && legacy_) {
        if (Mark mark = legacy_->last(); !mark.done()) marks.push_back(std::move(mark));
    }
    if (!gate_.done()) marks.push_back(gate_);
    return marks;
}

Mark* Context::last_in_queue(const Stream& stream, const Operation& operation) {
    if (queues_.empty()) return nullptr;
    return &queues_[stream.queue + (operation.type() == CU_GRAPH_NODE_TYPE_MEMCPY ? queues_.size() / 2 : 0)];
}

Mark Context::enqueue(Stream& stream, std::shared_ptr<Operation> operation, std::vector<Mark> after) {
    Mark* const last = last_in_queue(stream, *operation);
    if (!last) return stream.enqueue(std::move(operation), std::move(after));
    if (!last->done()) after.push_back(*last);
    return *last = stream.enqueue(std::move(operation), std::move(after));
}

// How much work a stream may queue: as much as on hardware, and less if there are very many streams. A thread that
// posts more waits until the stream has done some of it, so that the process does not grow.
namespace {
constexpr std::size_t most_queued = 1024, most_queued_by_all = 1 << 16, least_queued = 16;
}

Mark Context::post(Stream& stream, std::shared_ptr<Operation> operation, std::vector<Mark> after) {
    std::unique_lock lock(order);
    const auto room = std::clamp(most_queued_by_all / (streams_.size() + 1), least_queued, most_queued);
    for (Mark last = stream.last(); !stream.capture && last.ticket >= room; last = stream.last()) {
        last.ticket -= room - 1;
        if (last.done()) break;
        lock.unlock();
        last.wait();
        lock.lock();
    }
    if (stream.capture) {
        capture_operation(stream, std::move(operation));
        return {};
    }
    for (Mark& mark : before(stream)) after.push_back(std::move(mark));
    return enqueue(stream, std::move(operation), std::move(after));
}

void Context::post_between(Stream& stream, std::shared_ptr<Operation> operation,
                           const std::vector<std::shared_ptr<Context>>& contexts) {
    std::set<Context*> all{this};  // a fixed order, for any caller
    for (const auto& each : contexts) all.insert(each.get());
    std::vector<std::unique_lock<std::mutex>> held;
    for (Context* each : all) held.emplace_back(each->order);
    if (stream.capture) return capture_operation(stream, std::move(operation));
    std::vector<Mark> after = before(stream);
    for (Context* each : all)
        for (Mark& mark : each->marks_held()) after.push_back(std::move(mark));
    const Mark mark = enqueue(stream, std::move(operation), std::move(after));
    for (Context* each : all) each->gate_ = mark;
}

Mark Context::post_behind_all(std::shared_ptr<Operation> operation) {
    require(!capturing_anywhere(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    const auto stream = add_stream(CU_STREAM_NON_BLOCKING, 0);
    Mark mark = post(*stream, std::move(operation), marks());
    drop_stream(*stream);
    return mark;
}

void Context::hold_until(const Mark& mark) {
    const auto stream = add_stream(CU_STREAM_NON_BLOCKING, 0);
    {
        std::lock_guard lock(order);
        gate_ = enqueue(*stream, std::make_shared<Action>([](Context&) {}), {gate_, mark});
    }
    drop_stream(*stream);
}

void Context::perform(Stream& stream, std::shared_ptr<Operation> operation) {
    Mark mark;
    {
        std::lock_guard lock(order);
        refuse_in_capture(stream);
        auto after = before(stream);
        Mark* const last = last_in_queue(stream, *operation);
        if ((last && !last->done()) || !stream.begin_here(after)) mark = enqueue(stream, operation, std::move(after));
        else if (last) *last = stream.last();
    }
    if (mark.stream) {
        mark.wait();
    } else {
        stream.execute(*operation, {}, tracing::current_call(), false);
        stream.end_here();
    }
    check();
}

std::vector<Mark> Context::ends(Stream& stream) {
    std::lock_guard lock(order);
    refuse_in_capture(stream);
    std::vector<Mark> marks;
    if (&stream == legacy_.get()) marks = before(stream);
    else if (!gate_.done()) marks.push_back(gate_);
    marks.push_back(stream.last());
    return marks;
}

std::vector<Mark> Context::marks() {
    std::lock_guard lock(order);
    return marks_held();
}

std::vector<Mark> Context::marks_held() {
    std::vector<Mark> all{gate_};
    if (legacy_) all.push_back(legacy_->last());
    for (const auto& stream : streams_) all.push_back(stream->last());
    return all;
}

bool Context::capturing_anywhere() {
    std::lock_guard lock(order);
    return std::any_of(streams_.begin(), streams_.end(), [](const auto& stream) { return stream->capture != nullptr; });
}

bool Context::is_held_by_capture(const Stream& stream) const {
    return &stream == legacy_.get() && std::any_of(streams_.begin(), streams_.end(), [](const auto& other) {
        return other->capture != nullptr && other->blocking();
    });
}

void Context::synchronize() {
    for (const Mark& mark : marks()) mark.wait();
}

void Context::tear_down() {
    for (const auto& part : Driver::get().contexts.take_if([&](const Context& its) { return its.whole.get() == this; }))
        part->tear_down();
    if (alive_.exchange(false) && !whole)  // ends waits for values in memory
        --Ledger::of(device).contexts;
    synchronize();
    Driver& driver = Driver::get();
    const auto ours = [&](const auto& object) { return object.context.get() == this; };
    driver.streams.take_if([&](const Stream& stream) { return &stream.context() == this; });
    driver.events.take_if(ours);
    drop_modules(*this);
    driver.arrays.take_if([&](const Array& array) { return array.context == handle(); });
    driver.mipmaps.take_if([&](const Mipmap& mipmap) { return mipmap.context == handle(); });
    for (const Allocation& gone : driver.memory.remove_all([&](const Allocation& allocation) {
             return allocation.context == handle() &&
                    allocation.kind != Allocation::Kind::global;  // they end with their modules
         }))
        unmap_host(gone);
    for (const auto& other : driver.contexts.all()) {
        std::lock_guard lock(other->limits_mutex);
        if (other.get() == this) peers.clear();
        else other->peers.erase(handle());
    }
    std::lock_guard lock(order);
    streams_.clear();
    per_thread_.clear();
    legacy_.reset();
    gate_ = {};
    std::ranges::fill(queues_, Mark{});
    fault_ = CUDA_SUCCESS;
}

// ---- the calling thread ---------------------------------------------------------------------------------------------

std::vector<std::shared_ptr<Context>>& context_stack() {
    thread_local std::vector<std::shared_ptr<Context>> stack;
    return stack;
}

std::shared_ptr<Context> stream_context() {
    const auto& stack = context_stack();
    if (stack.empty() || !stack.back()) fail(CUDA_ERROR_INVALID_CONTEXT);
    stack.back()->check();
    return stack.back();
}
std::shared_ptr<Context> current_context() {
    const auto context = stream_context();
    return context->whole ? context->whole : context;
}

std::shared_ptr<Stream> stream_of(CUstream stream) {
    if (stream == nullptr) stream = per_thread_default ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
    if (stream == CU_STREAM_LEGACY) return stream_context()->legacy();
    if (stream == CU_STREAM_PER_THREAD) return stream_context()->per_thread();
    auto found = Driver::get().streams.find(stream);
    found->context().check();
    return found;
}

std::shared_ptr<Stream> stream_of_sync_call() { return stream_of(nullptr); }

}  // namespace barcuda::soft::driver
