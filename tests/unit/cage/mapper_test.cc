// SPDX-License-Identifier: Apache-2.0
// mapper_test: what a worker's mapper can map, depending on its bridge's answers: each time in a process of its own,
// which has the complete filter of the software GPU's worker. (Attempts of an attacker in a worker that was taken over:
// tests/e2e/trust/test_cage.py.)
#include "host-bridge/cage/mapper.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/kcmp.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <functional>
#include <iterator>
#include <mutex>
#include <thread>

#include "base/message.h"
#include "host-bridge/between/link.h"
#include "host-bridge/cage/cage.h"

namespace barcuda::cage {
namespace {

struct CageMapper : testing::Test {
    void SetUp() override {
        Wish wish;
        wish.software = true;
        const Plan here = plan(wish, "/nowhere/libcuda.so.1");
        if (!here.order.has(Measure::extents)) GTEST_SKIP() << here.why[static_cast<unsigned>(Measure::extents)];
    }
};

// A worker of a region of some pages, with its mapper. `may` answers for its bridge.
constexpr std::uint64_t base = BARCUDA_DEFAULT_BASE, page = 4096;
// The result of its `body`.
int bridged(const std::function<int(Mapper&)>& body, const std::function<bool(std::uint64_t, std::uint64_t)>& may,
            const std::function<void(pid_t)>& before_answer = {}) {
    int link[2];
    const File region(memfd_create("region", MFD_CLOEXEC));
    if (ftruncate(region.fd(), 16 * page) != 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, link) != 0)
        return -1;
    const pid_t worker = fork();
    if (worker == 0) {
        const int file = fcntl(region.fd(), F_DUPFD, 16), end = fcntl(link[1], F_DUPFD, 16);
        dup2(file, region_fd);
        dup2(end, link_fd);
        close_range(link_fd + 1, ~0u, 0);
        Order order;
        for (const Measure m : {Measure::syscalls, Measure::extents}) order.on |= 1u << static_cast<unsigned>(m);
        order.software = true;
        auto& mapper = *new Mapper;
        _exit(mapper.take() && !close(order, nullptr) && mapper.confine() ? body(mapper) : 2);
    }
    ::close(link[1]);
    const File ours(link[0]);
    Message<request::Mapper> message;
    File listener;
    int status = -1;
    if (receive_message(ours.fd(), &message, sizeof message, listener) == sizeof message)
        for (pollfd asked{listener.fd(), POLLIN, 0}; poll(&asked, 1, -1) > 0 && asked.revents & POLLIN;) {
            if (before_answer) before_answer(worker);
            judge(listener.fd(), base, may);
        }
    waitpid(worker, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : status;
}
void* in_place(std::uint64_t offset) { return reinterpret_cast<void*>(base + offset); }
bool always(std::uint64_t, std::uint64_t) { return true; }

TEST_F(CageMapper, MapsWhatItsBridgeAllowsAndNothingElse) {
    const auto may = [](std::uint64_t offset, std::uint64_t bytes) { return offset == page && bytes == 2 * page; };
    const int b = bridged(
        [](Mapper& mapper) {
            if (mapper.map(in_place(page), 2 * page, page) == MAP_FAILED) return 1;
            std::memset(in_place(page), 1, 2 * page);
            const auto refused = [&](std::uint64_t at, std::uint64_t bytes, std::uint64_t offset) {
                return mapper.map(in_place(at), bytes, offset) == MAP_FAILED && errno == EPERM;
            };
            return refused(0, page, 0) && refused(page, 3 * page, page) && refused(8 * page, 2 * page, 8 * page) &&
                           refused(8 * page, 2 * page, page)
                       ? 0
                       : 3;
        },
        may);
    EXPECT_EQ(b, 0);
}

TEST_F(CageMapper, IsTheOnlyThreadThatHasTheRegion) {
    const int b = bridged(
        [](Mapper& mapper) {
            const bool gone = lseek(region_fd, 0, SEEK_END) < 0 && errno == EBADF;
            return gone && mapper.map(in_place(0), page, 0) != MAP_FAILED ? 0 : 1;
        },
        always);
    EXPECT_EQ(b, 0);
}

TEST_F(CageMapper, HasNothingMappedThatWasNotJudged) {
    const int b = bridged(
        [](Mapper& mapper) {
            if (mapper.map(in_place(0), page, 0) == MAP_FAILED) return 1;
            const auto refused = [](void* got, int why) { return got == MAP_FAILED && errno == why; };
            return refused(mremap(in_place(0), page, 2 * page, MREMAP_MAYMOVE), ENOMEM) &&
                           refused(mremap(in_place(0), 0, 8 * page, MREMAP_MAYMOVE), ENOMEM)
                       ? 0
                       : 3;
        },
        [](std::uint64_t offset, std::uint64_t) { return offset == 0; });
    EXPECT_EQ(b, 0);
}

TEST_F(CageMapper, ThatIsKilledWhileItAsksKeepsNobodyWaiting) {
    const int b = bridged([](Mapper& mapper) { return mapper.map(in_place(0), page, 0) == MAP_FAILED; }, always,
                          [](pid_t worker) {
                              siginfo_t end;
                              kill(worker, SIGKILL);
                              waitid(P_PID, static_cast<id_t>(worker), &end, WEXITED | WNOWAIT);
                          });
    EXPECT_EQ(b, SIGKILL);
}

// ---- what the bridge believes about a mapper

// A thread with a listener of its own, which asks nothing. (It has given up new privileges, as the kernel requires of
// threads with a filter.)
class Quiet {
  public:
    Quiet() : thread_([this](const std::stop_token& stop) { live(stop); }) { made_.wait(0); }
    File listener() const { return File(fcntl(listener_, F_DUPFD_CLOEXEC, 0)); }
    void end() { thread_ = {}; }
    ~Quiet() {
        end();
        ::close(listener_);
    }

