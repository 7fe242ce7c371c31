/* SPDX-License-Identifier: Apache-2.0
 * values.c: values that change
 */
#include "nvml_check.h"

int main(void) {
    struct memory memory;
    struct utilization rates;
    unsigned value = 0;
    nvmlDevice_t device = begin();
    CHECK(nvmlDeviceGetMemoryInfo(device, &memory));
    printf("%llu bytes\n", memory.total);
    EXPECT(memory.used + memory.free == memory.total);
    printf("rates: %s\n", nvmlErrorString(nvmlDeviceGetUtilizationRates(device, &rates)));
    printf("temperature: %s\n", nvmlErrorString(nvmlDeviceGetTemperature(device, 0, &value)));
    printf("power: %s\n", nvmlErrorString(nvmlDeviceGetPowerUsage(device, &value)));
    return passed();
}
