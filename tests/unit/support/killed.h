// SPDX-License-Identifier: Apache-2.0
// killed.h: what a process leaves in shared records (records.h) that is killed before one of its stores: before the
// first, the second, and so on, until the action comes to its end.
#pragma once
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include "host-bridge/between/records.h"

namespace barcuda::test {

inline unsigned stores_left = 0;

// `begin` makes the records new; a child then does `action` and is killed before its n-th store; `look` sees what it
// left, and whether the action was whole. Returns how many stores an action has.
inline unsigned killed_at_each_store(const std::function<void()>& begin, const std::function<void()>& action,
                                     const std::function<void(bool whole)>& look) {
    for (unsigned n = 0;; ++n) {
        SCOPED_TRACE("killed before store " + std::to_string(n));
        begin();
        const pid_t child = fork();
        if (child == 0) {
            stores_left = n;
            records::before_store = [] {
                if (stores_left-- == 0) _exit(9);
            };
            action();
            _exit(0);
        }
        int status = 0;
        if (waitpid(child, &status, 0) != child || !WIFEXITED(status)) {
            ADD_FAILURE() << "the child has died of its own";
            return n;
        }
        const bool whole = WEXITSTATUS(status) == 0;
        look(whole);
        if (whole || testing::Test::HasFatalFailure() || n > 100'000) return n;
    }
}

}  // namespace barcuda::test
