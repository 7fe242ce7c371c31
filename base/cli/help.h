// SPDX-License-Identifier: Apache-2.0
// help.h: `barcuda help` and `barcuda help COMMAND ...`, as git and docker have it.
#pragma once
#include <string>
#include <vector>

namespace barcuda {

class App;
// Prints what --help prints after these words, which are subcommands. Returns the exit status.
int help(App& app, const std::vector<std::string>& words);

}  // namespace barcuda
