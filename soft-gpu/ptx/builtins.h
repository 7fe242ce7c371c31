// SPDX-License-Identifier: Apache-2.0
// builtins.h: functions that kernels may call without defining them.
#pragma once
#include "soft-gpu/ptx/machine.h"

namespace barcuda::soft {

using Builtin = void (*)(Warp& w, const Call& site, Mask lanes);
struct BuiltinFacts {
    std::string_view name;
    std::size_t arguments;
    Builtin run;
};
const BuiltinFacts* find_builtin(std::string_view name);  // null if there is none

}  // namespace barcuda::soft
