// SPDX-License-Identifier: Apache-2.0
// mischief.cc: for test_cage.py and test_cgroup.py: what an attacker does in a worker that was taken over. It is built
// into a driver that is otherwise the software GPU; a client chooses the attempt by the "affinity" that it asks about,
// and gets 0 (done) or an errno.
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "host-bridge/between/link.h"

namespace {

const pid_t bridge = getppid();  // asked when this is loaded

int result(long r) { return r < 0 ? errno : 0; }
int opened(int fd) {
    if (fd < 0) return errno;
    close(fd);
    return 0;
}
int found(bool there) { return there ? 0 : EPERM; }

int execute() {
    char name[] = "sh", option[] = "-c", command[] = "exit 7";
    char* const words[] = {name, option, command, nullptr};
    return result(execv("/bin/sh", words));
}
int make_process() {  // as the kernel is asked by a C library that knows clone alone
    const long child = syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr);
    if (child == 0) _exit(0);
    return child < 0 ? errno : result(waitpid(static_cast<pid_t>(child), nullptr, 0));
}
int trace() {
    if (ptrace(PTRACE_SEIZE, bridge, nullptr, nullptr) != 0) return errno;
    ptrace(PTRACE_INTERRUPT, bridge, nullptr, nullptr);
    waitpid(bridge, nullptr, __WALL);
    return result(ptrace(PTRACE_DETACH, bridge, nullptr, nullptr));
}
int read_another() {
    char text[8];
    static const char nowhere[8] = {};
    const iovec mine{text, sizeof text}, anothers{const_cast<char*>(nowhere), sizeof nowhere};
    return process_vm_readv(bridge, &mine, 1, &anothers, 1, 0) < 0 && errno != EFAULT ? errno : 0;  // EFAULT: it may
}
int make_executable() {
    void* const page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return result(mprotect(page, 4096, PROT_READ | PROT_EXEC));
}
int swell() {  // by memory that RLIMIT_DATA does not count
    constexpr std::size_t much = 600 << 20;
    void* const at = mmap(nullptr, much, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) return errno;
    std::memset(at, 1, much);
    return munmap(at, much);
}
std::string file(const char* name) { return std::string(getenv("BARCUDA_TEST_FILES")) + name; }

// ---- more of the region than its client's

