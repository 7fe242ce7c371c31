// SPDX-License-Identifier: Apache-2.0
// checkpoint_calls.cc: cuCheckpointProcess*, for the process that calls them. A locked process is idle and takes no
// call. A checkpoint moves the contents of its device memory to memory of the process, and frees the device memory; a
// restore needs room for all of it. What a real device refuses this one refuses (seen with driver 580.159 on an H100):
// managed memory and managed variables. Where a real device fails permanently, so does this one: a restore without room
// is the last one, and a process that has opened another one's memory is never restored.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "soft-gpu/driver/context.h"
#include "soft-gpu/driver/driver.h"
#include "soft-gpu/driver/pool.h"
#include "soft-gpu/driver/shareable.h"

namespace barcuda::soft::driver {
namespace {

// The contents of a file in memory, copied into memory of the process. Pages that the file lacks cost nothing.
class Contents {
  public:
    // Throws CUDA_ERROR_OUT_OF_MEMORY.
    Contents(int file, std::size_t size) {
        for (off_t at = 0, end = static_cast<off_t>(size); at < end;) {
            const off_t first = lseek(file, at, SEEK_DATA);
            if (first < 0 || first >= end) break;
            const off_t hole = std::min(lseek(file, first, SEEK_HOLE), end);
            const auto bytes = static_cast<std::size_t>(hole - first);
            void* const pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            if (pages == MAP_FAILED) fail(CUDA_ERROR_OUT_OF_MEMORY);
            parts_.push_back({first, bytes, pages});
            each(parts_.back(), [file](char* to, std::size_t n, off_t from) { return pread(file, to, n, from); });
            at = hole;
        }
    }
    Contents(Contents&& from) noexcept : parts_(std::exchange(from.parts_, {})) {}
    ~Contents() {
        for (const Part& part : parts_) munmap(part.pages, part.bytes);
    }
    void write(int file) const {
        for (const Part& part : parts_)
            each(part, [file](const char* from, std::size_t n, off_t to) { return pwrite(file, from, n, to); });
    }

  private:
    struct Part {
        off_t offset;
        std::size_t bytes;
        void* pages;
    };
    template <class Move> static void each(const Part& part, const Move& move) {
        constexpr std::size_t at_once = 1 << 30;  // the kernel moves at most 2 GiB
        for (std::size_t done = 0; done < part.bytes;) {
            const ssize_t n = move(static_cast<char*>(part.pages) + done, std::min(at_once, part.bytes - done),
                                   part.offset + static_cast<off_t>(done));
            if (n <= 0) fail(CUDA_ERROR_OUT_OF_MEMORY);
            done += static_cast<std::size_t>(n);
        }
    }
    std::vector<Part> parts_;
};

struct SavedPool {
    std::shared_ptr<Pool> pool;
    Label label;
    Contents contents;
};
struct SavedPhysical {
    std::shared_ptr<Physical> physical;
    Contents contents;
};

// Everything that the process has on its devices.
class Image {
  public:
    Image() : heap_(Driver::get().memory.heap().file(), Driver::get().memory.heap().size()) {
        Driver& driver = Driver::get();
        for (auto& pool : driver.pools.all()) {
            if (pool->imported >= 0) never_ = CUDA_ERROR_INVALID_VALUE;
            if (pool->own) add(pool);
        }
        std::set<std::shared_ptr<Physical>> physicals;
        for (auto& physical : driver.physicals.all()) physicals.insert(physical);
        driver.memory.each([&](const Allocation& range) {
            if (range.is_managed()) fail(CUDA_ERROR_NOT_SUPPORTED);
            if (range.opened) never_ = CUDA_ERROR_INVALID_VALUE;
            if (range.physical) physicals.insert(range.physical);
        });
        for (const auto& physical : physicals)
            if (physical->counted) physicals_.push_back({physical, {physical->file, physical->size}});
            else never_ = CUDA_ERROR_NOT_SUPPORTED;
    }

