// SPDX-License-Identifier: Apache-2.0
// nvml.cu: NVML says of the devices what CUDA says of them: how many there are, their names, UUIDs, bus ids and memory,
// and that this process uses one. Passes natively too. (As many programs do, it looks the functions up: nvml.h is a
// package of its own.)
#include <dlfcn.h>
#include <string.h>
#include <unistd.h>

#include "check.h"

typedef struct Handle* Device;
struct Memory {
    unsigned long long total, free, used;
};
struct PciInfo {
    char legacy[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
};
struct Process {
    unsigned pid;
    unsigned long long used;
    unsigned gpu_instance, compute_instance;
};

static void* library;
template <class... P> static int nvml(const char* function, P... arguments) {
    void* f = dlsym(library, function);
    if (!f) {
        printf("FAILED: there is no %s\n", function);
        exit(1);
    }
    return ((int (*)(P...))f)(arguments...);
}
#define NVML(...) REQUIRE(nvml(__VA_ARGS__) == 0)

// What this process has on the device, as NVML says after at most `seconds`; 0: it does not know this process.
static unsigned long long memory_of_mine(Device device, unsigned long long at_least, int seconds) {
    unsigned long long used = 0;
    for (int i = 0; i < seconds * 10; i++) {
        struct Process all[64];
        unsigned count = 64;
        NVML("nvmlDeviceGetComputeRunningProcesses_v3", device, &count, all);
        for (unsigned p = 0; p < count; p++)
            if (all[p].pid == (unsigned)getpid()) used = all[p].used;
        if (used >= at_least) break;
        usleep(100000);
    }
    return used;
}

int main() {
    library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    if (!library) return printf("skipped: %s\n", dlerror()), 77;
    REQUIRE(nvml("nvmlDeviceGetCount_v2", (unsigned*)0) == 1);  // not initialized
    NVML("nvmlInit_v2");

    int cuda = 0, version = 0, devices = 0;
    unsigned count = 0;
    CHECK(cudaDriverGetVersion(&cuda));
    NVML("nvmlSystemGetCudaDriverVersion_v2", &version);
    REQUIRE(version == cuda);
    CHECK(cudaGetDeviceCount(&devices));
    NVML("nvmlDeviceGetCount_v2", &count);
    const char* visible = getenv("CUDA_VISIBLE_DEVICES");
    if (!visible) REQUIRE(count == (unsigned)devices);
    for (int i = 0; i < devices; i++) {
        struct cudaDeviceProp p;
        char bus[32], name[96], uuid[96], expected[64] = "GPU-";
        Device device = 0, again = 0;
        unsigned index = 99, domain, number, slot;
        int major = 0, minor = 0;
        struct PciInfo pci;
        struct Memory memory;
        size_t free = 0, total = 0;
        CHECK(cudaGetDeviceProperties(&p, i));
        CHECK(cudaDeviceGetPCIBusId(bus, sizeof bus, i));
        NVML("nvmlDeviceGetHandleByPciBusId_v2", (const char*)bus, &device);
        NVML("nvmlDeviceGetIndex", device, &index);
        NVML("nvmlDeviceGetHandleByIndex_v2", index, &again);
        REQUIRE(again == device);
        NVML("nvmlDeviceGetName", device, name, 96u);
        REQUIRE(strcmp(name, p.name) == 0);
        NVML("nvmlDeviceGetUUID", device, uuid, 96u);
        for (int b = 0; b < 16; b++)
            sprintf(expected + strlen(expected), b == 4 || b == 6 || b == 8 || b == 10 ? "-%02x" : "%02x",
                    (unsigned char)p.uuid.bytes[b]);
        REQUIRE(strcmp(uuid, expected) == 0);
        NVML("nvmlDeviceGetHandleByUUID", (const char*)uuid, &again);
        REQUIRE(again == device);
        NVML("nvmlDeviceGetPciInfo_v3", device, &pci);
        REQUIRE(sscanf(bus, "%x:%x:%x", &domain, &number, &slot) == 3);
        REQUIRE(pci.domain == domain && pci.bus == number && pci.device == slot);
        NVML("nvmlDeviceGetCudaComputeCapability", device, &major, &minor);
        REQUIRE(major == p.major && minor == p.minor);

        // NVML counts what the driver keeps for itself; CUDA does not.
        CHECK(cudaSetDevice(i));
        CHECK(cudaMemGetInfo(&free, &total));
        NVML("nvmlDeviceGetMemoryInfo", device, &memory);
        REQUIRE(memory.total >= total && memory.total < total + total / 8);
        REQUIRE(memory.used <= memory.total && memory.free <= memory.total);

        const size_t megabytes = 64 << 20;
        void* mine;
        CHECK(cudaMalloc(&mine, megabytes));
        CHECK(cudaMemset(mine, 1, megabytes));
        CHECK(cudaDeviceSynchronize());
        const unsigned long long used = memory_of_mine(device, megabytes, 10);
        printf("device %d: %s, %s, %s, %llu MiB, of which this process has %llu\n", i, name, uuid, pci.bus_id,
               memory.total >> 20, used == ~0ull ? 0 : used >> 20);
        REQUIRE(used >= megabytes);
        NVML("nvmlDeviceGetMemoryInfo", device, &memory);
        REQUIRE(memory.used >= megabytes);
        CHECK(cudaFree(mine));
    }
    Device none;
    REQUIRE(nvml("nvmlDeviceGetHandleByIndex_v2", count, &none) == 2);  // invalid argument
    NVML("nvmlShutdown");
    return verdict(0);
}
