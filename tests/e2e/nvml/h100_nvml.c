/* SPDX-License-Identifier: Apache-2.0
 * h100_nvml.c: an NVML with the values of one idle H100 under driver 590.48.01, for test_nvidia_smi.py: what nvidia-smi
 * says of these values is known. Also the driver beside it, as far as it is asked. */
#include <string.h>

typedef unsigned u;
typedef unsigned long long ull;
enum { OK = 0, NOT_SUPPORTED = 3 };

int cuDriverGetVersion(int* v) {
    *v = 13010;
    return 0;
}
int cuInit(u flags) { return flags ? 1 : 0; }
int cuDeviceGetCount(int* n) {
    *n = 1;
    return 0;
}
void cuStreamWriteValue64_v2(void) {}
void cuMemHostRegister_v2(void) {}
void cuFuncGetParamInfo(void) {}

static int text(char* to, u room, const char* what) {
    if (strlen(what) >= room) return 7;
    strcpy(to, what);
    return OK;
}
#define TEXT(name, what) \
    int name(void* d, char* to, u room) { return text(to, room, what); }
#define NUMBER(name, what)  \
    int name(void* d, u* n) { \
        *n = what;          \
        return OK;          \
    }
#define BOTH(name, first, second)  \
    int name(void* d, u* a, u* b) { \
        *a = first;                \
        *b = second;               \
        return OK;                 \
    }
#define MASK(name, what)      \
    int name(void* d, ull* n) { \
        *n = what;            \
        return OK;            \
    }

