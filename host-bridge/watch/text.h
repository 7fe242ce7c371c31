// SPDX-License-Identifier: Apache-2.0
// text.h: numbers as people read them, in columns.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "host-bridge/watch/bridges.h"

namespace barcuda::watch {

std::string size(std::uint64_t bytes);     // 1.5G
std::string count(double number);          // 1234, 12.3k, 4.5M
std::string age(double seconds);           // 12s, 3m05s, 2h03m, 4d03h
std::string percent(const Percent& busy);  // 12%, or - where nobody knows

// Rows of words, of which the first are the headings; a column whose heading begins with > stands at its right edge.
std::vector<std::string> columns(std::vector<std::vector<std::string>> rows);

// In place of a table without a bridge.
std::string nobody_serves(const View& view);

// May this output have colours? Only on a terminal, and not if the user says NO_COLOR.
bool colours(int output);

}  // namespace barcuda::watch
