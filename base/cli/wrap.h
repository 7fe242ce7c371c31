// SPDX-License-Identifier: Apache-2.0
// wrap.h: help texts on a terminal: a line that is too long goes on where its text begins, for instance under an
// option's description.
#pragma once
#include <string>

namespace barcuda {

std::string wrapped(const std::string& text, std::size_t columns);
// The columns of this terminal; 0: standard output is none, and lines stay whole for programs that read them.
std::size_t terminal_columns();

}  // namespace barcuda
