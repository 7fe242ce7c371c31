// SPDX-License-Identifier: Apache-2.0
// field.h: texts in fields of messages and records: a field of N bytes holds up to N - 1, and zeros behind them.
#pragma once
#include <cstring>
#include <string>
#include <string_view>

namespace barcuda {

// A text that is too long is cut.
template <std::size_t N> void put(char (&field)[N], std::string_view text) {
    std::memset(field, 0, N);
    text.copy(field, N - 1);
}
// Of a field that another process has filled: it may lack its zero.
template <std::size_t N> std::string text_of(const char (&field)[N]) { return {field, strnlen(field, N)}; }

}  // namespace barcuda
