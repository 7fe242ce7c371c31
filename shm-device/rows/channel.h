// channel.h: rows of what a channel itself needs: heap memory, and what kernels print. (What a row says: shm-device/commands.h.)
#pragma once
#include <cuda.h>

#include <cstddef>
#include <cstdint>

namespace barcuda::ext {

// Heap memory of the client: a run of granules, zero-filled, registered with the GPU.
CUresult grant(std::size_t bytes, std::uint64_t* offset, std::uint64_t* granted);
CUresult release(std::uint64_t offset, std::uint64_t bytes);

// What kernels have printed since the last call, or, with `errors`, what a driver has said of a failed assert; `used`
// bytes of `text` (at most `room`).
CUresult take_output(unsigned errors, char* text, std::size_t room, std::uint64_t* used);

}  // namespace barcuda::ext

// clang-format off
//    ours
#define BARCUDA_CHANNEL_OWN_ROWS(X)                                                                    \
    X(grant,                                                call,       plain, in, out, out)           \
    X(release,                                              post,       plain, in, in)                 \
    X(take_output,                                          call,       reports, in, fill<2>, in, out)
// clang-format on
