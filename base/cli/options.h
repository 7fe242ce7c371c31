// SPDX-License-Identifier: Apache-2.0
// options.h: options that several subcommands have, with their names and their help.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/cli/command.h"

namespace barcuda {

void add_json(Command command, bool& json, const std::string& help = "as JSON");
// A number of bytes, such as 4G or 4096. `bytes` is whole gibibytes, which the help shows as the default.
void add_size(Command command, const std::string& name, std::uint64_t& bytes, const std::string& help);
void add_host_libraries(Command command, bool& wanted, const std::string& more = "");
// All words from the first one that is no option.
void add_program(Command command, std::vector<std::string>& words);

}  // namespace barcuda
