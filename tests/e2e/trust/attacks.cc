// SPDX-License-Identifier: Apache-2.0
// attacks.cc: for test_attacks.py: what an attacker tries in a worker that was taken over: to read, change, stop or
// impersonate anything that is not its client's. Built as libcuda.so.1 over a real driver, which it leaves as it is
// except for one function: a client chooses the attempt by the "affinity" that it asks about, and gets 0 (done) or an
// errno. The driver has been opened by then, and the cage is closed. (-DCLIENT: that client.)
//
// `done` in the list says what shows that an attempt is one: that it is done without a cage, by a worker of root's.
// clang-format off
#define ATTEMPTS(X) \
    X(other_region, "done") X(other_doorbell, "") X(own_doorbell, "") X(other_limits, "") X(look_into_shared, "done") \
    X(read_accounts, "done") X(read_secrets, "done") X(read_victim, "done") X(change_victim, "done") \
    X(chmod_victim, "done") X(chmodat_victim, "done") X(chown_victim, "done") X(setuid_victim, "done") \
    X(xattr_victim, "") X(times_victim, "done") X(link_victim, "done") X(symlink_there, "done") X(rename_victim, "") \
    X(remove_victim, "") X(make_folder, "done") X(make_node, "") X(truncate_victim, "done") X(change_descriptors, "") \
    X(write_usr, "") X(write_root, "") X(stream_socket, "done") X(datagram_socket, "done") \
    X(datagram_by_pair, "done") X(abstract_socket, "done") X(system_bus, "") X(inet, "done") X(raw, "") \
    X(netlink, "done") X(packet, "") X(vsock, "") X(crypto, "") X(limit_bridge, "done") \
    X(read_bridges_limits, "done") X(signal_bridge, "done") X(signal_thread, "done") X(queue_signal, "done") \
    X(signal_all, "done") X(pidfd_of_bridge, "done") X(signal_by_io, "done") X(idle_bridge, "") \
    X(affinity_of_bridge, "done") X(nice_bridge, "done") X(io_of_bridge, "done") X(attributes_of_bridge, "") \
    X(migrate_bridge, "") X(move_pages_of_bridge, "") X(robust_list_of_bridge, "") X(memory_of_bridge, "") \
    X(files_of_bridge, "done") X(environment_of_bridge, "done") X(root_of_bridge, "done") \
    X(command_of_bridge, "done") X(root_of_first, "") X(trace_bridge, "") X(read_process, "") X(write_process, "") \
    X(advise_process, "") X(compare_process, "") X(execute, "") X(execute_memory, "") X(make_process, "done") \
    X(vfork_process, "") X(thread_in_new_users, "") X(become_bridge, "done") X(become_group, "done") \
    X(gain_capabilities, "") X(is_bridges_user, "done") X(has_groups, "") X(leave_users, "") X(leave_mounts, "") \
    X(leave_network, "") X(join_first, "") X(change_root, "") X(pivot, "") X(mount_there, "") X(unmount, "") \
    X(open_tree_there, "") X(new_file_system, "") X(handle_of_file, "done") X(by_handle, "") X(key, "done") \
    X(keys, "done") X(program_in_kernel, "") X(count_events, "") X(faults, "") X(ring, "") X(module, "") \
    X(kernel_log, "") X(swap, "") X(account, "") X(quota, "") X(ports, "") X(tables, "") X(host_name, "") \
    X(set_clock, "") X(another_personality, "") X(huge_file, "done") X(huge_memory, "") X(raise_own_limit, "done") \
    X(dump_core, "done") X(be_traced, "done") X(live_longer, "done") X(handle_denials, "done") \
    X(push_into_terminal, "") X(answer_for_the_kernel, "") X(shared_segment, "done") X(semaphores, "done") \
    X(queue, "done") X(watch_host, "") X(watch_files, "") X(core_pattern, "") X(system_request, "") \
    X(leave_group, "") X(protected_from_oom, "") X(disks, "") X(kernel_memory, "") X(virtual_machines, "") \
    X(terminal, "") X(log_cut, "") X(log_over, "") X(log_read, "")
// clang-format on

#ifdef CLIENT
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <string>

