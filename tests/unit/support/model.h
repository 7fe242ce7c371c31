// SPDX-License-Identifier: Apache-2.0
// model.h: a small model checker for code that is templated over its atomics (sync.h).
//
// Threads of a scenario are fibers of one real thread. Before each atomic operation the checker chooses who goes on,
// and at each load which of the values that the memory model allows is read; it then runs the scenario again with other
// choices until all have been tried (depth first, with a bound on preemptions), or a given number of times at random.
//
// The memory is weak. A location keeps every value ever stored, in order; a thread's view says how old a value it may
// still read. A release-store takes the storing thread's view along, an acquire-load that reads it joins that view; a
// relaxed load of a new value brings nothing else with it. A full fence joins and extends one view shared by all
// fences. So a store may be seen late and out of order with others unless something orders it, as on ARM or in a store
// buffer of x86. Not modelled: reading values from the future (load buffering), and stores to one place taking effect
// in another order than they are executed; the queue has one writer at a time for every place.
//
// Sequentially consistent operations are in one total order, that of their execution: a load among them reads no value
// older than the last store among them, and brings nothing else along than an acquire-load does. Read-modify-writes
// read the newest value.
//
// `weaken` takes one ordering away from one thread: a scenario that still passes does not test that ordering.
#pragma once
#include <sanitizer/asan_interface.h>
#include <ucontext.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace barcuda::model {

constexpr unsigned max_locations = 24;
struct View {
    std::array<std::uint16_t, max_locations> at{};
    void join(const View& other) {
        for (unsigned i = 0; i < max_locations; ++i) at[i] = std::max(at[i], other.at[i]);
    }
};

enum class Order : std::uint8_t { none, release, acquire, fence, total };
struct Weaken {
    int thread = -1;
    Order what = Order::none;
};

struct Limits {
    unsigned preemptions = 2;
    std::uint64_t executions = 2'000'000;  // give up after so many
    std::uint64_t random = 0;              // not 0: so many random schedules instead of all of them
    Weaken weaken{};
};

struct Outcome {
    std::uint64_t executions = 0;
    bool exhausted = false;  // every schedule within the bound was tried
    std::string error;       // the first failure, with the trace that led to it
};

class World {
  public:
    static World*& current() {
        static World* world = nullptr;
        return world;
    }

    // ---- for scenarios
    void thread(std::function<void()> body) { fibers_[count_++].body = std::move(body); }
    void check(bool ok, const char* what) {
        if (!ok) fail(what);
    }
    // Polls: asks again whenever something was stored; in the end everything stored is seen (stores are never lost).
    void await(const std::function<bool()>& done) {
        Fiber& me = fibers_[running_];
        while (!done()) {
            me.polling = true;
            me.tried = me.fresh ? stores_ + 1 : me.tried;
            me.seen = stores_;
            next_thread(false);
            me.polling = false;
        }
        me.fresh = false;
    }
    // Sleeps until something outside the model's memory (an interrupt, a futex) wakes it.
    void block_until(std::function<bool()> woken) {
        Fiber& me = fibers_[running_];
        note("sleeps");
        me.blocked = std::move(woken);
        while (!me.blocked()) next_thread(false);
        me.blocked = nullptr;
        note("wakes");
    }

