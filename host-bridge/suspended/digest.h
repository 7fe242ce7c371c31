// SPDX-License-Identifier: Apache-2.0
// digest.h: the hash of a part of a suspended VM: XXH3 with 128 bits, by libxxhash. It finds damage at the speed of
// memory. It is no signature: a set is protected by its owner and its mode.
#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace barcuda {

class Digest {
  public:
    Digest();
    ~Digest();
    Digest(Digest&&) noexcept;
    Digest& operator=(Digest&&) noexcept;
    void add(std::span<const std::byte> bytes);
    std::string text() const;  // of all bytes so far, in hexadecimal digits

  private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace barcuda
