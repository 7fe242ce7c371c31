// SPDX-License-Identifier: Apache-2.0
#include "guest-allocator/client/activity.h"

constinit std::atomic<const barcuda::guest::activity::Recorder*> barcuda_recorder{nullptr};

namespace barcuda::guest::activity {
constinit thread_local std::uint32_t call = 0;
}
