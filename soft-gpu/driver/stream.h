// SPDX-License-Identifier: Apache-2.0
// stream.h: what runs when. A stream runs its operations one after the other on a thread of its own; an operation may
// first wait for marks of other streams. A mark is a place in a stream's order, always an earlier one in the order of
// the calls, so that waits never form a circle. Events are marks with a time.
#pragma once
#include <sys/types.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "soft-gpu/driver/operation.h"

namespace barcuda::soft::driver {

class Context;
class Stream;
struct Capture;
struct GraphNode;

// Everything in `stream` up to and with number `ticket`.
struct Mark {
    std::shared_ptr<Stream> stream;
    std::uint64_t ticket = 0;
    bool done() const;
    void wait() const;
};

// What a program may say of a stream, and read again: hints how to wait and what to keep in a cache, of which a CPU
// decides by itself. (A priority is the stream's for good.)
struct StreamHints {
    CUsynchronizationPolicy policy = CU_SYNC_POLICY_AUTO;
    CUaccessPolicyWindow window{};
    CUlaunchMemSyncDomain domain = CU_LAUNCH_MEM_SYNC_DOMAIN_DEFAULT;
    CUlaunchMemSyncDomainMap domains{0, 0};
};

class Stream : public std::enable_shared_from_this<Stream> {
  public:
    Stream(std::shared_ptr<Context> context, unsigned flags, int priority, unsigned queue);

    Context& context() const { return *context_; }
    const unsigned flags;  // CU_STREAM_NON_BLOCKING
    const int priority;
    const std::uint64_t id;
    const unsigned queue;  // for its work: Context::enqueue()
    // Ordered against the legacy default stream, both ways.
    bool blocking() const { return !(flags & CU_STREAM_NON_BLOCKING); }

    bool done(std::uint64_t ticket) const { return completed_.load(std::memory_order_acquire) >= ticket; }
    void wait(std::uint64_t ticket);
    Mark last();  // everything submitted so far
    bool idle() { return last().done(); }
    StreamHints hints() {
        std::lock_guard lock(mutex_);
        return hints_;
    }
    template <class Change> void change_hints(Change change) {
        std::lock_guard lock(mutex_);
        change(hints_);
    }
    std::atomic<bool> dropped{false};  // destroyed by its owner; its queued work still runs

    // Capture (capture.cc): while `capture` is set, work becomes nodes after `frontier`. Guarded by the context's
    // order.
    std::shared_ptr<Capture> capture;
    std::vector<GraphNode*> frontier;

  private:
    friend class Context;
    struct Entry {
        std::shared_ptr<Operation> operation;
        std::vector<Mark> after;
        std::uint32_t call;  // tracing.h
    };
    Mark enqueue(std::shared_ptr<Operation> operation, std::vector<Mark> after);
    // True: nothing comes before the operation; the caller runs it and calls end_here().
    bool begin_here(const std::vector<Mark>& after);
    void end_here();
    void execute(Operation& operation, const std::vector<Mark>& after, std::uint32_t call, bool asynchronous);
    void work();

    const std::shared_ptr<Context> context_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<Entry> queue_;
    StreamHints hints_;
    std::uint64_t submitted_ = 0;
    std::atomic<std::uint64_t> completed_{0};
    bool busy_ = false, threaded_ = false;
};

// The state of an event that several processes share (ipc_calls.cc).
class SharedEvent {
  public:
    explicit SharedEvent(int file);  // takes the file over; throws CUDA_ERROR_OUT_OF_MEMORY
    ~SharedEvent();
    SharedEvent(const SharedEvent&) = delete;
    static std::shared_ptr<SharedEvent> make();

    std::uint64_t ask();  // begins a record of this process; returns its number
    void reach(std::uint64_t number);
    std::uint64_t asked() const { return page_->asked.load(std::memory_order_acquire); }
    bool reached(std::uint64_t number) const;  // or no process is left that could reach it
    const int file;
    static constexpr std::size_t bytes = 4096;

  private:
    struct Page {
        std::atomic<std::uint64_t> asked, reached;
        std::atomic<pid_t> recorder;  // of the last record
    };
    static_assert(sizeof(Page) <= bytes);
    Page* page_ = nullptr;
};

class Event {
  public:
    // One cuEventRecord. A wait means the last record at the time of its call.
    struct Record {
        Mark mark;
        std::atomic<std::int64_t> nanoseconds{0};  // of the steady clock, when it was reached
    };
    Event(std::shared_ptr<Context> context, unsigned flags) : context(std::move(context)), flags(flags) {}
    const std::shared_ptr<Context> context;
    const unsigned flags;
    std::shared_ptr<SharedEvent> shared{};  // CU_EVENT_INTERPROCESS: its records are used, not the ones here

    std::mutex mutex;
    std::shared_ptr<Record> record;  // none: never recorded, which counts as reached
    // If recorded in a capture: the nodes that it stands for.
    std::shared_ptr<Capture> capture;
    std::vector<GraphNode*> captured;

    std::shared_ptr<Record> last() {
        std::lock_guard lock(mutex);
        return record;
    }
    bool is_captured() {
        std::lock_guard lock(mutex);
        return capture != nullptr;
    }
};

}  // namespace barcuda::soft::driver
