// SPDX-License-Identifier: Apache-2.0
// calls.cc: the lists of system calls. Each driver has a list of the calls that its worker may make after the driver is
// open; everything else is denied. Arguments are checked where they matter: no list lets a worker reach another
// process, change what files are to other users, connect to another process, or start a program.
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <iterator>
#include <sstream>

#include "host-bridge/between/link.h"
#include "host-bridge/cage/filter.h"
#include "host-bridge/cage/measures.h"

namespace barcuda::cage {
namespace {

constexpr std::uint64_t namespaces =
    CLONE_NEWNS | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP;

constexpr const char* no_process_needs[] = {
    // other processes' memory
    "ptrace", "process_vm_readv", "process_vm_writev",
    // mounts
    "mount", "umount2", "pivot_root", "fsopen", "fsconfig", "fsmount", "fspick", "move_mount", "open_tree",
    "mount_setattr", "open_by_handle_at", "quotactl", "quotactl_fd", "swapon", "swapoff", "acct",
    // administration of the kernel
    "bpf", "perf_event_open", "userfaultfd", "keyctl", "add_key", "request_key", "io_uring_setup", "io_uring_enter",
    "io_uring_register", "init_module", "finit_module", "delete_module", "kexec_load", "kexec_file_load", "reboot",
    "syslog", "iopl", "ioperm", "modify_ldt", "settimeofday", "clock_settime", "clock_adjtime", "adjtimex",
    "sethostname", "setdomainname", "vhangup", "lookup_dcookie", "nfsservctl", "uselib", "fanotify_init"};
constexpr const char* no_driver_needs[] = {"execve",
                                           "execveat",
                                           "personality",
                                           "chroot",
                                           "unshare",
                                           "setns",  // other programs; what the worker sees
                                           "setuid",
                                           "setgid",
                                           "setreuid",
                                           "setregid",
                                           "setresuid",
                                           "setresgid",
                                           "setfsuid",
                                           "setfsgid",
                                           "setgroups",
                                           "capset",  // the worker's identity
                                           "pidfd_open",
                                           "pidfd_send_signal",
                                           "kill",
                                           "tkill",
                                           "tgkill",
                                           "rt_sigqueueinfo",
                                           "rt_tgsigqueueinfo",
                                           "pidfd_getfd",
                                           "process_madvise",
                                           "kcmp",
                                           "name_to_handle_at",  // other processes
                                           "remap_file_pages",
                                           "rt_sigaction",
                                           "seccomp"};  // what the worker is given, and what it is denied

// A thread is made by clone: clone3 takes its arguments in memory, where no filter sees them. The C library then falls
// back to clone.
void allow_threads(Filter& f) {
    f.allow({"clone"}, {bits(0, namespaces | CLONE_THREAD, CLONE_THREAD)});
    f.add(SCMP_ACT_ERRNO(ENOSYS), {"clone3"});
}

// NVIDIA's devices, by the numbers of their requests; not terminals (TIOCSTI), sockets or seccomp's listeners.
void allow_devices(Filter& f) {
    constexpr std::uint64_t type = 0xff00;
    f.allow({"ioctl"}, {bits(1, type, 'F' << 8)});     // nvidiactl, nvidia0: the resource manager
    f.allow({"ioctl"}, {bits(1, type, 'G' << 8)});     // dxg: a GPU under WSL
    f.allow({"ioctl"}, {bits(1, 0xffffff00, 0)});      // nvidia-uvm numbers its requests from 0,
    f.allow({"ioctl"}, {bits(1, ~0xfu, 0x30000000)});  // except its first and last
    for (const std::uint64_t of_any_file : {FIOCLEX, FIONCLEX, FIONBIO, FIONREAD})
        f.allow({"ioctl"}, {bits(1, ~0u, of_any_file)});
}

// These calls reach only the files that 'mounts' and 'files' show: a cache of code, and memory that processes share by
// name.
void allow_files(Filter& f, const Order& order) {
    f.allow({"open",      "openat",     "stat",      "lstat",      "newfstatat", "statx",      "access",
             "faccessat", "faccessat2", "readlink",  "readlinkat", "getdents",   "getdents64", "getcwd",
             "statfs",    "fstatfs",    "fsync",     "fdatasync",  "flock",      "preadv",     "preadv2",
             "pwritev",   "pwritev2",   "fadvise64", "readahead",  "umask",      "close_range"});
    const std::initializer_list<const char*> cache = {"mkdir",  "mkdirat",  "unlink", "unlinkat",
                                                      "rename", "renameat", "rmdir"};
    const auto refuse =
        [&](std::initializer_list<const char*> names) {  // the driver continues without them, and nothing is logged
            for (const char* name : names)
                if (!order.allows(seccomp_syscall_resolve_name(name))) f.add(SCMP_ACT_ERRNO(EPERM), {name});
        };
    if (order.has(Measure::mounts) || order.has(Measure::files) || order.has(Measure::user)) f.allow(cache);
    else refuse(cache);
    refuse({"symlink", "symlinkat"});  // seen with 580.159
}

}  // namespace

void allow_known(Filter& f, pid_t process) {
    f.allow({"futex",
             "sched_yield",
             "clock_nanosleep",
             "nanosleep",
             "clock_gettime",
             "gettimeofday",
             "clock_getres",
             "restart_syscall",
             "getpid",
             "gettid",
             "sched_getaffinity",
             "mbind",
             "get_mempolicy",
             "set_mempolicy",  // on a host of several nodes

             "membarrier",
             "rseq",
             "set_robust_list",
             "rt_sigprocmask",
             "rt_sigreturn",
             "sigaltstack",
             "brk",
             "munmap",
             "mremap",
             "madvise",
             "getrandom",
             "exit",
             "exit_group",
             "poll",
             "ppoll",
             "getrusage",
             "sysinfo"});
    // Huge pages belong to the host and count against no worker.
    f.allow({"mmap"}, {bits(2, PROT_EXEC, 0), bits(3, MAP_HUGETLB, 0)});
    f.allow({"mprotect"}, {bits(2, PROT_EXEC, 0)});
    f.allow({"memfd_create"}, {bits(1, MFD_HUGETLB, 0)});
    allow_threads(f);
    // Files that are open, or are memory. (fstat arrives as newfstatat with a path: see on_denied.)
    f.allow({"read", "readv", "pread64", "write", "writev", "pwrite64", "lseek", "close", "fstat", "ftruncate",
             "fallocate"});
    for (const std::uint64_t command : {F_GETFD, F_GETFL, F_GET_SEALS, F_ADD_SEALS, F_DUPFD_CLOEXEC})
        f.allow({"fcntl"}, {is(1, command)});
    f.allow({"ioctl"}, {is(1, TCGETS)});  // the log may be a terminal
    // The bridge is the only peer.
    f.allow({"sendmsg", "recvmsg", "sendto", "recvfrom", "shutdown"}, {is(0, link_fd)});
    // Signals to the worker itself, to end it (abort). Of other processes it may only ask if they exist: a worker that
    // waits for another's event asks.
    f.allow({"tgkill"}, {is(0, static_cast<std::uint64_t>(process))});
    f.allow({"kill"}, {is(1, 0)});
    constexpr std::uint64_t cancel = 32, set_ids = 33;  // used by the C library, with the first thread
    for (const std::uint64_t signal : {std::uint64_t{SIGABRT}, cancel, set_ids})
        f.allow({"rt_sigaction"}, {is(0, signal)});
}

void allow_driver(Filter& f, const Order& order, pid_t process) {
    allow_known(f, process);
    f.allow({"mmap"}, {bits(3, MAP_HUGETLB, 0)});
    f.allow({"mprotect", "msync", "mincore"});
    allow_files(f, order);
    allow_devices(f);
    f.allow({"dup", "dup2", "dup3", "pipe", "pipe2", "eventfd2", "epoll_create1", "epoll_ctl", "epoll_wait",
             "epoll_pwait", "select", "pselect6", "timerfd_create", "timerfd_settime", "timerfd_gettime"});
    // Not F_SETOWN, which makes the kernel send signals.
    for (const std::uint64_t command :
         {F_SETFD, F_SETFL, F_DUPFD, F_GETLK, F_SETLK, F_SETLKW, F_OFD_GETLK, F_OFD_SETLK, F_OFD_SETLKW})
        f.allow({"fcntl"}, {is(1, command)});
    // Its identity, place and limits. None of these calls names another process.
    f.allow({"getuid",
             "geteuid",
             "getgid",
             "getegid",
             "getgroups",
             "getresuid",
             "getresgid",
             "getppid",
             "getpgrp",
             "uname",
             "times",
             "time",
             "getcpu",
             "sched_get_priority_min",
             "sched_get_priority_max",
             "rt_sigpending",
             "rt_sigtimedwait",
             "pause",
             "alarm",
             "getrlimit"});
    f.allow({"prlimit64"}, {is(0, 0), is(2, 0)});  // read its own limits
    for (const std::uint64_t self : {std::uint64_t{0}, static_cast<std::uint64_t>(process)})
        f.allow({"sched_setaffinity", "sched_getparam", "sched_getscheduler", "getpgid", "getsid", "move_pages"},
                {is(0, self)});
    for (const std::uint64_t what : {PR_SET_NAME, PR_GET_NAME, PR_GET_DUMPABLE, PR_SET_TIMERSLACK, PR_GET_TIMERSLACK,
                                     0x53564d41 /* PR_SET_VMA: the name of a mapping */})
        f.allow({"prctl"}, {is(0, what)});
    f.allow({"rt_sigaction"});  // except SIGSYS's
    // The C library reports that it cannot make a process.
    for (const char* const process_maker : {"fork", "vfork"}) f.add(SCMP_ACT_ERRNO(EAGAIN), {process_maker});
    f.add(SCMP_ACT_ERRNO(EAGAIN), {"clone"}, {bits(0, namespaces | CLONE_THREAD, 0)});
    if (order.has(Measure::extents))  // the mapper's own filter (mapper.h), which can only restrict
        f.allow({"seccomp"}, {is(0, SECCOMP_SET_MODE_FILTER), is(1, SECCOMP_FILTER_FLAG_NEW_LISTENER)});
    allow_named(f, order);
}

void allow_named(Filter& f, const Order& order) {
    for (unsigned i = 0; i < order.allowed_count; ++i) f.add(SCMP_ACT_ALLOW, order.allowed[i]);
}

void deny_to_every_process(Filter& f, std::uint32_t action, const Order& order) {
    for (const char* name : no_process_needs)
        if (!order.allows(seccomp_syscall_resolve_name(name))) f.add(action, {name});
    // The network. UNIX sockets reach systemd, netlink the kernel.
    f.add(action, {"socket"}, {{0, SCMP_CMP_GT, AF_NETLINK, 0}});
    for (std::uint64_t family = AF_UNIX + 1; family < AF_NETLINK; ++family) f.add(action, {"socket"}, {is(0, family)});
}

bool ends_a_worker(int call) {
    const auto named = [call](const char* name) { return seccomp_syscall_resolve_name(name) == call; };
    return std::ranges::any_of(no_process_needs, named) || std::ranges::any_of(no_driver_needs, named);
}

Failure allow_calls(const std::string& names, Order& order) {
    std::istringstream in(names);
    for (std::string name; std::getline(in, name, ',');) {
        const int call = seccomp_syscall_resolve_name(name.c_str());
        if (call < 0) return fmt::format("'{}' is not a system call of this machine", name);
        if (order.allowed_count == order.allowed.size())
            return fmt::format("more than {} system calls are too many: use --no-cage syscalls, which denies none",
                               order.allowed.size());
        order.allowed[order.allowed_count++] = call;
    }
    return {};
}

}  // namespace barcuda::cage
