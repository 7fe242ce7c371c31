// SPDX-License-Identifier: Apache-2.0
// failure.h: what went wrong on the host, as a sentence for a person: what, where, and what to do. A function that can
// fail returns a Failure; `if (failure)` reads as it is meant, and a result that a caller ignores does not compile.
// (error.h is for what a program in a guest must tell apart: it has kinds, and allocates nothing.)
#pragma once
#include <string>
#include <utility>

namespace barcuda {

class [[nodiscard]] Failure {
  public:
    Failure() = default;  // nothing went wrong
    Failure(std::string text) : text_(std::move(text)) {}
    Failure(const char* text) : text_(text) {}

    explicit operator bool() const { return !text_.empty(); }
    const std::string& text() const { return text_; }

  private:
    std::string text_;
};

}  // namespace barcuda
