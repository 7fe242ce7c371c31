// SPDX-License-Identifier: Apache-2.0
// notices.h: what commands of hosts say in a guest, where they find nothing.
#pragma once
#include <string>

namespace barcuda {

struct Installation;

std::string with_hint(const std::string& text);           // and what to do instead, if this is a guest
std::string bridge_is_missing(const Installation& here);  // of a command that starts a bridge

}  // namespace barcuda
