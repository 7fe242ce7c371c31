// SPDX-License-Identifier: Apache-2.0
// direct3d.cc: the functions of <cuda_d3d9_interop.h>, <cuda_d3d10_interop.h> and <cuda_d3d11_interop.h>, and
// cudaWGLGetDevice, which the runtime has on Windows alone. No device of CUDA drives a display. The names are those
// that CUPTI knows (tests/windows/test_direct3d.py).
#include "guest-allocator/runtime/runtime.h"
#include "guest-allocator/runtime/unsupported.h"

using namespace barcuda::runtime;

extern "C" {
CUresult CUDAAPI cuD3D9GetDevice(CUdevice*, const char*);
CUresult CUDAAPI cuD3D10GetDevice(CUdevice*, void*);
CUresult CUDAAPI cuD3D11GetDevice(CUdevice*, void*);
}

// What the driver answers is the whole answer: it knows no device.
#define ADAPTER(n, type) \
    API cudaD3D##n##GetDevice(int* device, type adapter) { return record(cuD3D##n##GetDevice(device, adapter)); }
ADAPTER(9, const char*)
ADAPTER(10, void*)
ADAPTER(11, void*)

#define DEVICES(n)                                                                                 \
    extern "C" CUresult CUDAAPI cuD3D##n##GetDevices(unsigned*, CUdevice*, unsigned, void*, int);  \
    API cudaD3D##n##GetDevices(unsigned* count, int* devices, unsigned room, void* of, int list) { \
        return record(cuD3D##n##GetDevices(count, devices, room, of, list));                       \
    }
DEVICES(9)
DEVICES(10)
DEVICES(11)

UNSUPPORTED(cudaD3D9GetDirect3DDevice)
UNSUPPORTED(cudaD3D9SetDirect3DDevice)
UNSUPPORTED(cudaGraphicsD3D9RegisterResource)
UNSUPPORTED(cudaD3D9RegisterResource)
UNSUPPORTED(cudaD3D9UnregisterResource)
UNSUPPORTED(cudaD3D9MapResources)
UNSUPPORTED(cudaD3D9UnmapResources)
UNSUPPORTED(cudaD3D9ResourceSetMapFlags)
UNSUPPORTED(cudaD3D9ResourceGetSurfaceDimensions)
UNSUPPORTED(cudaD3D9ResourceGetMappedArray)
UNSUPPORTED(cudaD3D9ResourceGetMappedPointer)
UNSUPPORTED(cudaD3D9ResourceGetMappedSize)
UNSUPPORTED(cudaD3D9ResourceGetMappedPitch)
UNSUPPORTED(cudaD3D9Begin)
UNSUPPORTED(cudaD3D9End)
UNSUPPORTED(cudaD3D9RegisterVertexBuffer)
UNSUPPORTED(cudaD3D9UnregisterVertexBuffer)
UNSUPPORTED(cudaD3D9MapVertexBuffer)
UNSUPPORTED(cudaD3D9UnmapVertexBuffer)
UNSUPPORTED(cudaD3D10GetDirect3DDevice)
UNSUPPORTED(cudaD3D10SetDirect3DDevice)
UNSUPPORTED(cudaGraphicsD3D10RegisterResource)
UNSUPPORTED(cudaD3D10RegisterResource)
UNSUPPORTED(cudaD3D10UnregisterResource)
UNSUPPORTED(cudaD3D10MapResources)
UNSUPPORTED(cudaD3D10UnmapResources)
UNSUPPORTED(cudaD3D10ResourceSetMapFlags)
UNSUPPORTED(cudaD3D10ResourceGetSurfaceDimensions)
UNSUPPORTED(cudaD3D10ResourceGetMappedArray)
UNSUPPORTED(cudaD3D10ResourceGetMappedPointer)
UNSUPPORTED(cudaD3D10ResourceGetMappedSize)
UNSUPPORTED(cudaD3D10ResourceGetMappedPitch)
UNSUPPORTED(cudaD3D11GetDirect3DDevice)
UNSUPPORTED(cudaD3D11SetDirect3DDevice)
UNSUPPORTED(cudaGraphicsD3D11RegisterResource)
UNSUPPORTED(cudaWGLGetDevice)
