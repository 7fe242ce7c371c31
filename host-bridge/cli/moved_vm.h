// SPDX-License-Identifier: Apache-2.0
// moved_vm.h: a VM that has come by `barcuda move`: its folder on this host, and the bridge that goes on with it. What
// is in the folder says how far the move is, also after `barcuda receive` was killed:
//
//   order    which move it is, and of which source
//   set/     the VM, whole (suspended/set.h): it waits for the source's decision
//   filled   which region has the VM's bytes already, though nothing has gone on in it
//   awake    the number of the move whose VM has gone on here
//   log      the bridge's
#pragma once
#include <sys/types.h>

#include <string>
#include <vector>

#include "base/failure.h"
#include "base/message.h"
#include "host-bridge/suspended/stream.h"

namespace barcuda {

class MovedVm {
  public:
    // `above`: the folder of all moves; empty: this user's own.
    MovedVm(const std::string& above, const std::string& name);

    // One process at a time has it. Waits for another one that is about to leave.
    Failure take();
    bool waits() const;  // its set is here
    MoveOrder order() const;
    bool has_gone_on(const std::string& id) const;

    Failure begin(const MoveOrder& order);  // nothing else is left of an earlier move
    Failure note_filled(const std::string& region) const;
    bool has_filled(const std::string& region) const;
    Failure note_awake(const std::string& id) const;
    void drop() const;

    const std::string& folder() const { return folder_; }
    std::string set() const { return folder_ + "/set"; }
    std::string log() const { return folder_ + "/log"; }

  private:
    std::string folder_;
    File lock_;
};

// A bridge that outlives the command.
class WakingBridge {
  public:
    // `waits`: it makes everything ready and then waits for go().
    Failure start(const MovedVm& vm, std::vector<std::string> words, bool waits);
    Failure await_back();
    bool go() const;  // false: it has ended meanwhile
    Failure await_ready();

  private:
    Failure why() const;  // it has ended

    std::string log_;
    pid_t pid_ = -1;
    File word_, ready_;
};

}  // namespace barcuda
