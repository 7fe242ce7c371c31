// SPDX-License-Identifier: Apache-2.0
// uio_door.h: /dev/uioN of the guest module (guest-uio), which gives channels and extents by mmap, and ivshmem's
// doorbell and interrupts by write and read.
#pragma once
#include <atomic>

#include "shm-device/doors/door.h"

namespace barcuda {

class UioDoor final : public Door {
  public:
    UioDoor(const char* path, os::KeptFile&& file);

    Error map_header(const char** header) override;
    Error open_channel(const Tables& tables, Channel& channel) override;
    void close_channel(const Tables& tables, Channel& channel, Leave leave) override;
    int map_extent(std::uint64_t offset, std::uint64_t bytes, void* own, os::Over over) override;
    int map_again(std::uint64_t offset, std::uint64_t bytes, void* own, void** address) override;
    void choose_bell(std::uint32_t& bell) override;
    void ring(const std::uint32_t* word) const override;
    void await(const std::uint32_t& word, std::uint32_t seen, std::uint64_t nanoseconds) override;

  private:
    bool rings() const;
    bool hear(std::uint64_t nanoseconds) const;

    std::atomic_flag listening_;           // set by the thread that waits for the interrupt
    std::atomic<std::uint32_t> count_{0};  // interrupts: what the other threads sleep on
};

}  // namespace barcuda
