// SPDX-License-Identifier: Apache-2.0
// keeper.h: the process that outlives a bridge. People start it as barcuda-bridge; it forks the bridge proper, and is
// the parent of the bridge's workers, which the bridge starts as its siblings (bridge/spawn.h). It holds, by name, the
// descriptors that a later bridge needs: the region with its lock, the books, the workers' links. When the bridge is
// killed, the keeper starts another one, which continues with the same clients. The keeper reads no data of guests or
// workers.
//
//   starting  the bridge opens its region and its driver       backing_off  it was killed; the next one starts soon
//   serving   it serves                                        ending       it ends, or was told to
#pragma once
#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/message.h"
#include "host-bridge/between/keeping.h"

namespace barcuda {

class Keeper {
  public:
    // `ready`, `served`: descriptors that the bridge closes when it serves, and when all that it has made is gone; -1:
    // there are none.
    Keeper(int ready, int served);

    // Returns in each bridge that it starts, with `link` to the keeper; in the keeper itself, with its exit status and
    // without a link, when the last bridge has ended.
    int run(File& link);

    // Descriptors by name.
    using Kept = std::map<std::string, File, std::less<>>;
    // A bound for a bridge that was taken over: 256 clients with all that they may share.
    static constexpr std::size_t most_kept = 1 << 16;

    // One request of a bridge: its answer, and the descriptor that goes with it (-1: none). For tests too.
    keeping::Answer serve(const keeping::Request& request, File file, int& with);
    const Kept& kept() const { return kept_; }
    bool has_served() const { return served_once_; }  // a bridge of this keeper has

  private:
    using Clock = std::chrono::steady_clock;
    enum class State { starting, serving, backing_off, ending };

    bool start(File& link);
    void hear_signals();
    void hear_bridge();
    void bridge_ended(int status);
    void end_bridge();
    void end_by(int signal);
    void reap_strangers();
    void beat();
    int patience() const;  // milliseconds

    int ready_, served_;
    Kept kept_;
    State state_ = State::starting;
    bool served_once_ = false;
    pid_t bridge_ = -1;
    int status_ = 0;
    unsigned deaths_ = 0;  // in a row, of bridges that crashed soon after their start
    Clock::time_point next_start_{}, ready_at_{};
    std::uint64_t beats_ = 0;
    File signals_, link_;
    File stop_;  // a byte stops the bridge, also if it has become another user
};

}  // namespace barcuda
