// SPDX-License-Identifier: Apache-2.0
// digest.h: the hash of a part of a suspended VM: XXH3 with 128 bits, by libxxhash, of the hashes of its chunks, so
// that several threads can verify a part. It finds damage at the speed of memory. It is no signature: a set is
// protected by its owner and its mode.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace barcuda {

class Digest {
  public:
    static constexpr std::size_t chunk = 4 << 20;  // the last one may be shorter
    struct Hash {
        std::uint64_t low, high;
    };
    static Hash of_chunk(std::span<const std::byte> bytes);

    Digest();
    ~Digest();
    Digest(Digest&&) noexcept;
    Digest& operator=(Digest&&) noexcept;
    void add(std::span<const std::byte> bytes);
    // The next chunk, of which another thread has the bytes. Behind whole chunks.
    void add_chunk(const Hash& hash);
    std::string text() const;  // of all bytes so far, in hexadecimal digits

  private:
    struct State;
    std::unique_ptr<State> state_;
};

// A hash whose secret is chosen at random for each object: no process can make other bytes with the same hash.
class SecretHash {
  public:
    SecretHash();
    std::string operator()(std::span<const std::byte> bytes) const;

  private:
    std::array<std::byte, 192> secret_{};
};

// What stands behind a frame of zstd's: of its contents.
std::uint32_t frame_checksum(std::span<const std::byte> bytes);

}  // namespace barcuda
