// SPDX-License-Identifier: Apache-2.0
// text.h: numbers in a readable form, and columns.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "host-bridge/watch/bridges.h"

namespace barcuda::watch {

std::string size(std::uint64_t bytes);     // 1.5G
std::string count(double number);          // 1234, 12.3k, 4.5M
std::string age(double seconds);           // 12s, 3m05s, 2h03m, 4d03h
std::string percent(const Percent& busy);  // 12%, or - if unknown

// Lays rows of words out in columns. The first row has the headings; a column whose heading begins with > is aligned
// right.
std::vector<std::string> columns(std::vector<std::vector<std::string>> rows);

// The text in place of a table when there is no bridge.
std::string nobody_serves(const View& view);

// Whether this output may have colours: only on a terminal, and not with NO_COLOR.
bool colours(int output);

}  // namespace barcuda::watch
