// SPDX-License-Identifier: Apache-2.0
#include "shm-device/doors/stub_door.h"

#include <cerrno>

namespace barcuda {

int StubDoor::map_extent(std::uint64_t, std::uint64_t, void*, os::Over) { return ENOTSUP; }
int StubDoor::map_again(std::uint64_t, std::uint64_t, void*, void**) { return ENOTSUP; }

}  // namespace barcuda
