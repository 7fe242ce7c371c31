// SPDX-License-Identifier: Apache-2.0
// tables.h: the region as a file system whose files are its parts. The guest's kernel can give a process a part of a
// pmem device in one way only: as a file of a file system with DAX, which is mapped where its blocks are, not cached.
// So the service writes the tables of such a file system, ext4's, in which nothing is free and each file is one run of
// blocks in its place:
//
//   header    0 to 1 MiB of the region: header, slots, grants, devices, rows, snapshot
//   c0, c1... the channels, 1 MiB each
//   g0, g1... the granules, 32 MiB each
//
// The tables lie in the region themselves, between the last channel and the first extent, where no part is. But ext4
// begins with its tables, and its files never have block 0. So its device is put together (stack.cc): first the tables'
// room, then the whole region.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "shm-device/layout.h"

namespace barcuda::pmem {

// Of the region, right before its extents. For 256 GiB it takes 2.4 MiB; between channels and extents there are 15 at
// least (docs/region.md, R4 and R5).
constexpr std::uint64_t tables_room = 4 << 20;

// The first bytes of the device; the rest of its room need not be written. `header`: of a valid region.
std::vector<std::byte> tables(const barcuda_header& header);

// The files' names.
constexpr char header_file[] = "header";
std::string channel_file(std::uint32_t index);
std::string granule_file(std::uint32_t index);

}  // namespace barcuda::pmem
