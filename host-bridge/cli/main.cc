// SPDX-License-Identifier: Apache-2.0
// barcuda: the command for users. Each subcommand is in the file of its name; app.h says how it is added.
#include "host-bridge/cli/commands.h"
#include "host-bridge/cli/hints.h"
#include "shm-device/version_text.h"

namespace barcuda {
namespace {

// In the order of the help.
constexpr AddCommand* commands[] = {
    // programs
    add_run,
    add_stats,
    add_exec,
    // this machine
    add_doctor,
    add_support,
    add_smi,
    // the bridges of a host
    add_ps,
    add_top,
    add_metrics,
    add_limit,
    add_pause,
    add_resume,
    add_upgrade,
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
    return app.run(argc, argv);
}
