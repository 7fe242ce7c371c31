// SPDX-License-Identifier: Apache-2.0
// notices.h: what subcommands say that went wrong, and what those of hosts say in a guest, where they find nothing.
#pragma once
#include <string>

namespace barcuda {

struct Installation;

// "barcuda COMMAND: WHAT", on standard error; returns the status.
int complain(const char* command, const std::string& what, int status = 1);
std::string with_hint(const std::string& text);           // and what to do instead, if this is a guest
std::string bridge_is_missing(const Installation& here);  // of a command that starts a bridge

}  // namespace barcuda
