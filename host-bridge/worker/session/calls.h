// SPDX-License-Identifier: Apache-2.0
// calls.h: functions of the program for which the GPU's work waits (cuLaunchHostFunc, host nodes of graphs). They run
// in the guest: the driver calls us in the stream's order, on one of its threads, and we block that thread until the
// guest has answered. One call at a time, as the driver itself does it.
#pragma once
#include <cuda.h>

#include <cstdint>
#include <mutex>

#include "host-bridge/between/bell.h"

namespace barcuda {

class Calls {
  public:
    explicit Calls(barcuda_calls* page, const Bell& bell = {});

    struct State {
        std::uint64_t asked = 0;  // the number of the last call
        bool operator==(const State&) const = default;
    };
    // No function of the program is running, or asked for.
    bool quiet() const { return std::unique_lock(mutex_, std::try_to_lock).owns_lock(); }
    State state() const {
        std::lock_guard lock(mutex_);
        return {asked_};
    }
    void restore(const State& state) {
        std::lock_guard lock(mutex_);
        asked_ = state.asked;
    }

    // What the driver is given; `function` is the guest's number, as a pointer.
    static void* as_data(std::uint64_t function) { return reinterpret_cast<void*>(function); }
    static void CUDA_CB run(void* function);
    static void CUDA_CB run_with_status(CUstream stream, CUresult status, void* function);

  private:
    void ask(std::uint64_t function, CUresult status);

    barcuda_calls* const page_;
    const Bell bell_;
    mutable std::mutex mutex_;  // held as long as the function runs
    std::uint64_t asked_ = 0;   // ours: the word in the region is only told
};

}  // namespace barcuda
