// SPDX-License-Identifier: Apache-2.0
// module.h: what a launch needs to know about a function, and how an image reaches the worker.
#pragma once
#include <cuda.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "guest-allocator/client/mutex.h"
#include "guest-allocator/driver/image.h"
#include "shm-device/rows/launch.h"
#include "shm-device/rows/module.h"

namespace barcuda::guest {

// How much dynamic shared memory the driver is known to allow a block of a function: a number and its time, since what
// the program sets for a kernel may hold for any function.
class SharedLimit {
  public:
    using Time = std::uint32_t;
    static Time now() noexcept { return time.load(std::memory_order_acquire); }
    static Time set_somewhere() noexcept { return time.fetch_add(1, std::memory_order_acq_rel) + 1; }

    SharedLimit(Time when, unsigned bytes) noexcept { set(when, bytes); }
    void set(Time when, unsigned bytes) noexcept { known_.store(limit(when, bytes), std::memory_order_relaxed); }
    // So much was allowed; the limit itself may be higher.
    void learn(Time when, unsigned bytes) noexcept {
        known_.store(std::uint64_t{when} << 32 | bytes, std::memory_order_relaxed);
    }
    bool allows(unsigned bytes) const noexcept {
        const std::uint64_t known = known_.load(std::memory_order_relaxed);
        return bytes == 0 || (bytes <= (known & ~whole & 0xffffffff) && known >> 32 == now());
    }
    bool is(unsigned bytes) const noexcept { return known_.load(std::memory_order_relaxed) == limit(now(), bytes); }

  private:
    static constexpr std::uint64_t whole = 1u << 31;  // the number is the limit
    static std::uint64_t limit(Time when, unsigned bytes) { return std::uint64_t{when} << 32 | whole | bytes; }
    std::atomic<std::uint64_t> known_;
    static inline std::atomic<Time> time{0};
};

// The clusters that a function has been launched with: the same again is not refused, whatever the grid of whole ones.
class KnownClusters {
  public:
    bool allows(const ext::Shape& s) const noexcept {
        for (int i = 0; i < 3; ++i)
            if (!s.cluster[i] || s.grid[i] % s.cluster[i]) return false;
        const std::uint64_t it = key(s);
        return it && known_.load(std::memory_order_relaxed) == it;
    }
    void learn(const ext::Shape& s) const noexcept { known_.store(key(s), std::memory_order_relaxed); }

  private:
    // 24, 12, 24, 2 and 1 bits; 0: not what a launch that was accepted has.
    static std::uint64_t key(const ext::Shape& s) noexcept {
        std::uint64_t cluster = 0, threads = 1;
        for (int i = 0; i < 3; ++i) {
            if (s.cluster[i] > 0xff || s.block[i] > 0xfff) return 0;
            cluster = cluster << 8 | s.cluster[i];
            threads *= s.block[i];
        }
        if (threads > 0xfff || s.shared_bytes >> 24 || s.spread > 3) return 0;
        return cluster << 39 | threads << 27 | std::uint64_t{s.shared_bytes} << 3 | std::uint64_t{s.spread} << 1 | 1;
    }
    mutable std::atomic<std::uint64_t> known_{0};
};

struct FunctionFacts {
    std::uint32_t parameter_count;
    std::uint32_t parameter_bytes;  // offset + size of the last one
    int max_threads_per_block;
    mutable SharedLimit shared;
    // The program has set the function's own limit: what is set for its kernel leaves it as it is from then on.
    mutable std::atomic<bool> own_limit{false};
    KnownClusters clusters{};

    struct Parameter {
        std::uint16_t offset, size;
    };  // bytes, in the parameter buffer
    Parameter* parameters() { return reinterpret_cast<Parameter*>(this + 1); }
    const Parameter* parameters() const { return reinterpret_cast<const Parameter*>(this + 1); }
};

// A kernel of a library (CUkernel) may stand for a function wherever one is asked for: it is its function in the
// current context. All else, and a kernel that has none there, as it is. (Every command's functions go through here.)
CUfunction real(CUfunction function) noexcept;
bool is_kernel(CUfunction function) noexcept;

// Null: `error` says why. The first question about a function goes to the worker.
const FunctionFacts* facts(CUfunction function, CUresult& error) noexcept;

// An image on its way to the worker: by way of the region or, where it is large or the region full, in parts that ride
// in commands. The command that loads it gets `where`.
class SentImage {
  public:
    explicit SentImage(const Selection& image) noexcept;
    ~SentImage();
    SentImage(const SentImage&) = delete;
    SentImage& operator=(const SentImage&) = delete;

    CUresult error = CUDA_SUCCESS;
    const void* where() const noexcept { return staged_; }

  private:
    void send_parts(const Selection& image) noexcept;
    void send_pieces(const Selection& image) noexcept;

    void* staged_;                  // null: sent in parts
    std::unique_lock<Mutex> lock_;  // the worker collects the parts of one image at a time
};

// The file, ended by a NUL behind its `size` bytes; to be freed. Null: it cannot be read.
char* read_file(const char* path, std::size_t& size) noexcept;

}  // namespace barcuda::guest
