// SPDX-License-Identifier: Apache-2.0
// gpu.h: records of what the GPU did. The worker has them from the host's CUPTI
// (host-bridge/worker/session/recording.h); here they become CUPTI's structs, with times of this system's clock.
#pragma once
#include <cupti.h>

#include <cstdint>

#include "guest-allocator/cupti/asked.h"

namespace barcuda::guest::cupti {

inline constexpr std::uint64_t gpu_kinds =
    bit_of(CUPTI_ACTIVITY_KIND_MEMCPY) | bit_of(CUPTI_ACTIVITY_KIND_MEMSET) | bit_of(CUPTI_ACTIVITY_KIND_KERNEL) |
    bit_of(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) | bit_of(CUPTI_ACTIVITY_KIND_MEMCPY2);

// The worker records what `asked` wants, if CUDA is initialized; else when it is.
CUptiResult ask_worker() noexcept;
void cuda_is_there() noexcept;

enum class Flush : std::uint32_t { none, complete, all };
// Takes what the worker has.
void fetch(Flush flush) noexcept;

}  // namespace barcuda::guest::cupti
