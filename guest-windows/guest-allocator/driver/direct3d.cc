// SPDX-License-Identifier: Apache-2.0
// direct3d.cc: what programs of Windows ask to find the device that drives a display: none does, since the GPU is the
// host's. The other functions of these APIs are refused (shm-device/cuda/direct3d.h).
#include <string.h>

#include "guest-allocator/client/client.h"
#include "guest-allocator/driver/export.h"

using namespace barcuda::guest;

namespace {

// As CUDA documents for an adapter, or a device of Direct3D, that no CUDA device is behind.
CUresult none_of(const void* out) {
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    return Client::initialized() ? CUDA_ERROR_NO_DEVICE : CUDA_ERROR_NOT_INITIALIZED;
}

}  // namespace

CU cuD3D9GetDevice(CUdevice* device, const char* /*adapter*/) { return none_of(device); }
CU cuD3D10GetDevice(CUdevice* device, void* /*adapter*/) { return none_of(device); }
CU cuD3D11GetDevice(CUdevice* device, void* /*adapter*/) { return none_of(device); }

#define DEVICES(name) \
    CU name(unsigned* count, CUdevice*, unsigned /*room*/, void* /*of*/, int /*list*/) { return none_of(count); }
DEVICES(cuD3D9GetDevices)
DEVICES(cuD3D10GetDevices)
DEVICES(cuD3D11GetDevices)

// Windows gave the device no identifier, as it gives none to a GPU without displays (TCC). Programs look for an adapter
// with this one, and find none: it is made of the device's UUID, which no other adapter's is made of.
CU cuDeviceGetLuid(char* luid, unsigned* nodes, CUdevice device) {
    CUuuid uuid;
    if (!luid || !nodes) return CUDA_ERROR_INVALID_VALUE;
    if (CUresult result = cuDeviceGetUuid_v2(&uuid, device)) return result;
    for (int i = 0; i < 8; ++i) luid[i] = static_cast<char>(uuid.bytes[i] ^ uuid.bytes[8 + i]);
    *nodes = 1;
    return CUDA_SUCCESS;
}
