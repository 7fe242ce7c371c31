// SPDX-License-Identifier: Apache-2.0
// mapper.h: the one thread of a worker that has a descriptor of the region, in a table of descriptors of its own. It
// can map and do almost nothing else, and for each mapping the kernel asks the bridge (seccomp's user notification):
// the worker decides what it asks for, the bridge decides what it gets (judge). No other thread can change the
// registers of a thread that waits in the kernel, nor its table of descriptors: so what was judged is what is done.
#pragma once
#include <linux/filter.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <vector>

#include "base/message.h"

namespace barcuda::cage {

class Mapper {
  public:
    // Two steps of a worker, before close() and after it. After take(), no other thread has the region. confine() makes
    // the thread give up everything else, and sends the bridge over the link the descriptor with which it answers.
    // False: not available, and errno says why.
    bool take();
    bool confine();
    // Like mmap, shared, at exactly this address. Any thread may call it.
    void* map(void* at, std::size_t bytes, std::uint64_t offset);

  private:
    enum class Errand { take, confine, map };
    void run();
    int ask(Errand errand);
    bool shed() const;
    bool tell_bridge() const;

    std::vector<sock_filter> program_;
    std::mutex mutex_;  // one errand at a time
    Errand errand_ = Errand::take;
    void* at_ = nullptr;
    std::size_t bytes_ = 0;
    std::uint64_t offset_ = 0;
    int error_ = 0;
    std::atomic<int> asked_ = 1, done_ = 0;  // numbers of errands
};

// ---- the bridge's half

// Whether a mapping of [offset, offset + bytes) at its own address is allowed.
using MayMap = std::function<bool(std::uint64_t offset, std::uint64_t bytes)>;

// Answers one question of a mapper, if there is one. The kernel blocks a reader of an empty listener and offers no
// other way, so poll() comes first. No other process has this listener and could take the question in between
// (Listener). The process that asked may have been killed since. False: this listener is no longer usable.
bool judge(int listener, std::uint64_t base, const MayMap& may);

// What the bridge knows of one worker's mapper. The worker reports it in its first message, before anything of a client
// reaches the worker. A later report comes from an attacker in control of the worker.
class Listener {
  public:
    using Time = std::chrono::steady_clock::time_point;
    Listener() = default;  // of a worker without a mapper
    static Listener expected() { return Listener(State::expected); }

    bool is_expected() const { return state_ == State::expected; }
    // The mapper has ended, but the worker has not: in a process that ends, threads end one after the other.
    bool has_left_its_worker(Time now = std::chrono::steady_clock::now()) const {
        return state_ == State::ended && now - ended_ > patience;
    }
    static constexpr std::chrono::seconds patience{1};
    int fd() const { return state_ == State::open ? file_.fd() : -1; }  // to poll; -1: none
    // Takes the descriptor that came with the message. `others`: the listeners of other workers. Returns why it is
    // refused; null: it is accepted.
    const char* meet(File file, std::span<const int> others);
    // Handles the events of poll(). False: the mapper has ended. Its descriptor stays open until close().
    bool answer(short events, std::uint64_t base, const MayMap& may);
    void close() { file_ = File(); }

  private:
    enum class State { none, expected, open, ended };
    explicit Listener(State state) : state_(state) {}
    State state_ = State::none;
    File file_;
    Time ended_{};
};

}  // namespace barcuda::cage
