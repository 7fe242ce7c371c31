// SPDX-License-Identifier: Apache-2.0
// help.h: `barcuda help` and `barcuda help COMMAND ...`, as git and docker have it.
#pragma once
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace barcuda {

// Prints what --help prints behind these words, which are the subcommands of `all`. Returns the exit status.
int help(CLI::App& all, const std::vector<std::string>& words);

}  // namespace barcuda
