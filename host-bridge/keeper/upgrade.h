// SPDX-License-Identifier: Apache-2.0
// upgrade.h: how a keeper replaces its bridge by one of another file (`barcuda upgrade`). The file is first asked, in a
// process of its own, whether its build understands the numbers of the bridge that serves (bridge/numbers.h); then the
// keeper ends that bridge, and the new one has a limited time until it serves. The keeper reads no answer of the file:
// its exit status decides, and what it says goes into a file in memory that the bridge passes on.
//
//            order          "yes"              old bridge ended        ready
//     (any) ------> checking --------> replacing -------------> trying ------> replaced
//                      |    \  only a check                        |
//     refused <--------+     +----------> fits                     +---------> failed
//           another status, or not in time                ended, or not in time
#pragma once
#include <sys/types.h>

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "base/failure.h"
#include "base/message.h"
#include "host-bridge/between/keeping.h"

namespace barcuda {

// Whether a process of this user may run that file. Any user could have made a file, so it must belong
// to root or to this user, and no other user may have the right to write to it.
Failure check_program(int file);
// Executes the file (also one that has no name any longer). Returns only if that is not possible.
void become_program(int file, std::vector<std::string> command);

class Upgrade {
  public:
    using Clock = std::chrono::steady_clock;
    using Step = keeping::Step;

    // `command`: the keeper's own, which bridges get.
    explicit Upgrade(std::vector<std::string> command) : command_(std::move(command)) {}

    struct Order {
        bool only_check = false;
        std::string_view words;              // the serving bridge's numbers
        std::chrono::milliseconds within{};  // for the check, and for the start
    };
    // Returns an errno; 0: the order is accepted, and step() says what comes of it.
    int begin(const Order& order, File program);

    // ---- what has happened
    bool look();                          // whether the check has passed, and the bridge is to be replaced: once
    void old_one_ended();                 // the new one is about to start
    void ready();                         // it serves
    void ended(int status);               // it ended instead, as of waitpid(2)
    void not_started(int error);          // it could not be started, as that errno says
    bool is_late(Clock::time_point now);  // the new bridge has had its time: once

    Step step() const { return step_; }
    bool busy() const { return step_ == Step::checking || step_ == Step::replacing || step_ == Step::trying; }
    Clock::time_point deadline() const { return deadline_; }  // while busy
    std::uint32_t attempt() const { return attempt_; }
    int text() const { return text_.fd(); }  // what there is to say: a file in memory; -1: none
    std::string said() const;                // its first line
    int program() const { return program_.fd(); }
    File take_program() { return std::move(program_); }
    static bool permits(Step from, Step to);

  private:
    void enter(Step to);
    void say(std::string_view why);
    bool start_check(std::string_view words);

    const std::vector<std::string> command_;
    Step step_ = Step::none;
    std::uint32_t attempt_ = 0;
    bool only_check_ = false, late_ = false;
    std::chrono::milliseconds within_{};
    Clock::time_point deadline_{};
    pid_t checker_ = -1;
    File program_, text_;
};

}  // namespace barcuda
