// SPDX-License-Identifier: Apache-2.0
// mapper.h: the one thread of a worker's that has a descriptor of the region, and a table of descriptors for itself to
// keep it in. It can map and do next to nothing else, and each mapping the kernel asks the bridge about (seccomp's
// user notification): the worker decides what it asks for, the bridge what it gets (judge). The registers of a thread
// that waits in the kernel are nobody's to change, nor is its table: what was judged is what is done.
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
    // Two steps of a worker's, before close() and after it: from the first on no other thread has the region; with the
    // second the thread gives up everything else, and the bridge is told whom to answer, by the link. False, with
    // errno: it cannot be had.
    bool take();
    bool confine();
    // As mmap, shared, at this address and at no other. From any thread.
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

// Of a mapping of [offset, offset + bytes) at its own address.
using MayMap = std::function<bool(std::uint64_t offset, std::uint64_t bytes)>;

// Answers one question of a mapper, if there is one. The kernel makes a reader of an empty listener wait, and knows no
// other way. So poll() comes first; and no other process has this listener and could take the question meanwhile
// (Listener). The process that asked may have been killed since. False: this is no listener to ask any more.
bool judge(int listener, std::uint64_t base, const MayMap& may);

// What the bridge has of one worker's mapper. The worker tells of it in its first message, before anything of a
// client's has reached the worker; so what comes later is from an attacker who has taken the worker over.
class Listener {
  public:
    using Time = std::chrono::steady_clock::time_point;
    Listener() = default;  // of a worker without a mapper
    static Listener expected() { return Listener(State::expected); }

    bool is_expected() const { return state_ == State::expected; }
    // The mapper has ended, and the worker has not followed: in a process that ends, threads go one after the other.
    bool has_left_its_worker(Time now = std::chrono::steady_clock::now()) const {
        return state_ == State::ended && now - ended_ > patience;
    }
    static constexpr std::chrono::seconds patience{1};
    int fd() const { return state_ == State::open ? file_.fd() : -1; }  // to poll; -1: there is none
    // Takes what came with that message. `others`: the listeners of other workers. Why it is refused; null: it is not.
    const char* meet(File file, std::span<const int> others);
    // Answers what poll() has said of it. False: the mapper has ended. Its descriptor is open until close().
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
