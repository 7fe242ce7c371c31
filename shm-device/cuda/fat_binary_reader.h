// SPDX-License-Identifier: Apache-2.0
// fat_binary_reader.h: the entries of a fat binary (fat_binary.h), and what was packed into them: plain, with LZ4 or
// with zstd. The worker looks whether a kernel may print; the software GPU takes its PTX from here.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shm-device/cuda/fat_binary.h"

namespace barcuda::fatbin {

struct Error {  // thrown: the container is not what it says
    std::string message;
};

struct Entry {
    std::uint16_t kind = 0;
    int architecture = 0;  // 75 is sm_75
    std::uint64_t flags = 0;
    std::span<const std::byte> payload;  // as stored: perhaps compressed
    std::uint64_t plain_size = 0;        // bytes after decompression; 0 if it is stored plain
};

// The container's entries. Throws where a length leads outside of `container`.
std::vector<Entry> entries(std::span<const std::byte> container);

// An entry, decompressed, whole.
std::string bytes_of(const Entry& entry);

// Whether it, decompressed, has this word in it. The whole is in memory nowhere, where the decoder can do with pieces.
bool holds(const Entry& entry, std::string_view word);

}  // namespace barcuda::fatbin
