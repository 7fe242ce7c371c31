// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/bridge/spawn.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>

#include "host-bridge/cage/cgroup.h"

namespace barcuda {
namespace {

// Any target number may be another one's source, so all sources move out of the way first.
bool place(const std::vector<Spawn::Given>& files) {
    constexpr int out_of_the_way = 16;
    std::vector<int> moved;
    moved.reserve(files.size());
    for (const auto& [file, place] : files) moved.push_back(file < 0 ? -1 : fcntl(file, F_DUPFD, out_of_the_way));
    int last = STDERR_FILENO;
    for (std::size_t i = 0; i < files.size(); ++i) {
        last = std::max(last, files[i].place);
        if (files[i].file < 0) close(files[i].place);
        else if (dup2(moved[i], files[i].place) < 0) return false;
    }
    close_range(static_cast<unsigned>(last) + 1, ~0u, 0);
    return true;
}

[[noreturn]] void run(const Spawn& what) {
    if (!what.group.empty() && !what.cage->groups->join(what.group)) _exit(no_group);
    if (what.cage && what.before_cage) {
        cage::enter_bridge(*what.cage);
        static_cast<void>(cage::close_bridge(*what.cage));  // the bridge itself reports a failure
    }
    if (what.cage && !cage::join(*what.cage)) _exit(no_namespaces);
    if (!place(what.files)) _exit(no_descriptors);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    if (what.open_files) setrlimit(RLIMIT_NOFILE, &*what.open_files);
    if (what.devices) setenv("CUDA_VISIBLE_DEVICES", what.devices->c_str(), 1);
    if (what.addresses != Spawn::Addresses::as_here)
        personality(ADDR_COMPAT_LAYOUT | (what.addresses == Spawn::Addresses::fixed ? ADDR_NO_RANDOMIZE : 0));
    std::vector<char*> command;
    for (const std::string& word : what.command) command.push_back(const_cast<char*>(word.c_str()));
    command.push_back(nullptr);
    if (what.wrapped) {
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        signal(SIGINT, SIG_DFL);  // `barcuda run` ignores it, and a debugger may not
    }
    if (what.wrapped || !what.cage) execv(what.program.c_str(), command.data());
    else execve(what.program.c_str(), command.data(), cage::environment(what.cage->order).data());
    _exit(no_command);
}

// As fork(), without its handlers. The C library of the child still lists the bridge's other threads (Rooms,
// BookListener), so the child calls nothing that addresses all threads (cage/users.cc); and those threads never take
// malloc's locks, which the child could not release.
pid_t fork_sibling() {
    return static_cast<pid_t>(syscall(SYS_clone, CLONE_PARENT | SIGCHLD, nullptr, nullptr, nullptr, 0));
}

}  // namespace

pid_t spawn(const Spawn& what) {
    const pid_t pid = what.sibling ? fork_sibling() : fork();
    if (pid == 0) run(what);
    return pid;
}

}  // namespace barcuda
