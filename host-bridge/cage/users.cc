// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/cage/users.h"

#include "host-bridge/cage/measures.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

namespace barcuda::cage {
namespace {

// Whether the number belongs to an account, to a service that systemd runs, or to a process: a worker of a killed
// bridge may still run.
bool is_in_use(uid_t number) {
    if (getpwuid(number) || getgrgid(number)) return true;
    if (access(fmt::format("/run/systemd/dynamic-uid/{}", number).c_str(), F_OK) == 0) return true;
    errno = 0;
    return getpriority(PRIO_USER, number) != -1 || errno != ESRCH;
}

bool make_folder(const std::string& path) {
    const std::string parent = path.substr(0, path.rfind('/'));
    if ((mkdir(parent.c_str(), 0755) != 0 && errno != EEXIST) || (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST))
        return false;
    struct stat st;
    if (lstat(path.c_str(), &st) != 0) return false;
    errno = EPERM;  // locks in another user's folder prove nothing
    return S_ISDIR(st.st_mode) && st.st_uid == geteuid() && !(st.st_mode & (S_IWGRP | S_IWOTH));
}

bool write_map(pid_t process, const char* file, const std::string& text) {
    const File map(open(fmt::format("/proc/{}/{}", process, file).c_str(), O_WRONLY | O_CLOEXEC));
    return map && write(map.fd(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

bool keep_capabilities(std::initializer_list<unsigned> kept) {
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    __user_cap_data_struct sets[2]{};
    for (const unsigned c : kept) {
        sets[0].effective |= 1u << c;
        sets[0].permitted |= 1u << c;
    }
    return syscall(SYS_capset, &header, sets) == 0;
}

// A child process of `user` makes the namespace, so that `user` owns it: the owner of a namespace has root's rights in
// it. The namespace has two users, its owner and `number`, with their groups; both have the same numbers inside and
// outside. Writing a map with a second user needs root's rights.
File make_space(uid_t user, uid_t number, const std::vector<gid_t>& groups) {
    int up[2], down[2];
    if (pipe2(up, O_CLOEXEC) != 0) return {};
    const File told(up[0]);
    File tell(up[1]);
    if (pipe2(down, O_CLOEXEC) != 0) return {};
    const File awaited(down[0]);
    File release(down[1]);
    const pid_t child = fork();
    if (child == 0) {
        release = File();
        int made = setresgid(groups[0], groups[0], groups[0]) == 0 && setresuid(user, user, user) == 0 &&
                           prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) == 0 && unshare(CLONE_NEWUSER) == 0 &&
                           prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) == 0
                       ? 0
                       : errno;
        if (write(tell.fd(), &made, sizeof made) < 0 || read(awaited.fd(), &made, 1) < 0) _exit(1);
        _exit(0);
    }
    tell = File();
    File space;
    int made = EAGAIN;
    if (child > 0 && read(told.fd(), &made, sizeof made) == sizeof made && made == 0) {
        std::string users = fmt::format("{0} {0} 1\n{1} {1} 1\n", user, number),
                    all = fmt::format("{0} {0} 1\n", number);
        for (const gid_t group : groups) all += fmt::format("{0} {0} 1\n", group);
        if (write_map(child, "gid_map", all) && write_map(child, "uid_map", users))
            space = File(open(fmt::format("/proc/{}/ns/user", child).c_str(), O_RDONLY | O_CLOEXEC));
        if (!space) made = errno;
    }
    release = File();
    if (child > 0) waitpid(child, nullptr, 0);
    errno = made;
    return space;
}

}  // namespace

Failure step_down(const std::string& name, std::shared_ptr<const OwnUser>& own) {
    const auto wrong = [&](const std::string& what) { return fmt::format("--user {}: {}", name, what); };
    const std::size_t colon = name.find(':');
    const passwd* const user = getpwnam(name.substr(0, colon).c_str());
    if (!user) return wrong("there is no such user");
    const uid_t number = user->pw_uid;
    if (geteuid() == number) return {};
    if (geteuid() != 0) return wrong("only root can become another user");
    std::vector<gid_t> groups(64);
    int count = static_cast<int>(groups.size());
    if (getgrouplist(user->pw_name, user->pw_gid, groups.data(), &count) < 0)
        return wrong("it is in more than 64 groups");
    groups.resize(static_cast<std::size_t>(count));
    if (colon != name.npos) {
        const group* const first = getgrnam(name.substr(colon + 1).c_str());
        if (!first) return wrong("there is no such group");
        std::erase(groups, first->gr_gid);
        groups.insert(groups.begin(), first->gr_gid);
    }
    const auto its = std::make_shared<OwnUser>();
    // The effective user, with the right to change it: so it owns the namespace and may map a second user.
    if (setgroups(groups.size(), groups.data()) != 0 || setresgid(groups[0], groups[0], groups[0]) != 0 ||
        prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) != 0 || setresuid(number, number, number) != 0 ||
        !keep_capabilities({CAP_SETUID, CAP_SETGID}))
        return wrong(strerror(errno));
    if (its->number_) {
        its->space_ = make_space(number, its->number_, groups);
        if (!its->space_) {
            its->error_ = fmt::format("a namespace of users: {}", strerror(errno));
            its->number_ = 0;
        }
    }
    prctl(PR_SET_KEEPCAPS, 0, 0, 0, 0);
    if (!keep_capabilities({})) return wrong(strerror(errno));
    prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);  // like a process that this user has started
    own = its;
    return {};
}

