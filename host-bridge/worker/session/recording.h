// SPDX-License-Identifier: Apache-2.0
// recording.h: what the GPU does for the client, for a profiler of the client's. The host's CUPTI tells it to this
// process, as to any CUDA program: it is opened when a client first asks. Records become those of rows/activity.h, and
// wait here until the client takes them. CUPTI knows the calls that this worker makes; which call of the client each
// one is for, it is told by an external id around a command.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "shm-device/rows/activity.h"

namespace barcuda {

class Recording {
  public:
    // `driver`: where the driver was found. The software GPU has a CUPTI of its own beside it.
    explicit Recording(const std::string& driver);
    ~Recording();

    // Opens CUPTI before a worker's cage closes, after which it can open no files.
    static void open(const std::string& driver);

    // Records these kinds and no others. `said`: CUPTI's result. Without CUPTI:
    // CUDA_ERROR_SHARED_OBJECT_INIT_FAILED.
    CUresult record(std::uint64_t kinds, std::uint32_t& said);
    bool on() const { return kinds_ != 0; }

    // Whole records into `room`, the oldest first.
    CUresult take(std::uint32_t flush, std::span<std::byte> room, ext::Taken& taken);

    CUresult number_of(CUcontext context, std::uint32_t& number);
    CUresult number_of(CUcontext context, CUstream stream, std::uint32_t& number);
    CUresult number_of(CUgraph graph, std::uint32_t& number);
    CUresult number_of(CUgraphExec exec, std::uint32_t& number);
    CUresult number_of(CUgraphNode node, std::uint64_t& number);

    // While this lives, what is given to the driver is for this call of the client; 0: for none.
    class Call {
      public:
        Call(Recording& recording, std::uint64_t call) : recording_(recording), open_(recording.on()) {
            if (open_) [[unlikely]]
                recording_.begin(call);
        }
        ~Call() {
            if (open_) [[unlikely]]
                recording_.end();
        }
        Call(const Call&) = delete;

      private:
        Recording& recording_;
        const bool open_;
    };

  private:
    struct Cupti;
    const Cupti* cupti();
    void begin(std::uint64_t call);
    void end();

    const std::string driver_;
    std::uint64_t kinds_ = 0;
};

}  // namespace barcuda
