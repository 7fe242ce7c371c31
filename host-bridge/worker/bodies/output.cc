// SPDX-License-Identifier: Apache-2.0
// output.cc: text that kernels have printed, and text of failed assertions. (The guest's half:
// guest-allocator/driver/fence.cc.)
#include "host-bridge/worker/session/session.h"

namespace barcuda::ext {

CUresult take_output(unsigned errors, char* text, std::size_t room, std::uint64_t* used) {
    Output& output = session().output();
    *used = errors ? output.asserted(text, room) : output.printed(text, room);
    return CUDA_SUCCESS;
}

}  // namespace barcuda::ext