bool become_user(const Order& order, const std::string&) {
    if (geteuid() == order.user) return true;
    // while it still has root's right to do that
    if (order.has(Measure::capabilities) && !bound_capabilities()) return false;
    // By system calls: the C library's functions address all threads that it lists, and wait for one that is starting.
    // In a child of the bridge that list may name threads of the bridge (bridge/spawn.cc).
    const gid_t group = order.groups[0];
    return syscall(SYS_setgroups, order.group_count, order.groups.data()) == 0 &&
           syscall(SYS_setresgid, group, group, group) == 0 &&
           syscall(SYS_setresuid, order.user, order.user, order.user) == 0;
}

bool limit_data(pid_t worker, const Order& order, rlim_t bytes) {
    const auto limit = [&] {
        rlimit its;
        if (prlimit(worker, RLIMIT_DATA, nullptr, &its) != 0) return false;
        const rlim_t now = std::min(bytes, its.rlim_max);
        if (now == std::exchange(its.rlim_cur, now)) return true;
        return prlimit(worker, RLIMIT_DATA, &its, nullptr) == 0;
    };
    if (limit() || errno == ESRCH) return true;  // it has ended
    if (errno != EPERM || !order.has(Measure::user)) return false;
    const pid_t child = fork();
    if (child == 0) _exit(become_user(order) && limit() ? 0 : errno);
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child) return false;
    errno = WEXITSTATUS(status);
    return status == 0;
}

void give_groups(Order& order) {
    order.groups[0] = order.user;
    order.group_count = 1;
    std::error_code failed;
    for (const auto& entry : std::filesystem::directory_iterator("/dev", failed)) {
        struct stat st;
        if (!entry.path().filename().native().starts_with("nvidia") || stat(entry.path().c_str(), &st) != 0 ||
            !S_ISCHR(st.st_mode) || st.st_mode & S_IWOTH || !(st.st_mode & S_IWGRP) || st.st_gid == 0)
            continue;
        const auto end = order.groups.begin() + order.group_count;
        if (end != order.groups.end() && std::find(order.groups.begin(), end, st.st_gid) == end)
            order.groups[order.group_count++] = st.st_gid;
    }
}

OwnUser::OwnUser(const std::string& folder) {
    if (!make_folder(folder)) {
        error_ = fmt::format("{}: {}", folder, strerror(errno));
        return;
    }
    for (uid_t number = first_user; number <= last_user; ++number) {
        File lock(open(fmt::format("{}/{}", folder, number).c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
        if (!lock) {
            error_ = fmt::format("{}/{}: {}", folder, number, strerror(errno));
            return;
        }
        if (flock(lock.fd(), LOCK_EX | LOCK_NB) != 0 || is_in_use(number)) continue;
        number_ = number;
        lock_ = std::move(lock);
        return;
    }
    error_ = fmt::format("all users from {} to {} are taken", first_user, last_user);
}

}  // namespace barcuda::cage
