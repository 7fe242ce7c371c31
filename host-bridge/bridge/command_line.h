// SPDX-License-Identifier: Apache-2.0
// command_line.h: the options of barcuda-bridge, from the command line, its file of options and the environment.
#pragma once
#include <optional>
#include <string>

#include "host-bridge/bridge/options.h"

namespace barcuda {

struct CommandLine {
    // Returns the exit status if there is nothing more to do: after --help, or because of a mistake, which it has
    // printed.
    std::optional<int> read(int argc, char** argv);

    BridgeOptions options;
    std::string worker;   // not empty: this process is a worker that opens this library of the driver
    std::string monitor;  // not empty: it is a monitor that opens this library of NVML
    int keeper = -1;      // a link to a keeper of another file, which has started this bridge
    bool numbers = false;
    std::string words;       // not empty: numbers of another build (numbers.h)
    std::string more_files;  // that workers may read
    std::string level = "warn";

    // read() puts these into `options`.
    std::string priority;
    unsigned warm_idle = static_cast<unsigned>(options.warm.idle.count());  // seconds
};

}  // namespace barcuda
