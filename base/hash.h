// SPDX-License-Identifier: Apache-2.0
// hash.h: the hash that identities are made of (identity.h, nvml_rows.h).
#pragma once
#include <cstdint>
#include <string_view>

namespace barcuda {

// FNV-1a. These bytes are part of the protocol: another hash would be another BARCUDA_PACKETS.
class Hash {
  public:
    constexpr Hash& text(std::string_view s) {
        for (char c : s) mix(static_cast<unsigned char>(c));
        return *this;
    }
    constexpr Hash& number(std::uint64_t n) {
        for (int i = 0; i < 8; ++i, n >>= 8) mix(n & 0xff);
        return *this;
    }
    constexpr std::uint64_t value() const { return value_; }

  private:
    constexpr void mix(std::uint64_t byte) { value_ = (value_ ^ byte) * 0x100000001b3; }
    std::uint64_t value_ = 0xcbf29ce484222325;
};

}  // namespace barcuda
