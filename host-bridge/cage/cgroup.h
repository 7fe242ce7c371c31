// SPDX-License-Identifier: Apache-2.0
// cgroup.h: a control group (cgroup v2) for each worker of a bridge: it limits the host memory and the threads, and
// gives the worker a part of the processors that does not grow with its threads. The workers' groups are beside the
// bridge's own, in the group in which the bridge was started: with systemd, its unit's (Delegate=). A worker that
// exceeds its memory is killed, and no other.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace barcuda::cage {

class Groups {
  public:
    // Moves this process into a group of its own, except at the root: a group that contains groups holds no processes.
    Groups();
    ~Groups();
    Groups(const Groups&) = delete;
    // The bridge's keeper moves with the bridge: a group that has groups in it holds no processes.
    static void move_too(pid_t keeper) { keeper_ = keeper; }
    const std::string& error() const { return error_; }  // why there are no groups; empty: there are

    std::string make();                         // returns the name; empty: it could not be made, and errno says why
    bool join(const std::string& group) const;  // with this process. False: errno says why
    std::uint64_t used(const std::string& group) const;               // bytes of memory
    bool bound(const std::string& group, std::uint64_t bytes) const;  // limits the memory from now on; 0: no limit
    // The kernel killed the worker because it exceeded its limit, not because the host ran out of memory.
    bool was_too_large(const std::string& group) const;
    void remove(const std::string& group);  // kills the processes that are still in it

  private:
    static inline pid_t keeper_ = 0;  // 0: there is none
    std::string settle();
    bool move_back() const;
    bool alone() const;
    void remove_old() const;
    std::string path(const std::string& group, const char* file) const;
    std::string folder_, error_;
    bool moved_ = false;
    pid_t owner_;  // not a child that inherited this object
    unsigned made_ = 0;
    std::vector<std::string> leaving_;
};

}  // namespace barcuda::cage
