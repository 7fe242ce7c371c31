// SPDX-License-Identifier: Apache-2.0
// commands.h: the subcommands of `barcuda`. Each is declared, and does its work, in the file of its name.
#pragma once
#include "host-bridge/cli/app.h"

namespace barcuda {

using AddCommand = void(App&);

AddCommand add_cdi, add_doctor, add_exec, add_guest, add_help, add_limit, add_metrics, add_ps, add_run, add_smi,
    add_stats, add_support, add_top, add_trace, add_vm, add_vm_config;

}  // namespace barcuda
