// SPDX-License-Identifier: Apache-2.0
// filter.cc: which system calls a worker may make after its driver is open, for all of its threads (seccomp). The
// software GPU is our own: its list has the calls that it was seen to make, and each argument that matters is checked.
// It has no way to open a file, make a socket, start a program, signal another process or make memory executable.
// NVIDIA's driver is not ours: it opens devices and libraries later too. Its list has the calls that its versions were
// seen to make, and similar ones. (The lists: calls.cc.)
//
// A call that is not allowed ends the worker: the kernel sends SIGSYS and does not execute the call, the worker stores
// the call's number for the bridge and exits. A call of NVIDIA's driver that is in no list at all, or that would change
// a descriptor of the bridge's, fails instead.
#include <fmt/format.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <fcntl.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "base/message.h"
#include "host-bridge/between/link.h"
#include "host-bridge/cage/filter.h"
#include "host-bridge/cage/measures.h"

namespace barcuda::cage {
namespace {

std::uint32_t* noted = nullptr;
pid_t worker = 0;  // to tell it from children that a driver forks, which have the filter, too

// What the C library asks for but can do without.
bool asks_in_passing(const char* path) {
    return !std::strcmp(path, "/proc/sys/vm/overcommit_memory") ||
           !std::strcmp(path, "/sys/devices/system/cpu/online") || !std::strcmp(path, "/proc/stat");
}

// The descriptors that the bridge has given, except the region's, have these numbers for as long as the worker lives
// (vacate in worker.cc). Of some of them the bridge and other workers have the same open file: O_NONBLOCK, once
// taken off a pipe or a doorbell, would make them wait. A copy would have another number.
bool is_given(greg_t file) { return static_cast<int>(file) >= link_fd && static_cast<int>(file) <= soft_card_fd; }
constexpr int changes_of_files[] = {SYS_dup, SYS_dup2, SYS_dup3, SYS_fcntl, SYS_ioctl, SYS_ftruncate, SYS_fallocate};

// The list for NVIDIA's driver has the calls that its versions were seen to make, and those that a next one may make. A
// call in no list does not end the worker: the call fails, and the log tells the operator how to allow it.
class Unknown {
  public:
    void prepare() {
        for (int call = 0; call < most; ++call)
            names_[call] = ends_a_worker(call) ? nullptr : seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, call);
    }
    // In a signal handler. False: this call ends the worker.
    bool refuse(int call, greg_t* r) {
        if (call < 0 || call >= most || !names_[call]) return false;
        if (static_cast<int>(r[REG_RDI]) == region_fd)
            return false;                       // denied by the two other filters (map_the_region_only, mapper.h)
        constexpr int newest_generation = 424;  // C libraries have fallbacks for calls from here on
        r[REG_RAX] = call < newest_generation ? -EPERM : -ENOSYS;
        // Denied by leave_given_files_as_they_are: a driver may go over all numbers.
        const bool given =
            std::ranges::find(changes_of_files, call) != std::end(changes_of_files) && is_given(r[REG_RDI]);
        std::atomic<bool>& told = given ? told_of_given_ : told_[call];
        if (told.exchange(true)) return true;
        char text[256];
        const auto end =
            given ? fmt::format_to_n(text, sizeof text,
                                     "the driver called {} ({}, {:#x}) for a descriptor of its bridge's, and was "
                                     "refused\n",
                                     names_[call], r[REG_RDI], r[REG_RSI])
                  : fmt::format_to_n(text, sizeof text,
                                     "the driver called {} ({:#x}, {:#x}), which its cage does not know, and was "
                                     "refused: if a program fails because of it, start its bridge with --allow-call "
                                     "{}, and report it\n",
                                     names_[call], r[REG_RDI], r[REG_RSI], names_[call]);
        if (write(log_fd, text, std::min(end.size, sizeof text)) < 0) return true;
        return true;
    }

  private:
    static constexpr int most = 512;
    const char* names_[most]{};
    std::atomic<bool> told_[most]{};
    std::atomic<bool> told_of_given_{};
} unknown;

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
    constexpr char own[] = "/proc/self/fd/";  // a function that takes a path gets an open file by this name
    if (info->si_syscall == SYS_openat && !std::strncmp(path, own, sizeof own - 1)) {
        const long file = syscall(SYS_fcntl, std::atoi(path + sizeof own - 1), F_DUPFD_CLOEXEC, 0);
        r[REG_RAX] = file < 0 ? -EBADF : file;
        return;
    }
    if (unknown.refuse(info->si_syscall, r)) return;
    if (getpid() == worker && noted)
        __atomic_store_n(noted, static_cast<std::uint32_t>(info->si_syscall), __ATOMIC_RELEASE);
    _exit(1);
}

