// SPDX-License-Identifier: Apache-2.0
// content_hash.h: a hash of large contents, at the memory's speed: it finds what is equal, and what a disk has spoilt.
// It is no defence against contents that are made to collide.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace barcuda {

// Four words at a time, each into a sum of its own, so that the processor multiplies four times at once.
inline std::uint64_t content_hash(std::span<const std::byte> bytes) {
    constexpr std::uint64_t a = 0x9e3779b185ebca87, b = 0xc2b2ae3d27d4eb4f;
    constexpr std::size_t lanes = 4, word = sizeof(std::uint64_t);
    std::uint64_t sums[lanes] = {a, b, a ^ b, a + b};
    const std::byte* at = bytes.data();
    std::size_t left = bytes.size();
    const auto mix = [](std::uint64_t sum, const std::byte* from, std::size_t count) {
        std::uint64_t value = 0;
        if (count != 0) std::memcpy(&value, from, count);
        return std::rotl(sum + value * b, 31) * a;
    };
    for (; left >= lanes * word; at += lanes * word, left -= lanes * word)
        for (std::size_t i = 0; i < lanes; ++i) sums[i] = mix(sums[i], at + i * word, word);
    for (std::size_t i = 0; left != 0; ++i) {
        const std::size_t here = left < word ? left : word;
        sums[i] = mix(sums[i], at, here);
        at += here;
        left -= here;
    }
    std::uint64_t hash = bytes.size();
    for (const std::uint64_t sum : sums) hash = (std::rotl(hash, 27) ^ sum) * a + b;
    hash = (hash ^ hash >> 33) * b;
    return hash ^ hash >> 29;
}

}  // namespace barcuda