    // ---- for Atomic and fence
    unsigned new_location(std::uint64_t value) {
        if (locations_ == max_locations) std::abort();
        history_[locations_].assign(1, {value, {}});
        return locations_++;
    }
    std::uint64_t load(unsigned location, std::memory_order order) {
        if (running_ < 0) return history_[location].back().value;
        point();
        Fiber& me = fibers_[running_];
        auto& history = history_[location];
        const unsigned newest = static_cast<unsigned>(history.size()) - 1;
        unsigned oldest = me.fresh ? newest : me.view.at[location];
        if (is_total(order)) oldest = std::max<unsigned>(oldest, total_.at[location]);
        const unsigned index = newest - choose(newest - oldest + 1);
        const Store& store = history[index];
        me.view.at[location] = static_cast<std::uint16_t>(index);
        me.read.join(store.view);
        if (order != std::memory_order_relaxed && !weakened(Order::acquire)) me.view.join(store.view);
        if (trace_)
            note("loads  " + std::to_string(location) + " = " + hex(store.value) + (index < newest ? " (old)" : ""));
        return store.value;
    }
    void store(unsigned location, std::uint64_t value, std::memory_order order) {
        if (running_ < 0) {
            history_[location].back().value = value;
            return;
        }
        point();
        Fiber& me = fibers_[running_];
        auto& history = history_[location];
        me.view.at[location] = static_cast<std::uint16_t>(history.size());
        View view = me.fenced;
        if (order != std::memory_order_relaxed && !weakened(Order::release)) view = me.view;
        view.at[location] = me.view.at[location];
        append(location, value, view, order);
        if (trace_) note("stores " + std::to_string(location) + " = " + hex(value));
    }
    // Adds to the newest value, and returns what that was. A reader that acquires the sum acquires its parts, too.
    std::uint64_t add(unsigned location, std::uint64_t by, std::memory_order order) {
        if (running_ < 0) return std::exchange(history_[location].back().value, history_[location].back().value + by);
        point();
        Fiber& me = fibers_[running_];
        const Store before = history_[location].back();
        const bool acquires = order != std::memory_order_relaxed && order != std::memory_order_release;
        const bool releases = order != std::memory_order_relaxed && order != std::memory_order_acquire;
        me.read.join(before.view);
        if (acquires && !weakened(Order::acquire)) me.view.join(before.view);
        me.view.at[location] = static_cast<std::uint16_t>(history_[location].size());
        View view = me.fenced;
        if (releases && !weakened(Order::release)) view = me.view;
        view.join(before.view);
        view.at[location] = me.view.at[location];
        append(location, before.value + by, view, order);
        if (trace_) note("adds   " + std::to_string(location) + " = " + hex(before.value + by));
        return before.value;
    }
    // A lock: what its last owner saw, its next owner sees.
    void lock(bool& held, const View& released) {
        point();
        if (held) block_until([&held] { return !held; });
        held = true;
        fibers_[running_].view.join(released);
        if (trace_) note("locks");
    }
    void unlock(bool& held, View& released) {
        released = fibers_[running_].view;
        held = false;
        if (trace_) note("unlocks");
    }
    void fence() {
        if (running_ < 0 || weakened(Order::fence)) return;
        point();
        fence(fibers_[running_]);
        note("fences");
    }
    // All threads fence, wherever they are. (In life at different moments, while the caller waits.)
    void fence_all() {
        if (running_ < 0 || weakened(Order::fence)) return;
        point();
        fence(fibers_[running_]);
        for (int i = 0; i < count_; ++i)
            if (i != running_) fence(fibers_[i]);
        fence(fibers_[running_]);
        note("fences for all");
    }

  private:
    friend Outcome explore(const Limits&, const std::function<void(World&)>&);
    struct Store {
        std::uint64_t value;
        View view;
    };
    struct Fiber {
        ucontext_t context;
        std::unique_ptr<char[]> stack;
        std::function<void()> body;
        std::function<bool()> blocked;
        View view;    // what it must not read older than
        View read;    // what it has read, for the next fence
        View fenced;  // its view at its last fence: relaxed stores after it take that along
        std::uint64_t seen = 0, tried = 0;
        bool polling = false, fresh = false, done = false;
    };
    struct Choice {
        unsigned chosen, of;
    };
    static constexpr std::size_t stack_size = 256 << 10;