extern "C" int cuInit(unsigned), cuDeviceGetExecAffinitySupport(int*, int, int);
namespace {
constexpr struct {
    const char *name, *done;
} attempts[] = {
#define X(name, done) {#name, done},
    ATTEMPTS(X)
#undef X
};

// What there is to reach: sockets of this user's alone, until it is ended.
int listens(const std::string& name, int type, bool abstract) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    name.copy(address.sun_path + abstract, sizeof address.sun_path - 2);
    const int s = socket(AF_UNIX, type, 0);
    umask(0177);
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size() + 1);
    if (bind(s, reinterpret_cast<sockaddr*>(&address), length) != 0) return -1;
    return type == SOCK_DGRAM ? 0 : listen(s, 100);
}
int serve(const std::string& folder, const char* abstract) {
    if (listens(folder + "/stream", SOCK_STREAM, false) || listens(folder + "/datagrams", SOCK_DGRAM, false) ||
        listens(abstract, SOCK_STREAM, true)) {
        std::perror("serve");
        return 1;
    }
    std::puts("ready");
    std::fflush(stdout);
    for (;;) pause();
}
}  // namespace

int main(int count, char** words) {
    if (count == 4) return serve(words[2], words[3]);
    if (count == 1)
        for (const auto& [name, done] : attempts) std::printf("%s %s\n", name, *done ? done : "-");
    for (std::size_t i = 0; count == 2 && i < std::size(attempts); ++i) {
        if (std::strcmp(attempts[i].name, words[1]) != 0) continue;
        int answer = -1;
        const int r = cuInit(0) ? -1 : cuDeviceGetExecAffinitySupport(&answer, 1000 + static_cast<int>(i), 0);
        if (r) std::printf("ended\n");
        else if (answer == 0) std::printf("done\n");
        else std::printf("refused: %s\n", std::strerror(answer));
    }
    return 0;
}
#else
#include <dirent.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/kcmp.h>
#include <linux/perf_event.h>
#include <linux/seccomp.h>
#include <mqueue.h>
#include <sched.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/swap.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "base/message.h"
#include "host-bridge/between/limits_link.h"
#include "host-bridge/between/link.h"

