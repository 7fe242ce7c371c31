// SPDX-License-Identifier: Apache-2.0
// wake.cc: `barcuda wake`: a bridge that goes on with a VM that `barcuda suspend` has written to a folder
// (barcuda-bridge --wake).
#include <fmt/format.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "base/cli/installation.h"
#include "base/cli/options.h"
#include "host-bridge/cli/commands.h"
#include "host-bridge/cli/notices.h"
#include "host-bridge/suspended/description.h"

namespace barcuda {
namespace {

struct WakeCommand {
    std::string folder, region, name;
    std::vector<std::string> words;  // DIR, and the bridge's options
};

int run(const WakeCommand& command) {
    if (command.words.empty()) return complain("wake", "name the folder of a suspended VM", wrong_usage);
    const std::string& folder = command.words.front();
    std::ifstream file(folder + "/set.json");
    Description its;
    // The bridge verifies it, and everything else.
    if (const Failure e = parse({std::istreambuf_iterator<char>(file), {}}, its))
        return complain("wake", fmt::format("{}/set.json: {}", folder, file ? e.text() : "it cannot be read"));
    const Installation here = installation();
    if (access(here.bridge.c_str(), X_OK) != 0) return complain("wake", bridge_is_missing(here));
    std::vector<std::string> words{here.bridge,
                                   "--wake",
                                   folder,
                                   "--region",
                                   command.region.empty() ? its.region : command.region,
                                   "--name",
                                   command.name.empty() ? its.name : command.name};
    if (!its.clients.empty()) words.insert(words.end(), {"--device-memory", "blocks"});
    words.insert(words.end(), command.words.begin() + 1, command.words.end());
    return become("wake", words);
}

}  // namespace

void add_wake(App& app) {
    const auto options = std::make_shared<WakeCommand>();
    const Command command = app.add("wake", "on a host: start the bridge of a VM that was suspended to a folder",
                                    [options] { return run(*options); });
    command.add_option("--region", options->region, "the region's file (default: where it was)");
    command.add_option("--name", options->name, "the VM's name (default: the one that it had)");
    command.add_option("DIR", options->words,
                       "the folder, then more options of barcuda-bridge: barcuda wake DIR --gpus 0");
    command.positionals_at_end();
}

}  // namespace barcuda
