// SPDX-License-Identifier: Apache-2.0
// stub_door.h: the door of what this system has no door for. It builds everywhere, and refuses whatever is asked of it,
// by name. A new door begins as a class on this one, and replaces one function after the other; open.cc says which path
// leads to it.
#pragma once
#include "shm-device/doors/door.h"

namespace barcuda {

class StubDoor : public Door {
  public:
    // `why` is a part of a sentence, of the program's lifetime.
    StubDoor(const char* path, const char* why) : Door(path, {}), why_(why) { properties_.remaps = false; }
    Error refusal() const { return error(Error::not_a_region, 0, "%s: %s", path(), why_); }

    Error map_header(const char**) override { return refusal(); }
    Error open_channel(const Tables&, Channel&) override { return refusal(); }
    void close_channel(const Tables&, Channel& channel, Leave) override { channel = {}; }
    int map_extent(std::uint64_t, std::uint64_t, void*, os::Over) override;
    int map_again(std::uint64_t, std::uint64_t, void*, void**) override;

  private:
    const char* const why_;
};

}  // namespace barcuda
