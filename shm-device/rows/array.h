// SPDX-License-Identifier: Apache-2.0
// array.h: rows of arrays, textures, surfaces. (What a row says: shm-device/rows/commands.h.)
#pragma once
#include <cuda.h>

// clang-format off
//    CUDA's function                                      how         traits, one kind per parameter
#define BARCUDA_ARRAY_ROWS(X)                                                                                       \
    X(cuArrayCreate_v2,                                     call,       charges(1)|current, make, desc)                     \
    X(cuArray3DCreate_v2,                                   call,       charges(1)|current, make, desc)                     \
    X(cuArrayDestroy,                                       call,       plain, drop)                                \
    X(cuArrayGetDescriptor_v2,                              call,       asks,  out, use)                            \
    X(cuArray3DGetDescriptor_v2,                            call,       asks,  out, use)                            \
    X(cuArrayGetPlane,                                      call,       plain, part<1>, use, in)                    \
    X(cuMipmappedArrayCreate,                               call,       charges(1, 2)|current, make, desc, in)              \
    X(cuMipmappedArrayGetLevel,                             call,       plain, part<1>, use, in)                    \
    X(cuMipmappedArrayDestroy,                              call,       plain, drop)                                \
    X(cuTexObjectDestroy,                                   call,       plain, drop_object)                         \
    X(cuSurfObjectCreate,                                   call,       uncharged|current, make_object, desc)                \
    X(cuSurfObjectDestroy,                                  call,       plain, drop_object)                         \
    X(cuTexObjectCreate,                                    call,       uncharged|current, make_object, desc, desc, maybe_desc) \
    X(cuTexObjectGetResourceDesc,                           call,       plain, told, use_object)                    \
    X(cuTexObjectGetTextureDesc,                            call,       asks,  told, use_object)                    \
    X(cuTexObjectGetResourceViewDesc,                       call,       asks,  told, use_object)                    \
    X(cuSurfObjectGetResourceDesc,                          call,       plain, told, use_object)                    \
    X(cuArrayGetMemoryRequirements,                         call,       asks,  out, use, in)                        \
    X(cuMipmappedArrayGetMemoryRequirements,                call,       asks,  out, use, in)                        \
    X(cuArrayGetSparseProperties,                           call,       asks,  out, use)                            \
    X(cuMipmappedArrayGetSparseProperties,                  call,       asks,  out, use)
// clang-format on
