// SPDX-License-Identifier: Apache-2.0
// barcuda: the command for users. Each subcommand is in the file of its name; app.h says how it is added.
#include <cerrno>
#include <string>
#include <string_view>
#include <vector>

#include "host-bridge/cli/commands.h"
#include "host-bridge/cli/hints.h"
#include "host-bridge/cli/nvidia_smi.h"
#include "shm-device/version_text.h"

namespace barcuda {
namespace {

// In the order of the help.
constexpr AddCommand* commands[] = {
    // programs
    add_run,
    add_stats,
    add_exec,
    add_demo,
    // this machine
    add_doctor,
    add_support,
    add_smi,
    // the bridges of a host
    add_bridge,
    add_ps,
    add_top,
    add_metrics,
    add_limit,
    add_pause,
    add_resume,
    add_upgrade,
    add_suspend,
    add_wake,
    add_hand_over,
    add_move,
    add_receive,
    // guests and VMs
    add_guest,
    add_vm,
    add_vm_config,
    // output for other programs
    add_trace,
    add_cdi,
    // about all of them
    add_help,
};

}  // namespace
}  // namespace barcuda

int main(int argc, char** argv) {
    barcuda::App app(barcuda::hints(), barcuda::version_text());
    for (barcuda::AddCommand* const add : barcuda::commands) add(app);
    if (std::string_view(program_invocation_short_name) != barcuda::nvidia_smi) return app.run(argc, argv);
    std::vector<std::string> words = barcuda::as_barcuda({argv, argv + argc});
    std::vector<char*> pointers;
    pointers.reserve(words.size() + 1);
    for (std::string& word : words) pointers.push_back(word.data());
    pointers.push_back(nullptr);
    return app.run(static_cast<int>(words.size()), pointers.data());
}
