// SPDX-License-Identifier: Apache-2.0
// json.h: pieces of JSON that are written inside a program's process. They do not depend on the program's locale,
// accept any bytes in names, and allocate no memory.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string_view>

namespace barcuda::json {

// The length in bytes of the UTF-8 character that begins here; 0: it is not valid UTF-8.
inline std::size_t sequence(std::string_view s, std::size_t at) noexcept {
    const auto byte = [&](std::size_t i) { return i < s.size() ? static_cast<unsigned char>(s[i]) : 0u; };
    const unsigned first = byte(at), second = byte(at + 1);
    const std::size_t length = first < 0x80   ? 1
                               : first < 0xC2 ? 0
                               : first < 0xE0 ? 2
                               : first < 0xF0 ? 3
                               : first < 0xF5 ? 4
                                              : 0;
    for (std::size_t i = 1; i < length; ++i)
        if ((byte(at + i) & 0xC0) != 0x80) return 0;
    const bool none = (first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F) ||
                      (first == 0xF0 && second < 0x90) || (first == 0xF4 && second > 0x8F);
    return none ? 0 : length;
}

// A quoted text of at most `most` bytes: whole characters only, and '?' for each invalid byte.
template <std::size_t most> class Quoted {
  public:
    explicit Quoted(std::string_view s) noexcept {
        put('"');
        for (std::size_t i = 0, n; i < s.size(); i += n ? n : 1) {
            n = sequence(s, i);
            const bool escaped = s[i] == '"' || s[i] == '\\';
            if (size_ + (n ? n : 1) + escaped > most) break;
            if (escaped) put('\\');
            if (n == 0) put('?');
            else if (static_cast<unsigned char>(s[i]) < 0x20) put(' ');
            else
                for (std::size_t j = 0; j < n; ++j) put(s[i + j]);
        }
        put('"');
        text_[size_] = 0;
    }
    const char* text() const noexcept { return text_; }
    std::string_view view() const noexcept { return {text_, size_}; }

  private:
    void put(char c) noexcept { text_[size_++] = c; }
    std::size_t size_ = 0;
    char text_[most + 8];
};

// Nanoseconds as microseconds. (printf's %f writes the decimal point of the program's locale.)
struct Microseconds {
    char text[32];
    explicit Microseconds(std::int64_t nanoseconds) noexcept {
        const bool below = nanoseconds < 0;
        const auto ns = below ? 0 - static_cast<std::uint64_t>(nanoseconds) : static_cast<std::uint64_t>(nanoseconds);
        std::snprintf(text, sizeof text, "%s%llu.%03llu", below ? "-" : "", static_cast<unsigned long long>(ns / 1000),
                      static_cast<unsigned long long>(ns % 1000));
    }
};

}  // namespace barcuda::json
