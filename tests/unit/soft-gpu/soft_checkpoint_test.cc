// SPDX-License-Identifier: Apache-2.0
// cuCheckpointProcess* of the software GPU: what a locked process does not do, what a checkpoint frees, and what ends a
// process permanently, as in NVIDIA's driver.
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <new>
#include <thread>

#include "soft-gpu/driver/card.h"
#include "soft-gpu/driver/ledger.h"
#include "tests/unit/support/soft_fixture.h"

namespace {

using barcuda::soft::Card;
using barcuda::soft::Ledger;
constexpr std::size_t mebibyte = 1 << 20;

struct SoftCheckpoint : SoftGpu {
    static inline const int card_file = memfd_create("card", MFD_CLOEXEC);
    static void SetUpTestSuite() {
        GTEST_FLAG_SET(death_test_style, "threadsafe");
        setenv("BARCUDA_SOFT_MEMORY", "256M", 1);
        setenv("BARCUDA_SOFT_CARD", ("/proc/self/fd/" + std::to_string(card_file)).c_str(), 1);
        OK(cuInit(0));
        OK(cuDeviceGet(&device, 0));
    }
    static CUresult lock(unsigned milliseconds = 10'000) {
        CUcheckpointLockArgs args{};
        args.timeoutMs = milliseconds;
        return cuCheckpointProcessLock(getpid(), &args);
    }
    static CUresult checkpoint() { return cuCheckpointProcessCheckpoint(getpid(), nullptr); }
    static CUresult restore() { return cuCheckpointProcessRestore(getpid(), nullptr); }
    static CUresult unlock() { return cuCheckpointProcessUnlock(getpid(), nullptr); }
    static CUprocessState state() {
        CUprocessState state = CU_PROCESS_STATE_FAILED;
        EXPECT_EQ(CUDA_SUCCESS, cuCheckpointProcessGetState(getpid(), &state));
        return state;
    }
    static std::uint64_t used() { return Ledger::of(0).used; }
    static CUmemGenericAllocationHandle physical(std::size_t size) {
        CUmemAllocationProp p{};
        p.type = CU_MEM_ALLOCATION_TYPE_PINNED;
        p.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
        p.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
        CUmemGenericAllocationHandle made = 0;
        EXPECT_EQ(CUDA_SUCCESS, cuMemCreate(&made, size, &p, 0));
        return made;
    }
    static CUdeviceptr mapped(CUmemGenericAllocationHandle memory, std::size_t size) {
        CUdeviceptr at = 0;
        const CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
        EXPECT_EQ(CUDA_SUCCESS, cuMemAddressReserve(&at, size, 0, 0, 0));
        EXPECT_EQ(CUDA_SUCCESS, cuMemMap(at, size, 0, memory, 0));
        EXPECT_EQ(CUDA_SUCCESS, cuMemSetAccess(at, size, &access, 1));
        return at;
    }
    static int file_of(CUmemGenericAllocationHandle memory) {
        int file = -1;
        EXPECT_EQ(CUDA_SUCCESS,
                  cuMemExportToShareableHandle(&file, memory, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
        return file;
    }
};

// A process that uses nearly all of the card.
class Neighbour {
  public:
    Neighbour() : pid_(fork()) {
        if (pid_ == 0) {
            Card* const card = Card::open(SoftCheckpoint::card_file);
            const std::uint64_t total = Ledger::of(0).total;
            if (!card || !card->take(0, total - mebibyte, total)) _exit(1);
            if (write(ready_[1], "", 1) != 1) _exit(1);
            for (;;) pause();
        }
        char byte;
        EXPECT_EQ(1, read(ready_[0], &byte, 1));
    }
    ~Neighbour() {
        kill(pid_, SIGKILL);
        waitpid(pid_, nullptr, 0);
        close(ready_[0]);
        close(ready_[1]);
    }

  private:
    int ready_[2] = {-1, -1};
    const int made_ = pipe(ready_);
    const pid_t pid_;
};

TEST_F(SoftCheckpoint, EachStateHasItsOwnSuccessorsAndRefusesTheOthers) {
    EXPECT_EQ(CU_PROCESS_STATE_RUNNING, state());
    SAYS(CUDA_ERROR_ILLEGAL_STATE, checkpoint());
    SAYS(CUDA_ERROR_ILLEGAL_STATE, restore());
    SAYS(CUDA_ERROR_ILLEGAL_STATE, unlock());
    OK(lock());
    EXPECT_EQ(CU_PROCESS_STATE_LOCKED, state());
    SAYS(CUDA_ERROR_ILLEGAL_STATE, lock());
    SAYS(CUDA_ERROR_ILLEGAL_STATE, restore());
    OK(checkpoint());
    EXPECT_EQ(CU_PROCESS_STATE_CHECKPOINTED, state());
    SAYS(CUDA_ERROR_ILLEGAL_STATE, lock());
    SAYS(CUDA_ERROR_ILLEGAL_STATE, checkpoint());
    SAYS(CUDA_ERROR_ILLEGAL_STATE, unlock());
    OK(restore());
    EXPECT_EQ(CU_PROCESS_STATE_LOCKED, state());
    OK(unlock());
    EXPECT_EQ(CU_PROCESS_STATE_RUNNING, state());
}

TEST_F(SoftCheckpoint, CallsWaitWhileTheProcessIsLocked) {
    const CUdeviceptr at = device_memory(mebibyte);
    OK(lock());
    std::atomic<bool> begun = false, done = false;
    std::thread other([&] {
        begun = true;
        EXPECT_EQ(CUDA_SUCCESS, cuCtxSetCurrent(context));
        EXPECT_EQ(CUDA_SUCCESS, cuMemsetD8(at, 7, mebibyte));
        done = true;
    });
    while (!begun) std::this_thread::yield();
    OK(checkpoint());
    OK(restore());
    EXPECT_FALSE(done);
    OK(unlock());
    other.join();
    EXPECT_EQ(7, read_back<std::uint8_t>(at, mebibyte)[mebibyte - 1]);
    OK(cuMemFree(at));
}

TEST_F(SoftCheckpoint, ALockWaitsForTheWorkOfAllStreams) {
    CUstream stream = nullptr;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    std::atomic<bool> may_end = false, ended = false;
    struct Words {
        std::atomic<bool>&may_end, &ended;
    } words{may_end, ended};
    OK(cuLaunchHostFunc(
        stream,
        [](void* data) {
            auto& w = *static_cast<Words*>(data);
            while (!w.may_end) std::this_thread::yield();
            w.ended = true;
        },
        &words));
    std::thread other([&] { may_end = true; });
    OK(lock());
    EXPECT_TRUE(ended);
    OK(unlock());
    other.join();
    OK(cuStreamDestroy(stream));
}

TEST_F(SoftCheckpoint, ALockWhoseTimeEndsLeavesTheProcessAsItWas) {
    const CUdeviceptr word = device_memory(256);
    CUstream waits = nullptr;
    OK(cuStreamCreate(&waits, CU_STREAM_NON_BLOCKING));
    OK(cuMemsetD32(word, 0, 1));
    OK(cuStreamWaitValue32(waits, word, 1, CU_STREAM_WAIT_VALUE_EQ));
    SAYS(CUDA_ERROR_NOT_READY, lock(20));
    EXPECT_EQ(CU_PROCESS_STATE_RUNNING, state());
    OK(cuMemsetD32(word, 1, 1));
    OK(cuStreamSynchronize(waits));
    OK(lock());
    OK(unlock());
    OK(cuStreamDestroy(waits));
    OK(cuMemFree(word));
}

TEST_F(SoftCheckpoint, NothingIsOnTheCardInBetweenAndAllIsThereAfterwards) {
    constexpr std::size_t size = 4 * mebibyte;
    const CUdeviceptr plain = device_memory(size);
    const auto memory = physical(size);
    const CUdeviceptr by_map = mapped(memory, size);
    CUmemPoolProps props{};
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    props.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    CUmemoryPool pool = nullptr;
    OK(cuMemPoolCreate(&pool, &props));
    CUdeviceptr pooled = 0;
    OK(cuMemAllocFromPoolAsync(&pooled, size, pool, nullptr));
    OK(cuMemsetD32(plain, 11, size / 4));
    OK(cuMemsetD32(by_map, 12, size / 4));
    OK(cuMemsetD32(pooled, 13, size / 4));
    OK(cuCtxSynchronize());
    const std::uint64_t before = used();
    for (int times = 0; times < 3; ++times) {
        OK(lock());
        OK(checkpoint());
        EXPECT_EQ(0u, used());
        EXPECT_EQ(0u, Ledger::of(0).contexts);
        OK(restore());
        EXPECT_EQ(before, used());
        EXPECT_EQ(1u, Ledger::of(0).contexts);
        OK(unlock());
        EXPECT_EQ(std::vector<int>(size / 4, 11), read_back<int>(plain, size / 4));
        EXPECT_EQ(std::vector<int>(size / 4, 12), read_back<int>(by_map, size / 4));
        EXPECT_EQ(std::vector<int>(size / 4, 13), read_back<int>(pooled, size / 4));
    }
    OK(cuMemFree(plain));
    OK(cuMemFree(pooled));
    OK(cuMemPoolDestroy(pool));
    OK(cuMemUnmap(by_map, size));
    OK(cuMemAddressFree(by_map, size));
    OK(cuMemRelease(memory));
}

TEST_F(SoftCheckpoint, WhatOtherProcessesHaveOpenIsNoLongerTheSameMemory) {
    constexpr std::size_t size = 2 * mebibyte;
    const auto memory = physical(size);
    const CUdeviceptr at = mapped(memory, size);
    const int file = file_of(memory);
    OK(cuMemsetD8(at, 1, size));
    OK(lock());
    OK(checkpoint());
    OK(restore());
    OK(unlock());
    OK(cuMemsetD8(at, 2, size));
    char seen = 0;
    ASSERT_EQ(1, pread(file, &seen, 1, 0));
    EXPECT_EQ(1, seen);
    close(file);
    OK(cuMemUnmap(at, size));
    OK(cuMemAddressFree(at, size));
    OK(cuMemRelease(memory));
}

TEST_F(SoftCheckpoint, ACheckpointForWhichTheProcessHasNoMemoryChangesNothing) {
    const CUdeviceptr at = device_memory(64 * mebibyte);
    OK(cuMemsetD8(at, 5, 64 * mebibyte));
    OK(lock());
    rlimit before{};
    ASSERT_EQ(0, getrlimit(RLIMIT_DATA, &before));
    const rlimit small{1, before.rlim_max};
    ASSERT_EQ(0, setrlimit(RLIMIT_DATA, &small));
    const CUresult answer = checkpoint();
    ASSERT_EQ(0, setrlimit(RLIMIT_DATA, &before));
    EXPECT_EQ(CUDA_ERROR_OUT_OF_MEMORY, answer);
    EXPECT_EQ(CU_PROCESS_STATE_LOCKED, state());
    OK(unlock());
    EXPECT_EQ(5, read_back<std::uint8_t>(at + 64 * mebibyte - 1, 1)[0]);
    OK(cuMemFree(at));
}

TEST_F(SoftCheckpoint, ManagedMemoryIsRefusedAndNothingHasChanged) {
    CUdeviceptr at = 0;
    OK(cuMemAllocManaged(&at, mebibyte, CU_MEM_ATTACH_GLOBAL));
    OK(lock());
    EXPECT_EQ(CUDA_ERROR_NOT_SUPPORTED, checkpoint());
    EXPECT_EQ(CU_PROCESS_STATE_LOCKED, state());
    OK(unlock());
    OK(cuMemFree(at));
    OK(lock());
    OK(checkpoint());
    OK(restore());
    OK(unlock());
}

TEST_F(SoftCheckpoint, ARestoreWithoutRoomIsTheLastOne) {
    const auto dies = [] {
        device_memory(32 * mebibyte);
        bool right = lock() == CUDA_SUCCESS && checkpoint() == CUDA_SUCCESS;
        {
            const Neighbour neighbour;
            right = right && restore() == CUDA_ERROR_OUT_OF_MEMORY && state() == CU_PROCESS_STATE_CHECKPOINTED;
        }
        right = right && restore() == CUDA_ERROR_OPERATING_SYSTEM && restore() == CUDA_ERROR_OPERATING_SYSTEM &&
                state() == CU_PROCESS_STATE_FAILED;
        _exit(right ? 33 : 1);
    };
    EXPECT_EXIT(dies(), testing::ExitedWithCode(33), "");
}

TEST_F(SoftCheckpoint, AProcessThatHasOpenedAnothersMemoryIsNeverRestored) {
    const auto dies = [] {
        const int file = file_of(physical(2 * mebibyte));
        CUmemGenericAllocationHandle opened = 0;
        bool right = cuMemImportFromShareableHandle(&opened, reinterpret_cast<void*>(std::intptr_t{file}),
                                                    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) == CUDA_SUCCESS;
        right = right && lock() == CUDA_SUCCESS && checkpoint() == CUDA_SUCCESS;
        right = right && restore() == CUDA_ERROR_NOT_SUPPORTED && restore() == CUDA_ERROR_NOT_SUPPORTED;
        _exit(right ? 33 : 1);
    };
    EXPECT_EXIT(dies(), testing::ExitedWithCode(33), "");
}

TEST_F(SoftCheckpoint, AProcessThatHasOpenedAnothersPoolIsNeverRestored) {
    const auto dies = [] {
        CUmemPoolProps p{};
        p.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
        p.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
        p.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
        CUmemoryPool pool = nullptr, opened = nullptr;
        int file = -1;
        bool right = cuMemPoolCreate(&pool, &p) == CUDA_SUCCESS;
        right = right && cuMemPoolExportToShareableHandle(&file, pool, p.handleTypes, 0) == CUDA_SUCCESS;
        right = right && cuMemPoolImportFromShareableHandle(&opened, reinterpret_cast<void*>(std::intptr_t{file}),
                                                            p.handleTypes, 0) == CUDA_SUCCESS;
        right = right && lock() == CUDA_SUCCESS && checkpoint() == CUDA_SUCCESS;
        right = right && restore() == CUDA_ERROR_INVALID_VALUE && restore() == CUDA_ERROR_INVALID_VALUE;
        _exit(right ? 33 : 1);
    };
    EXPECT_EXIT(dies(), testing::ExitedWithCode(33), "");
}

TEST_F(SoftCheckpoint, AnotherProcessIsNotItsAffair) {
    CUprocessState state;
    SAYS(CUDA_ERROR_NOT_SUPPORTED, cuCheckpointProcessGetState(getppid(), &state));
    SAYS(CUDA_ERROR_NOT_SUPPORTED, cuCheckpointProcessLock(getppid(), nullptr));
}

TEST_F(SoftCheckpoint, ReservedArgumentsAreZero) {
    CUcheckpointLockArgs args{};
    args.reserved1[6] = 1;
    SAYS(CUDA_ERROR_INVALID_VALUE, cuCheckpointProcessLock(getpid(), &args));
    EXPECT_EQ(CU_PROCESS_STATE_RUNNING, state());
}

}  // namespace
