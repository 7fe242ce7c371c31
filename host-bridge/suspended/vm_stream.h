// SPDX-License-Identifier: Apache-2.0
// vm_stream.h: what QEMU writes of a VM that it migrates (its docs/devel/migration.rst), as far as a set must know it.
// With the capability x-ignore-shared QEMU writes no page of a shared block, as the region is, but its address in the
// guest, and the QEMU that reads the stream refuses a block that lies elsewhere there. It compares before it has read
// any device, so a device's BAR has no address yet: address 0.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/failure.h"

namespace barcuda {

// So much of the beginning holds the list of blocks.
constexpr std::size_t vm_stream_beginning = 64 << 10;

// Writes address 0 to the blocks of this size that a device has made of memory with one of these names. `begun`: the
// stream's beginning, which is longer than `vm_stream_beginning`, or the whole stream. `changed`: how many there were.
Failure forget_addresses(std::span<std::byte> begun, const std::vector<std::string>& memories, std::uint64_t size,
                         unsigned& changed);

}  // namespace barcuda
