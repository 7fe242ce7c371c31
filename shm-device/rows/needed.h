// SPDX-License-Identifier: Apache-2.0
// needed.h: the rows without which a client cannot live. A bridge that lacks one of them serves no client that knows
// it.
#pragma once
#include "shm-device/rows/commands.h"

namespace barcuda {

// Without these there is no context, no memory, and no way to show what kernels print. The two that write fences must
// not fail while the session lives: threads wait for the words that they write.
inline constexpr Op needed_rows[] = {Op::cuDevicePrimaryCtxRetain, Op::release,    Op::write_fence, Op::record_event,
                                     Op::cuStreamSynchronize,      Op::take_output};

}  // namespace barcuda
