// SPDX-License-Identifier: Apache-2.0
// taken_over.cc: for test_taken_over.py: what an attacker in a worker that was taken over does to its bridge. It is
// built into a driver that is otherwise the software GPU; a client chooses the attempt by the "affinity" that it asks
// about, and gets 0 (done) or an errno.
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string>
#include <thread>

#include "host-bridge/between/link.h"

namespace {

int send_as_mapper(int file) {
    barcuda::Message<barcuda::request::Mapper> request;
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    iovec data{&request, sizeof request};
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* const c = CMSG_FIRSTHDR(&message);
    *c = {CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
    std::memcpy(CMSG_DATA(c), &file, sizeof(int));
    return file < 0 || sendmsg(barcuda::link_fd, &message, 0) < 0 ? errno : 0;
}
// Always readable, and no listener.
int second_mapper() { return send_as_mapper(memfd_create("mapper", MFD_CLOEXEC)); }
// A listener of a thread of ours, which others may have as well: one of them takes the question that the bridge has
// been told of.
int own_listener() {
    int result = -1;
    std::thread([&] {
        sock_filter allow[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
        const sock_fprog program{1, allow};
        result = send_as_mapper(static_cast<int>(
            syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program)));
    }).join();
    return result;
}
// The one thread that has the region: every other thread can write to its stack.
int end_mapper() {
    signal(SIGABRT, [](int) {
        if (close(barcuda::region_fd) == 0) syscall(SYS_exit, 0);
    });
    const pid_t process = getpid();
    for (pid_t thread = process + 1; thread < process + 100000; ++thread) syscall(SYS_tgkill, process, thread, SIGABRT);
    return 0;
}

// The log is a pipe: what is in it is the bridge's.
int cut_log() {
    const int log = barcuda::log_fd;
    char text[16];
    if (lseek(log, 0, SEEK_SET) == 0 || pwrite(log, "info", 4, 0) > 0 || read(log, text, sizeof text) > 0) return 0;
    return errno;
}
int say(const std::string& text) {
    return write(barcuda::log_fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()) ? 0 : errno;
}
int forge_log() {
    return say("<0>all is lost\nforged barcuda-bridge: all is well\x1b[2J\rforged\n<6>forged " +
               std::string(100000, 'x') + "\n");
}
int flood_log() {
    int result = 0;
    for (int i = 0; i < 10000 && result == 0; ++i) result = say("flood " + std::string(93, 'x') + "\n");
    return result;
}

}  // namespace

#define ATTEMPT(number, name) \
    case number: *value = name(); break;

// CUDA's, except for the numbers of the affinities.
extern "C" int cuDeviceGetExecAffinitySupport(int* value, int attempt, int) {
    switch (attempt) {
        ATTEMPT(1, second_mapper)
        ATTEMPT(2, own_listener)
        ATTEMPT(3, end_mapper)
        ATTEMPT(4, cut_log)
        ATTEMPT(5, forge_log)
        ATTEMPT(6, flood_log)
        default: return 1;
    }
    return 0;
}