    // Frees everything that the process has on its devices.
    void leave() {
        Driver& driver = Driver::get();
        driver.memory.heap().leave();
        for (const SavedPool& saved : pools_) saved.pool->own->leave();
        driver.memory.each([](const Allocation& range) {
            if (range.physical && range.physical->counted)
                mmap(reinterpret_cast<void*>(range.base), range.size, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
        });
        for (const SavedPhysical& saved : physicals_) close(std::exchange(saved.physical->file, -1));
        for (int d = 0; d < driver.settings.devices; ++d) {
            driver.memory.give(d, used_[static_cast<std::size_t>(d)] = driver.memory.used(d));
            contexts_[static_cast<std::size_t>(d)] = Ledger::of(d).contexts.exchange(0);
        }
    }

    // Throws the result of cuCheckpointProcessRestore.
    void come_back() {
        if (never_ != CUDA_SUCCESS) fail(never_);
        Driver& driver = Driver::get();
        for (int d = 0; d < driver.settings.devices; ++d)
            if (!driver.memory.take(d, used_[static_cast<std::size_t>(d)])) {
                while (d-- != 0) driver.memory.give(d, used_[static_cast<std::size_t>(d)]);
                fail(CUDA_ERROR_OUT_OF_MEMORY);
            }
        driver.memory.heap().come_back();
        heap_.write(driver.memory.heap().file());
        for (const SavedPool& saved : pools_) {
            saved.pool->own->come_back(make_shareable(saved.label));
            saved.contents.write(saved.pool->own->file());
        }
        for (const SavedPhysical& saved : physicals_) {
            Physical& physical = *saved.physical;
            physical.file = make_shareable({Label::What::memory, physical.size, physical.properties});
            saved.contents.write(physical.file);
        }
        driver.memory.each([](const Allocation& range) {
            if (!range.physical || !range.physical->counted) return;
            const int access = (range.accessible ? PROT_READ : 0) | (range.writable ? PROT_WRITE : 0);
            if (mmap(reinterpret_cast<void*>(range.base), range.size, range.accessible ? access : PROT_NONE,
                     MAP_SHARED | MAP_FIXED, range.physical->file, 0) == MAP_FAILED)
                fail(CUDA_ERROR_OUT_OF_MEMORY);
            madvise(reinterpret_cast<void*>(range.base), range.size, MADV_DONTFORK);
        });
        for (int d = 0; d < driver.settings.devices; ++d) {
            Ledger::of(d).contexts += contexts_[static_cast<std::size_t>(d)];
        }
    }

  private:
    void add(const std::shared_ptr<Pool>& pool) {
        Label label{};
        const Heap& heap = *pool->own;
        require(pread(heap.file(), &label, sizeof label, static_cast<off_t>(heap.size())) == sizeof label,
                CUDA_ERROR_OPERATING_SYSTEM);
        pools_.push_back({pool, label, {heap.file(), heap.size()}});
    }

    Contents heap_;
    std::vector<SavedPool> pools_;
    std::vector<SavedPhysical> physicals_;
    std::array<std::uint64_t, most_devices> used_{}, contexts_{};
    CUresult never_ = CUDA_SUCCESS;  // otherwise the result of each restore
};

struct Checkpoint {
    std::mutex mutex;
    CUprocessState state = CU_PROCESS_STATE_RUNNING;
    std::optional<Image> image;
    bool lost = false;  // a restore has found no room
};
Checkpoint& checkpoint() {
    static auto* const one = new Checkpoint;
    return *one;
}

// The frame of these functions. They pass no gate, and act on this process only.
template <class Body> CUresult about(int pid, const Body& body, const char* name = __builtin_FUNCTION()) {
    return answer(name, [&] {
        require_initialized();
        if (pid != getpid()) refuse("a checkpoint of another process");
        Checkpoint& it = checkpoint();
        const std::lock_guard lock(it.mutex);
        body(it);
    });
}

// All reserved fields of arguments must be zero.
template <class Args> bool zero(const Args* args, std::size_t from) {
    const auto* const bytes = reinterpret_cast<const char*>(args);
    return !args || std::all_of(bytes + from, bytes + sizeof *args, [](char byte) { return byte == 0; });
}

bool idle() {
    if (!Gate::empty()) return false;
    for (const auto& context : Driver::get().contexts.all())
        for (const Mark& mark : context->marks())
            if (!mark.done()) return false;
    return true;
}

}  // namespace
}  // namespace barcuda::soft::driver

using namespace barcuda::soft::driver;

CUresult cuCheckpointProcessGetRestoreThreadId(int pid, int* tid) {
    return about(pid, [&](const Checkpoint&) {
        require(tid);
        *tid = getpid();  // the first thread
    });
}

CUresult cuCheckpointProcessGetState(int pid, CUprocessState* state) {
    return about(pid, [&](const Checkpoint& it) {
        require(state);
        *state = it.state;
    });
}

CUresult cuCheckpointProcessLock(int pid, CUcheckpointLockArgs* args) {
    return about(pid, [&](Checkpoint& it) {
        require(zero(args, offsetof(CUcheckpointLockArgs, reserved0)));
        require(it.state == CU_PROCESS_STATE_RUNNING, CUDA_ERROR_ILLEGAL_STATE);
        const auto most = std::chrono::milliseconds(args ? args->timeoutMs : 0);
        const auto begun = std::chrono::steady_clock::now();
        Gate::shut();
        while (!idle()) {
            if (most.count() != 0 && std::chrono::steady_clock::now() - begun > most) {
                Gate::open();
                fail(CUDA_ERROR_NOT_READY);
            }
            std::this_thread::sleep_for(std::chrono::microseconds(100));
        }
        it.state = CU_PROCESS_STATE_LOCKED;
    });
}

CUresult cuCheckpointProcessCheckpoint(int pid, CUcheckpointCheckpointArgs* args) {
    return about(pid, [&](Checkpoint& it) {
        require(zero(args, 0));
        require(it.state == CU_PROCESS_STATE_LOCKED, CUDA_ERROR_ILLEGAL_STATE);
        it.image.emplace();  // if this fails nothing has changed
        it.image->leave();
        it.state = CU_PROCESS_STATE_CHECKPOINTED;
    });
}

CUresult cuCheckpointProcessRestore(int pid, CUcheckpointRestoreArgs* args) {
    return about(pid, [&](Checkpoint& it) {
        require(zero(args, offsetof(CUcheckpointRestoreArgs, reserved)));
        if (args && args->gpuPairsCount != 0) refuse("a restore on another device");
        if (it.lost) {
            it.state = CU_PROCESS_STATE_FAILED;
            fail(CUDA_ERROR_OPERATING_SYSTEM);
        }
        require(it.state == CU_PROCESS_STATE_CHECKPOINTED, CUDA_ERROR_ILLEGAL_STATE);
        try {
            it.image->come_back();
        } catch (const barcuda::soft::Error& error) {
            it.lost = error.code == CUDA_ERROR_OUT_OF_MEMORY;
            throw;
        }
        it.image.reset();
        it.state = CU_PROCESS_STATE_LOCKED;
    });
}

CUresult cuCheckpointProcessUnlock(int pid, CUcheckpointUnlockArgs* args) {
    return about(pid, [&](Checkpoint& it) {
        require(zero(args, 0));
        require(it.state == CU_PROCESS_STATE_LOCKED, CUDA_ERROR_ILLEGAL_STATE);
        it.state = CU_PROCESS_STATE_RUNNING;
        Gate::open();
    });
}
