// SPDX-License-Identifier: Apache-2.0
// memory_bytes.h: the contents of a client's device memory in frames, over a conveyor (between/conveyor.h), and back.
// The GPU is idle, and copies by itself: the next frames are copied while others read, or fill, those before them.
// First go the names and sizes of all that follows: what comes back is compared with what the client has.
//
// Both sides put the same pieces into frames in the same way: a piece that has no room in a frame, or is large, begins
// the next one. So a frame depends on what lies in it, and not on what lies before it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/failure.h"
#include "host-bridge/between/conveyor.h"
#include "host-bridge/worker/births/births.h"
#include "host-bridge/worker/memory/store.h"

namespace barcuda {

// A piece of memory or an array: its name is an address, or the array's id.
struct Contents {
    std::uint64_t name, bytes;
    bool operator==(const Contents&) const = default;
};

// Ends the copies of a batch: it waits for those of the batch before, or for all.
struct CopyBatches {
    std::function<CUresult()> end_batch, finish;
};

class OutFrames {
  public:
    OutFrames(const Conveyor& to, CopyBatches copies);
    // `at`: the place for the next `bytes`, at most a slot's. They may arrive until the batch ends.
    Failure place(std::size_t bytes, std::byte*& at);
    // What is placed next begins a frame.
    Failure end_frame() { return used_ != 0 ? end_slot() : Failure(); }
    // Whether place() would not wait.
    bool has_room();
    // The other side has gone.
    bool ended() const { return ended_; }
    // All copies are done, and all frames are on their way.
    Failure finish();
    std::uint64_t bytes() const { return bytes_; }

  private:
    Failure begin_slot();
    Failure end_slot();
    Failure end_batch();
    Failure pass_on(std::vector<Conveyor::Word>& slots);

    const Conveyor& to_;
    const CopyBatches copies_;
    std::vector<bool> free_;
    std::size_t next_ = 0;  // slot
    std::size_t used_ = 0;  // bytes of the slot that was begun; 0: none was
    std::vector<Conveyor::Word> batch_, before_;
    std::uint64_t bytes_ = 0;
    bool ended_ = false;
};

class InFrames {
  public:
    InFrames(const Conveyor& from, CopyBatches copies);
    // `at`: where the next bytes are, until the batch ends.
    Failure take(std::size_t bytes, const std::byte*& at);
    // All copies are done, and nothing is left over.
    Failure finish();
    std::uint64_t bytes() const { return bytes_; }

  private:
    Failure begin_slot();
    Failure end_slot();
    Failure end_batch();
    void give_back(std::vector<std::uint32_t>& slots);

    const Conveyor& from_;
    const CopyBatches copies_;
    std::vector<std::uint32_t> full_;  // bytes of each slot; 0: it is not full
    bool ended_ = false;
    std::size_t next_ = 0, used_ = 0, here_ = 0;  // the slot, its bytes that were taken, and all its bytes
    std::vector<std::uint32_t> batch_, before_;
    std::uint64_t bytes_ = 0;
};

// f(address, bytes) for each piece of at most a slot, until one fails.
Failure each_piece(std::span<const Contents> memory, const std::function<Failure(std::uint64_t, std::size_t)>& f);

Failure save_list(std::span<const Contents> all, OutFrames& to);
Failure compare_list(std::span<const Contents> all, InFrames& from);
Failure save_memory(std::span<const Contents> memory, Copies& copies, OutFrames& to);
// Into the same memory. A failure leaves it in an unknown state.
Failure load_memory(std::span<const Contents> memory, Copies& copies, InFrames& from);

}  // namespace barcuda
