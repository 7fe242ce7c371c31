// SPDX-License-Identifier: Apache-2.0
// ledger.h: what a process that uses the software GPU has of each device, where others can read it: in a file in memory
// behind a descriptor of a known number. So the software GPU's NVML (soft-gpu/nvml) sees all of them, as a kernel's driver
// would, with nothing to agree on and nothing left behind: what ends takes its ledger along.
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
    static constexpr int descriptor = 700;  // or the next that is free: then nobody finds it
    static constexpr std::uint64_t form = 2;

    std::uint64_t format = form;
    std::int64_t pid = 0;  // a forked child has the descriptor too, and no device
    struct Device {
        std::atomic<std::uint64_t> used{0};      // bytes of its memory
        std::atomic<std::uint64_t> contexts{0};  // that live
        std::atomic<std::uint64_t> busy{0};      // nanoseconds in which kernels ran, but for those that run now
        std::atomic<std::uint64_t> running{0};   // kernels
        std::atomic<std::uint64_t> since{0};     // when the first of those began
        std::atomic<std::uint64_t> total{0};     // bytes: processes that set another size do not share a card
    } devices[most_devices];                     // as the machine counts them

    static Ledger& own();  // this process's, made at the first call
    // A device as this process counts them: CUDA_VISIBLE_DEVICES may name others of the machine's, in another order.
    static Device& of(int device) { return own().devices[numbers_[static_cast<std::size_t>(device)]]; }
    static void show(std::span<const int> numbers);  // of the machine's, before the first call of of()
    static std::uint64_t now() {
        return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
    }

  private:
    static std::array<int, most_devices> numbers_;
};

// A kernel runs.
class Busy {
  public:
    explicit Busy(int device);
    ~Busy();
    Busy(const Busy&) = delete;

  private:
    Ledger::Device& device_;
};

}  // namespace barcuda::soft
