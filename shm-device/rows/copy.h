// SPDX-License-Identifier: Apache-2.0
// copy.h: rows of copies and fills. (What a row says: shm-device/rows/commands.h.)
#pragma once
#include <cuda.h>

#include <cstddef>
#include <cstdint>

namespace barcuda::ext {

// Copies whose host side is not in the region: the bytes ride in the command or in its reply.
CUresult copy_in(CUdeviceptr to, const void* bytes, std::size_t size, CUstream stream);
// To the host: CUDA_ERROR_NOT_READY while the stream is at work.
CUresult copy_out(void* bytes, CUdeviceptr from, std::size_t size, CUstream stream);
// The same of boxes, packed without gaps. Of the description only the device's side counts; it stands on both.
CUresult box_in(const CUDA_MEMCPY3D* box, const void* bytes, std::size_t size, CUstream stream);
CUresult box_out(const CUDA_MEMCPY3D* box, void* bytes, std::size_t size, CUstream stream);

}  // namespace barcuda::ext

// clang-format off
//    CUDA's function                                      how         traits, one kind per parameter
#define BARCUDA_COPY_ROWS(X)                                                                                      \
    X(cuMemcpyDtoD_v2,                                      inner_post, work|copies_on|current, device<2>, device<2>, in) \
    X(cuMemcpyDtoDAsync_v2,                                 post,       work|copies_on, device<2>, device<2>, in, use) \
    X(cuMemsetD8Async,                                      post,       work, device<2>, in, in, use)             \
    X(cuMemsetD16Async,                                     post,       work, device16<2>, in, in, use)           \
    X(cuMemsetD32Async,                                     post,       work, device32<2>, in, in, use)           \
    X(cuMemsetD2D8Async,                                    post,       work, rows8, in, in, in, in, use)         \
    X(cuMemsetD2D16Async,                                   post,       work, rows16, in, in, in, in, use)        \
    X(cuMemsetD2D32Async,                                   post,       work, rows32, in, in, in, in, use)        \
    X(cuMemcpyHtoDAsync_v2,                                 inner_post, work|copies_in, device<2>, region<2>, in, use) \
    X(cuMemcpyDtoHAsync_v2,                                 inner_post, work|copies_out, region<2>, device<2>, in, use) \
    X(cuMemsetD8_v2,                                        inner_post, work|hosted|current, device<2>, in, in)           \
    X(cuMemsetD16_v2,                                       inner_post, work|hosted|current, device16<2>, in, in)         \
    X(cuMemsetD32_v2,                                       inner_post, work|hosted|current, device32<2>, in, in)         \
    X(cuMemsetD2D8_v2,                                      inner_post, work|hosted|current, rows8, in, in, in, in)       \
    X(cuMemsetD2D16_v2,                                     inner_post, work|hosted|current, rows16, in, in, in, in)      \
    X(cuMemsetD2D32_v2,                                     inner_post, work|hosted|current, rows32, in, in, in, in)      \
    X(cuMemcpy3DAsync_v2,                                   inner_post, work|copies, desc, use)                   \
    X(cuMemcpyPeer,                                         inner_post, work|copies_on, device<4>, use, device<4>, use, in) \
    X(cuMemcpy,                                             guest,      plain)                                    \
    X(cuMemcpy2DAsync_v2,                                   guest,      plain)                                    \
    X(cuMemcpy2DUnaligned_v2,                               guest,      plain)                                    \
    X(cuMemcpy2D_v2,                                        guest,      plain)                                    \
    X(cuMemcpy3DBatchAsync_v2,                              guest,      plain)                                    \
    X(cuMemcpy3DPeer,                                       guest,      plain)                                    \
    X(cuMemcpy3DPeerAsync,                                  guest,      plain)                                    \
    X(cuMemcpy3D_v2,                                        guest,      plain)                                    \
    X(cuMemcpyAsync,                                        guest,      plain)                                    \
    X(cuMemcpyAtoA_v2,                                      guest,      plain)                                    \
    X(cuMemcpyAtoD_v2,                                      guest,      plain)                                    \
    X(cuMemcpyAtoHAsync_v2,                                 guest,      plain)                                    \
    X(cuMemcpyAtoH_v2,                                      guest,      plain)                                    \
    X(cuMemcpyBatchAsync_v2,                                guest,      plain)                                    \
    X(cuMemcpyDtoA_v2,                                      guest,      plain)                                    \
    X(cuMemcpyDtoH_v2,                                      guest,      plain)                                    \
    X(cuMemcpyHtoAAsync_v2,                                 guest,      plain)                                    \
    X(cuMemcpyHtoA_v2,                                      guest,      plain)                                    \
    X(cuMemcpyHtoD_v2,                                      guest,      plain)                                    \
    X(cuMemcpyPeerAsync,                                    guest,      plain)

//    ours
#define BARCUDA_COPY_OWN_ROWS(X)                                                                            \
    X(copy_in,                                              post,       work|copies_in, device<2>, blob<2>, in, use) \
    X(copy_out,                                             call,       copies_out, fill<2>, device<2>, in, use) \
    X(box_in,                                               post,       work|copies_in, desc, blob<2>, in, use) \
    X(box_out,                                              call,       copies_out, desc, fill<2>, in, use)
// clang-format on
