// SPDX-License-Identifier: Apache-2.0
// channel.h: rows of what a channel itself needs: heap memory, and what kernels print. (What a row says:
// shm-device/rows/commands.h.)
#pragma once
#include <cuda.h>

#include <cstddef>
#include <cstdint>

namespace barcuda::ext {

// An extent of the client's heap goes back to the bridge, behind all commands that name it. (How it came: layout.h,
// struct barcuda_supply.)
CUresult release(std::uint64_t offset, std::uint64_t bytes);

// What kernels have printed since the last call, or, with `errors`, what a driver has said of a failed assert; `used`
// bytes of `text` (at most `room`).
CUresult take_output(unsigned errors, char* text, std::size_t room, std::uint64_t* used);

}  // namespace barcuda::ext

// clang-format off
//    ours
#define BARCUDA_CHANNEL_OWN_ROWS(X)                                                                    \
    X(release,                                              post,       lasts, in, in)                 \
    X(take_output,                                          call,       reports|asks, in, fill<2>, in, out)
// clang-format on
