/* SPDX-License-Identifier: Apache-2.0
 * processes.c: the processes of this guest
 */
#include "nvml_check.h"

#ifdef _WIN32
#include <process.h>
#else
#include <unistd.h>
#endif
static unsigned own_pid(void) { return (unsigned)getpid(); }

int main(void) {
    char name[512];
    struct process all[8];
    unsigned count = 8;
    nvmlDevice_t device = begin();
    CHECK(nvmlDeviceGetComputeRunningProcesses_v3(device, &count, all));
    printf("%u processes\n", count);
    CHECK(nvmlDeviceGetGraphicsRunningProcesses_v3(device, &count, all));
    EXPECT(count == 0);
    EXPECT(nvmlSystemGetProcessName(0x7ffffff0, name, sizeof name) == absent);
    EXPECT(nvmlSystemGetProcessName(own_pid(), NULL, 0) == invalid);
    CHECK(nvmlSystemGetProcessName(own_pid(), name, sizeof name));
    EXPECT(strstr(name, "processes") != NULL);
    EXPECT(nvmlSystemGetProcessName(own_pid(), name, 2) == insufficient);
    return passed();
}
