/* SPDX-License-Identifier: Apache-2.0
 * device_info.c: what a program asks about its device
 */
#include "check.h"

int main(void) {
    char name[256], bus[32];
    int count, major, minor, unified, version;
    size_t total;
    CUuuid uuid;
    CUdevice device, again;
    CHECK(cuInit(0));
    CHECK(cuDriverGetVersion(&version));
    CHECK(cuDeviceGetCount(&count));
    EXPECT(count >= 1);
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuDeviceGetName(name, sizeof name, device));
    CHECK(cuDeviceTotalMem(&total, device));
    CHECK(cuDeviceGetUuid(&uuid, device));
    CHECK(cuDeviceGetPCIBusId(bus, sizeof bus, device));
    CHECK(cuDeviceGetByPCIBusId(&again, bus));
    EXPECT(again == device);
    CHECK(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device));
    CHECK(cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device));
    CHECK(cuDeviceGetAttribute(&unified, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, device));
    EXPECT(unified == 1);
    EXPECT(cuDeviceGet(&again, count) == CUDA_ERROR_INVALID_DEVICE);
    printf("%s %s %d.%d %d %zu %02x%02x\n", name, bus, major, minor, version, total, uuid.bytes[0] & 255,
           uuid.bytes[15] & 255);
    return passed();
}
