/* SPDX-License-Identifier: Apache-2.0
 * again.c: it is begun and ended several times
 */
#include "nvml_check.h"

int main(void) {
    int i;
    unsigned count = 0;
    for (i = 0; i < 3; ++i) {
        CHECK(nvmlInit_v2());
        CHECK(nvmlInit_v2());
        CHECK(nvmlShutdown());
        CHECK(nvmlDeviceGetCount_v2(&count));
        EXPECT(count >= 1);
        CHECK(nvmlShutdown());
        EXPECT(nvmlDeviceGetCount_v2(&count) == uninitialized);
    }
    begin();
    return passed();
}
