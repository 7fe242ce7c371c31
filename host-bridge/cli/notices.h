// SPDX-License-Identifier: Apache-2.0
// notices.h: what a subcommand for hosts adds to its message if it finds nothing, and runs in a guest.
#pragma once
#include <string>

namespace barcuda {

struct Installation;

std::string with_hint(const std::string& text);           // in a guest, adds what to do instead
std::string bridge_is_missing(const Installation& here);  // for a command that starts a bridge

}  // namespace barcuda
