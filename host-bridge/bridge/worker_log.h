// SPDX-License-Identifier: Apache-2.0
// worker_log.h: a worker's messages for the log. The worker has a pipe of its own for them, and no access to the log: a
// worker under an attacker's control can fill the pipe, but cannot read, change or remove what is in the log. The
// bridge reads the pipe, limits each line and all of them together, and puts the worker's name before each; log.h makes
// it printable. A line may begin with a level as in sd-daemon(3) ("<4>"), as the worker's own lines do
// (log::start_worker); a line without one is the driver's, and a warning.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/bucket.h"
#include "base/log.h"
#include "base/message.h"

namespace barcuda {

class WorkerLog {
  public:
    using Time = Bucket::Time;
    using Say = std::function<void(log::Level, std::string_view)>;
    struct Limits {
        std::uint64_t own = 0;  // bytes a second, as Limit::log_text; 0: none
        std::uint64_t all = 0;  // of all workers together, from `shared`
        Bucket* shared = nullptr;
    };
    static constexpr std::size_t longest_line = 1000;
    static constexpr double seconds_at_once = 10;  // as in log.h

    WorkerLog() = default;
    explicit WorkerLog(File pipe) : pipe_(std::move(pipe)) {}

    // To poll; -1: no more will come. (It is closed with end().)
    int fd() const { return over_ ? -1 : pipe_.fd(); }
    // A worker that says more than it may is not read until then: it waits in its write.
    Time quiet_until() const { return quiet_until_; }
    int fd(Time now) const { return now < quiet_until_ ? -1 : fd(); }
    // Reads what has arrived, at most a pipe's worth.
    void read_on(const Limits& limits, Time now, const Say& say);
    // Text that has come in another way: the driver's, which is left when its worker ends.
    void add(std::string_view text, const Limits& limits, Time now, const Say& say);
    // The worker has ended: reads the rest of its pipe, logs the unfinished line, and how much was dropped.
    void end(const Limits& limits, Time now, const Say& say);

  private:
    bool may_say(std::size_t bytes, const Limits& limits, Time now);
    void finish_line(const Limits& limits, Time now, const Say& say);
    void tell_left_out(const Say& say);

    File pipe_;
    std::string line_;  // so far
    bool cut_ = false;  // it was longer
    bool begun_ = false;
    bool over_ = false;  // the pipe's other end is closed
    Bucket budget_;
    std::uint64_t left_out_ = 0;  // lines
    Time quiet_until_{};
};

}  // namespace barcuda