namespace {

const pid_t bridge = getppid();  // asked when this is loaded

int result(long r) { return r < 0 ? errno : 0; }
template <class... T> int call(long number, T... arguments) { return result(syscall(number, arguments...)); }
int opened(int fd) {
    if (fd < 0) return errno;
    close(fd);
    return 0;
}
int found(bool there) { return there ? 0 : EPERM; }
int made(int r, const std::string& path) {  // what was made is removed again
    if (r < 0) return EPERM;
    std::remove(path.c_str());
    return 0;
}
std::string named(const char* variable) { return getenv(variable) ? getenv(variable) : "/nowhere"; }
std::string victim() { return named("BARCUDA_TEST_OTHERS") + "/victim"; }
std::string of_bridge(const char* file) { return "/proc/" + std::to_string(bridge) + "/" + file; }
int opens(const std::string& path, int how = O_RDONLY) {
    return opened(open(path.c_str(), how | O_NONBLOCK | O_NOCTTY));
}
// The first of these that is done.
template <class... Results> int any(Results... results) {
    int least = EPERM;
    for (const int r : {results...})
        if (r == 0) least = 0;
    return least;
}

int connects(const std::string& path, int type, bool abstract = false) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path + abstract, sizeof address.sun_path - 2);
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size() + 1);
    const int s = socket(AF_UNIX, type, 0);
    if (s < 0) return errno;
    const int r = result(connect(s, reinterpret_cast<sockaddr*>(&address), length));
    close(s);
    return r;
}
int gets_a_region(const std::string& door) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    door.copy(address.sun_path, sizeof address.sun_path - 1);
    const int s = socket(AF_UNIX, SOCK_STREAM, 0);
    if (s < 0 || connect(s, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) return errno;
    std::int64_t number;
    const int r = found(recv(s, &number, sizeof number, 0) > 0);
    close(s);
    return r;
}
// Of any bridge whose socket is to be seen.
int changes_limits() {
    DIR* const folder = opendir(barcuda::limits_folder);
    if (!folder) return errno;
    int answer = ENOENT;
    while (const dirent* entry = readdir(folder)) {
        if (std::strncmp(entry->d_name, barcuda::limits_name, std::strlen(barcuda::limits_name)) != 0) continue;
        const sockaddr_un address = barcuda::unix_address(std::string(barcuda::limits_folder) + "/" + entry->d_name);
        const int s = socket(AF_UNIX, SOCK_SEQPACKET, 0);
        if (s < 0 || connect(s, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
            answer = errno;
            continue;
        }
        barcuda::LimitRequest request;  // only shows
        static barcuda::LimitReply reply;
        answer =
            send(s, &request, sizeof request, MSG_NOSIGNAL) < 0 || recv(s, &reply, sizeof reply, 0) <= 0 ? EPERM : 0;
        close(s);
        if (answer == 0) break;
    }
    closedir(folder);
    return answer;
}
int sees(const char* path, const char* beginning) {
    DIR* const folder = opendir(path);
    if (!folder) return errno;
    bool seen = false;
    while (const dirent* entry = readdir(folder))
        seen = seen || std::strncmp(entry->d_name, beginning, std::strlen(beginning)) == 0;
    closedir(folder);
    return found(seen);
}
template <class Change> int in_any_descriptor(const Change& change) {
    int answer = EPERM;
    for (int fd = 0; fd < 64; ++fd) {
        struct stat st;
        const bool somebodys = fstat(fd, &st) == 0 && st.st_nlink > 0 && S_ISREG(st.st_mode) &&
                               st.st_uid == static_cast<uid_t>(std::atoi(named("BARCUDA_TEST_USER").c_str()));
        if (somebodys && change(fd) == 0) answer = 0;
    }
    return answer;
}
int sends_datagram(int s) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    (named("BARCUDA_TEST_OTHERS") + "/datagrams").copy(address.sun_path, sizeof address.sun_path - 1);
    const int r = s < 0 ? errno : result(sendto(s, "x", 1, 0, reinterpret_cast<sockaddr*>(&address), sizeof address));
    close(s);
    return r;
}
int by_pair() {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) != 0) return errno;
    close(ends[1]);
    return sends_datagram(ends[0]);
}
int limits(int what, const rlimit* now) {
    rlimit old;
    return result(syscall(SYS_prlimit64, bridge, what, now, &old));
}
int same_limit() {  // what it has
    rlimit its;
    return syscall(SYS_prlimit64, bridge, RLIMIT_CPU, nullptr, &its) != 0 ? errno : limits(RLIMIT_CPU, &its);
}
int by_io() {
    int ends[2];
    if (pipe(ends) != 0) return errno;
    const int r = fcntl(ends[0], F_SETOWN, bridge) != 0 ? errno : result(fcntl(ends[0], F_SETSIG, SIGCONT));
    close(ends[0]);
    close(ends[1]);
    return r;
}
int trace() {
    if (ptrace(PTRACE_SEIZE, bridge, nullptr, nullptr) != 0) return errno;
    ptrace(PTRACE_INTERRUPT, bridge, nullptr, nullptr);
    waitpid(bridge, nullptr, __WALL);
    return result(ptrace(PTRACE_DETACH, bridge, nullptr, nullptr));
}
int vm(long number) {
    char text[8] = {};
    static char nowhere[8];
    const iovec mine{text, sizeof text}, anothers{nowhere, sizeof nowhere};
    return syscall(number, bridge, &mine, 1, &anothers, 1, 0) < 0 && errno != EFAULT ? errno : 0;
}
int runs(bool from_memory) {
    char name[] = "/bin/true";
    char* const words[] = {name, nullptr};
    if (!from_memory) return result(execv(name, words));
    const int file = memfd_create("program", 0);
    return file < 0 ? errno : call(SYS_execveat, file, "", words, words + 1, AT_EMPTY_PATH);
}
int child(long flags) {
    const long made = syscall(SYS_clone, flags, nullptr, nullptr, nullptr, nullptr);
    if (made == 0) _exit(0);
    if (made < 0) return errno;
    waitpid(static_cast<pid_t>(made), nullptr, 0);
    return 0;
}
int vforks() {
    const long made = syscall(SYS_fork);
    if (made == 0) _exit(0);
    return made < 0 ? errno : 0;
}
int gains() {
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    const __user_cap_data_struct all[2] = {{1u << CAP_SYS_ADMIN, 1u << CAP_SYS_ADMIN, 1u << CAP_SYS_ADMIN}, {}};
    return call(SYS_capset, &header, all);
}
int is_bridges() { return found(getuid() == static_cast<uid_t>(std::atoi(named("BARCUDA_TEST_USER").c_str()))); }
int groups() {
    gid_t all[64];
    const int n = getgroups(64, all);
    for (int i = 0; i < n; ++i)
        if (all[i] == 0) return 0;
    return found(getgid() == 0);
}
int event() {
    perf_event_attr about{};
    about.size = sizeof about;
    about.type = PERF_TYPE_SOFTWARE;
    return opened(static_cast<int>(syscall(SYS_perf_event_open, &about, bridge, -1, -1, 0)));
}
int ring_made() {
    unsigned char parameters[256] = {};
    return opened(static_cast<int>(syscall(SYS_io_uring_setup, 1, parameters)));
}
int handle() {
    struct {
        unsigned bytes = 128;
        int type = 0;
        unsigned char text[128] = {};
    } its;
    int mount = 0;
    return call(SYS_name_to_handle_at, AT_FDCWD, "/usr", &its, &mount, 0);
}
int huge(bool file) {
    if (file) return opened(memfd_create("huge", MFD_HUGETLB));
    void* const at = mmap(nullptr, 2 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
    return at == MAP_FAILED ? errno : 0;
}
int own_limit() {
    const rlimit none{RLIM_INFINITY, RLIM_INFINITY};
    return result(setrlimit(RLIMIT_DATA, &none));
}
int core() {
    const rlimit none{RLIM_INFINITY, RLIM_INFINITY};
    return result(setrlimit(RLIMIT_CORE, &none));
}
int queue_made() {
    mq_attr about{};
    about.mq_maxmsg = 1;
    about.mq_msgsize = 1;
    return opened(mq_open("/barcuda-attack", O_CREAT | O_RDWR, 0600, &about));
}
int writes(const std::string& path, const char* text) {
    const int file = open(path.c_str(), O_WRONLY);
    if (file < 0) return errno;
    const int r = result(write(file, text, std::strlen(text)));
    close(file);
    return r;
}
int in_any_group() {
    for (const char* path : {"/sys/fs/cgroup/cgroup.procs", "/sys/fs/cgroup/unified/cgroup.procs"})
        if (opens(path, O_WRONLY) == 0) return 0;
    return EPERM;
}
int in_log(int (*change)(int)) {
    struct stat st;
    for (const int fd : {barcuda::log_fd, barcuda::errors_fd, barcuda::into_errors_fd, STDERR_FILENO})
        if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && change(fd) == 0) return 0;
    return ESPIPE;
}

