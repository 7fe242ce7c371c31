// SPDX-License-Identifier: Apache-2.0
// barcuda: the command that people type. Its subcommands are in the files of their names; app.h says how they are added.
#include "host-bridge/cli/commands.h"

namespace {

// In the order of the help.
constexpr barcuda::AddCommand* commands[] = {
    barcuda::add_run,        // runs a program with no VM
    barcuda::add_stats,      // the same, and shows how its copies travelled
    barcuda::add_exec,       // runs a program in a guest
    barcuda::add_doctor,     // says what is there and what is missing
    barcuda::add_support,    // names the functions that cross to the host
    barcuda::add_smi,        // shows how the GPUs are doing
    barcuda::add_ps,         // shows which clients use the bridges of a host
    barcuda::add_top,        // the same, and what they do
    barcuda::add_metrics,    // the same for Prometheus
    barcuda::add_limit,      // says and changes what clients may have
    barcuda::add_guest,      // lets the programs of a guest find its GPUs
    barcuda::add_vm,         // starts a VM
    barcuda::add_vm_config,  // prints what to add to a VM
    barcuda::add_trace,      // puts the traces of guests and hosts together
    barcuda::add_cdi,        // prints a specification for containers
    barcuda::add_help,
};

}  // namespace

int main(int argc, char** argv) {
    barcuda::App app;
    for (barcuda::AddCommand* const add : commands) add(app);
    return app.run(argc, argv);
}
