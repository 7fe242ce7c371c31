// SPDX-License-Identifier: Apache-2.0
// run.h: runs a program with its own bridge, for `barcuda run` and `barcuda stats`.
#pragma once
#include <string>
#include <vector>

#include "host-bridge/cli/own_bridge.h"

namespace barcuda {

struct RunOptions {
    OwnBridgeOptions bridge;
    std::vector<std::string> program;
    bool statistics = false;      // the program prints them when it exits
    bool windows = false;         // it is one for Windows, and Wine runs it
    bool host_libraries = false;  // use the host's cuBLAS and cuRAND even if there are others
};
void add_options(Command command, RunOptions& options);
// Runs the program. Returns its exit status (128 + signal if one killed it), or 125 if it cannot be run under Barcuda.
int run(const RunOptions& options);

}  // namespace barcuda