int attempt(int number) {
    char byte;
    const std::string others = named("BARCUDA_TEST_OTHERS"), its = victim();
    const char* const path = its.c_str();
    enum Names {
#define X(name, done) name,
        ATTEMPTS(X)
#undef X
    };
    sched_param idle{};
    cpu_set_t all;
    std::memset(&all, 0xff, sizeof all);
    switch (static_cast<Names>(number)) {
        case other_region: return opens(others + "/region", O_RDWR);
        case other_doorbell: return gets_a_region(others + "/bell");
        case own_doorbell: return gets_a_region(others + "/own-bell");
        case other_limits: return changes_limits();
        case look_into_shared: return sees("/dev/shm", barcuda::limits_name);
        case read_accounts: return opens("/etc/passwd");
        case read_secrets:
            return any(opens("/etc/shadow"), opens("/root"), opens("/home"), opens("/var/log"), opens("/run"));
        case read_victim: return opens(its);
        case change_victim: return opens(its, O_RDWR);
        case chmod_victim: return result(chmod(path, 0600));
        case chmodat_victim: return result(fchmodat(AT_FDCWD, path, 0600, 0));
        case chown_victim: return result(chown(path, getuid(), getgid()));
        case setuid_victim: return result(chmod((others + "/program").c_str(), 04755));
        case xattr_victim:
            return any(result(setxattr(path, "user.x", "x", 1, 0)), result(setxattr(path, "trusted.x", "x", 1, 0)));
        case times_victim: return result(utimensat(AT_FDCWD, path, nullptr, 0));
        case link_victim: return made(link(path, (its + "-2").c_str()), its + "-2");
        case symlink_there: return made(symlink("/", (its + "-3").c_str()), its + "-3");
        case rename_victim: return result(rename((others + "/movable").c_str(), (others + "/moved").c_str()));
        case remove_victim: return result(unlink((others + "/removable").c_str()));
        case make_folder: return made(mkdir((its + "-4").c_str(), 0700), its + "-4");
        case make_node:
            return any(result(mknod("/dev/shm/x", S_IFCHR | 0600, 0x101)),
                       result(mknod((its + "-5").c_str(), S_IFCHR | 0600, 0x101)));
        case truncate_victim: return result(truncate(path, 1));
        case change_descriptors:
            return any(in_any_descriptor([](int fd) { return fchmod(fd, 0777); }),
                       in_any_descriptor([](int fd) { return fchown(fd, getuid(), getgid()); }),
                       in_any_descriptor([](int fd) { return futimens(fd, nullptr); }),
                       in_any_descriptor([](int fd) { return fsetxattr(fd, "user.x", "x", 1, 0); }));
        case write_usr: return made(opens("/usr/barcuda-attack", O_CREAT | O_WRONLY) ? -1 : 0, "/usr/barcuda-attack");
        case write_root: return made(opens("/barcuda-attack", O_CREAT | O_WRONLY) ? -1 : 0, "/barcuda-attack");
        case stream_socket: return connects(others + "/stream", SOCK_STREAM);
        case datagram_socket: return sends_datagram(socket(AF_UNIX, SOCK_DGRAM, 0));
        case datagram_by_pair: return by_pair();
        case abstract_socket: return connects(named("BARCUDA_TEST_ABSTRACT"), SOCK_STREAM, true);
        case system_bus:
            return any(connects("/run/systemd/private", SOCK_STREAM),
                       connects("/run/dbus/system_bus_socket", SOCK_STREAM),
                       connects("/var/run/docker.sock", SOCK_STREAM),
                       connects("/run/systemd/journal/socket", SOCK_DGRAM), connects("/dev/log", SOCK_DGRAM));
        case inet: return any(opened(socket(AF_INET, SOCK_STREAM, 0)), opened(socket(AF_INET6, SOCK_DGRAM, 0)));
        case raw: return opened(socket(AF_INET, SOCK_RAW, 1));
        case netlink: return opened(socket(AF_NETLINK, SOCK_RAW, 0));
        case packet: return opened(socket(AF_PACKET, SOCK_RAW, 0));
        case vsock: return opened(socket(AF_VSOCK, SOCK_STREAM, 0));
        case crypto: return opened(socket(AF_ALG, SOCK_SEQPACKET, 0));
        case limit_bridge: return same_limit();
        case read_bridges_limits: return limits(RLIMIT_NOFILE, nullptr);
        case signal_bridge: return result(kill(bridge, SIGCONT));
        case signal_thread: return call(SYS_tgkill, bridge, bridge, SIGCONT);
        case queue_signal: return result(sigqueue(bridge, SIGCONT, {}));
        case signal_all:
            return named("BARCUDA_TEST_HARMLESS") == "yes" ? result(kill(bridge, SIGCONT)) : result(kill(-1, SIGCONT));
        case pidfd_of_bridge: return opened(static_cast<int>(syscall(SYS_pidfd_open, bridge, 0)));
        case signal_by_io: return by_io();
        case idle_bridge: return result(sched_setscheduler(bridge, sched_getscheduler(0), &idle));
        case affinity_of_bridge: return result(sched_setaffinity(bridge, sizeof all, &all));
        case nice_bridge: return result(setpriority(PRIO_PROCESS, static_cast<id_t>(bridge), 0));
        case io_of_bridge: return call(SYS_ioprio_set, 1, bridge, 0);
        case attributes_of_bridge: {
            unsigned about[12] = {48};
            return call(SYS_sched_setattr, bridge, about, 0);
        }
        case migrate_bridge: {
            unsigned long nodes = 1;
            return call(SYS_migrate_pages, bridge, 8, &nodes, &nodes);
        }
        case move_pages_of_bridge: {
            void* page = nullptr;
            int status;
            return call(SYS_move_pages, bridge, 1, &page, nullptr, &status, 0);
        }
        case robust_list_of_bridge: {
            void* head;
            std::size_t length;
            return call(SYS_get_robust_list, bridge, &head, &length);
        }
        case memory_of_bridge: return any(opens(of_bridge("mem"), O_RDWR), opens(of_bridge("mem")));
        case files_of_bridge:
            return any(opens(of_bridge("fd")), opens(of_bridge("fd/3")), opens(of_bridge("map_files")));
        case environment_of_bridge: return opens(of_bridge("environ"));
        case root_of_bridge:
            return any(opens(of_bridge("root")), opens(of_bridge("cwd")), opens(of_bridge("root/etc/passwd")));
        case command_of_bridge: return any(opens(of_bridge("cmdline")), opens(of_bridge("status")));
        case root_of_first:
            return any(opens("/proc/1/root/etc/passwd"), opens("/proc/self/root/../etc/passwd"),
                       opens("/../etc/passwd"));
        case trace_bridge: return trace();
        case read_process: return vm(SYS_process_vm_readv);
        case write_process: return vm(SYS_process_vm_writev);
        case advise_process: return call(SYS_process_madvise, -1, nullptr, 0, 0, 0);
        case compare_process: return call(SYS_kcmp, bridge, getpid(), KCMP_FILE, 0, 0);
        case execute: return runs(false);
        case execute_memory: return runs(true);
        case make_process: return child(SIGCHLD);
        case vfork_process: return vforks();
        case thread_in_new_users: return child(CLONE_NEWUSER | SIGCHLD);
        case become_bridge: return call(SYS_setresuid, std::atoi(named("BARCUDA_TEST_USER").c_str()), -1, -1);
        case become_group: return call(SYS_setgroups, 0, nullptr);
        case gain_capabilities: return gains();
        case is_bridges_user: return is_bridges();
        case has_groups: return getuid() == 0 ? EPERM : groups();
        case leave_users: return result(unshare(CLONE_NEWUSER));
        case leave_mounts: return result(unshare(CLONE_NEWNS));
        case leave_network: return result(unshare(CLONE_NEWNET));
        case join_first: {
            const int space = open("/proc/1/ns/mnt", O_RDONLY);
            return space < 0 ? errno : result(setns(space, CLONE_NEWNS));
        }
        case change_root: return result(chroot("/usr"));
        case pivot: return call(SYS_pivot_root, "/usr", "/usr");
        case mount_there:
            return any(result(mount("x", "/dev/shm", "tmpfs", 0, nullptr)),
                       result(mount(nullptr, "/", nullptr, MS_REMOUNT, nullptr)));
        case unmount: return any(result(umount2("/dev/shm", MNT_DETACH)), result(umount2("/", MNT_DETACH)));
        case open_tree_there: return opened(static_cast<int>(syscall(SYS_open_tree, AT_FDCWD, "/usr", 1)));
        case new_file_system: return opened(static_cast<int>(syscall(SYS_fsopen, "tmpfs", 0)));
        case handle_of_file: return handle();
        case by_handle: return opened(static_cast<int>(syscall(SYS_open_by_handle_at, AT_FDCWD, &byte, 0)));
        case key: return call(SYS_add_key, "user", "x", "x", 1, -3);
        case keys: return call(SYS_keyctl, 0, -3, 0);
        case program_in_kernel: {
            std::uint64_t about[16] = {2, 4 | (std::uint64_t{8} << 32), 1};
            return opened(static_cast<int>(syscall(SYS_bpf, 0, about, sizeof about)));
        }
        case count_events: return event();
        case faults: return opened(static_cast<int>(syscall(SYS_userfaultfd, 0)));
        case ring: return ring_made();
        case module: return call(SYS_delete_module, "barcuda_no_such", 0);
        case kernel_log: return call(SYS_syslog, 10, nullptr, 0);
        case swap: return result(swapoff("/nowhere")) == ENOENT ? 0 : EPERM;
        case account:
            return named("BARCUDA_TEST_HARMLESS") == "yes" ? EPERM : result(acct("/nowhere")) == ENOENT ? 0 : EPERM;
        case quota: return call(SYS_quotactl, 0x80000100, nullptr, 0, nullptr);
        case ports: return any(call(SYS_iopl, 3), call(SYS_ioperm, 0x80, 1, 1));
        case tables: return call(SYS_modify_ldt, 0, &byte, 1);
        case host_name: return named("BARCUDA_TEST_HARMLESS") == "yes" ? EPERM : call(SYS_sethostname, "x", 1);
        case set_clock:
            return named("BARCUDA_TEST_HARMLESS") == "yes"                      ? EPERM
                   : call(SYS_clock_settime, CLOCK_REALTIME, nullptr) == EFAULT ? 0
                                                                                : EPERM;
        case another_personality: return call(SYS_personality, 0x0040000);
        case huge_file: return huge(true);
        case huge_memory: return huge(false);
        case raise_own_limit: return own_limit();
        case dump_core: return core();
        case be_traced:
            return any(result(prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)), result(prctl(PR_SET_PTRACER, -1, 0, 0, 0)));
        case live_longer: return result(prctl(PR_SET_PDEATHSIG, 0));
        case handle_denials: return signal(SIGSYS, SIG_IGN) == SIG_ERR ? errno : 0;
        case push_into_terminal:
            return ioctl(barcuda::log_fd, TIOCSTI, "x") == 0 ? 0 : errno == ENOTTY ? ENOTTY : EPERM;
        case answer_for_the_kernel: return ioctl(barcuda::link_fd, SECCOMP_IOCTL_NOTIF_RECV, nullptr) == 0 ? 0 : EPERM;
        case shared_segment: {
            const int id = shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600);
            if (id < 0) return errno;
            shmctl(id, IPC_RMID, nullptr);
            return 0;
        }
        case semaphores: {
            const int id = semget(IPC_PRIVATE, 1, IPC_CREAT | 0600);
            if (id < 0) return errno;
            semctl(id, 0, IPC_RMID);
            return 0;
        }
        case queue: return queue_made();
        case watch_host: return opened(static_cast<int>(syscall(SYS_fanotify_init, 0, 0)));
        case watch_files: return opened(inotify_init()) ? EPERM : 0;
        case core_pattern:
            return any(opens("/proc/sys/kernel/core_pattern", O_WRONLY), opens("/proc/sys/kernel/modprobe", O_WRONLY));
        case system_request: return opens("/proc/sysrq-trigger", O_WRONLY);
        case leave_group: return in_any_group();
        case protected_from_oom: return writes("/proc/self/oom_score_adj", "-1000");
        case disks: return any(opens("/dev/sda"), opens("/dev/vda"), opens("/dev/nvme0n1"), opens("/dev/loop0"));
        case kernel_memory:
            return any(opens("/dev/mem"), opens("/dev/kmem"), opens("/dev/port"), opens("/proc/kcore"),
                       opens("/dev/kmsg", O_WRONLY));
        case virtual_machines:
            return any(opens("/dev/kvm", O_RDWR), opens("/dev/vhost-net", O_RDWR), opens("/dev/vfio/vfio", O_RDWR),
                       opens("/dev/fuse", O_RDWR));
        case terminal:
            return any(opens("/dev/tty"), opens("/dev/console", O_WRONLY), opens("/dev/tty1", O_WRONLY),
                       opens("/dev/ptmx", O_RDWR));
        case log_cut: return in_log([](int fd) { return ftruncate(fd, 0); });
        case log_over: return in_log([](int fd) { return pwrite(fd, "lies", 4, 0) == 4 ? 0 : -1; });
        case log_read:
            return in_log([](int fd) {
                char text[8];
                return pread(fd, text, sizeof text, 0) > 0 ? 0 : -1;
            });
    }
    return ENOSYS;
}

}  // namespace

// CUDA's, except for the numbers of the affinities.
extern "C" __attribute__((visibility("default"))) int cuDeviceGetExecAffinitySupport(int* value, int number, int) {
    *value = attempt(number - 1000);
    return 0;
}
#endif