int nvmlInit_v2(void) { return OK; }
int nvmlDeviceGetCount_v2(u* n) {
    *n = 1;
    return OK;
}
int nvmlDeviceGetHandleByIndex_v2(u i, void** d) {
    *d = (void*)1;
    return i ? 2 : OK;
}
const char* nvmlErrorString(int s) { return s ? "an error" : "success"; }
int nvmlSystemGetDriverVersion(char* to, u room) { return text(to, room, "590.48.01"); }
int nvmlSystemGetNVMLVersion(char* to, u room) { return text(to, room, "590.48"); }
int nvmlSystemGetCudaDriverVersion_v2(int* v) {
    *v = 13010;
    return OK;
}
TEXT(nvmlDeviceGetName, "NVIDIA H100 80GB HBM3")
TEXT(nvmlDeviceGetSerial, "0000000000000")
TEXT(nvmlDeviceGetUUID, "GPU-00000000-0000-0000-0000-000000000000")
TEXT(nvmlDeviceGetVbiosVersion, "96.00.A5.00.01")
TEXT(nvmlDeviceGetInforomImageVersion, "G520.0200.00.05")
TEXT(nvmlDeviceGetBoardPartNumber, "692-2G520-0200-000")
NUMBER(nvmlDeviceGetBrand, 14)
NUMBER(nvmlDeviceGetArchitecture, 9)
NUMBER(nvmlDeviceGetMultiGpuBoard, 0)
NUMBER(nvmlDeviceGetBoardId, 9)
NUMBER(nvmlDeviceGetModuleId, 7)
NUMBER(nvmlDeviceGetCurrPcieLinkGeneration, 5)
NUMBER(nvmlDeviceGetMaxPcieLinkGeneration, 5)
NUMBER(nvmlDeviceGetGpuMaxPcieLinkGeneration, 5)
NUMBER(nvmlDeviceGetCurrPcieLinkWidth, 16)
NUMBER(nvmlDeviceGetMaxPcieLinkWidth, 16)
NUMBER(nvmlDeviceGetPcieReplayCounter, 9)
NUMBER(nvmlDeviceGetDisplayActive, 0)
NUMBER(nvmlDeviceGetPersistenceMode, 1)
NUMBER(nvmlDeviceGetPerformanceState, 0)
NUMBER(nvmlDeviceGetComputeMode, 0)
NUMBER(nvmlDeviceGetPowerUsage, 69850)
NUMBER(nvmlDeviceGetPowerManagementLimit, 700000)
NUMBER(nvmlDeviceGetEnforcedPowerLimit, 700000)
NUMBER(nvmlDeviceGetPowerManagementDefaultLimit, 700000)
BOTH(nvmlDeviceGetPowerManagementLimitConstraints, 200000, 700000)
BOTH(nvmlDeviceGetMigMode, 0, 0)
BOTH(nvmlDeviceGetEccMode, 1, 1)
BOTH(nvmlDeviceGetGspFirmwareMode, 1, 1)
BOTH(nvmlDeviceGetEncoderUtilization, 0, 100000)
BOTH(nvmlDeviceGetDecoderUtilization, 0, 100000)
MASK(nvmlDeviceGetSupportedClocksEventReasons, 0x1ff)
MASK(nvmlDeviceGetCurrentClocksEventReasons, 1)
int nvmlDeviceGetUtilizationRates(void* d, u* two) {
    two[0] = two[1] = 0;
    return OK;
}
int nvmlDeviceGetCudaComputeCapability(void* d, int* major, int* minor) {
    *major = 9;
    *minor = 0;
    return OK;
}
int nvmlDeviceGetTemperature(void* d, u sensor, u* t) {
    *t = 41;
    return sensor ? 2 : OK;
}
static const u current[] = {345, 345, 2619, 765}, most[] = {1980, 1980, 2619, 1545};
int nvmlDeviceGetClockInfo(void* d, u clock, u* mhz) {
    *mhz = current[clock];
    return OK;
}
int nvmlDeviceGetMaxClockInfo(void* d, u clock, u* mhz) {
    *mhz = most[clock];
    return OK;
}
int nvmlDeviceGetTotalEccErrors(void* d, u type, u counter, ull* n) {
    *n = 0;
    return OK;
}
int nvmlDeviceGetMemoryErrorCounter(void* d, u type, u counter, u location, ull* n) {
    *n = 0;
    return location == 2 || location == 7 ? OK : NOT_SUPPORTED;  /* DRAM and SRAM */
}
int nvmlDeviceGetRemappedRows(void* d, u* a, u* b, u* c, u* e) {
    *a = *b = *c = *e = 0;
    return OK;
}
int nvmlDeviceGetMemoryInfo(void* d, ull* m) {
    m[0] = 81559ull << 20;
    m[1] = 81081ull << 20;
    m[2] = 479ull << 20;
    return OK;
}
struct memory {
    u version;
    ull total, reserved, free, used;
};
int nvmlDeviceGetMemoryInfo_v2(void* d, struct memory* m) {
    if (m->version != (sizeof *m | 2 << 24)) return 25;
    m->total = 81559ull << 20;
    m->reserved = 479ull << 20;
    m->free = 81081ull << 20;
    m->used = 0;
    return OK;
}
struct pci {
    char legacy[16];
    u domain, bus, device, id, subsystem;
    char bus_id[32];
};
int nvmlDeviceGetPciInfo_v3(void* d, struct pci* p) {
    *p = (struct pci){"0000:00:09.0", 0, 0, 9, 0x233010DE, 0x16C110DE, "00000000:00:09.0"};
    return OK;
}
struct process {
    u pid;
    ull used;
    u gpu_instance, compute_instance;
};
int nvmlDeviceGetComputeRunningProcesses_v3(void* d, u* count, struct process* p) {
    *p = (struct process){PID, 2566ull << 20, ~0u, ~0u};
    *count = 1;
    return OK;
}
struct field {
    u field, scope;
    long long at, latency;
    int type, status;
    ull value;
};
int nvmlDeviceGetFieldValues(void* d, int n, struct field* f) {
    f->status = f->field == 82 ? OK : NOT_SUPPORTED;  /* the memory's temperature */
    f->value = 48;
    return OK;
}
