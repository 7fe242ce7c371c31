// SPDX-License-Identifier: Apache-2.0
// rounding.h: floating-point arithmetic in a direction other than to nearest. It uses the host's rounding mode; a
// barrier keeps the compiler from moving the operation.
#pragma once
#include <cfenv>

#include "soft-gpu/ptx/half.h"

namespace barcuda::soft {

class Rounded {
  public:
    // the thread normally rounds to nearest: RoundedToNearest
    explicit Rounded(Rounding r) : changes_(r != Rounding::nearest) {
        if (!changes_) return;
        before_ = std::fegetround();
        std::fesetround(r == Rounding::zero ? FE_TOWARDZERO : r == Rounding::down ? FE_DOWNWARD : FE_UPWARD);
    }
    ~Rounded() {
        if (changes_) std::fesetround(before_);
    }
    Rounded(const Rounded&) = delete;
    Rounded& operator=(const Rounded&) = delete;

  private:
    const bool changes_;
    int before_ = 0;
};

// For a thread that runs kernels: the program's own thread may have another mode.
class RoundedToNearest {
  public:
    RoundedToNearest() {
        if (before_ != FE_TONEAREST) std::fesetround(FE_TONEAREST);
    }
    ~RoundedToNearest() {
        if (before_ != FE_TONEAREST) std::fesetround(before_);
    }
    RoundedToNearest(const RoundedToNearest&) = delete;
    RoundedToNearest& operator=(const RoundedToNearest&) = delete;

  private:
    const int before_ = std::fegetround();
};

// A value unknown to the compiler: neither folded nor moved past a change of the rounding mode.
template <class T> [[gnu::always_inline]] inline T opaque(T value) {
    asm volatile("" : "+m"(value) : : "memory");
    return value;
}

}  // namespace barcuda::soft
