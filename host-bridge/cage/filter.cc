// SPDX-License-Identifier: Apache-2.0
// filter.cc: which system calls a worker may make once its driver is open, for all of its threads (seccomp). The
// software GPU is our own: its list is what it was seen to call, and each argument that matters is looked at; there
// is no way to open a file, to make a socket, to start a program, to signal anybody else or to make memory
// executable. NVIDIA's driver is not ours: it opens devices and libraries later too, so its list names what no driver
// can have a use for.
//
// A call that is not allowed ends the worker: the kernel sends SIGSYS instead of doing it, the worker notes the call's
// number where the bridge finds it, and leaves.
#include <fmt/format.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <fcntl.h>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "host-bridge/cage/filter.h"
#include "host-bridge/cage/measures.h"
#include "host-bridge/link.h"
#include "host-bridge/message.h"

namespace barcuda::cage {
namespace {

std::uint32_t* noted = nullptr;
pid_t worker = 0;  // a child that a driver forks has the filter, too

// What the C library asks in passing, and does without an answer.
bool asks_in_passing(const char* path) {
    return !std::strcmp(path, "/proc/sys/vm/overcommit_memory") ||
           !std::strcmp(path, "/sys/devices/system/cpu/online") || !std::strcmp(path, "/proc/stat");
}

void on_denied(int, siginfo_t* info, void* context) {
    greg_t* const r = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
    const char* const path = reinterpret_cast<const char*>(r[REG_RSI]);
    if (info->si_syscall == SYS_newfstatat && r[REG_R10] == AT_EMPTY_PATH && *path == 0) {  // fstat() of the C library
        const int before = errno;
        r[REG_RAX] = syscall(SYS_fstat, r[REG_RDI], r[REG_RDX]) == 0 ? 0 : -errno;
        errno = before;
        return;
    }
    if (info->si_syscall == SYS_openat && asks_in_passing(path)) {
        r[REG_RAX] = -ENOENT;
        return;
    }
    constexpr char own[] = "/proc/self/fd/";  // by this name a function that wants a path is given a file that is open
    if (info->si_syscall == SYS_openat && !std::strncmp(path, own, sizeof own - 1)) {
        const long file = syscall(SYS_fcntl, std::atoi(path + sizeof own - 1), F_DUPFD_CLOEXEC, 0);
        r[REG_RAX] = file < 0 ? -EBADF : file;
        return;
    }
    if (getpid() == worker && noted)
        __atomic_store_n(noted, static_cast<std::uint32_t>(info->si_syscall), __ATOMIC_RELEASE);
    _exit(1);
}

constexpr std::uint64_t namespace_flags[] = {CLONE_NEWNS,  CLONE_NEWUSER, CLONE_NEWPID,   CLONE_NEWNET,
                                             CLONE_NEWIPC, CLONE_NEWUTS,  CLONE_NEWCGROUP};

// A thread is made by clone: what clone3 is to do lies in memory, where no filter sees it. The C library is content
// with that.
void no_clone3(Filter& filter) { filter.add(SCMP_ACT_ERRNO(ENOSYS), {"clone3"}); }

// The region is there to be mapped. Nobody empties it, cuts it short or copies out of it.
void map_the_region_only(Filter& filter) {
    filter.deny({"read",     "readv",   "pread64",  "preadv",    "preadv2",   "write",  "writev",
                 "pwrite64", "pwritev", "pwritev2", "ftruncate", "fallocate", "dup",    "dup2",
                 "dup3",     "fcntl",   "ioctl",    "sendfile",  "fchmod",    "fchown", "fsetxattr"},
                {bits(0, ~0u, region_fd)});
}

// No thread but the mapper has it (mapper.h). The others neither stretch a mapping of it, nor fetch the mapper's
// descriptor, nor leave a process behind that has what they have mapped. A C library that cannot move memory copies it.
void keep_to_extents(Filter& filter) {
    filter.deny({"remap_file_pages", "pidfd_getfd"});
    filter.add(SCMP_ACT_ERRNO(ENOMEM), {"mremap"});
    filter.add(SCMP_ACT_ERRNO(EAGAIN), {"fork", "vfork"});
    filter.add(SCMP_ACT_ERRNO(EAGAIN), {"clone"}, {bits(0, CLONE_THREAD, 0)});
}

int guard_the_region(bool extents) {
    Filter f(SCMP_ACT_ALLOW);  // of two filters the stricter one counts
    extents ? keep_to_extents(f) : map_the_region_only(f);
    return f.load();
}
int allow_what_the_software_gpu_needs(bool extents, CodePlace code) {
    Filter f(SCMP_ACT_TRAP);
    allow_known(f, worker);
    // Pages of compiled kernels: executable, and no longer writable. One at a time: no filter adds an address and a length.
    if (code.size != 0)
        f.allow({"mprotect"},
                {bits(0, ~(std::uint64_t{code.size} - 1), code.base), is(1, 4096), is(2, PROT_READ | PROT_EXEC)});
    // The mapper's filter is its own, and is loaded after this one, which all threads have. Who loads another restricts
    // himself.
    if (extents) f.allow({"seccomp"}, {is(0, SECCOMP_SET_MODE_FILTER), is(1, SECCOMP_FILTER_FLAG_NEW_LISTENER)});
    return f.load();
}
// What neither a bridge nor a driver has a use for: other processes' memory, mounts, the kernel's own affairs.
void deny_what_nobody_needs(Filter& f, std::uint32_t action) {
    f.add(action, {"ptrace", "process_vm_readv", "process_vm_writev"});
    f.add(action, {"mount", "umount2", "pivot_root", "fsopen", "fsconfig", "fsmount", "fspick", "move_mount",
                   "open_tree", "mount_setattr", "open_by_handle_at", "quotactl", "swapon", "swapoff", "acct"});
    f.add(action, {"bpf",
                   "perf_event_open",
                   "userfaultfd",
                   "keyctl",
                   "add_key",
                   "request_key",
                   "io_uring_setup",
                   "io_uring_enter",
                   "io_uring_register",
                   "init_module",
                   "finit_module",
                   "delete_module",
                   "kexec_load",
                   "kexec_file_load",
                   "reboot",
                   "syslog",
                   "iopl",
                   "ioperm",
                   "modify_ldt",
                   "settimeofday",
                   "clock_settime",
                   "clock_adjtime",
                   "adjtimex",
                   "sethostname",
                   "setdomainname",
                   "vhangup",
                   "lookup_dcookie",
                   "nfsservctl",
                   "uselib"});
    // The network. UNIX sockets lead to NVIDIA's daemons and to systemd, netlink to the kernel.
    f.add(action, {"socket"}, {{0, SCMP_CMP_GT, AF_NETLINK, 0}});
    for (std::uint64_t family = AF_UNIX + 1; family < AF_NETLINK; ++family) f.add(action, {"socket"}, {is(0, family)});
}
int deny_what_no_driver_needs() {
    Filter f(SCMP_ACT_ALLOW);
    deny_what_nobody_needs(f, SCMP_ACT_TRAP);
    f.deny({"execve", "execveat", "personality"});  // other programs
    f.deny({"chroot", "unshare", "setns"});         // the view
    f.deny({"setuid", "setgid", "setreuid", "setregid", "setresuid", "setresgid", "setfsuid", "setfsgid", "setgroups",
            "capset"});  // who it is
    for (const std::uint64_t own : namespace_flags) f.deny({"clone"}, {bits(0, own, own)});
    no_clone3(f);
    f.deny({"rt_sigaction"}, {bits(0, ~0u, SIGSYS)});
    return f.load();
}

}  // namespace

std::vector<sock_filter> Filter::program() const {
    const File file(memfd_create("barcuda-filter", MFD_CLOEXEC));
    struct stat st {};
    if (const int failed = !file ? -errno : error_ ? error_ : seccomp_export_bpf(list_, file.fd()); failed) {
        errno = -failed;
        return {};
    }
    fstat(file.fd(), &st);
    std::vector<sock_filter> steps(static_cast<std::size_t>(st.st_size) / sizeof(sock_filter));
    if (pread(file.fd(), steps.data(), static_cast<std::size_t>(st.st_size), 0) != st.st_size) steps.clear();
    return steps;
}

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
    f.allow({"mmap", "mprotect"}, {bits(2, PROT_EXEC, 0)});
    std::uint64_t namespaces = 0;
    for (const std::uint64_t own : namespace_flags) namespaces |= own;
    f.allow({"clone"}, {bits(0, namespaces | CLONE_THREAD, CLONE_THREAD)});
    no_clone3(f);
    // Files that are open, or are memory. (fstat is asked as newfstatat, of a path: see on_denied.)
    f.allow({"read", "readv", "pread64", "write", "writev", "pwrite64", "lseek", "close", "fstat", "ftruncate",
             "fallocate", "memfd_create"});
    for (const std::uint64_t command : {F_GETFD, F_GETFL, F_GET_SEALS, F_ADD_SEALS, F_DUPFD_CLOEXEC})
        f.allow({"fcntl"}, {is(1, command)});
    f.allow({"ioctl"}, {is(1, TCGETS)});  // the log may be a terminal
    // The bridge is the only one to speak to.
    f.allow({"sendmsg", "recvmsg", "sendto", "recvfrom", "shutdown"}, {is(0, link_fd)});
    // To itself, to end (abort). Of others only whether they are there: who waits for another's event asks.
    f.allow({"tgkill"}, {is(0, static_cast<std::uint64_t>(process))});
    f.allow({"kill"}, {is(1, 0)});
    constexpr std::uint64_t cancel = 32, set_ids = 33;  // the C library's own, with the first thread
    for (const std::uint64_t signal : {std::uint64_t{SIGABRT}, cancel, set_ids})
        f.allow({"rt_sigaction"}, {is(0, signal)});
}

