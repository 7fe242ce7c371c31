// SPDX-License-Identifier: Apache-2.0
// keeper.h: the process that outlives a bridge. People start it as barcuda-bridge; it forks the bridge proper, and is
// the parent of the bridge's workers, which the bridge starts as its siblings (bridge/spawn.h). It holds, by name, the
// descriptors that a later bridge needs: the region with its lock, the books, the workers' links. When the bridge is
// killed, the keeper starts another one, which continues with the same clients. The keeper reads no data of guests or
// workers.
//
//   starting  the bridge opens its region and its driver       backing_off  it was killed; the next one starts soon
//   serving   it serves                                        replacing    it is ended for one of another file
//   ending    it ends, or was told to                          trying       that one opens region and driver
//
// One function makes the transitions, and only those of a table; docs/state.md says when. upgrade.h has the steps of an
// upgrade.
#pragma once
#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/message.h"
#include "host-bridge/between/keeping.h"
#include "host-bridge/keeper/upgrade.h"

namespace barcuda {

class Keeper {
  public:
    enum class State : unsigned { starting, serving, backing_off, replacing, trying, ending, count };
    static const char* name(State state);
    static bool permits(State from, State to);

    // `ready`, `served`: descriptors that the bridge closes when it serves, and when all that it has made is gone; -1:
    // there are none. `command`: this process's own, for bridges of other files.
    Keeper(int ready, int served, std::vector<std::string> command = {});

    // Returns in each bridge of this file that it starts, with `link` to the keeper; in the keeper itself, with its
    // exit status and without a link, when the last bridge has ended.
    int run(File& link);

    // Descriptors by name.
    using Kept = std::map<std::string, File, std::less<>>;

    // One request of a bridge: its answer, and the descriptor that goes with it (-1: none). For tests too.
    keeping::Answer serve(const keeping::Request& request, File file, int& with);
    const Kept& kept() const { return kept_; }
    State state() const { return state_; }
    bool has_served() const { return served_once_; }  // a bridge of this keeper has

  private:
    using Clock = std::chrono::steady_clock;

    void enter(State to);
    bool start(File& link);
    bool cannot_start(int error);
    bool has_died();
    bool start_is_due() const;
    void begin_bridge(File& link, File& its, int stops, int ends);
    void hear_signals();
    void hear_bridge();
    void bridge_ended(int status);
    void new_one_ended(int status);
    void end_bridge();
    void end_by(int signal);
    void watch();
    void reap_strangers();
    void beat();
    int patience() const;  // milliseconds

    int ready_, served_;
    const std::vector<std::string> command_;
    Kept kept_;
    State state_ = State::starting;
    bool served_once_ = false;
    pid_t bridge_ = -1;
    int status_ = 0;
    unsigned deaths_ = 0;  // in a row, of bridges that crashed soon after their start
    Clock::time_point next_start_{}, ready_at_{};
    std::uint64_t beats_ = 0;
    Clock::time_point next_look_{};
    unsigned unheard_ = 0;  // how often in a row the keeper looked, and had heard nothing
    bool hung_ = false;     // so it ends the bridge
    Upgrade upgrade_;
    File file_;  // of the bridges that it starts; none: this process's own
    File signals_, link_;
    File stop_, end_;  // a byte stops the bridge, or ends it at once, also if it has become another user
};

}  // namespace barcuda
