// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/suspended/digest.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <algorithm>
#include <cstdlib>

// A part of this file: no library is needed where it runs.
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace barcuda {

struct Digest::State {
    XXH3_state_t all, begun;
    std::size_t bytes = 0;  // of the chunk that was begun
};

Digest::Digest() : state_(std::make_unique<State>()) {
    XXH3_128bits_reset(&state_->all);
    XXH3_128bits_reset(&state_->begun);
}
Digest::~Digest() = default;
Digest::Digest(Digest&&) noexcept = default;
Digest& Digest::operator=(Digest&&) noexcept = default;

Digest::Hash Digest::of_chunk(std::span<const std::byte> bytes) {
    const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
    return {hash.low64, hash.high64};
}

SecretHash::SecretHash() {
    if (getrandom(secret_.data(), secret_.size(), 0) != static_cast<ssize_t>(secret_.size())) std::abort();
}

std::string SecretHash::operator()(std::span<const std::byte> bytes) const {
    const XXH128_hash_t hash = XXH3_128bits_withSecret(bytes.data(), bytes.size(), secret_.data(), secret_.size());
    return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

void Digest::add_chunk(const Hash& hash) { XXH3_128bits_update(&state_->all, &hash, sizeof hash); }

void Digest::add(std::span<const std::byte> bytes) {
    State& s = *state_;
    while (!bytes.empty()) {
        const auto piece = bytes.first(std::min(bytes.size(), chunk - s.bytes));
        bytes = bytes.subspan(piece.size());
        XXH3_128bits_update(&s.begun, piece.data(), piece.size());
        s.bytes += piece.size();
        if (s.bytes < chunk) continue;
        const XXH128_hash_t hash = XXH3_128bits_digest(&s.begun);
        add_chunk({hash.low64, hash.high64});
        XXH3_128bits_reset(&s.begun);
        s.bytes = 0;
    }
}

std::string Digest::text() const {
    XXH3_state_t all = state_->all;
    if (state_->bytes != 0) {
        const XXH128_hash_t last = XXH3_128bits_digest(&state_->begun);
        const Hash hash{last.low64, last.high64};
        XXH3_128bits_update(&all, &hash, sizeof hash);
    }
    const XXH128_hash_t hash = XXH3_128bits_digest(&all);
    return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

std::uint32_t frame_checksum(std::span<const std::byte> bytes) {
    XXH64_state_t state;
    XXH64_reset(&state, 0);
    XXH64_update(&state, bytes.data(), bytes.size());
    return static_cast<std::uint32_t>(XXH64_digest(&state));
}

}  // namespace barcuda
