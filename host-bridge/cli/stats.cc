// SPDX-License-Identifier: Apache-2.0
// stats.cc: `barcuda stats`: like `barcuda run`, and prints the library's statistics when the program exits.
#include <memory>

#include "base/cli/exit_status.h"
#include "host-bridge/cli/commands.h"
#include "host-bridge/cli/run.h"

namespace barcuda {

void add_stats(App& app) {
    const auto options = std::make_shared<RunOptions>();
    options->statistics = true;
    add_options(app.add(
                    "stats", "the same, and show statistics of memory and copies at exit",
                    [options] { return run(*options); }, cannot_run),
                *options);
}

}  // namespace barcuda
