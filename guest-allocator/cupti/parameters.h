// SPDX-License-Identifier: Apache-2.0
// parameters.h: what a driver function was called with, as a struct of its parameters, which a subscriber reads.
// (The toolkit declares those structs, cuLaunchKernel_params for instance.)
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "guest-allocator/client/activity.h"

namespace barcuda::guest::cupti {

inline constexpr std::size_t most_parameter_bytes = 256;

// Writes a call's parameters to `to`, which has most_parameter_bytes.
using Gather = void (*)(const activity::Given& given, const std::uint64_t* on_stack, std::byte* to) noexcept;
// Null: this function's are not known.
Gather gather_of(std::string_view function) noexcept;

}  // namespace barcuda::guest::cupti
