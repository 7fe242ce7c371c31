// SPDX-License-Identifier: Apache-2.0
// processes.h: one program several times at once, in step: each makes itself ready, all start together, each hands back
// one figure. Each is a fresh execution, since CUDA does not live through a fork.
#pragma once
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

constexpr const char* in_step = "--in-step";  // the option that a child gets; its pipes are at these descriptors:
constexpr int go_fd = 900, answer_fd = 901;   // above those of a parent with its hundreds of pipes

// The child's half: ready, go, and at the end the figure (negative: it failed).
inline void wait_for_go() {
    char c = 'r';
    if (write(answer_fd, &c, 1) != 1 || read(go_fd, &c, 1) != 1) _exit(1);
}
inline int finish_in_step(double figure) { return write(answer_fd, &figure, sizeof figure) != sizeof figure; }

// The parent's half. A child that has not answered after a minute has failed.
inline bool run_together(int n, bool quick, std::vector<double>& figures) {
    const auto read_from = [](int fd, void* to, std::size_t bytes) {
        pollfd p{fd, POLLIN, 0};
        return poll(&p, 1, 60000) == 1 && read(fd, to, bytes) == static_cast<ssize_t>(bytes);
    };
    struct Child {
        pid_t pid;
        int go, answer;
    };
    std::vector<Child> children;
    bool ok = true;
    for (int i = 0; i < n && ok; ++i) {
        int go[2], answer[2];
        if (pipe2(go, O_CLOEXEC) || pipe2(answer, O_CLOEXEC)) return false;
        posix_spawn_file_actions_t actions;
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_adddup2(&actions, go[0], go_fd);
        posix_spawn_file_actions_adddup2(&actions, answer[1], answer_fd);
        char self[] = "/proc/self/exe";
        char* arguments[] = {self, const_cast<char*>(in_step), const_cast<char*>(quick ? "--quick" : nullptr), nullptr};
        Child child{-1, go[1], answer[0]};
        ok = posix_spawn(&child.pid, self, &actions, nullptr, arguments, environ) == 0;
        posix_spawn_file_actions_destroy(&actions);
        close(go[0]);
        close(answer[1]);
        if (ok) children.push_back(child);
    }
    char c = 0;
    for (const Child& child : children) ok = ok && read_from(child.answer, &c, 1);
    for (const Child& child : children) ok = write(child.go, "g", 1) == 1 && ok;
    for (const Child& child : children) {
        double figure = -1;
        ok = ok && read_from(child.answer, &figure, sizeof figure) && figure > 0;
        figures.push_back(figure);
    }
    for (const Child& child : children) {
        if (!ok) kill(child.pid, SIGKILL);
        waitpid(child.pid, nullptr, 0);
        close(child.go);
        close(child.answer);
    }
    return ok;
}
