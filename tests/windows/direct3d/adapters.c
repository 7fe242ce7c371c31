/* SPDX-License-Identifier: Apache-2.0
 * adapters.c: no device drives a display; each has an identifier, which driver and runtime tell alike
 */
#include <cuda_runtime_api.h>
#include <windows.h>

#include "../programs/check.h"

typedef CUresult(CUDAAPI* Adapter)(CUdevice*, void*);
typedef CUresult(CUDAAPI* Devices)(unsigned*, CUdevice*, unsigned, void*, int);
typedef CUresult(CUDAAPI* Any)(void*, void*, void*, void*);
typedef cudaError_t(CUDARTAPI* Properties)(struct cudaDeviceProp*, int);

static HMODULE driver, runtime;
static void* named(HMODULE dll, const char* name) {
    void* const found = (void*)GetProcAddress(dll, name);
    if (!found) printf("%s is not there\n", name);
    return found;
}

int main(void) {
    static const char* const interfaces[] = {"D3D9", "D3D10", "D3D11"};
    CUdevice device = -1;
    unsigned count = 7, nodes = 0;
    char name[64], luid[8], again[8];
    struct cudaDeviceProp properties;
    void* found = NULL;
    CUdriverProcAddressQueryResult status;
    driver = GetModuleHandleA("nvcuda.dll");
    runtime = LoadLibraryA("cudart64_13.dll");
    EXPECT(((Adapter)named(driver, "cuD3D11GetDevice"))(&device, NULL) == CUDA_ERROR_NOT_INITIALIZED);
    EXPECT(cuDeviceGetLuid(luid, &nodes, 0) != CUDA_SUCCESS);
    CHECK(cuInit(0));
    for (int i = 0; i < 3; ++i) {
        snprintf(name, sizeof name, "cu%sGetDevice", interfaces[i]);
        EXPECT(((Adapter)named(driver, name))(&device, NULL) == CUDA_ERROR_NO_DEVICE);
        EXPECT(((Adapter)named(driver, name))(NULL, NULL) == CUDA_ERROR_INVALID_VALUE);
        snprintf(name, sizeof name, "cu%sGetDevices", interfaces[i]);
        EXPECT(((Devices)named(driver, name))(&count, &device, 1, NULL, 1) == CUDA_ERROR_NO_DEVICE);
        snprintf(name, sizeof name, "cuda%sGetDevice", interfaces[i]);
        EXPECT((int)((Adapter)named(runtime, name))(&device, NULL) == cudaErrorNoDevice);
        snprintf(name, sizeof name, "cuda%sGetDevices", interfaces[i]);
        EXPECT((int)((Devices)named(runtime, name))(&count, &device, 1, NULL, 1) == cudaErrorNoDevice);
        snprintf(name, sizeof name, "cuGraphics%sRegisterResource", interfaces[i]);
        EXPECT(((Any)named(driver, name))(&found, NULL, NULL, NULL) == CUDA_ERROR_NOT_SUPPORTED);
        CHECK(cuGetProcAddress(name, &found, 3000, CU_GET_PROC_ADDRESS_DEFAULT, &status));
        EXPECT(found == named(driver, name));
    }
    EXPECT(((Any)named(driver, "cuWGLGetDevice"))(&device, NULL, NULL, NULL) == CUDA_ERROR_NOT_SUPPORTED);
    EXPECT((int)((Any)named(runtime, "cudaWGLGetDevice"))(&device, NULL, NULL, NULL) == cudaErrorNotSupported);

    CHECK(cuDeviceGetLuid(luid, &nodes, 0));
    CHECK(cuDeviceGetLuid(again, &nodes, 0));
    EXPECT(nodes == 1 && !memcmp(luid, again, sizeof luid));
    EXPECT(cuDeviceGetLuid(luid, &nodes, 99) == CUDA_ERROR_INVALID_DEVICE);
    EXPECT(cuDeviceGetLuid(NULL, &nodes, 0) == CUDA_ERROR_INVALID_VALUE);
    EXPECT(((Properties)named(runtime, "cudaGetDeviceProperties"))(&properties, 0) == cudaSuccess);
    EXPECT(!memcmp(properties.luid, luid, sizeof luid) && properties.luidDeviceNodeMask == 1);
    return passed();
}
