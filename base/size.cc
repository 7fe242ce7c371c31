// SPDX-License-Identifier: Apache-2.0
#include "base/size.h"

#include <cctype>
#include <limits>

namespace barcuda {

std::string read_size(std::string_view text, std::uint64_t& size) {
    constexpr auto most = std::numeric_limits<std::uint64_t>::max();
    const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
    constexpr const char* wrong = "a number is expected, with K, M, G or T behind it if you like: 4096, 2G, 1.5G";
    if (text.starts_with('-')) return "it cannot be negative";
    // Ten times any size with the largest unit, so it fits 128 bits.
    unsigned __int128 whole = 0, parts = 0, of = 1;
    std::size_t at = 0;
    const auto digits = [&](unsigned __int128& number) {
        const std::size_t begin = at;
        for (; at < text.size() && is_digit(text[at]); ++at)
            if (number <= most) number = number * 10 + static_cast<unsigned>(text[at] - '0');
        return at - begin;
    };
    if (!digits(whole)) return wrong;
    const bool has_parts = at < text.size() && text[at] == '.';
    if (has_parts) {
        ++at;
        const std::size_t count = digits(parts);
        if (count == 0 || count > 9) return wrong;
        for (std::size_t i = 0; i < count; ++i) of *= 10;
    }
    std::string unit;
    for (; at < text.size(); ++at) unit += static_cast<char>(std::toupper(static_cast<unsigned char>(text[at])));
    constexpr std::string_view units = "BKMGTPE";
    const std::size_t power = unit.empty() ? 0 : units.find(unit.front());
    if (power == units.npos || (unit.size() > 1 && (power == 0 || (unit.substr(1) != "B" && unit.substr(1) != "IB"))))
        return wrong;
    if (has_parts && power == 0) return "it must be a whole number of bytes, or of things";
    const unsigned __int128 each = static_cast<unsigned __int128>(1) << (10 * power);
    constexpr const char* large = "it is too large: the most is 16E - 1";
    if (whole > most || whole * each > most) return large;
    const unsigned __int128 all = whole * each + parts * each / of;
    if (all > most) return large;
    size = static_cast<std::uint64_t>(all);
    return "";
}

}  // namespace barcuda
