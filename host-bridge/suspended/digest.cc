// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/suspended/digest.h"

#include <fmt/format.h>

// A part of this file: no library is needed where it runs.
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace barcuda {

struct Digest::State {
    XXH3_state_t xxh;
};

Digest::Digest() : state_(std::make_unique<State>()) { XXH3_128bits_reset(&state_->xxh); }
Digest::~Digest() = default;
Digest::Digest(Digest&&) noexcept = default;
Digest& Digest::operator=(Digest&&) noexcept = default;

void Digest::add(std::span<const std::byte> bytes) { XXH3_128bits_update(&state_->xxh, bytes.data(), bytes.size()); }

std::string Digest::text() const {
    const XXH128_hash_t hash = XXH3_128bits_digest(&state_->xxh);
    return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

}  // namespace barcuda
