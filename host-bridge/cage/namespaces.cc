// SPDX-License-Identifier: Apache-2.0
// namespaces.cc: the workers' namespaces: network, System V objects and mounts, one of each for all workers of a
// bridge. (With one for each worker the kernel would have more to make and, above all, to take down, and meanwhile the
// end of a GPU's driver takes a third longer.) In them there is no network, no object but the workers', and only those
// files of the host that a driver needs (root.cc).
#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/message.h"
#include "host-bridge/cage/files.h"
#include "host-bridge/cage/measures.h"

namespace barcuda::cage {
namespace {

struct Kind {
    Measure measure;
    int flag;
    const char* file;  // in /proc/PID
};
constexpr Kind kinds[] = {{Measure::network, CLONE_NEWNET, "ns/net"},
                          {Measure::ipc, CLONE_NEWIPC, "ns/ipc"},
                          {Measure::mounts, CLONE_NEWNS, "ns/mnt"}};
constexpr std::size_t count = std::size(kinds);
static_assert(count == Namespaces::kinds);

bool write_file(const char* path, const std::string& text) {
    const File file(open(path, O_WRONLY | O_CLOEXEC));
    return file && write(file.fd(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

// Users have the same numbers inside, because files need an existing owner.
bool leave_users() {
    const uid_t user = geteuid();
    const gid_t group = getegid();
    return unshare(CLONE_NEWUSER) == 0 && write_file("/proc/self/setgroups", "deny") &&
           write_file("/proc/self/uid_map", fmt::format("{} {} 1", user, user)) &&
           write_file("/proc/self/gid_map", fmt::format("{} {} 1", group, group));
}

struct Made {
    bool users = false;  // in a new namespace of users, too
    int errors[count]{};
};
// In a child process. An ordinary user may make namespaces only inside a namespace of users, in which no other user
// exists.
Made make_here(const Order& order, const std::string& library, int users) {
    Made made;
    if (users >= 0) {
        made.users = setns(users, CLONE_NEWUSER) == 0;
        if (!made.users) {
            std::ranges::fill(made.errors, errno);
            return made;
        }
    }
    for (std::size_t i = 0; i < count; ++i) {
        if (!order.has(kinds[i].measure)) continue;
        bool there = unshare(kinds[i].flag) == 0;
        if (!there && errno == EPERM && !made.users && !order.has(Measure::user) && leave_users()) {
            made.users = true;
            there = unshare(kinds[i].flag) == 0;
        }
        made.errors[i] = !there ? errno : kinds[i].measure == Measure::mounts ? enter_new_root(order, library) : 0;
    }
    return made;
}

}  // namespace

// A child process makes the namespaces, and stays until the bridge has descriptors of them.
void Namespaces::make(const Order& order, const std::string& library, int users) {
    int up[2], down[2];
    const auto fail = [&](int why) { errors_.fill(why); };
    if (pipe2(up, O_CLOEXEC) != 0) return fail(errno);
    const File told(up[0]);
    File tell(up[1]);
    if (pipe2(down, O_CLOEXEC) != 0) return fail(errno);
    const File awaited(down[0]);
    File release(down[1]);
    const pid_t child = fork();
    if (child < 0) return fail(errno);
    if (child == 0) {
        release = File();
        const Made made = make_here(order, library, users);
        char nothing;
        if (write(tell.fd(), &made, sizeof made) < 0 || read(awaited.fd(), &nothing, 1) < 0) _exit(1);
        _exit(0);
    }
    tell = File();
    Made made;
    if (read(told.fd(), &made, sizeof made) != sizeof made) fail(EPIPE);
    else
        for (std::size_t i = 0; i < count; ++i) errors_[i] = made.errors[i];
    const auto of_child = [&](const char* what, int how, int& error) {
        File file(open(fmt::format("/proc/{}/{}", child, what).c_str(), how | O_CLOEXEC));
        if (!file && error == 0) error = errno;
        return file;
    };
    for (std::size_t i = 0; i < count; ++i) {
        if (!order.has(cage::kinds[i].measure) || errors_[i] != 0) continue;
        files_[i] = of_child(cage::kinds[i].file, O_RDONLY, errors_[i]);
        if (cage::kinds[i].measure == Measure::mounts) root_ = of_child("root", O_PATH, errors_[i]);
        if (made.users && !users_) users_ = of_child("ns/user", O_RDONLY, errors_[i]);
    }
    if (users >= 0 && !users_) users_ = File(fcntl(users, F_DUPFD_CLOEXEC, 0));
    release = File();
    waitpid(child, nullptr, 0);
}

bool Namespaces::any_in(const Order& order) {
    return std::ranges::any_of(cage::kinds, [&](const Kind& kind) { return order.has(kind.measure); });
}

int Namespaces::error(Measure measure) const {
    for (std::size_t i = 0; i < count; ++i)
        if (cage::kinds[i].measure == measure) return errors_[i];
    return 0;
}

bool Namespaces::join(const Order& order, const std::function<void(Measure)>& failed) const {
    const bool users = !users_ || setns(users_.fd(), CLONE_NEWUSER) == 0;
    bool well = users;
    for (std::size_t i = 0; i < count; ++i) {
        const Measure measure = cage::kinds[i].measure;
        if (!order.has(measure) || (users && enter(i))) continue;
        well = false;
        if (!failed) break;
        failed(measure);
    }
    return well;
}

bool Namespaces::enter(std::size_t kind) const {
    return setns(files_[kind].fd(), cage::kinds[kind].flag) == 0 &&
           (cage::kinds[kind].measure != Measure::mounts || (fchdir(root_.fd()) == 0 && chroot(".") == 0));
}

}  // namespace barcuda::cage
