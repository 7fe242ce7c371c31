// SPDX-License-Identifier: Apache-2.0
// view_door.h: a region as Windows gives it: all of it, where the system has put it (base/os/view.h). The bridge runs
// on another kernel, as far as this process can see.
#pragma once
#include "shm-device/doors/whole_door.h"

namespace barcuda {

class ViewDoor final : public WholeDoor {
  public:
    ViewDoor(const char* path, os::KeptFile&& file, std::uint64_t size, std::uint64_t base, bool is_file);

    Error open_channel(const Tables& tables, Channel& channel) override;
    void close_channel(const Tables& tables, Channel& channel, Leave leave) override;
    void choose_bell(std::uint32_t& bell) override;
    void ring(const std::uint32_t* word) const override;
    bool gone(const barcuda_slot* slots, std::uint32_t holder) const override;
    bool is_elastic() const override { return false; }

  private:
    const bool is_file_;  // which has locks, and the memory of a device has none
};

}  // namespace barcuda
