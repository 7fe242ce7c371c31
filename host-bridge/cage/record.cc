// SPDX-License-Identifier: Apache-2.0
// record.cc: which system calls an open driver makes that are not in the software GPU's list: the way to find a list
// for another driver (--record-calls). The kernel asks about each such call before it executes it (seccomp's user
// notification). A thread of the worker writes it into the log, each different one once, and lets the kernel execute
// it. The thread's own calls must be in the list, or it would wait for its own answer: so it takes no locks of other
// threads, allocates no memory and opens no files.
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/seccomp.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <functional>
#include <iterator>
#include <string_view>
#include <thread>

#include "host-bridge/between/link.h"
#include "host-bridge/cage/filter.h"
#include "host-bridge/cage/measures.h"

namespace barcuda::cage {
namespace {

// What distinguishes two calls of one name: an argument, as a number or as the path that it points to.
struct Telling {
    int call;
    unsigned argument;
    bool path;
};
constexpr Telling tellings[] = {{SYS_open, 0, true},       {SYS_openat, 1, true},      {SYS_openat2, 1, true},
                                {SYS_stat, 0, true},       {SYS_lstat, 0, true},       {SYS_newfstatat, 1, true},
                                {SYS_statx, 1, true},      {SYS_access, 0, true},      {SYS_faccessat, 1, true},
                                {SYS_faccessat2, 1, true}, {SYS_readlink, 0, true},    {SYS_readlinkat, 1, true},
                                {SYS_mkdir, 0, true},      {SYS_mkdirat, 1, true},     {SYS_unlink, 0, true},
                                {SYS_unlinkat, 1, true},   {SYS_rename, 0, true},      {SYS_statfs, 0, true},
                                {SYS_chdir, 0, true},      {SYS_execve, 0, true},      {SYS_inotify_add_watch, 1, true},
                                {SYS_ioctl, 1, false},     {SYS_socket, 0, false},     {SYS_fcntl, 1, false},
                                {SYS_mmap, 2, false},      {SYS_mprotect, 2, false},   {SYS_clone, 0, false},
                                {SYS_prctl, 0, false},     {SYS_arch_prctl, 0, false}, {SYS_rt_sigaction, 0, false},
                                {SYS_kill, 1, false},      {SYS_madvise, 2, false}};

class Recorder {
  public:
    Recorder() {
        for (unsigned call = 0; call < std::size(names_); ++call)
            names_[call] = seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, static_cast<int>(call));
        if (pipe2(pipe_, O_CLOEXEC | O_NONBLOCK) != 0) pipe_[0] = pipe_[1] = -1;
    }
    void serve(int listener) {
        for (;;) {
            seccomp_notif asked{};
            if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &asked) == 0) {
                note(asked);
                seccomp_notif_resp go{};
                go.id = asked.id;
                go.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
                ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &go);
            } else if (errno != EINTR && errno != ENOENT) return;  // ENOENT: the process that asked was killed
        }
    }

  private:
    void note(const seccomp_notif& asked) {
        char text[512];  // a line of the log
        const auto call = static_cast<unsigned>(asked.data.nr);
        const char* const name = call < std::size(names_) ? names_[call] : nullptr;
        std::size_t n = name ? fmt::format_to_n(text, 64, "recorded {}", name).size
                             : fmt::format_to_n(text, 64, "recorded {}", call).size;
        const auto* const telling = std::ranges::find(tellings, asked.data.nr, &Telling::call);
        if (telling != std::end(tellings)) n += tell(*telling, asked, text + n, sizeof text - n - 1);
        std::size_t& place = seen_[count_];
        place = std::hash<std::string_view>()({text, n});
        if (std::find(seen_, seen_ + count_, place) != seen_ + count_) return;
        if (count_ < std::size(seen_) - 1) ++count_;
        text[n++] = '\n';
        if (write(log_fd, text, n) < 0) return;
    }
    // Returns the length.
    std::size_t tell(const Telling& telling, const seccomp_notif& asked, char* text, std::size_t room) const {
        const std::uint64_t value = asked.data.args[telling.argument];
        if (!telling.path) return fmt::format_to_n(text, room, " {:#x}", value & 0xffffffff).size;
        text[0] = ' ';
        ssize_t n = write(pipe_[1], reinterpret_cast<const void*>(value), room - 1);
        if (n > 0) n = read(pipe_[0], text + 1, static_cast<std::size_t>(n));
        const std::size_t length = 1 + (n > 0 ? strnlen(text + 1, static_cast<std::size_t>(n)) : 0);
        std::replace_if(
            text, text + length, [](unsigned char c) { return c < ' ' || c > '~'; }, '?');  // one line
        return length;
    }

    char* names_[512];
    int pipe_[2] = {-1, -1};    // the kernel copies through it, because the memory may not be mapped
    std::size_t seen_[4096]{};  // hashes of the calls seen; after that many, each call is logged each time
    std::size_t count_ = 0;
};

}  // namespace

int record() {
    static Recorder recorder;
    static std::atomic<int> listener = -1;
    std::thread([] {
        while (listener < 0) usleep(100);
        recorder.serve(listener);
    }).detach();
    Filter f(SCMP_ACT_NOTIFY);
    allow_known(f, getpid());
    for (const unsigned long own : {SECCOMP_IOCTL_NOTIF_RECV, SECCOMP_IOCTL_NOTIF_SEND})
        f.allow({"ioctl"}, {is(1, own)});
    const int failed = f.load();
    listener = failed ? -1 : f.listener();
    return failed;
}

}  // namespace barcuda::cage