constexpr std::uint64_t base = BARCUDA_DEFAULT_BASE;
char* find_channel() {
    for (char* at = reinterpret_cast<char*>(base + BARCUDA_CHANNELS_OFFSET);; at += BARCUDA_CHANNEL_SIZE) {
        void* const there =
            mmap(at, BARCUDA_CHANNEL_SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        if (there == MAP_FAILED) return at;
        munmap(there, BARCUDA_CHANNEL_SIZE);
    }
}
char* own_channel;  // once one of its client's commands is there
int mapped(void* at) { return at == MAP_FAILED ? errno : 0; }
int map_at(std::uint64_t offset, std::uint64_t bytes, int prot = PROT_READ | PROT_WRITE, int how = MAP_SHARED) {
    return mapped(mmap(reinterpret_cast<void*>(base + offset), bytes, prot, how | MAP_FIXED_NOREPLACE,
                       barcuda::region_fd, static_cast<off_t>(offset)));
}
int map_whole() { return mapped(mmap(nullptr, 1 << 30, PROT_READ, MAP_SHARED, barcuda::region_fd, 0)); }
// The tables, another client's channel, its first extent (the heap's first), and what no client has. (EEXIST: its own.)
int map_others() {
    int result = EPERM;
    const auto attempt = [&](std::uint64_t offset, std::uint64_t bytes) {
        const int error = map_at(offset, bytes);
        if (error != EEXIST && error != EPERM) result = error;
    };
    attempt(0, BARCUDA_CHANNELS_OFFSET);
    for (std::uint64_t i = 0; i < 3; ++i)
        attempt(BARCUDA_CHANNELS_OFFSET + i * BARCUDA_CHANNEL_SIZE, BARCUDA_CHANNEL_SIZE);
    for (std::uint64_t offset = BARCUDA_GRANULE; offset < 1 << 30; offset += BARCUDA_GRANULE)
        attempt(offset, BARCUDA_GRANULE);
    return result;
}
// Its own channel, but not as its bridge would map it. (EEXIST: it would be, were it not mapped already.)
int map_own_otherwise() {
    const std::uint64_t offset = reinterpret_cast<std::uint64_t>(own_channel) - base;
    for (const int error :
         {map_at(offset, BARCUDA_CHANNEL_SIZE, PROT_READ), map_at(offset, BARCUDA_CHANNEL_SIZE, PROT_READ, MAP_PRIVATE),
          map_at(offset, 2 * BARCUDA_CHANNEL_SIZE)})
        if (error != EPERM) return error == EEXIST ? 0 : error;
    return map_at(offset, BARCUDA_CHANNEL_SIZE) == EEXIST ? EPERM : ENOTRECOVERABLE;
}
int grow(std::size_t from) { return mapped(mremap(own_channel, from, 1 << 24, MREMAP_MAYMOVE)); }
int turn_over() {  // and back
    const auto turn = [](std::size_t to) {
        return remap_file_pages(own_channel, BARCUDA_CHANNEL_SIZE, 0, to / 4096, 0);
    };
    const int error = result(turn(0));
    return error ? error : result(turn(reinterpret_cast<std::uint64_t>(own_channel) - base));
}
int pass_on() {
    barcuda::Message<barcuda::request::Share> request{.request = {barcuda::Shared::Kind::allocation, {}}};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    iovec data{&request, sizeof request};
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* const c = CMSG_FIRSTHDR(&message);
    *c = {CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
    std::memcpy(CMSG_DATA(c), &barcuda::region_fd, sizeof(int));
    if (sendmsg(barcuda::link_fd, &message, 0) < 0) return errno;
    barcuda::Answer<barcuda::request::Share> reply;
    return result(recv(barcuda::link_fd, &reply, sizeof reply, 0));
}
bool is_region(int fd) {
    struct stat there {
    }, here{};
    return stat(file("/../region").c_str(), &there) == 0 && fstat(fd, &here) == 0 && here.st_ino == there.st_ino &&
           here.st_dev == there.st_dev;
}
// Of each thread that may be the worker's.
template <class Try> int in_each_thread(const Try& attempt) {
    int result = ESRCH;
    for (pid_t thread = getpid(); thread < getpid() + 1000; ++thread) {
        const int error = attempt(thread);
        if (error == 0) return 0;
        if (error != ENOENT && error != ESRCH) result = error;
    }
    return result;
}
int reopen() {
    return in_each_thread([](pid_t thread) {
        const std::string name =
            "/proc/self/task/" + std::to_string(thread) + "/fd/" + std::to_string(barcuda::region_fd);
        const int fd = open(name.c_str(), O_RDWR);
        const int error = fd < 0 ? errno : is_region(fd) ? 0 : ENOENT;
        close(fd);
        return error;
    });
}
int reopen_mapping() {
    char name[64];
    std::snprintf(name, sizeof name, "/proc/self/map_files/%lx-%lx", reinterpret_cast<long>(own_channel),
                  reinterpret_cast<long>(own_channel + BARCUDA_CHANNEL_SIZE));
    return opened(open(name, O_RDWR));
}
int fetch() {
    return in_each_thread([](pid_t thread) {
        constexpr int of_a_thread = O_EXCL;  // PIDFD_THREAD, of Linux 6.9
        const long it = syscall(SYS_pidfd_open, thread, of_a_thread);
        if (it < 0) return errno;
        const long fd = syscall(SYS_pidfd_getfd, it, barcuda::region_fd, 0);
        return fd < 0 ? errno : is_region(static_cast<int>(fd)) ? 0 : ENOENT;
    });
}
int ask_doorbell() {
    sockaddr_un address{AF_UNIX, {}};
    std::strcpy(address.sun_path, file("/bell").c_str());
    const int s = socket(AF_UNIX, SOCK_STREAM, 0);
    std::int64_t number;
    if (connect(s, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) return errno;
    return recv(s, &number, sizeof number, 0) > 0 ? 0 : EPERM;
}

// In the worker's other threads, whose stacks each of them may write: here by way of a signal.
int (*errand)();
std::atomic<int> answer;
int in_the_mapper(int (*what)()) {
    constexpr int none = -1;
    errand = what;
    signal(SIGABRT, [](int) { answer = errand(); });
    return in_each_thread([](pid_t thread) -> int {
        if (syscall(SYS_tgkill, getpid(), thread, 0) != 0) return ESRCH;
        answer = none;
        syscall(SYS_tgkill, getpid(), thread, SIGABRT);
        for (int i = 0; answer == none && i < 2000; ++i) usleep(1000);  // one that lets no signal through says nothing
        return answer == none || answer == EBADF ? ESRCH : answer.load();
    });
}

}  // namespace

#define ATTEMPT(number, name, ...) \
    case number: *value = (__VA_ARGS__); break;

// CUDA's, except for the numbers of the affinities.
extern "C" int cuDeviceGetExecAffinitySupport(int* value, int attempt, int) {
    struct stat about;
    char text[8];
    own_channel = find_channel();
    switch (attempt) {
        ATTEMPT(1, open, opened(open("/etc/passwd", O_RDONLY)))
        ATTEMPT(2, create, opened(open(file("/new").c_str(), O_RDWR | O_CREAT, 0600)))
        ATTEMPT(3, look, result(stat("/etc/passwd", &about)))
        ATTEMPT(4, inet, opened(socket(AF_INET, SOCK_STREAM, 0)))
        ATTEMPT(5, unix, opened(socket(AF_UNIX, SOCK_STREAM, 0)))
        ATTEMPT(6, signal, result(kill(bridge, SIGCONT)))
        ATTEMPT(7, thread_of_another, result(syscall(SYS_tgkill, bridge, bridge, SIGCONT)))
        ATTEMPT(8, trace, trace())
        ATTEMPT(9, read_another, read_another())
        ATTEMPT(10, exec, execute())
        ATTEMPT(11, fork, make_process())
        ATTEMPT(
            12, executable,
            mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED ? errno : 0)
        ATTEMPT(13, make_executable, make_executable())
        ATTEMPT(14, unshare, result(unshare(CLONE_NEWUTS)))
        ATTEMPT(15, setuid, result(syscall(SYS_setuid, 65534)))
        ATTEMPT(16, handler, signal(SIGSYS, SIG_IGN) == SIG_ERR ? errno : 0)
        ATTEMPT(17, environment, found(getenv("ANOTHERS_SECRET")))
        ATTEMPT(18, input, found(read(STDIN_FILENO, text, sizeof text) > 0))
        ATTEMPT(19, cut_region, result(ftruncate(barcuda::region_fd, 0)))
        ATTEMPT(20, map_whole, map_whole())
        ATTEMPT(21, map_others, map_others())
        ATTEMPT(22, copy_region, opened(dup(barcuda::region_fd)))
        ATTEMPT(23, pass_on, pass_on())
        ATTEMPT(24, grow, grow(BARCUDA_CHANNEL_SIZE))
        ATTEMPT(25, grow_from_nothing, grow(0))
        ATTEMPT(26, turn_over, turn_over())
        ATTEMPT(27, reopen, reopen())
        ATTEMPT(28, reopen_mapping, reopen_mapping())
        ATTEMPT(29, fetch, fetch())
        ATTEMPT(30, mapper_whole, in_the_mapper(map_whole))
        ATTEMPT(31, mapper_others, in_the_mapper(map_others))
        ATTEMPT(32, mapper_otherwise, in_the_mapper(map_own_otherwise))
        ATTEMPT(33, mapper_copies, in_the_mapper([] { return opened(dup(barcuda::region_fd)); }))
        ATTEMPT(34, mapper_passes, in_the_mapper(pass_on))
        ATTEMPT(35, ask_doorbell, ask_doorbell())
        ATTEMPT(36, swell, swell())
        default: return 1;
    }
    return 0;
}
