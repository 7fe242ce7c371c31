// SPDX-License-Identifier: Apache-2.0
// notices.h: how a subcommand reports a failure, and what one of hosts adds in a guest, where it finds nothing.
#pragma once
#include <string>

namespace barcuda {

struct Installation;

// "barcuda COMMAND: WHAT", on standard error; returns the status.
int complain(const char* command, const std::string& what, int status = 1);
std::string with_hint(const std::string& text);           // and what to do instead, if this is a guest
std::string bridge_is_missing(const Installation& here);  // of a command that starts a bridge

}  // namespace barcuda
