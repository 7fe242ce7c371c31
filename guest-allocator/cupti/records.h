// SPDX-License-Identifier: Apache-2.0
// records.h: records on their way to the program. They wait here as CUPTI's structs, and go into buffers that the
// program gives and gets back: full ones by a thread of the library, all of them when the program flushes.
#pragma once
#include <cupti.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "guest-allocator/client/mutex.h"

namespace barcuda::guest::cupti {

class Records {
  public:
    template <class Record> void add(const Record& record) noexcept {
        static_assert(sizeof record % ACTIVITY_RECORD_ALIGNMENT == 0);
        add_bytes(&record, sizeof record);
    }
    void lose(std::uint64_t records) noexcept;
    // How many were lost since the last time.
    std::uint64_t lost() noexcept;

    void give_to(CUpti_BuffersCallbackRequestFunc request, CUpti_BuffersCallbackCompleteFunc complete) noexcept;
    // Enough waits to fill a buffer of a usual size: a thread of the library need not come to the program for less.
    bool many_wait() noexcept;
    // Requests a buffer from the program, as CUPTI does at the first record: Kineto flushes only if it has given one.
    // Any thread may call it.
    void begin_buffer() noexcept {
        if (!has_buffer_.load(std::memory_order_relaxed)) open_first();
    }
    // Writes what waits into the program's buffers. `all`: the last buffer goes back though it is not full.
    void deliver(bool all) noexcept;

  private:
    void add_bytes(const void* record, std::size_t bytes) noexcept;
    CUpti_BuffersCallbackRequestFunc requester() noexcept;
    void open_first() noexcept;
    bool open_buffer() noexcept;
    void close_buffer() noexcept;

    // More than a program takes that takes any: as natively, the rest is dropped.
    static constexpr std::size_t most_bytes = std::size_t{256} << 20;

    Mutex mutex_;
    std::vector<std::uint64_t> waiting_;
    std::uint64_t lost_ = 0;
    CUpti_BuffersCallbackRequestFunc request_ = nullptr;
    CUpti_BuffersCallbackCompleteFunc complete_ = nullptr;

    Mutex delivering_;  // held while the program's functions run
    std::uint8_t* buffer_ = nullptr;
    std::atomic<bool> has_buffer_{false};
    std::size_t size_ = 0, used_ = 0, most_ = 0, count_ = 0;
};
Records& records() noexcept;

// Of a record, with its padding; 0: none of ours.
std::size_t size_of(const CUpti_Activity& record) noexcept;

}  // namespace barcuda::guest::cupti