    void append(unsigned location, std::uint64_t value, const View& view, std::memory_order order) {
        if (is_total(order)) total_.at[location] = static_cast<std::uint16_t>(history_[location].size());
        history_[location].push_back({value, view});
        ++stores_;
    }
    bool is_total(std::memory_order order) const {
        return order == std::memory_order_seq_cst && !weakened(Order::total);
    }
    void fence(Fiber& f) {
        f.view.join(f.read);
        f.view.join(fence_);
        fence_ = f.view;
        f.fenced = f.view;
    }
    [[noreturn]] void fail(const std::string& what) {
        if (error_.empty()) error_ = what;
        setcontext(&main_);
        std::abort();
    }
    unsigned choose(unsigned of) {
        if (of == 1) return 0;
        if (random_) return static_cast<unsigned>((*random_)() % of);
        if (depth_ == choices_.size()) choices_.push_back({0, of});
        if (choices_[depth_].of != of) std::abort();  // the scenario is not deterministic
        return choices_[depth_++].chosen;
    }
    bool weakened(Order what) const { return limits_.weaken.thread == running_ && limits_.weaken.what == what; }
    bool ready(int i) const {
        const Fiber& f = fibers_[i];
        return !f.done && (f.blocked ? f.blocked() : !f.polling || f.seen != stores_);
    }
    void point() {  // the running thread may go on, or be preempted
        if (++steps_ > 100'000) fail("no end in sight");
        next_thread(true);
    }
    void next_thread(bool may_go_on) {
        int ready_threads[max_threads], n = 0;
        if (may_go_on) ready_threads[n++] = running_;
        if (!may_go_on || preemptions_ < limits_.preemptions || random_)
            for (int i = 0; i < count_; ++i)
                if (i != running_ && ready(i)) ready_threads[n++] = i;
        if (!may_go_on && ready(running_)) ready_threads[n++] = running_;
        if (n == 0) {
            // Only pollers are left. All stores reach everyone in the end: each may look once more, at the newest
            // values.
            for (int i = 0; i < count_ && n == 0; ++i)
                if (!fibers_[i].done && fibers_[i].polling && fibers_[i].tried != stores_ + 1) {
                    fibers_[i].fresh = true;
                    ready_threads[n++] = i;
                }
            if (n == 0) fail("deadlock: everyone sleeps or polls in vain");
        }
        const int next = ready_threads[choose(static_cast<unsigned>(n))];
        if (next == running_) return;
        if (may_go_on) ++preemptions_;
        const int last = running_;
        running_ = next;
        swapcontext(&fibers_[last].context, &fibers_[next].context);
    }
    static void enter() {
        World& w = *current();
        w.fibers_[w.running_].body();
        w.fibers_[w.running_].done = true;
        for (int i = 0; i < w.count_; ++i)
            if (!w.fibers_[i].done) w.next_thread(false);  // never returns
        setcontext(&w.main_);
    }
    void run(const std::function<void(World&)>& scenario) {
        current() = this;
        running_ = -1;
        count_ = 0;
        locations_ = 0;
        depth_ = preemptions_ = 0;
        stores_ = steps_ = 0;
        fence_ = {};
        total_ = {};
        scenario(*this);
        for (int i = 0; i < count_; ++i) {
            Fiber& f = fibers_[i];
            f.view = f.read = f.fenced = {};
            f.blocked = nullptr;
            f.seen = f.tried = 0;
            f.polling = f.fresh = f.done = false;
            if (!f.stack) f.stack = std::make_unique<char[]>(stack_size);
            ASAN_UNPOISON_MEMORY_REGION(f.stack.get(), stack_size);  // the last path may have been left in the middle
            getcontext(&f.context);
            f.context.uc_stack.ss_sp = f.stack.get();
            f.context.uc_stack.ss_size = stack_size;
            f.context.uc_link = nullptr;
            makecontext(&f.context, &World::enter, 0);
        }
        volatile bool entered = false;
        getcontext(&main_);  // comes back here when all threads are done, or one has failed
        if (!entered) {
            entered = true;
            running_ = static_cast<int>(choose(static_cast<unsigned>(count_)));
            setcontext(&fibers_[running_].context);
        }
        running_ = -1;
    }
    bool another() {  // the next path, depth first
        while (!choices_.empty() && choices_.back().chosen + 1 == choices_.back().of) choices_.pop_back();
        if (choices_.empty()) return false;
        ++choices_.back().chosen;
        return true;
    }
    static std::string hex(std::uint64_t v) {
        char text[24];
        std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(v));
        return text;
    }
    void note(const std::string& what) {
        if (trace_) *trace_ += "\n  thread " + std::to_string(running_) + " " + what;
    }

