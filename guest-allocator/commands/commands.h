// SPDX-License-Identifier: Apache-2.0
// commands.h: the subcommands of `barcuda` that only a guest has a use for.
#pragma once
#include "base/cli/app.h"

namespace barcuda {

AddCommand add_exec, add_guest;

}  // namespace barcuda