std::string close(const Order& order, std::uint32_t* denied, CodePlace code) {
    if (!order.has(Measure::syscalls)) {
        const int failed = order.record ? record() : 0;
        return failed ? fmt::format("system calls cannot be recorded: {}", strerror(-failed)) : "";
    }
    worker = getpid();
    noted = denied;
    struct sigaction action {};
    action.sa_sigaction = on_denied;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGSYS, &action, nullptr);
    const bool extents = order.has(Measure::extents);
    int result = guard_the_region(extents);
    if (result == 0)
        result = order.software ? allow_what_the_software_gpu_needs(extents, code) : deny_what_no_driver_needs();
    if (result == 0) return {};
    return fmt::format("the cage's measure '{}' failed: {}", about(Measure::syscalls).name, strerror(-result));
}

// A bridge lives: what it may not call fails, as for a user without the right to it.
std::string close_bridge(const Plan& plan) {
    if (!plan.order.has(Measure::bridge)) return {};
    Filter f(SCMP_ACT_ALLOW);
    deny_what_nobody_needs(f, SCMP_ACT_ERRNO(EPERM));
    const int result = f.load();
    if (result == 0) return {};
    return fmt::format("the cage's measure '{}' failed: {}", about(Measure::bridge).name, strerror(-result));
}

std::string denied(std::uint32_t call) {
    char* const name = seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, static_cast<int>(call));
    std::string text = fmt::format("called {}, which its cage denies ({})", name ? name : std::to_string(call),
                                   about(Measure::syscalls).name);
    std::free(name);
    return text;
}

}  // namespace barcuda::cage
