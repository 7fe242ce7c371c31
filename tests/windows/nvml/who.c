/* SPDX-License-Identifier: Apache-2.0
 * who.c: names and versions
 */
#include "nvml_check.h"

int main(void) {
    char text[96], uuid[96];
    int version = 0, major = 0, minor = 0;
    unsigned count = 0, index = 9;
    nvmlDevice_t device = begin(), same;
    CHECK(nvmlSystemGetDriverVersion(text, sizeof text));
    printf("driver %s\n", text);
    CHECK(nvmlSystemGetNVMLVersion(text, sizeof text));
    printf("NVML %s\n", text);
    CHECK(nvmlSystemGetCudaDriverVersion(&version));
    CHECK(nvmlDeviceGetCount_v2(&count));
    CHECK(nvmlDeviceGetName(device, text, sizeof text));
    CHECK(nvmlDeviceGetCudaComputeCapability(device, &major, &minor));
    printf("CUDA %d, %u devices, %s %d.%d\n", version, count, text, major, minor);
    CHECK(nvmlDeviceGetUUID(device, uuid, sizeof uuid));
    printf("%s\n", uuid);
    CHECK(nvmlDeviceGetHandleByUUID(uuid, &same));
    CHECK(nvmlDeviceGetIndex(same, &index));
    EXPECT(same == device && index == 0);
    return passed();
}
