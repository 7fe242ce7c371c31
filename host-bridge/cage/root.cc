// SPDX-License-Identifier: Apache-2.0
// root.cc: the workers' root: an empty file system into which the files that a driver needs are mounted read-only
// (files.h). It has no /run, /tmp, /home or /dev/shm of the host, so no region, socket or file of any user: a worker
// cannot open, connect to or change what has no name. Where the kernel allows it, /proc shows a worker only itself.
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <utility>

#include "base/message.h"
#include "host-bridge/cage/files.h"
#include "host-bridge/cage/measures.h"

namespace barcuda::cage {
namespace {

constexpr unsigned long quiet = MS_NOSUID | MS_NODEV | MS_NOEXEC;

// Restricts a mount and, if the kernel can (Linux 5.12), all mounts below it.
bool restrict_mount(const std::string& path, unsigned long flags) {
    // flags of mount_setattr(2)
    constexpr std::uint64_t read_only = 1, no_setuid = 2, no_devices = 4, no_programs = 8;
    struct {
        std::uint64_t set, clear, propagation, users;
    } attributes{(flags & MS_RDONLY ? read_only : 0) | (flags & MS_NOSUID ? no_setuid : 0) |
                     (flags & MS_NODEV ? no_devices : 0) | (flags & MS_NOEXEC ? no_programs : 0),
                 0, 0, 0};
    constexpr int recursive = 0x8000;
    if (syscall(SYS_mount_setattr, AT_FDCWD, path.c_str(), recursive, &attributes, sizeof attributes) == 0) return true;
    struct statvfs has;
    if (errno != ENOSYS || statvfs(path.c_str(), &has) != 0) return false;
    constexpr unsigned long kept =
        MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_NOATIME | MS_NODIRATIME | MS_RELATIME;
    return mount(nullptr, path.c_str(), nullptr, MS_REMOUNT | MS_BIND | flags | (has.f_flag & kept), nullptr) == 0;
}

bool same(const std::string& path, int fd) {
    struct stat here, there;
    return stat(path.c_str(), &here) == 0 && fstat(fd, &there) == 0 && here.st_dev == there.st_dev &&
           here.st_ino == there.st_ino;
}

class Root {
  public:
    // Opens the file before the new root hides the old one.
    void show(const std::string& path, Access access, int links = 0) {
        constexpr int most_links = 40;
        namespace fs = std::filesystem;
        std::error_code failed;
        fs::path at = "/";
        for (const auto& part : fs::path(path).lexically_normal().relative_path()) {
            if (part.empty()) continue;
            at /= part;
            if (!fs::is_symlink(at, failed)) continue;
            const fs::path to = fs::read_symlink(at, failed);
            if (failed || links == most_links) return;
            places_.push_back({at, to, File(), access});
            const fs::path rest = fs::path(path).lexically_normal().lexically_relative(at);
            return show((at.parent_path() / to / (rest == "." ? "" : rest)).lexically_normal(), access, links + 1);
        }
        File file(open(at.c_str(), O_PATH | O_CLOEXEC));
        if (file || access == Access::change_own) places_.push_back({at, {}, std::move(file), access});
    }

    int enter() {
        show("/proc", Access::change);
        File proc(places_.back().file.release());
        places_.pop_back();
        umask(022);
        if (mount(nullptr, "/", nullptr, MS_REC | MS_SLAVE, nullptr) != 0)
            return errno;  // what was mounted outside appears here, too
        // Any existing folder will do; the files in it that are needed are open already.
        for (const char* folder : {"/tmp", "/mnt", "/run"})
            if (at_.empty() && mount("barcuda", folder, "tmpfs", quiet, "mode=755,size=4m") == 0) at_ = folder;
        if (at_.empty()) return errno;
        if (!share() || !make_proc(proc.fd())) return errno;
        for (const Place& place : places_)  // some of them may be in the host's shared folder
            if (!make(place)) return errno;
        // The old root below has no name from here, and a process in a cage may not change roots. (Unmounting it as
        // well would make each start of a bridge wait for the whole kernel.)
        if (mount(nullptr, at_.c_str(), nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY | quiet, nullptr) != 0) return errno;
        return chroot(at_.c_str()) == 0 && chdir("/") == 0 ? 0 : errno;
    }

  private:
    struct Place {
        std::string path, link;  // link: what it is a link to; empty: it is mounted
        File file;
        Access access;
    };
    std::string in_new(const std::string& path) const { return at_ + path; }
    bool mount_memory(const std::string& path, const char* how) const {
        std::error_code failed;
        std::filesystem::create_directories(in_new(path), failed);
        return mount("barcuda", in_new(path).c_str(), "tmpfs", quiet, how) == 0;
    }
    // Where processes share memory by name; only for the workers of one bridge.
    bool share() const { return mount_memory(shared_files, "mode=1777,size=64m"); }

    static bool mount_here(int source, const std::string& path, bool folder) {
        std::error_code failed;
        if (folder) std::filesystem::create_directories(path, failed);
        else if (access(path.c_str(), F_OK) != 0) File(open(path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0444));
        const std::string from = "/proc/self/fd/" + std::to_string(source);
        return mount(from.c_str(), path.c_str(), nullptr, MS_BIND | MS_REC, nullptr) == 0;
    }
    bool make(const Place& place) const {
        std::error_code failed;
        const std::string path = in_new(place.path);
        std::filesystem::create_directories(std::filesystem::path(path).parent_path(), failed);
        if (!place.link.empty())
            return symlink(place.link.c_str(), path.c_str()) == 0 || errno == EEXIST || errno == EROFS;
        if (place.access == Access::change_own) {
            mount_memory(place.path, "mode=1777,size=256m");
            return true;
        }
        if (place.access == Access::read && same(path, place.file.fd())) return true;
        struct stat st;
        if (fstat(place.file.fd(), &st) != 0 || !mount_here(place.file.fd(), path, S_ISDIR(st.st_mode))) return false;
        // A device on a read-only mount can be written to; its node cannot be changed.
        return restrict_mount(path, place.access == Access::change ? quiet
                                    : place.access == Access::use  ? MS_RDONLY | MS_NOSUID | MS_NOEXEC
                                                                   : MS_RDONLY | MS_NOSUID | MS_NODEV);
    }
    // A new one that shows only this process, if workers are in no namespace of users (Linux 5.8). Otherwise the
    // host's, in which a process can write only its own entries.
    bool make_proc(int hosts) const {
        const std::string path = in_new("/proc");
        std::error_code failed;
        std::filesystem::create_directories(path, failed);
        if (mount("proc", path.c_str(), "proc", quiet, "hidepid=invisible") != 0 &&
            (!mount_here(hosts, path, true) || !restrict_mount(path, quiet)))
            return false;
        for (const char* part : {"/sys", "/sysrq-trigger", "/irq", "/bus", "/driver"}) {
            const std::string its = path + part;
            if (access(its.c_str(), F_OK) == 0 &&
                (mount(its.c_str(), its.c_str(), nullptr, MS_BIND | MS_REC, nullptr) != 0 ||
                 !restrict_mount(its, MS_RDONLY | quiet)))
                return false;
        }
        return true;
    }

    std::string at_;
    std::vector<Place> places_;
};

}  // namespace

int enter_new_root(const Order& order, const std::string& library) {
    Root root;
    for (const Shown& file : shown_files(order, library)) root.show(file.path, file.access);
    for (const std::string& file : mapped_files()) root.show(file, Access::read);
    return root.enter();
}

}  // namespace barcuda::cage
