// SPDX-License-Identifier: Apache-2.0
// exit_status.h: the exit statuses of the host's programs beside 0, 1 and the status of a program that they run.
#pragma once
#include <sys/wait.h>

namespace barcuda {

constexpr int wrong_usage = 2;                        // words that are not understood
constexpr int cannot_run = 125;                       // as in env(1) and others: the failure is not the program's
constexpr int cannot_execute = 126, not_found = 127;  // as in shells

// Of a process that waitpid has reported, as in a shell.
inline int exit_status(int reported) {
    return WIFSIGNALED(reported) ? 128 + WTERMSIG(reported) : WEXITSTATUS(reported);
}

}  // namespace barcuda
