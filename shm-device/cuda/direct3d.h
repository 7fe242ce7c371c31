// SPDX-License-Identifier: Apache-2.0
// direct3d.h: the functions of CUDA's driver that NVIDIA's library for Windows alone exports: those of <cudaD3D9.h>,
// <cudaD3D10.h> and <cudaD3D11.h>, and cuWGLGetDevice of <cudaGL.h>. The columns are those of shm-device/cuda/api.h,
// which has them on Windows behind its own. The versions are those of CUDA's <cudaD3D*Typedefs.h>; the names are those
// that CUPTI knows on each system (tests/windows/test_direct3d.py).
#pragma once

// clang-format off
#define BARCUDA_DIRECT3D_API(FIRST, LATER) \
    FIRST(cuD3D9GetDevice, 2000, none) FIRST(cuD3D9GetDevices, 3020, none) \
    FIRST(cuD3D9CtxCreate, 2000, none) LATER(cuD3D9CtxCreate_v2, cuD3D9CtxCreate, 3020, none, same) \
    FIRST(cuD3D9CtxCreateOnDevice, 3020, none) FIRST(cuD3D9GetDirect3DDevice, 2000, none) \
    FIRST(cuGraphicsD3D9RegisterResource, 3000, none) FIRST(cuD3D9RegisterResource, 2000, none) \
    FIRST(cuD3D9UnregisterResource, 2000, none) FIRST(cuD3D9MapResources, 2000, none) \
    FIRST(cuD3D9UnmapResources, 2000, none) FIRST(cuD3D9ResourceSetMapFlags, 2000, none) \
    FIRST(cuD3D9ResourceGetSurfaceDimensions, 2000, none) \
    LATER(cuD3D9ResourceGetSurfaceDimensions_v2, cuD3D9ResourceGetSurfaceDimensions, 3020, none, wide) \
    FIRST(cuD3D9ResourceGetMappedArray, 2010, none) FIRST(cuD3D9ResourceGetMappedPointer, 2000, none) \
    LATER(cuD3D9ResourceGetMappedPointer_v2, cuD3D9ResourceGetMappedPointer, 3020, none, wide) \
    FIRST(cuD3D9ResourceGetMappedSize, 2000, none) \
    LATER(cuD3D9ResourceGetMappedSize_v2, cuD3D9ResourceGetMappedSize, 3020, none, wide) \
    FIRST(cuD3D9ResourceGetMappedPitch, 2000, none) \
    LATER(cuD3D9ResourceGetMappedPitch_v2, cuD3D9ResourceGetMappedPitch, 3020, none, wide) \
    FIRST(cuD3D9Begin, 2000, none) FIRST(cuD3D9End, 2000, none) FIRST(cuD3D9RegisterVertexBuffer, 2000, none) \
    FIRST(cuD3D9MapVertexBuffer, 2000, none) \
    LATER(cuD3D9MapVertexBuffer_v2, cuD3D9MapVertexBuffer, 3020, none, wide) \
    FIRST(cuD3D9UnmapVertexBuffer, 2000, none) FIRST(cuD3D9UnregisterVertexBuffer, 2000, none) \
    FIRST(cuD3D10GetDevice, 2010, none) FIRST(cuD3D10GetDevices, 3020, none) \
    FIRST(cuD3D10CtxCreate, 2010, none) LATER(cuD3D10CtxCreate_v2, cuD3D10CtxCreate, 3020, none, same) \
    FIRST(cuD3D10CtxCreateOnDevice, 3020, none) FIRST(cuD3D10GetDirect3DDevice, 3020, none) \
    FIRST(cuGraphicsD3D10RegisterResource, 3000, none) FIRST(cuD3D10RegisterResource, 2010, none) \
    FIRST(cuD3D10UnregisterResource, 2010, none) FIRST(cuD3D10MapResources, 2010, none) \
    FIRST(cuD3D10UnmapResources, 2010, none) FIRST(cuD3D10ResourceSetMapFlags, 2010, none) \
    FIRST(cuD3D10ResourceGetMappedArray, 2010, none) FIRST(cuD3D10ResourceGetMappedPointer, 2010, none) \
    LATER(cuD3D10ResourceGetMappedPointer_v2, cuD3D10ResourceGetMappedPointer, 3020, none, wide) \
    FIRST(cuD3D10ResourceGetMappedSize, 2010, none) \
    LATER(cuD3D10ResourceGetMappedSize_v2, cuD3D10ResourceGetMappedSize, 3020, none, wide) \
    FIRST(cuD3D10ResourceGetMappedPitch, 2010, none) \
    LATER(cuD3D10ResourceGetMappedPitch_v2, cuD3D10ResourceGetMappedPitch, 3020, none, wide) \
    FIRST(cuD3D10ResourceGetSurfaceDimensions, 2010, none) \
    LATER(cuD3D10ResourceGetSurfaceDimensions_v2, cuD3D10ResourceGetSurfaceDimensions, 3020, none, wide) \
    FIRST(cuD3D11GetDevice, 3000, none) FIRST(cuD3D11GetDevices, 3020, none) \
    FIRST(cuD3D11CtxCreate, 3000, none) LATER(cuD3D11CtxCreate_v2, cuD3D11CtxCreate, 3020, none, same) \
    FIRST(cuD3D11CtxCreateOnDevice, 3020, none) FIRST(cuD3D11GetDirect3DDevice, 3020, none) \
    FIRST(cuGraphicsD3D11RegisterResource, 3000, none) \
    FIRST(cuWGLGetDevice, 2020, none)
// clang-format on
