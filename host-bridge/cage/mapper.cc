// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/cage/mapper.h"

#include <linux/close_range.h>
#include <linux/kcmp.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <thread>
#include <utility>

#include "base/message.h"
#include "host-bridge/between/link.h"
#include "host-bridge/cage/filter.h"

namespace barcuda::cage {
namespace {

constexpr int protection = PROT_READ | PROT_WRITE, flags = MAP_SHARED | MAP_FIXED_NOREPLACE;

// What the mapper's thread may do. It reports to its bridge over the link once; then the link is closed, and the thread
// cannot get another.
std::vector<sock_filter> what_a_mapper_needs() {
    Filter f(SCMP_ACT_TRAP);
    f.add(SCMP_ACT_NOTIFY, {"mmap"});
    f.allow({"futex", "sched_yield", "restart_syscall", "rt_sigreturn", "close", "exit"});
    f.allow({"sendmsg"}, {is(0, link_fd)});
    f.allow({"getpid", "exit_group"});  // to end the worker (filter.cc)
    return f.program();
}

}  // namespace

bool Mapper::take() {
    static_assert(region_fd < link_fd && link_fd < log_fd, "shed() depends on it");
    if ((program_ = what_a_mapper_needs()).empty()) return false;
    std::thread([this] { run(); }).detach();
    done_.wait(0);
    if (error_ == 0) ::close(region_fd);
    errno = error_;
    return error_ == 0;
}

bool Mapper::confine() {
    const std::lock_guard lock(mutex_);
    errno = ask(Errand::confine);
    return errno == 0;
}

void* Mapper::map(void* at, std::size_t bytes, std::uint64_t offset) {
    const std::lock_guard lock(mutex_);
    at_ = at;
    bytes_ = bytes;
    offset_ = offset;
    errno = ask(Errand::map);
    return errno == 0 ? at : MAP_FAILED;
}

int Mapper::ask(Errand errand) {
    errand_ = errand;
    const int number = asked_.load() + 1;
    asked_ = number;
    asked_.notify_one();
    for (int done; (done = done_.load()) != number;) done_.wait(done);
    return error_;
}

// The thread. It allocates no memory, because that would be a mapping.
void Mapper::run() {
    for (int number = 1;; ++number) {
        for (int asked; (asked = asked_.load()) < number;) asked_.wait(asked);
        bool done = false;
        switch (errand_) {
            case Errand::take: done = shed(); break;
            case Errand::confine: done = tell_bridge(); break;
            case Errand::map:
                done = mmap(at_, bytes_, protection, flags, region_fd, static_cast<off_t>(offset_)) == at_;
        }
        error_ = done ? 0 : errno;
        done_ = number;
        done_.notify_one();
    }
}

// Gives the thread a table of descriptors of its own, and closes all in it except the region's and the link's. Later
// descriptors of other threads do not appear in it.
bool Mapper::shed() const {
    if (syscall(SYS_close_range, log_fd, ~0u, CLOSE_RANGE_UNSHARE) != 0) return false;
    for (int fd = 0; fd < region_fd; ++fd) ::close(fd);
    for (int fd = region_fd + 1; fd < link_fd; ++fd) ::close(fd);
    return true;
}

bool Mapper::tell_bridge() const {
    const sock_fprog program{static_cast<unsigned short>(program_.size()), const_cast<sock_filter*>(program_.data())};
    const long listener = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
    if (listener < 0) return false;
    const Message<request::Mapper> message;
    const bool told = send_message(link_fd, &message, sizeof message, static_cast<int>(listener));
    const int why = errno;
    ::close(static_cast<int>(listener));
    ::close(link_fd);
    errno = why;
    return told;
}

bool judge(int listener, std::uint64_t base, const MayMap& may) {
    seccomp_notif asked{};
    pollfd there{listener, POLLIN, 0};
    if (poll(&there, 1, 0) < 0 || !(there.revents & POLLIN)) return (there.revents & ~POLLIN) == 0;
    if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &asked) != 0) return errno == ENOENT || errno == EINTR;
    const auto& [at, bytes, prot, how, file, offset] = asked.data.args;
    const bool granted = asked.data.nr == SYS_mmap && file == region_fd && prot == protection && how == flags &&
                         at == base + offset && may(offset, bytes);
    seccomp_notif_resp answer{asked.id, 0, -EPERM, 0};
    if (granted) {
        answer.error = 0;
        answer.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
    }
    ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer);  // or the process was killed, or a signal made it ask again
    return true;
}

namespace {

bool is_listener(int file) {
    std::uint64_t question = 0;  // a question that no mapper has asked
    return ioctl(file, SECCOMP_IOCTL_NOTIF_ID_VALID, &question) == 0 || errno == ENOENT;
}

// Whether two descriptors refer to the same open file. (If the kernel cannot say, the other checks remain.)
bool is_same(int a, int b) { return syscall(SYS_kcmp, getpid(), getpid(), KCMP_FILE, a, b) == 0; }

}  // namespace

const char* Listener::meet(File file, std::span<const int> others) {
    if (state_ == State::none) return "the worker reports a mapper, but its cage has none";
    if (state_ != State::expected) return "the worker reports a second mapper";
    if (!file) return "no descriptor is left for the worker's mapper";
    if (!is_listener(file.fd()))
        return "the worker's mapper cannot be asked: its descriptor is not a listener of seccomp's";
    for (const int other : others)
        if (is_same(other, file.fd())) return "the worker's mapper is another worker's";
    state_ = State::open;
    file_ = std::move(file);
    return nullptr;
}

bool Listener::answer(short events, std::uint64_t base, const MayMap& may) {
    if (events & POLLIN && judge(fd(), base, may)) return true;
    state_ = State::ended;
    ended_ = std::chrono::steady_clock::now();
    return false;
}

}  // namespace barcuda::cage
