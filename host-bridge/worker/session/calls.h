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

    // The data argument for the driver; `function` is the guest's number, as a pointer.
    static void* as_data(std::uint64_t function) { return reinterpret_cast<void*>(function); }
    static void CUDA_CB run(void* function);
    static void CUDA_CB run_with_status(CUstream stream, CUresult status, void* function);

  private:
    void ask(std::uint64_t function, CUresult status);

    barcuda_calls* const page_;
    const Bell bell_;
    std::mutex mutex_;
    std::uint64_t asked_ = 0;  // our copy; the word in the region is only written
};

}  // namespace barcuda
