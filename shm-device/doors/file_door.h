// SPDX-License-Identifier: Apache-2.0
// file_door.h: a region that is a file of this kernel's, with its bridge beside this process: the flat transport.
#pragma once
#include "shm-device/doors/whole_door.h"

namespace barcuda {

class FileDoor final : public WholeDoor {
  public:
    FileDoor(const char* path, os::KeptFile&& file, std::uint64_t size, std::uint64_t unit);

    // A user that owns a region's file, or may write to it, can read and change all data in the region, and can end
    // every process that has mapped the file by truncating it. In a folder like /dev/shm any user may have made the
    // file. (The administrator sets the rights of devices.)
    Error check_owner(const os::FileFacts& facts, bool to_serve) const;

    void choose_bell(std::uint32_t& bell) override;
    void ring(const std::uint32_t* word) const override;
    void await(const std::uint32_t& word, std::uint32_t seen, std::uint64_t nanoseconds) override;
    bool gone(const barcuda_slot* slots, std::uint32_t holder) const override;
    bool is_elastic() const override { return true; }
};

}  // namespace barcuda
