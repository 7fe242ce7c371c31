// SPDX-License-Identifier: Apache-2.0
// fatbin.h: what nvcc 11 to 13 packs code into: a container of entries, PTX (plain, LZ4 or zstd) and machine code, each
// for one architecture. The worker looks whether a kernel may print; the software GPU takes its PTX from here.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace barcuda::fatbin {

struct Error {  // thrown: the container is not what it says
    std::string message;
};

constexpr std::uint32_t container_magic = 0xBA55ED50;
struct ContainerHeader {
    std::uint32_t magic;
    std::uint16_t version, header_bytes;
    std::uint64_t body_bytes;
};
static_assert(sizeof(ContainerHeader) == 16);

struct Entry {
    enum Kind : std::uint16_t { ptx = 1, elf = 2 };
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

}  // namespace barcuda::fatbin
