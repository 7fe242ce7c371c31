/* SPDX-License-Identifier: Apache-2.0
 * refusals.c: what is refused, and how
 */
#include "nvml_check.h"

int main(void) {
    char text[4];
    int status;
    unsigned count = 0;
    nvmlDevice_t device, other;
    EXPECT(nvmlDeviceGetCount_v2(&count) == uninitialized);
    EXPECT(nvmlShutdown() == uninitialized);
    device = begin();
    EXPECT(nvmlDeviceGetHandleByIndex_v2(99, &other) == invalid);
    EXPECT(nvmlDeviceGetHandleByUUID("GPU-none", &other) == absent);
    EXPECT(nvmlDeviceGetCount_v2(NULL) == invalid);
    EXPECT(nvmlDeviceGetName(device, text, sizeof text) == insufficient);
    EXPECT(nvmlDeviceSetPowerManagementLimit(device, 1) == refused);
    for (status = 0; status < 30; ++status) printf("%d %s\n", status, nvmlErrorString(status));
    return passed();
}
