// SPDX-License-Identifier: Apache-2.0
// What the heap promises where it is interrupted: by signals, by cancellation, by processes that are started past it,
// and where there is nothing left to work with. Each test runs in a process of its own, as a program without threads.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "guest-allocator/heap/core.h"
#include "tests/heap/support/memfd_source.h"

using namespace barcuda::heap;
using namespace barcuda::heap::test;

#ifdef __SANITIZE_ADDRESS__
// The signal stack that AddressSanitizer gives a thread it takes back on that thread's own stack, which a cancelled
// thread has left as it was: it would report itself.
extern "C" [[gnu::visibility("default")]] const char* __asan_default_options() { return "use_sigaltstack=0"; }
#endif

namespace {

constexpr std::size_t MiB = 1 << 20;
void nothing() {}
void (*in_the_middle)() = nothing;  // called while the source grants and releases

// A host that takes its time.
class SlowSource final : public ExtentSource {
  public:
    MemfdSource* const fast = MemfdSource::open(std::size_t{512} << 20);

    Extent window() const noexcept override { return fast->window(); }
    bool grant(std::size_t bytes, Extent& out) noexcept override {
        in_the_middle();
        return fast->grant(bytes, out);
    }
    void release(Extent extent) noexcept override {
        in_the_middle();
        fast->release(extent);
    }
    bool forks_by_itself() const noexcept override { return false; }
};

int status_of(pid_t pid) {
    int status = -1;
    return waitpid(pid, &status, 0) == pid ? status : -1;
}
template <class F> bool in_child(F body) {
    const pid_t pid = fork();
    if (!pid) _exit(body() ? 0 : 1);
    return status_of(pid) == 0;
}
bool full_of(const unsigned char* p, unsigned char byte) { return p[0] == byte && !memcmp(p, p + 1, MiB - 1); }
unsigned char* filled(unsigned char byte) {
    auto* const p = static_cast<unsigned char*>(region_alloc(MiB, 16, false));
    return p && in_region(p, MiB) ? static_cast<unsigned char*>(memset(p, byte, MiB)) : nullptr;
}

#define IN_A_PROCESS(...)                   \
    EXPECT_EXIT(                            \
        {                                   \
            alarm(60);                      \
            _exit((__VA_ARGS__)() ? 0 : 1); \
        },                                  \
        testing::ExitedWithCode(0), "")

TEST(Interrupted, AHandlerMayForkWhileTheHeapGrows) {
#ifdef __SANITIZE_THREAD__
    GTEST_SKIP() << "there are threads from the start";
#endif
    IN_A_PROCESS([] {
        static bool seen = false;
        static unsigned char* before = filled(3);
        signal(SIGUSR1, [](int) { seen = in_child([] { return full_of(before, 3); }); });
        in_the_middle = [] { raise(SIGUSR1); };
        void* const p = region_alloc(200 * MiB, 16, false);
        return before && seen && p && full_of(before, 3) && in_child([] { return full_of(before, 3); });
    });
}

TEST(Interrupted, ACancelledThreadEndsNeitherInMallocNorInFreeNorInFork) {
    IN_A_PROCESS([] {
        in_the_middle = [] { usleep(1000); };
        static std::atomic<bool> done{false};
        static unsigned char* block;
        pthread_t thread;
        pthread_create(
            &thread, nullptr,
            [](void*) -> void* {
                pthread_cancel(pthread_self());
                block = filled(5);
                void* const other = region_alloc(100 * MiB, 16, false);
                region_free(other);
                trim(true);
                if (pid_t pid = fork()) {
                    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, nullptr);
                    done = block && other && status_of(pid) == 0;
                    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, nullptr);
                } else {
                    _exit(full_of(block, 5) ? 0 : 1);
                }
                pthread_testcancel();
                return nullptr;
            },
            nullptr);
        void* result = nullptr;
        pthread_join(thread, &result);
        return done && result == PTHREAD_CANCELED && in_child([] { return full_of(block, 5); });
    });
}

// Another thread starts processes with the bare system call; they live on, and hold what the fork has opened.
TEST(Interrupted, AForkDoesNotWaitForProcessesThatAreNotItsOwn) {
    IN_A_PROCESS([] {
        unsigned char* const p = filled(7);
        int hold[2];
        if (pipe(hold)) return false;
        std::atomic<bool> stop{false};
        std::thread other([&] {
            for (int i = 0; i < 300 && !stop; ++i) {
                if (!syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0)) {
                    syscall(SYS_close, hold[1]);
                    for (char c; syscall(SYS_read, hold[0], &c, 1) < 0;) {}
                    syscall(SYS_exit_group, 0);
                }
                usleep(200);
            }
        });
        bool right = true;
        for (int i = 0; i < 50 && right; ++i) right = in_child([&] { return full_of(p, 7); });
        stop = true;
        other.join();
        close(hold[1]);
        while (wait(nullptr) > 0) {}
        return right;
    });
}

TEST(Interrupted, AProgramWithoutDescriptorsForks) {
    IN_A_PROCESS([] {
        unsigned char* const p = filled(9);
        rlimit most;
        getrlimit(RLIMIT_NOFILE, &most);
        most.rlim_cur = 64;
        if (setrlimit(RLIMIT_NOFILE, &most)) return false;
        while (open("/dev/null", O_RDONLY) >= 0) {}
        const bool right = in_child([&] { return full_of(p, 9); });
        rlimit after;
        getrlimit(RLIMIT_NOFILE, &after);
        return right && open("/dev/null", O_RDONLY) < 0 && after.rlim_cur == 64 && after.rlim_max == most.rlim_max;
    });
}

}  // namespace

ExtentSource* barcuda::heap::connect() noexcept {
    static SlowSource source;
    return &source;
}
