// SPDX-License-Identifier: Apache-2.0
// container.h: writes fat binaries as nvcc does (shm-device/cuda/fat_binary.h).
#pragma once
#include <lz4.h>
#include <zstd.h>

#include <cstring>
#include <span>
#include <string>

#include "shm-device/cuda/fat_binary.h"

namespace barcuda::test {

enum class Packing { plain, lz4, zstd };

struct Container {
    std::string bytes = std::string(sizeof(fatbin::ContainerHead), '\0');

    Container() { put(bytes, 0, fatbin::ContainerHead{fatbin::container_magic, 1, sizeof(fatbin::ContainerHead), 0}); }
    template <class T> static void put(std::string& to, std::size_t at, T value) {
        std::memcpy(to.data() + at, &value, sizeof value);
    }
    // A head of 80 bytes, as that of what is compressed.
    Container& add(int kind, int architecture, const std::string& text, Packing packing = Packing::plain) {
        std::string payload = text;
        fatbin::EntryHead head{};
        head.kind = static_cast<std::uint16_t>(kind);
        head.version = 0x101;
        head.head_bytes = head_bytes;
        head.target = static_cast<std::uint32_t>(architecture);
        head.flags = 0x11;
        if (packing == Packing::lz4) {
            payload.resize(static_cast<std::size_t>(LZ4_compressBound(static_cast<int>(text.size()))));
            payload.resize(static_cast<std::size_t>(LZ4_compress_default(
                text.data(), payload.data(), static_cast<int>(text.size()), static_cast<int>(payload.size()))));
            head.flags |= fatbin::flag_lz4;
        } else if (packing == Packing::zstd) {
            payload.resize(ZSTD_compressBound(text.size()));
            payload.resize(ZSTD_compress(payload.data(), payload.size(), text.data(), text.size(), 3));
            head.flags |= fatbin::flag_zstd;
        }
        if (packing != Packing::plain) {
            head.packed_bytes = static_cast<std::uint32_t>(payload.size());
            head.plain_bytes = text.size();
        }
        payload.resize((payload.size() + 7) / 8 * 8);
        head.payload_bytes = payload.size();
        const std::size_t at = bytes.size();
        bytes.resize(at + head_bytes);
        put(bytes, at, head);
        bytes += payload;
        put<std::uint64_t>(bytes, offsetof(fatbin::ContainerHead, body_bytes),
                           bytes.size() - sizeof(fatbin::ContainerHead));
        return *this;
    }
    std::span<const std::byte> span() const { return std::as_bytes(std::span(bytes)); }

    static constexpr std::uint32_t head_bytes = 80;
};

}  // namespace barcuda::test
