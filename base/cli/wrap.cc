// SPDX-License-Identifier: Apache-2.0
#include "base/cli/wrap.h"

#include <algorithm>
#include <sstream>

namespace barcuda {
namespace {

// Where the text of a line begins: behind the gap that parts an option from its description, or after the indentation.
std::size_t begin_of_text(const std::string& line) {
    const std::size_t first = line.find_first_not_of(' ');
    if (first == std::string::npos) return 0;
    const std::size_t gap = line.find("  ", first);
    const std::size_t text = gap == std::string::npos ? gap : line.find_first_not_of(' ', gap);
    return text == std::string::npos ? first : text;
}

}  // namespace

std::string wrapped(const std::string& text, std::size_t columns) {
    constexpr std::size_t narrowest = 20;  // of the text: else it would be a word a line
    std::istringstream in(text);
    std::string all;
    for (std::string line; std::getline(in, line);) {
        std::size_t indent = begin_of_text(line);
        if (indent + narrowest > columns) indent = std::min<std::size_t>(4, line.find_first_not_of(' '));
        while (columns && line.size() > columns) {
            std::size_t space = line.rfind(' ', columns);
            if (space == std::string::npos || space <= indent) space = line.find(' ', std::max(indent, columns));
            if (space == std::string::npos) break;
            all += line.substr(0, line.find_last_not_of(' ', space) + 1) + '\n';
            const std::size_t next = line.find_first_not_of(' ', space);
            line = next == std::string::npos ? "" : std::string(indent, ' ') + line.substr(next);
        }
        all += line + '\n';
    }
    return all;
}

}  // namespace barcuda
