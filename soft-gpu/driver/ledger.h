// SPDX-License-Identifier: Apache-2.0
// ledger.h: what a process uses of each software GPU, readable by other processes: in a file in memory behind a
// descriptor of a known number. So the software GPU's NVML (soft-gpu/nvml) sees all processes, as a kernel's driver
// would, without a protocol and without leftovers: a ledger ends with its process.
#pragma once
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <span>

namespace barcuda::soft {

constexpr int most_devices = 32;

struct Ledger {
    static constexpr const char* name = "barcuda-ledger";
    static constexpr int descriptor = 700;  // or the next free one: then other processes do not find it
    static constexpr std::uint64_t form = 2;

    std::uint64_t format = form;
    std::int64_t pid = 0;  // a forked child has the descriptor too, but no device
    struct Device {
        std::atomic<std::uint64_t> used{0};      // bytes of its memory
        std::atomic<std::uint64_t> contexts{0};  // that live
        std::atomic<std::uint64_t> busy{0};      // nanoseconds in which kernels ran, without those that run now
        std::atomic<std::uint64_t> running{0};   // kernels
        std::atomic<std::uint64_t> since{0};     // when the first of those began
        std::atomic<std::uint64_t> total{0};     // bytes: processes with different sizes do not share a card
    } devices[most_devices];                     // in the machine's order

    static Ledger& own();  // this process's, made at the first call
    // A device by this process's number: CUDA_VISIBLE_DEVICES may select and reorder the machine's devices.
    static Device& of(int device) { return own().devices[numbers_[static_cast<std::size_t>(device)]]; }
    static int number_of(int device) { return numbers_[static_cast<std::size_t>(device)]; }
    static void show(std::span<const int> numbers);  // the machine's numbers; call it before of()
    static std::uint64_t now() {
        return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
    }

  private:
    static std::array<int, most_devices> numbers_;
};

// Lives while a kernel runs.
class Busy {
  public:
    explicit Busy(int device);
    ~Busy();
    Busy(const Busy&) = delete;

  private:
    Ledger::Device& device_;
};

}  // namespace barcuda::soft
