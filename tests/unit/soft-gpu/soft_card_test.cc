// SPDX-License-Identifier: Apache-2.0
// soft_card_test: processes that share a software GPU's memory (soft-gpu/driver/card.h): together they get what the
// card has and no more, and what a killed process had is free.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <thread>

#include "soft-gpu/driver/card.h"
#include "tests/unit/support/soft_fixture.h"

namespace {

using barcuda::soft::Card;
constexpr std::size_t mib = 1 << 20, total = 256 * mib;

struct SoftCard : SoftGpu {
    static inline const int file = memfd_create("card", MFD_CLOEXEC);
    static void SetUpTestSuite() {
        setenv("BARCUDA_SOFT_CARD", ("/proc/self/fd/" + std::to_string(file)).c_str(), 1);
        SoftGpu::SetUpTestSuite();
    }
};

// A process that does something with the card, says so, and lives until it is killed.
class Process {
  public:
    explicit Process(const std::function<bool(Card&)>& does) : made_(pipe(ready_)), pid_(fork()) {
        if (pid_ != 0) {
            char byte = 0;
            EXPECT_EQ(1, read(ready_[0], &byte, 1));
            EXPECT_EQ('y', byte);
            return;
        }
        Card* const card = Card::open(SoftCard::file);
        const char answer = card && does(*card) ? 'y' : 'n';
        if (write(ready_[1], &answer, 1) != 1) _exit(1);
        for (;;) pause();
    }
    ~Process() {
        kill(pid_, SIGKILL);
        waitpid(pid_, nullptr, 0);
        close(ready_[0]);
        close(ready_[1]);
    }
    Process(const Process&) = delete;

  private:
    int ready_[2] = {-1, -1};
    const int made_;
    const pid_t pid_;
};

TEST_F(SoftCard, TwoProcessesHaveOneCard) {
    const CUdeviceptr own = device_memory(50 * mib);
    std::optional<Process> other([](Card& card) { return card.take(0, 150 * mib, total); });
    EXPECT_EQ(total - 200 * mib, free_memory());
    CUdeviceptr p = 0;
    SAYS(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc(&p, 57 * mib));
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    CUmemGenericAllocationHandle piece = 0;
    SAYS(CUDA_ERROR_OUT_OF_MEMORY, cuMemCreate(&piece, 58 * mib, &properties, 0));
    const CUdeviceptr rest = device_memory(56 * mib);
    EXPECT_EQ(0u, free_memory());
    OK(cuMemFree(own));
    EXPECT_EQ(50 * mib, free_memory());
    OK(cuMemFree(rest));
    other.reset();  // is killed
    EXPECT_EQ(total, free_memory());
    OK(cuMemCreate(&piece, total, &properties, 0));
    OK(cuMemRelease(piece));
}
TEST_F(SoftCard, AnotherProcessGetsNoMoreThanIsLeft) {
    const CUdeviceptr own = device_memory(200 * mib);
    const Process other([](Card& card) {
        const bool much = card.take(0, 57 * mib, total);
        return !much && card.take(0, 56 * mib, total) && card.take(1, total, total) && card.used(0) == total;
    });
    OK(cuMemFree(own));
}
TEST_F(SoftCard, AProcessThatEndsInAnyPlaceLeavesNothing) {
    std::mt19937 random(3);
    for (int round = 0; round < 60; ++round) {
        const Process one([](Card& card) {
            std::thread([&card] {  // until it is killed, with the lock or without
                for (std::uint64_t bytes = mib;; bytes = bytes % (8 * mib) + mib)
                    if (card.take(0, bytes, total) && bytes % (3 * mib) != 0) card.give(0, bytes);
            })
                .detach();
            return true;
        });
        usleep(random() % 2000);
    }
    EXPECT_EQ(total, free_memory());
    const CUdeviceptr all = device_memory(total);
    OK(cuMemFree(all));
}
TEST_F(SoftCard, AFileOfAnotherKindIsNotUsed) {
    const int made = memfd_create("other", MFD_CLOEXEC);
    ASSERT_EQ(16, write(made, "something else..", 16));
    EXPECT_EQ(nullptr, Card::open(made));
    close(made);
}

}  // namespace
