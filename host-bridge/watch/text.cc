// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/watch/text.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "host-bridge/between/limits.h"

namespace barcuda::watch {

std::string size(std::uint64_t bytes) { return about(Limit::device_memory).text(bytes); }

std::string count(double number) {
    constexpr const char* units[] = {"", "k", "M", "G"};
    unsigned i = 0;
    for (; number >= 10'000 && i + 1 < std::size(units); ++i) number /= 1000;
    return fmt::format("{:.{}f}{}", number, i ? 1 : 0, units[i]);
}

std::string age(double seconds) {
    const auto s = static_cast<std::uint64_t>(seconds), minutes = s / 60, hours = minutes / 60, days = hours / 24;
    if (days) return fmt::format("{}d{:02}h", days, hours % 24);
    if (hours) return fmt::format("{}h{:02}m", hours, minutes % 60);
    return minutes ? fmt::format("{}m{:02}s", minutes, s % 60) : fmt::format("{}s", s);
}

std::string percent(const Percent& busy) { return busy ? fmt::format("{}%", *busy) : "-"; }

std::vector<std::string> columns(std::vector<std::vector<std::string>> rows) {
    std::vector<std::size_t> widths;
    std::vector<bool> right;
    for (std::string& heading : rows.at(0)) {
        right.push_back(heading.starts_with('>'));
        if (right.back()) heading.erase(0, 1);
        widths.push_back(0);
    }
    for (const auto& row : rows)
        for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
    std::vector<std::string> lines;
    for (const auto& row : rows) {
        std::string line;
        for (std::size_t i = 0; i < row.size(); ++i)
            line += right[i] ? fmt::format("{:>{}}  ", row[i], widths[i]) : fmt::format("{:<{}}  ", row[i], widths[i]);
        lines.push_back(line.substr(0, line.find_last_not_of(' ') + 1));
    }
    return lines;
}

std::string nobody_serves(const View& view) {
    if (!view.silent.empty())
        return fmt::format("No bridge answers; {}.", view.silent.size() == 1
                                                         ? "one is silent"
                                                         : fmt::format("{} are silent", view.silent.size()));
    if (view.others)
        return fmt::format("No bridge of yours runs on this machine; {} of other users, which root may see.",
                           view.others == 1 ? "there is one" : fmt::format("there are {}", view.others));
    return "No bridge runs on this machine.";
}

bool colours(int output) {
    const char* const no = std::getenv("NO_COLOR");
    return isatty(output) && !(no && *no);
}

}  // namespace barcuda::watch
