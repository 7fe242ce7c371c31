// SPDX-License-Identifier: Apache-2.0
// commands.h: the subcommands of `barcuda`: the host's here, the guest's on the guest's side. Each is declared and
// implemented in the file of its name.
#pragma once
#include "base/cli/app.h"
#include "guest-allocator/commands/commands.h"

namespace barcuda {

AddCommand add_bridge, add_cdi, add_demo, add_doctor, add_hand_over, add_limit, add_metrics, add_move, add_pause,
    add_ps, add_receive, add_resume, add_run, add_smi, add_stats, add_support, add_suspend, add_top, add_trace,
    add_upgrade, add_vm, add_vm_config, add_wake;

}  // namespace barcuda
