// SPDX-License-Identifier: Apache-2.0
// gates.h: how threads that post commands and threads that take memory back from the device exclude each other, and how
// system calls on managed memory and the ends of host functions do. Both are templates over their atomics and locks, so
// that a model checker can run them (tests/unit/guest/managed_gates_model_test.cc); neither makes a CUDA call or a
// system call.
//
// `Lock` is a held lock of managed memory's mutex (state.h).
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>

namespace barcuda::guest::managed {

// The fast path's word: no managed memory exists; no stream may take the fast path; else the key of the stream that
// may.
constexpr std::uint64_t no_memory = 0, slow_path = 1;

// What the library itself uses. The model checker puts its own in this place.
struct Threads {
    template <class T> using Atomic = std::atomic<T>;
    using Condition = std::condition_variable_any;
};

// Posts share, gates exclude them.
//
//   a post     counts itself, looks at the fast path's word, and continues without a lock if the word is its stream's
//              key. Else it takes its count back, takes the lock, waits until no other thread's gate is shut, and
//              counts itself
//   a gate     shuts under the lock: the fast path ends. Then it waits until no post is counted
//
// A post that the gate does not see counted sees the fast path's end: count and look of the one, end and wait of the
// other are sequentially consistent.
template <class Sync> class Gates {
    template <class T> using Atomic = typename Sync::template Atomic<T>;

  public:
    explicit Gates(Atomic<std::uint64_t>& fast_path) : fast_path_(fast_path) {}
    Gates(const Gates&) = delete;

    // ---- posts. True: this one is counted, and needs no lock.
    bool try_post(std::uint64_t key) noexcept {
        posts_.fetch_add(1, std::memory_order_seq_cst);
        if (fast_path_.load(std::memory_order_seq_cst) == key) return true;
        end_post();
        return false;
    }
    // `own`: gates that this thread has shut itself. It may post behind them.
    template <class Lock> void await_open(Lock& lock, unsigned own) {
        opened_.wait(lock, [&] { return shut_ == own; });
    }
    void begin_post() noexcept {
        posts_.fetch_add(1, std::memory_order_seq_cst);
    }  // under the lock, after await_open()
    void end_post() noexcept { posts_.fetch_sub(1, std::memory_order_release); }

    // ---- the fast path, opened under the lock while no gate is shut. Threads that take it see what was posted before.
    void open_fast_path(std::uint64_t key) noexcept { fast_path_.store(key, std::memory_order_release); }
    void end_fast_path() noexcept { fast_path_.store(slow_path, std::memory_order_seq_cst); }

    // ---- gates; shut(), open() and the questions under the lock
    void shut() noexcept {
        ++shut_;
        end_fast_path();
    }
    // Without the lock: await(done) returns when done() is true, or when the client has ended.
    template <class Await> void await_posts(Await await) noexcept {
        await([this] { return posts_.load(std::memory_order_seq_cst) == 0; });
    }
    void open() noexcept {
        --shut_;
        opened_.notify_all();
    }
    // Instead of a gate, for a thread that waits for nothing and does all under the lock: true if no thread posts, and
    // none has shut a gate. The fast path ends.
    bool try_exclude() noexcept {
        end_fast_path();
        return shut_ == 0 && posts_.load(std::memory_order_seq_cst) == 0;
    }
    bool any_shut() const noexcept { return shut_ != 0; }
    bool none_but(unsigned own) const noexcept { return shut_ == own; }

  private:
    Atomic<std::uint64_t>& fast_path_;
    Atomic<std::uint32_t> posts_{};
    unsigned shut_ = 0;
    typename Sync::Condition opened_;
};

// System calls share, ends of host functions exclude them: memory that a system call reads or writes keeps its access
// until the call has returned. All under the lock.
template <class Sync> class Calls {
  public:
    Calls() = default;
    Calls(const Calls&) = delete;

    // No end of a function is waiting: begin() may follow under the same lock.
    template <class Lock> void await_ends(Lock& lock) {
        changed_.wait(lock, [&] { return ending_ == 0; });
    }
    void begin() noexcept { ++calls_; }
    void end() noexcept {
        if (--calls_ == 0) changed_.notify_all();
    }
    // Runs `act` under the lock when no call is in progress. Calls that come meanwhile wait.
    template <class Lock, class Act> void exclude(Lock& lock, Act act) {
        ++ending_;
        changed_.wait(lock, [&] { return calls_ == 0; });
        --ending_;
        act();
        changed_.notify_all();
    }

  private:
    unsigned calls_ = 0, ending_ = 0;
    typename Sync::Condition changed_;
};

}  // namespace barcuda::guest::managed