    static constexpr int max_threads = 4;
    Limits limits_;
    std::array<Fiber, max_threads> fibers_;
    std::array<std::vector<Store>, max_locations> history_;
    std::vector<Choice> choices_;
    View fence_;
    View total_;  // the last sequentially consistent store to each location
    ucontext_t main_;
    std::mt19937_64* random_ = nullptr;
    std::string* trace_ = nullptr;
    std::string error_;
    std::uint64_t stores_ = 0, steps_ = 0;
    std::size_t depth_ = 0;
    unsigned preemptions_ = 0, locations_ = 0;
    int count_ = 0, running_ = -1;
};

// Runs a scenario (which makes its state and names its threads) in all ways, or in many.
inline Outcome explore(const Limits& limits, const std::function<void(World&)>& scenario) {
    auto world = std::make_unique<World>();
    World& w = *world;
    w.limits_ = limits;
    Outcome outcome;
    std::mt19937_64 random;
    std::mt19937_64 before;
    for (;;) {
        before = random;
        if (limits.random != 0) w.random_ = &random;
        w.run(scenario);
        ++outcome.executions;
        if (!w.error_.empty()) {  // once more, with a trace
            std::string trace;
            w.trace_ = &trace;
            random = before;
            w.run(scenario);
            outcome.error = w.error_ + trace;
            break;
        }
        if (limits.random != 0 ? outcome.executions == limits.random : !w.another()) {
            outcome.exhausted = limits.random == 0;
            break;
        }
        if (outcome.executions == limits.executions) break;
    }
    World::current() = nullptr;
    return outcome;
}

// The atomics of a model: sync.h's Smp with the checker underneath.
struct Sync {
    template <class T> class Atomic {
      public:
        Atomic() : location_(World::current()->new_location(0)) {}
        T load(std::memory_order order) const { return static_cast<T>(World::current()->load(location_, order)); }
        void store(T value, std::memory_order order) { World::current()->store(location_, value, order); }
        T fetch_add(T by, std::memory_order order) {
            return static_cast<T>(World::current()->add(location_, by, order));
        }
        T fetch_sub(T by, std::memory_order order) {
            return static_cast<T>(World::current()->add(location_, std::uint64_t{0} - by, order));
        }

      private:
        unsigned location_;
    };
    // Threads of one process, which may sleep for one another.
    class Mutex {
      public:
        void lock() { World::current()->lock(held_, released_); }
        void unlock() { World::current()->unlock(held_, released_); }

      private:
        bool held_ = false;
        View released_;
    };
    class Condition {
      public:
        template <class Lock, class Ready> void wait(Lock& lock, Ready ready) {
            while (!ready()) {
                const unsigned seen = notified_;
                lock.unlock();
                World::current()->block_until([this, seen] { return notified_ != seen; });
                lock.lock();
            }
        }
        void notify_all() { ++notified_; }

      private:
        unsigned notified_ = 0;
    };
    static void fence() { World::current()->fence(); }
    static bool fence_all() {
        World::current()->fence_all();
        return true;
    }
};
// The same for two sides with a kernel each: a fence reaches no other.
struct SyncApart : Sync {
    static bool fence_all() {
        fence();
        return true;
    }
};

// Plain memory that is shared: a request's or a reply's bytes. Nothing orders it but what orders the queue.
class Bytes {
  public:
    std::uint64_t get() const { return word_.load(std::memory_order_relaxed); }
    void set(std::uint64_t value) { word_.store(value, std::memory_order_relaxed); }

  private:
    Sync::Atomic<std::uint64_t> word_;
};

}  // namespace barcuda::model
