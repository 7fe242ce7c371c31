// SPDX-License-Identifier: Apache-2.0
// measures.cc: the measures that a worker takes before it opens its driver, in their order. Measures that need a
// privilege come before the privileges are dropped. None is our own invention: each one is a call of the kernel.
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/message.h"
#include "host-bridge/cage/measures.h"
#include "host-bridge/cage/users.h"

namespace barcuda::cage {

bool bound_capabilities() {
    for (int c = 0; prctl(PR_CAPBSET_READ, c, 0, 0, 0) >= 0; ++c)
        // an ordinary user's set has no effect
        if (prctl(PR_CAPBSET_DROP, c, 0, 0, 0) != 0 && errno != EPERM) return false;
    return true;
}

namespace {

bool leave_folder(const Order&, const std::string&) { return chdir("/") == 0; }

bool leave_input(const Order&, const std::string&) {
    const File nothing(open("/dev/null", O_RDWR | O_CLOEXEC));
    return nothing && dup2(nothing.fd(), STDIN_FILENO) >= 0;
}

// A core_pattern that is a pipe ignores a limit of 0, but obeys a limit of 1.
bool leave_no_core(const Order&, const std::string&) {
    constexpr rlimit no_core{1, 1};
    return setrlimit(RLIMIT_CORE, &no_core) == 0;
}

// If the host runs out of memory, workers are killed before their bridge and before the rest of the host.
bool be_expendable(const Order&, const std::string&) {
    const File score(open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC));
    return score && write(score.fd(), "500", 3) == 3;
}

bool gain_no_privileges(const Order&, const std::string&) { return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0; }

bool drop_capabilities(const Order&, const std::string&) {
    if (!bound_capabilities()) return false;
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    const __user_cap_data_struct none[2]{};
    return syscall(SYS_capset, &header, none) == 0;
}

bool hide_memory(const Order&, const std::string&) { return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0; }

bool elsewhere(const Order&, const std::string&) { return true; }

}  // namespace

// In the order of enum Measure.
constexpr Row table[measures] = {
    {{"environment", "only those of the bridge's variables that drivers read"}, elsewhere},
    {{"folder", "the root as its working folder"}, leave_folder},
    {{"descriptors", "nothing at its standard input, and no file that it does not need"}, leave_input},
    {{"core", "no core dump: its memory is its client's"}, leave_no_core},
    {{"oom", "no priority for memory: it is killed first"}, be_expendable},
    {{"cgroup", "limits on host memory and threads, and one worker's part of the processors (cgroup v2)"},
     elsewhere,
     false},
    {{"network", "no network (a namespace that only its bridge's other workers see)"}, elsewhere, false},
    {{"ipc", "no System V objects and POSIX queues except its bridge's workers' (a namespace)"}, elsewhere, false},
    {{"mounts", "no files of the host except those that its driver needs, read-only: a root of its own (a namespace)"},
     elsewhere,
     false},
    {{"privileges", "no new privileges by exec (setuid, file capabilities)"}, gain_no_privileges},
    {{"files", "no access to files except to read the system's and its driver's (Landlock)"}, restrict_files, false},
    {{"user", "a user that is neither its bridge's nor another VM's"}, become_user},
    {{"capabilities", "no capability, and no way to gain one"}, drop_capabilities},
    {{"dumpable", "no debugger of the same user, and no way to read its memory"}, hide_memory},
    {{"syscalls", "no system calls except those that its driver needs (seccomp)"}, elsewhere},
    {{"extents", "no way to map more of the region than its bridge has granted (seccomp's notification)"}, elsewhere},
    {{"bridge", "no access to other processes, the kernel, mounts or the network, for its bridge either (seccomp)"},
     elsewhere},
};

const About& about(Measure measure) { return table[static_cast<unsigned>(measure)].about; }

const Row& row(Measure measure) { return table[static_cast<unsigned>(measure)]; }

Failure enter(const Order& order, const std::string& library) {
    for (unsigned i = 0; i < measures; ++i)
        if (order.has(static_cast<Measure>(i)) && !table[i].take(order, library))
            return fmt::format("the cage's measure '{}' failed: {}", table[i].about.name, strerror(errno));
    return {};
}

}  // namespace barcuda::cage