// The region is there to be mapped. A worker must not write to its file, truncate it or copy from it.
void map_the_region_only(Filter& filter) {
    filter.deny({"read",     "readv",   "pread64",  "preadv",    "preadv2",   "write",  "writev",
                 "pwrite64", "pwritev", "pwritev2", "ftruncate", "fallocate", "dup",    "dup2",
                 "dup3",     "fcntl",   "ioctl",    "sendfile",  "fchmod",    "fchown", "fsetxattr"},
                {bits(0, ~0u, region_fd)});
}

// Only the mapper has the region (mapper.h). The other threads cannot stretch a mapping of it, fetch the mapper's
// descriptor, or leave a process behind that inherits their mappings. A C library whose mremap fails copies instead.
void keep_to_extents(Filter& filter) {
    filter.deny({"remap_file_pages", "pidfd_getfd"});
    filter.add(SCMP_ACT_ERRNO(ENOMEM), {"mremap"});
    filter.add(SCMP_ACT_ERRNO(EAGAIN), {"fork", "vfork"});
    filter.add(SCMP_ACT_ERRNO(EAGAIN), {"clone"}, {bits(0, CLONE_THREAD, 0)});
}

void leave_given_files_as_they_are(Filter& filter) {
    // F_GETFD, F_SETFD and F_GETFL, which lie between the two, change nothing of the open file.
    static_assert(F_DUPFD == 0 && F_GETFD == 1 && F_SETFD == 2 && F_GETFL == 3 && F_SETFL == 4);
    const scmp_arg_cmp changes[] = {is(1, F_DUPFD), {1, SCMP_CMP_GE, F_SETFL, 0}};
    for (int file = link_fd; file <= soft_card_fd; ++file) {
        const scmp_arg_cmp its = bits(0, ~0u, static_cast<std::uint64_t>(file));
        for (const int call : changes_of_files)
            if (call != SYS_fcntl) filter.deny(call, {its});
        for (const scmp_arg_cmp& change : changes) filter.deny(SYS_fcntl, {its, change});
    }
}

int guard_what_is_given(bool extents) {
    Filter f(SCMP_ACT_ALLOW);  // if two filters disagree, the stricter one wins
    extents ? keep_to_extents(f) : map_the_region_only(f);
    leave_given_files_as_they_are(f);
    f.deny({"rt_sigaction"}, {bits(0, ~0u, SIGSYS)});
    return f.load();
}
int allow_what_the_software_gpu_needs(const Order& order, CodePlace code) {
    Filter f(SCMP_ACT_TRAP);
    allow_known(f, worker);
    allow_named(f, order);
    const bool extents = order.has(Measure::extents);
    // Pages of compiled kernels may become executable if they are no longer writable. One page at a time, because no
    // filter adds an address and a length.
    if (code.size != 0)
        f.allow({"mprotect"},
                {bits(0, ~(std::uint64_t{code.size} - 1), code.base), is(1, 4096), is(2, PROT_READ | PROT_EXEC)});
    // The mapper loads its own filter after this one, which applies to all threads. A thread that loads another filter
    // only restricts itself.
    if (extents) f.allow({"seccomp"}, {is(0, SECCOMP_SET_MODE_FILTER), is(1, SECCOMP_FILTER_FLAG_NEW_LISTENER)});
    return f.load();
}
// NVIDIA's driver reads its libraries, its devices and the system's files at any time; the measures 'mounts' and
// 'files' decide which ones.
int allow_what_nvidias_driver_needs(const Order& order) {
    Filter f(SCMP_ACT_TRAP);
    allow_driver(f, order, worker);
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

Failure close(const Order& order, std::uint32_t* denied, CodePlace code) {
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
    if (!order.software) unknown.prepare();
    int result = guard_what_is_given(order.has(Measure::extents));
    if (result == 0)
        result =
            order.software ? allow_what_the_software_gpu_needs(order, code) : allow_what_nvidias_driver_needs(order);
    if (result == 0) return {};
    return fmt::format("the cage's measure '{}' failed: {}", about(Measure::syscalls).name, strerror(-result));
}

// A bridge goes on: calls that it may not make fail, as for a user without the right to make them.
Failure close_bridge(const Plan& plan) {
    if (!plan.order.has(Measure::bridge)) return {};
    Filter f(SCMP_ACT_ALLOW);
    deny_to_every_process(f, SCMP_ACT_ERRNO(EPERM), plan.order);
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
