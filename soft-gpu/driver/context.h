// SPDX-License-Identifier: Apache-2.0
// context.h: a context owns streams, modules and memory, and has at most one error: the first fault of its work, which
// every later call returns. All contexts, of all devices, share one address space.
#pragma once
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "soft-gpu/driver/ledger.h"
#include "soft-gpu/driver/stream.h"

namespace barcuda::soft::driver {

class Context : public std::enable_shared_from_this<Context> {
  public:
    Context(int device, unsigned flags, bool primary);
    // A green context: a part of a primary context with `multiprocessors`. It owns only its streams.
    Context(std::shared_ptr<Context> whole, int multiprocessors);

    const std::uint64_t id;
    const std::shared_ptr<Context> whole;  // null: this is not a part
    const int device;
    const bool primary;
    std::atomic<unsigned> flags;
    int retained = 0;  // primary: by cuDevicePrimaryCtxRetain. Guarded by contexts_mutex()
    std::atomic<unsigned> cache_config{CU_FUNC_CACHE_PREFER_NONE},
        shared_config{CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE};

    CUcontext handle() const { return reinterpret_cast<CUcontext>(const_cast<Context*>(this)); }
    const Context& owner() const { return whole ? *whole : *this; }  // of what is made here, except streams
    bool alive() const { return alive_; }
    void revive() {
        if (!alive_.exchange(true)) ++Ledger::of(device).contexts;
    }
    CUresult fault() const {
        return static_cast<CUresult>((whole ? whole->fault_ : fault_).load(std::memory_order_acquire));
    }
    void set_fault(CUresult code, const std::string& message);
    void check() const;  // throws the fault, or CUDA_ERROR_CONTEXT_IS_DESTROYED

    std::shared_ptr<Stream> legacy();      // stream 0
    std::shared_ptr<Stream> per_thread();  // the calling thread's own
    std::shared_ptr<Stream> add_stream(unsigned flags, int priority);
    void drop_stream(Stream& stream);  // its queued work still runs

    // Adds work to a stream, in the order of the calls and of the default stream's rules. If the stream is capturing
    // the work becomes a graph node.
    Mark post(Stream& stream, std::shared_ptr<Operation> operation, std::vector<Mark> after = {});
    // The same, and waits until the work is done; throws the context's fault. Not during a capture.
    void perform(Stream& stream, std::shared_ptr<Operation> operation);
    // The same as post(), but ordered against all work of these contexts: after all earlier work, and before all later
    // work.
    void post_between(Stream& stream, std::shared_ptr<Operation> operation,
                      const std::vector<std::shared_ptr<Context>>& contexts);
    // What a wait for the stream waits for: its own work, and for the legacy stream also the blocking streams'.
    std::vector<Mark> ends(Stream& stream);
    // Work after all earlier work of the context.
    Mark post_behind_all(std::shared_ptr<Operation> operation);
    // All later work of the context begins after `mark`.
    void hold_until(const Mark& mark);
    void drop_per_thread(std::uint64_t thread);
    void synchronize();         // all streams
    std::vector<Mark> marks();  // the end of each stream
    bool capturing_anywhere();
    // by a blocking stream, if this is the legacy one; needs the order
    bool is_held_by_capture(const Stream& stream) const;

    void tear_down();  // waits, then frees everything that the context owns

    std::mutex order;  // the order of submissions; never held while waiting
    std::mutex limits_mutex;
    Limits limits;  // for the engine at load: stack, printf buffer, heap
    std::map<CUlimit, std::size_t> other_limits;
    std::set<CUcontext> peers;  // contexts whose memory cuCtxEnablePeerAccess has opened; guarded by limits_mutex

  private:
    std::shared_ptr<Stream> make_stream(unsigned flags, int priority);
    // All of these need the order. What the rules of the default stream make the stream wait for.
    std::vector<Mark> before(Stream& stream);
    // Work begins when it is its turn in the stream, and in the queue that the stream shares with others
    // (BARCUDA_SOFT_QUEUES). Everything before it in the queue must be done, even if that waits for an event, for a
    // word or for the host. Hardware does the same, but there a running kernel lets the work after it begin.
    Mark enqueue(Stream& stream, std::shared_ptr<Operation> operation, std::vector<Mark> after);
    Mark* last_in_queue(const Stream& stream, const Operation& operation);  // null: it has no queue
    std::vector<Mark> marks_held();                                         // with the order held
    void forget_dropped();

    std::atomic<bool> alive_;  // the primary one lives while it is retained
    std::atomic<int> fault_{CUDA_SUCCESS};
    std::shared_ptr<Stream> legacy_;                               // made at its first use: it keeps the context alive
    std::vector<std::shared_ptr<Stream>> streams_;                 // all except the legacy one
    std::map<std::uint64_t, std::shared_ptr<Stream>> per_thread_;  // by thread number
    Mark gate_;                                                    // no work begins before it: post_between()
    std::vector<Mark> queues_;  // the last work in each: first the queues of other work, then those of copies
    unsigned next_queue_ = 0;
};

// The calling thread's contexts. current_context() throws CUDA_ERROR_INVALID_CONTEXT if there is none, or its fault. Of
// a part it is the whole, which has what is made there; streams are of stream_context().
std::shared_ptr<Context> current_context();
std::shared_ptr<Context> stream_context();
std::vector<std::shared_ptr<Context>>& context_stack();

// The stream of an argument; throws CUDA_ERROR_INVALID_HANDLE, or the fault of its context.
std::shared_ptr<Stream> stream_of(CUstream stream);
std::shared_ptr<Stream> stream_of_sync_call();  // for cuMemcpy and other synchronous calls

// capture.cc: turns the stream's work into a node; needs the context's order.
void capture_operation(Stream& stream, std::shared_ptr<Operation> operation);
// A synchronous call on a capturing stream ends the capture: CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED.
void refuse_in_capture(Stream& stream);
void refuse_while_capturing(Stream& stream);  // takes the order
void invalidate_capture(Stream& stream);      // if it captures; needs the context's order
// The legacy stream waits for all blocking ones, and a capturing stream must not be waited for.
void refuse_legacy_while_capturing(const std::vector<std::shared_ptr<Stream>>& streams);

}  // namespace barcuda::soft::driver
