// SPDX-License-Identifier: Apache-2.0
// part_bytes.h: bytes and files of them, for tests of the parts of a suspended VM.
#pragma once
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <vector>

#include "base/message.h"

namespace barcuda::test {

using Bytes = std::vector<std::byte>;
inline constexpr std::size_t MiB = 1 << 20;

inline Bytes random_bytes(std::size_t count, unsigned seed = 1) {
    std::mt19937_64 random(seed);
    Bytes bytes(count);
    for (std::byte& b : bytes) b = static_cast<std::byte>(random() % 7);
    return bytes;
}

// That no compressor makes smaller.
inline Bytes noise(std::size_t count, unsigned seed = 1) {
    std::mt19937_64 random(seed);
    Bytes bytes(count);
    for (std::size_t at = 0; at < count; at += sizeof(std::uint64_t)) {
        const std::uint64_t word = random();
        std::memcpy(bytes.data() + at, &word, std::min(sizeof word, count - at));
    }
    return bytes;
}

inline File new_file() { return File(memfd_create("frames", MFD_CLOEXEC)); }

inline Bytes contents(const File& file) {
    struct stat st {};
    fstat(file.fd(), &st);
    Bytes bytes(static_cast<std::size_t>(st.st_size));
    EXPECT_EQ(pread(file.fd(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
    return bytes;
}

inline void put(const File& file, std::span<const std::byte> bytes, std::size_t at = 0) {
    ASSERT_EQ(pwrite(file.fd(), bytes.data(), bytes.size(), static_cast<off_t>(at)),
              static_cast<ssize_t>(bytes.size()));
}

}  // namespace barcuda::test
