// SPDX-License-Identifier: Apache-2.0
// users.h: a user for the workers of one bridge alone: neither the bridge nor another VM's workers have it. Root's
// bridge takes a number from a range that systems reserve for such users, and holds it with a lock while it runs.
#pragma once
#include <sys/resource.h>
#include <sys/types.h>

#include <memory>
#include <string>

#include "base/message.h"
#include "host-bridge/cage/cage.h"

namespace barcuda::cage {

// systemd's range for users of temporary services (DynamicUser=): no account has one of these numbers.
constexpr uid_t first_user = 61184, last_user = 65519;

class OwnUser {
  public:
    // `folder`: where the locks are, for all bridges of the machine.
    explicit OwnUser(const std::string& folder = "/run/barcuda/users");
    uid_t number() const { return number_; }             // 0: there is none
    const std::string& error() const { return error_; }  // why there is none
    // A namespace of users that contains this user and the bridge's; -1: root's bridge needs none.
    int space() const { return space_.fd(); }

  private:
    friend Failure step_down(const std::string& name, std::shared_ptr<const OwnUser>& own);
    uid_t number_ = 0;
    File lock_, space_;
    std::string error_;
};

// Root's process permanently becomes that user: "NAME", or "NAME:GROUP" with that group as its first. `own`: the user
// of its workers; it can still start processes as that user, without a privilege of its own.
Failure step_down(const std::string& name, std::shared_ptr<const OwnUser>& own);

// For a process that root has started, or that is in that namespace. False: errno says why.
bool become_user(const Order& order, const std::string& = {});

// Limits a worker's memory (RLIMIT_DATA), in bytes. The bridge does it if it has all of root's rights; in a container
// it often has not, and then a process of the worker's own user does it. False: errno says why.
bool limit_data(pid_t worker, const Order& order, rlim_t bytes);

// The groups of a user without an account: its own, and groups that may use a GPU's devices if other users may not.
void give_groups(Order& order);

}  // namespace barcuda::cage
