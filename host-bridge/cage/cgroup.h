// SPDX-License-Identifier: Apache-2.0
// cgroup.h: a control group (cgroup v2) for each worker of a bridge: so much of the host's memory, so many threads, and
// a part of the processors that does not grow with them. They lie beside one for the bridge itself, in the group that it
// was started in: with systemd, in its unit's (Delegate=). A worker that has more memory than it may is killed, alone.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace barcuda::cage {

class Groups {
  public:
    // Moves this process into a group of its own, where it is not at the root of all: one that has groups in it holds no processes.
    Groups();
    ~Groups();
    Groups(const Groups&) = delete;
    const std::string& error() const { return error_; }  // why there are none; empty: there are

    std::string make();                                  // its name; empty, with errno: it could not be made
    bool join(const std::string& group) const;           // this process. False: with errno
    std::uint64_t used(const std::string& group) const;  // bytes of memory
    bool bound(const std::string& group, std::uint64_t bytes) const;  // of memory, from now on; 0: no limit
    // The kernel has killed it: for it had more than that, not for want of memory on the host.
    bool was_too_large(const std::string& group) const;
    void remove(const std::string& group);  // what is still in it ends

  private:
    std::string settle();
    bool alone() const;
    void remove_old() const;
    std::string path(const std::string& group, const char* file) const;
    std::string folder_, error_;
    bool moved_ = false;
    pid_t owner_;  // not a child that has inherited this
    unsigned made_ = 0;
    std::vector<std::string> leaving_;
};

}  // namespace barcuda::cage