  private:
    void live(const std::stop_token& stop) {
        sock_filter allow[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
        const sock_fprog program{std::size(allow), allow};
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        listener_ =
            static_cast<int>(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program));
        made_ = 1;
        made_.notify_one();
        std::mutex mutex;
        std::unique_lock lock(mutex);
        std::condition_variable_any().wait(lock, stop, [] { return false; });
    }
    int listener_ = -1;
    std::atomic<int> made_ = 0;
    std::jthread thread_;
};

struct CageListener : CageMapper {
    Quiet quiet;
    static short said(int listener, int patience) {
        pollfd there{listener, POLLIN, 0};
        return poll(&there, 1, patience) > 0 ? there.revents : short{0};
    }
};

TEST_F(CageListener, IsAMappersAndNothingElse) {
    Listener listener = Listener::expected();
    EXPECT_STREQ(listener.meet(File(), {}), "no descriptor is left for the worker's mapper");
    int ends[2];
    ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
    for (const int file :
         {memfd_create("file", MFD_CLOEXEC), ends[0], ends[1], open("/dev/null", O_RDWR | O_CLOEXEC)}) {
        ASSERT_TRUE(listener.is_expected());
        EXPECT_STREQ(listener.meet(File(file), {}),
                     "the worker's mapper cannot be asked: its descriptor is not a listener of seccomp's");
    }
    EXPECT_EQ(listener.fd(), -1);
    EXPECT_EQ(listener.meet(quiet.listener(), {}), nullptr);
    EXPECT_GE(listener.fd(), 0);
}

TEST_F(CageListener, IsMetOnceInAWorkersLife) {
    Listener listener = Listener::expected();
    Quiet another;
    ASSERT_EQ(listener.meet(quiet.listener(), {}), nullptr);
    EXPECT_STREQ(listener.meet(another.listener(), {}), "the worker reports a second mapper");
    quiet.end();
    ASSERT_FALSE(listener.answer(said(listener.fd(), -1), base, always));
    EXPECT_STREQ(listener.meet(another.listener(), {}), "the worker reports a second mapper");
}

TEST_F(CageListener, IsMetOnlyWhereTheCageHasOne) {
    Listener listener;
    EXPECT_STREQ(listener.meet(quiet.listener(), {}), "the worker reports a mapper, but its cage has none");
}

TEST_F(CageListener, IsNoOtherWorkers) {
    Listener first = Listener::expected(), second = Listener::expected();
    Quiet another;
    ASSERT_EQ(first.meet(quiet.listener(), {}), nullptr);
    const int others[] = {first.fd()};
    if (syscall(SYS_kcmp, getpid(), getpid(), KCMP_FILE, others[0], others[0]) < 0) GTEST_SKIP() << "no kcmp here";
    EXPECT_STREQ(second.meet(quiet.listener(), others), "the worker's mapper is another worker's");
    EXPECT_EQ(second.meet(another.listener(), others), nullptr);
}

TEST_F(CageListener, ThatNobodyAsksKeepsNobodyWaiting) {
    Listener listener = Listener::expected();
    ASSERT_EQ(listener.meet(quiet.listener(), {}), nullptr);
    EXPECT_EQ(said(listener.fd(), 0), 0);
    EXPECT_TRUE(listener.answer(POLLIN, base, always)) << "somebody else has taken the question";
}

TEST_F(CageListener, EndsWithItsMapper) {
    Listener listener = Listener::expected();
    ASSERT_EQ(listener.meet(quiet.listener(), {}), nullptr);
    quiet.end();
    EXPECT_EQ(said(listener.fd(), -1), POLLHUP);
    EXPECT_FALSE(listener.answer(POLLHUP, base, always));
    EXPECT_EQ(listener.fd(), -1);
    const auto now = std::chrono::steady_clock::now();
    EXPECT_FALSE(listener.has_left_its_worker(now)) << "the worker may be ending";
    EXPECT_TRUE(listener.has_left_its_worker(now + 2 * Listener::patience));
}

}  // namespace
}  // namespace barcuda::cage
