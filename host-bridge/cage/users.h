// SPDX-License-Identifier: Apache-2.0
// users.h: a user for the workers of one bridge, that nobody else is: not the bridge, not another VM's workers. Root's
// bridge takes a number of a range that systems keep for such users, and holds it by a lock as long as it lives.
#pragma once
#include <sys/resource.h>
#include <sys/types.h>

#include <memory>
#include <string>

#include "base/message.h"
#include "host-bridge/cage/cage.h"

namespace barcuda::cage {

// systemd's range for users of services that come and go (DynamicUser=): no account has one of these numbers.
constexpr uid_t first_user = 61184, last_user = 65519;

class OwnUser {
  public:
    // `folder`: where the locks lie, for all bridges of the machine.
    explicit OwnUser(const std::string& folder = "/run/barcuda/users");
    uid_t number() const { return number_; }             // 0: there is none
    const std::string& error() const { return error_; }  // why
    // A namespace of users where it and the bridge's user are; -1: root's bridge needs none.
    int space() const { return space_.fd(); }

  private:
    friend std::string step_down(const std::string& name, std::shared_ptr<const OwnUser>& own);
    uid_t number_ = 0;
    File lock_, space_;
    std::string error_;
};

// Root's process becomes that user for good: "NAME", or "NAME:GROUP" with that group as its first. `own`: the user of its
// workers, whom it alone can start processes as, without a privilege of its own. What is wrong; empty: nothing.
std::string step_down(const std::string& name, std::shared_ptr<const OwnUser>& own);

// This process, which root has started or which is in that namespace. False: with errno.
bool become_user(const Order& order, const std::string& = {});

// Of a worker's memory (RLIMIT_DATA), in bytes. Root may set it where it is all of root: in a container it often is not, and then
// a process of the worker's own user does. False, with errno.
bool limit_data(pid_t worker, const Order& order, rlim_t bytes);

// The groups of a user without an account: its own, and those that may use a GPU's devices where others may not.
void give_groups(Order& order);

}  // namespace barcuda::cage
