// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/between/limits.h"

#include <fmt/format.h>

#include <algorithm>

namespace barcuda {

const AboutLimit& about(Limit limit) {
    static constexpr AboutLimit rows[] = {
#define X(name, of, unit, usual, what) {#name, what, Of::of, Unit::unit, usual},
        BARCUDA_LIMITS(X)
#undef X
    };
    return rows[static_cast<unsigned>(limit)];
}

std::string AboutLimit::name() const {
    std::string text = its_name;
    std::ranges::replace(text, '_', '-');
    return text;
}

std::string AboutLimit::option(Of whose) const { return (whose == Of::client ? "client-" : "guest-") + name(); }

std::string AboutLimit::help(Of whose) const {
    constexpr const char* units[] = {"bytes", "a number", "bytes a second", "a number a second", "on or off"};
    return fmt::format("{}, {}: {} (default: {})", whose == Of::client ? "of each client" : "of all clients together",
                       units[static_cast<unsigned>(unit)], what,
                       usual == 0 && unit != Unit::on_or_off ? "no limit" : text(usual));
}

std::string AboutLimit::text(std::uint64_t value) const {
    if (unit == Unit::on_or_off) return value ? "on" : "off";
    const char* const end = is_rate() ? "/s" : "";
    if (unit == Unit::count || unit == Unit::count_a_second) return std::to_string(value) + end;
    constexpr const char* units[] = {"", "K", "M", "G", "T"};
    unsigned i = 0;
    auto shown = static_cast<double>(value);
    for (; shown >= 1024 && i + 1 < std::size(units); ++i) shown /= 1024;
    return fmt::format("{:.{}f}{}{}", shown, shown == static_cast<double>(static_cast<std::uint64_t>(shown)) ? 0 : 1,
                       units[i], end);
}

}  // namespace barcuda
