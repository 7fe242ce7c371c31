// SPDX-License-Identifier: Apache-2.0
// notices.h: what a subcommand of hosts adds to its message in a guest, where it finds nothing.
#pragma once
#include <string>

namespace barcuda {

struct Installation;

std::string with_hint(const std::string& text);           // and what to do instead, if this is a guest
std::string bridge_is_missing(const Installation& here);  // of a command that starts a bridge

}  // namespace barcuda
