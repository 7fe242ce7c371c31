// SPDX-License-Identifier: Apache-2.0
// mounts.cc: the workers' namespace of mounts, one for all workers of a bridge. It is as the host's, but for /dev/shm: there
// NVIDIA's driver keeps what processes share (events between them), and there the regions of other VMs may lie. In the namespace it is
// an empty file system of the workers' own, which goes with the last of them.
#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "host-bridge/cage/measures.h"
#include "host-bridge/message.h"

namespace barcuda::cage {
namespace {

bool write_file(const char* path, const std::string& text) {
    const File file(open(path, O_WRONLY | O_CLOEXEC));
    return file && write(file.fd(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

// Users are the same inside: only so is there somebody there for files to belong to.
bool make_plain() {
    const uid_t user = geteuid();
    const gid_t group = getegid();
    return unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 && write_file("/proc/self/setgroups", "deny") &&
           write_file("/proc/self/uid_map", fmt::format("{} {} 1", user, user)) &&
           write_file("/proc/self/gid_map", fmt::format("{} {} 1", group, group));
}

int prepare() {
    if (mount(nullptr, "/", nullptr, MS_REC | MS_SLAVE, nullptr) != 0)
        return errno;  // what is unmounted outside goes here, too
    return mount("barcuda", shared_files, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=1777,size=64m") == 0 ? 0
                                                                                                                : errno;
}

}  // namespace

// A child makes the namespace, and stays until the bridge holds it by a descriptor. A plain user may make one in a user namespace
// alone, which is joined first.
int Mounts::make() {
    int up[2], down[2];
    if (pipe2(up, O_CLOEXEC) != 0) return errno;
    const File told(up[0]);
    File tell(up[1]);
    if (pipe2(down, O_CLOEXEC) != 0) return errno;
    const File awaited(down[0]);
    File release(down[1]);
    const pid_t child = fork();
    if (child < 0) return errno;
    if (child == 0) {
        release = File();
        const bool plain = unshare(CLONE_NEWNS) != 0;
        const int failed[] = {plain && !make_plain() ? errno : prepare(), plain};
        char nothing;
        if (write(tell.fd(), failed, sizeof failed) < 0 || read(awaited.fd(), &nothing, 1) < 0) _exit(1);
        _exit(0);
    }
    tell = File();
    int failed[] = {EPIPE, 0};
    int error = read(told.fd(), failed, sizeof failed) == sizeof failed ? failed[0] : EPIPE;
    const auto of_child = [&](const char* what, int how) {
        File file(open(fmt::format("/proc/{}/{}", child, what).c_str(), how | O_CLOEXEC));
        if (!file && !error) error = errno;
        return file;
    };
    if (!error) mounts_ = of_child("ns/mnt", O_RDONLY), root_ = of_child("root", O_PATH);
    if (!error && failed[1]) users_ = of_child("ns/user", O_RDONLY);
    release = File();
    waitpid(child, nullptr, 0);
    return error;
}

bool Mounts::join() const {
    // Who joins is at the root of all, where a bridge under chroot never was.
    const File folder(open(".", O_PATH | O_DIRECTORY | O_CLOEXEC));
    return (!users_ || setns(users_.fd(), CLONE_NEWUSER) == 0) && setns(mounts_.fd(), CLONE_NEWNS) == 0 &&
           fchdir(root_.fd()) == 0 && chroot(".") == 0 && (!folder || fchdir(folder.fd()) == 0);
}

}  // namespace barcuda::cage
