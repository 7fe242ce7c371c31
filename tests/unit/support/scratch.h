// SPDX-License-Identifier: Apache-2.0
// scratch.h: a folder on tmpfs that goes away with the test, and a child process whose answer is its exit status.
#pragma once
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace barcuda::test {

class Scratch {
  public:
    Scratch() {
        char name[] = "/dev/shm/barcuda-test-XXXXXX";
        if (!::mkdtemp(name)) std::abort();
        path_ = name;
    }
    ~Scratch() {
        const std::string command = "rm -rf '" + path_ + "'";
        if (std::system(command.c_str()) != 0) ADD_FAILURE() << path_ << " could not be removed";
    }
    std::string operator/(const std::string& name) const { return path_ + "/" + name; }

  private:
    std::string path_;
};

// Runs `body` in a forked child that ends with its result, never with the test's exit handlers.
template <class F> pid_t fork_child(F body) {
    std::fflush(nullptr);  // else the child would print it again
    const pid_t pid = ::fork();
    if (pid == 0) ::_exit(body());
    return pid;
}
inline int exit_status(pid_t pid) {
    int status = 0;
    ::waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
template <class F> int in_child(F body) { return exit_status(fork_child(body)); }

}  // namespace barcuda::test
