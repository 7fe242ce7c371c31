/* SPDX-License-Identifier: Apache-2.0
 * nvml_check.h: what the NVML programs share, with the declarations that they need: <nvml.h> is a package that many
 * machines lack.
 */
#pragma once
#include <string.h>

#include "../expect.h"

typedef struct nvmlDevice_st* nvmlDevice_t;
typedef unsigned long long bytes_t;
struct memory {
    bytes_t total, free, used;
};
struct utilization {
    unsigned gpu, memory;
};
struct process {
    unsigned pid;
    bytes_t used;
    unsigned instance, compute_instance;
};
enum { uninitialized = 1, invalid = 2, unsupported = 3, refused = 4, absent = 6, insufficient = 7 };

int nvmlInit_v2(void);
int nvmlShutdown(void);
const char* nvmlErrorString(int status);
int nvmlSystemGetDriverVersion(char* text, unsigned room);
int nvmlSystemGetNVMLVersion(char* text, unsigned room);
int nvmlSystemGetCudaDriverVersion(int* version);
int nvmlSystemGetProcessName(unsigned pid, char* name, unsigned room);
int nvmlDeviceGetCount_v2(unsigned* count);
int nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t* device);
int nvmlDeviceGetHandleByUUID(const char* uuid, nvmlDevice_t* device);
int nvmlDeviceGetIndex(nvmlDevice_t device, unsigned* index);
int nvmlDeviceGetName(nvmlDevice_t device, char* text, unsigned room);
int nvmlDeviceGetUUID(nvmlDevice_t device, char* text, unsigned room);
int nvmlDeviceGetMemoryInfo(nvmlDevice_t device, struct memory* memory);
int nvmlDeviceGetUtilizationRates(nvmlDevice_t device, struct utilization* rates);
int nvmlDeviceGetTemperature(nvmlDevice_t device, int sensor, unsigned* degrees);
int nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned* milliwatts);
int nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int* major, int* minor);
int nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned* count, struct process* all);
int nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t device, unsigned* count, struct process* all);
int nvmlDeviceSetPowerManagementLimit(nvmlDevice_t device, unsigned limit);

#define CHECK(call) check(call, #call, __LINE__)
static inline void check(int status, const char* call, int line) {
    if (status == 0) return;
    printf("line %d: %s: %s (%d)\n", line, call, nvmlErrorString(status), status);
    exit(1);
}
static inline nvmlDevice_t begin(void) {
    nvmlDevice_t device;
    CHECK(nvmlInit_v2());
    CHECK(nvmlDeviceGetHandleByIndex_v2(0, &device));
    return device;
}
static inline int passed(void) {
    CHECK(nvmlShutdown());
    printf("passed\n");
    return 0;
}
