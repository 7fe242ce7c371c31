// SPDX-License-Identifier: Apache-2.0
// array.h: rows of arrays, textures, surfaces. (What a row says: shm-device/rows/commands.h.)
#pragma once
#include <cuda.h>

namespace barcuda::ext {

// The colour of a texture reference's border.
struct Color {
    float channel[4];
};
CUresult border_color(CUtexref reference, Color* color);
CUresult set_border_color(CUtexref reference, Color color);

}  // namespace barcuda::ext

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
    X(cuMipmappedArrayGetSparseProperties,                  call,       asks,  out, use)                            \
    X(cuModuleGetTexRef,                                    call,       plain, part<1>, use, text)                  \
    X(cuModuleGetSurfRef,                                   call,       plain, part<1>, use, text)                  \
    X(cuTexRefCreate,                                       call,       plain, make)                                \
    X(cuTexRefDestroy,                                      call,       plain, drop)                                \
    X(cuTexRefSetArray,                                     call,       configures|lasts, use, use, in)             \
    X(cuTexRefSetMipmappedArray,                            call,       configures|lasts, use, use, in)             \
    X(cuTexRefSetAddress_v2,                                call,       configures|lasts, maybe, use, device<3>, in) \
    X(cuTexRefSetAddress2D_v3,                              call,       configures|lasts, use, desc, device_word<1>, in) \
    X(cuTexRefSetFormat,                                    call,       configures|lasts, use, in, in)              \
    X(cuTexRefSetAddressMode,                               call,       configures|lasts, use, in, in)              \
    X(cuTexRefSetFilterMode,                                call,       configures|lasts, use, in)                  \
    X(cuTexRefSetMipmapFilterMode,                          call,       configures|lasts, use, in)                  \
    X(cuTexRefSetMipmapLevelBias,                           call,       configures|lasts, use, in)                  \
    X(cuTexRefSetMipmapLevelClamp,                          call,       configures|lasts, use, in, in)              \
    X(cuTexRefSetMaxAnisotropy,                             call,       configures|lasts, use, in)                  \
    X(cuTexRefSetFlags,                                     call,       configures|lasts, use, in)                  \
    X(cuTexRefGetAddress_v2,                                call,       asks,  out, use)                            \
    X(cuTexRefGetArray,                                     call,       plain, give, use)                           \
    X(cuTexRefGetMipmappedArray,                            call,       plain, give, use)                           \
    X(cuTexRefGetAddressMode,                               call,       asks,  out, use, in)                        \
    X(cuTexRefGetFilterMode,                                call,       asks,  out, use)                            \
    X(cuTexRefGetFormat,                                    call,       asks,  out, out, use)                       \
    X(cuTexRefGetMipmapFilterMode,                          call,       asks,  out, use)                            \
    X(cuTexRefGetMipmapLevelBias,                           call,       asks,  out, use)                            \
    X(cuTexRefGetMipmapLevelClamp,                          call,       asks,  out, out, use)                       \
    X(cuTexRefGetMaxAnisotropy,                             call,       asks,  out, use)                            \
    X(cuTexRefGetFlags,                                     call,       asks,  out, use)                            \
    X(cuSurfRefSetArray,                                    call,       configures|lasts, use, use, in)             \
    X(cuSurfRefGetArray,                                    call,       plain, give, use)                           \
    X(cuParamSetTexRef,                                     call,       asks,  use, in, use)                        \
    X(cuTexRefGetBorderColor,                               guest,      plain)                                      \
    X(cuTexRefSetBorderColor,                               guest,      plain)

//    ours
#define BARCUDA_ARRAY_OWN_ROWS(X)                                                                                   \
    X(border_color,                                         call,       asks,  use, out)                            \
    X(set_border_color,                                     call,       configures|lasts, use, in)
// clang-format on
