// SPDX-License-Identifier: Apache-2.0
// nvml.cc: the software GPU's NVML. It asks its driver (libcuda.so.1, beside it) what the devices are, and reads what
// they do from the ledgers of the processes that use them (driver/ledger.h). What software lacks (a temperature, a fan,
// a link) is in lacks.cc. NVML lists all devices: a process that opens it does so without CUDA_VISIBLE_DEVICES.
#include <cuda.h>
#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "shm-device/cuda/nvml.h"
#include "soft-gpu/driver/ledgers.h"

// The driver's: bytes that all processes use of a card that they share by a file. 0: there is none.
extern "C" int barcuda_soft_card_used(int device, std::uint64_t* bytes);

#define NVML extern "C" [[gnu::visibility("default")]] Status

namespace barcuda::nvml {
namespace {

using soft::Ledger;

bool initialized = false;
std::mutex mutex;

// A process's entry for a device.
struct Entry {
    unsigned pid;
    std::uint64_t used, busy;
};

// All entries for a card: processes with different sizes (BARCUDA_SOFT_MEMORY) do not share it.
std::vector<Entry> entries(int device) {
    std::vector<Entry> all;
    std::size_t total = 0;
    if (cuDeviceTotalMem(&total, device) != CUDA_SUCCESS) return all;
    soft::each_ledger([&](const Ledger& ledger) {
        const Ledger::Device& of = ledger.devices[device];
        if (of.total != total || (of.contexts == 0 && of.used == 0)) return;
        const std::uint64_t now = Ledger::now(), since = of.since;
        all.push_back(
            {static_cast<unsigned>(ledger.pid), of.used, of.busy + (of.running != 0 && now > since ? now - since : 0)});
    });
    return all;
}

// Which part of the time since the last query something was busy, in percent.
class Gauge {
  public:
    unsigned read(std::uint64_t busy) {
        const std::uint64_t now = Ledger::now();
        if (then_ == 0) {
            then_ = now;
            before_ = busy;
        }
        constexpr std::uint64_t least = 100'000'000;  // after a shorter time it repeats the last answer
        if (now - then_ < least) return percent_;
        percent_ = static_cast<unsigned>(
            busy < before_ ? 0 : std::min<std::uint64_t>(100, (busy - before_) * 100 / (now - then_)));
        then_ = now;
        before_ = busy;
        return percent_;
    }

  private:
    std::uint64_t then_ = 0, before_ = 0;
    unsigned percent_ = 0;
};

Device handle(int device) { return reinterpret_cast<Device>(static_cast<std::uintptr_t>(device) + 1); }

// The device of a handle; -1: none.
int device_of(Device handle) {
    int count = 0;
    const auto n = reinterpret_cast<std::uintptr_t>(handle) - 1;
    return cuDeviceGetCount(&count) == CUDA_SUCCESS && n < static_cast<std::uintptr_t>(count) ? static_cast<int>(n)
                                                                                              : -1;
}

// A function of a device that writes to `out`.
template <class T, class Body> Status about(Device handle, T* out, const Body& body) {
    std::lock_guard lock(mutex);
    if (!initialized) return uninitialized;
    const int device = device_of(handle);
    if (device < 0 || !out) return invalid_argument;
    return body(device);
}

Status write(char* to, unsigned room, const std::string& text) {
    if (text.size() >= room) return insufficient_size;
    std::copy_n(text.c_str(), text.size() + 1, to);
    return success;
}

std::string uuid(int device) {
    CUuuid id;
    cuDeviceGetUuid(&id, device);
    std::string text = "GPU-";
    for (int i = 0; i < 16; ++i) {
        char byte[8];
        std::snprintf(byte, sizeof byte, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
                      static_cast<unsigned char>(id.bytes[i]));
        text += byte;
    }
    return text;
}

PciInfo pci(int device) {
    char id[32] = "";
    cuDeviceGetPCIBusId(id, sizeof id, device);
    PciInfo info{};
    std::sscanf(id, "%x:%x:%x", &info.domain, &info.bus, &info.device);
    std::snprintf(info.legacy_bus_id, sizeof info.legacy_bus_id, "%04X:%02X:%02X.0", info.domain & 0xffff,
                  info.bus & 0xff, info.device & 0x1f);
    std::snprintf(info.bus_id, sizeof info.bus_id, "%08X:%02X:%02X.0", info.domain, info.bus & 0xff,
                  info.device & 0x1f);
    return info;
}

template <class Matches> Status find(Device* out, const Matches& matches) {
    std::lock_guard lock(mutex);
    if (!initialized) return uninitialized;
    if (!out) return invalid_argument;
    for (int i = 0; device_of(handle(i)) == i; ++i)
        if (matches(i)) {
            *out = handle(i);
            return success;
        }
    return not_found;
}

// Each process has the whole device for itself: together they may have more than the device.
Memory memory(int device) {
    std::size_t total = 0;
    cuDeviceTotalMem(&total, device);
    std::uint64_t used = 0;
    if (!barcuda_soft_card_used(device, &used))
        for (const Entry& e : entries(device)) used += e.used;
    used = std::min<std::uint64_t>(used, total);
    return {total, total - used, used};
}

}  // namespace
}  // namespace barcuda::nvml

using namespace barcuda::nvml;

NVML nvmlInit_v2() {
    std::lock_guard lock(mutex);
    if (cuInit(0) != CUDA_SUCCESS) return driver_not_loaded;
    initialized = true;
    return success;
}

NVML nvmlShutdown() {
    std::lock_guard lock(mutex);
    if (!initialized) return uninitialized;
    initialized = false;
    return success;
}

NVML nvmlSystemGetDriverVersion(char* version, unsigned room) {
    return version ? write(version, room, BARCUDA_VERSION) : invalid_argument;
}
NVML nvmlSystemGetNVMLVersion(char* version, unsigned room) { return nvmlSystemGetDriverVersion(version, room); }
NVML nvmlSystemGetCudaDriverVersion(int* version) {
    return version && cuDriverGetVersion(version) == CUDA_SUCCESS ? success : invalid_argument;
}
NVML nvmlSystemGetCudaDriverVersion_v2(int* version) { return nvmlSystemGetCudaDriverVersion(version); }

NVML nvmlDeviceGetCount_v2(unsigned* count) {
    std::lock_guard lock(mutex);
    if (!initialized) return uninitialized;
    int devices = 0;
    if (!count || cuDeviceGetCount(&devices) != CUDA_SUCCESS) return invalid_argument;
    *count = static_cast<unsigned>(devices);
    return success;
}
NVML nvmlDeviceGetHandleByIndex_v2(unsigned index, Device* out) {
    const Status status = find(out, [&](int i) { return static_cast<unsigned>(i) == index; });
    return status == not_found ? invalid_argument : status;
}
NVML nvmlDeviceGetHandleByUUID(const char* wanted, Device* out) {
    return wanted ? find(out, [&](int i) { return uuid(i) == wanted; }) : invalid_argument;
}
NVML nvmlDeviceGetHandleByPciBusId_v2(const char* wanted, Device* out) {
    CUdevice device = -1;
    if (!wanted || cuDeviceGetByPCIBusId(&device, wanted) != CUDA_SUCCESS) device = -1;
    return find(out, [&](int i) { return i == device; });
}

NVML nvmlDeviceGetName(Device device, char* name, unsigned room) {
    return about(device, name, [&](int d) {
        char text[256];
        cuDeviceGetName(text, sizeof text, d);
        return write(name, room, text);
    });
}
NVML nvmlDeviceGetUUID(Device device, char* text, unsigned room) {
    return about(device, text, [&](int d) { return write(text, room, uuid(d)); });
}
NVML nvmlDeviceGetPciInfo_v3(Device device, PciInfo* info) {
    return about(device, info, [&](int d) {
        *info = pci(d);
        return success;
    });
}
NVML nvmlDeviceGetCudaComputeCapability(Device device, int* major, int* minor) {
    return about(device, major && minor ? major : nullptr, [&](int d) {
        cuDeviceGetAttribute(major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, d);
        cuDeviceGetAttribute(minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, d);
        return success;
    });
}
NVML nvmlDeviceGetMemoryBusWidth(Device device, unsigned* width) {
    return about(device, width, [&](int d) {
        int bits = 0;
        cuDeviceGetAttribute(&bits, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, d);
        *width = static_cast<unsigned>(bits);
        return success;
    });
}
NVML nvmlDeviceGetComputeMode(Device device, unsigned* mode) {
    return about(device, mode, [&](int d) {
        int value = 0;
        cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, d);
        *mode = static_cast<unsigned>(value);
        return success;
    });
}

NVML nvmlDeviceGetMemoryInfo(Device device, Memory* out) {
    return about(device, out, [&](int d) {
        *out = memory(d);
        return success;
    });
}
NVML nvmlDeviceGetMemoryInfo_v2(Device device, MemoryV2* out) {
    return about(device, out, [&](int d) {
        if (out->version != version_of<MemoryV2, 2>) return argument_version_mismatch;
        const Memory all = memory(d);
        *out = {out->version, all.total, 0, all.free, all.used};
        return success;
    });
}

// What kernels do with memory is not counted.
NVML nvmlDeviceGetUtilizationRates(Device device, Utilization* out) {
    return about(device, out, [&](int d) {
        static struct {
            std::map<unsigned, std::uint64_t> seen;  // by process
            std::uint64_t busy = 0;                  // of all processes, also those that have ended
            Gauge gauge;
        } devices[barcuda::soft::most_devices];
        auto& [seen, busy, gauge] = devices[d];
        std::map<unsigned, std::uint64_t> now;
        for (const Entry& e : entries(d)) {
            const auto before = seen.find(e.pid);
            // not another process with the same pid
            const bool same = before != seen.end() && before->second <= e.busy;
            busy += same ? e.busy - before->second : e.busy;
            now[e.pid] = e.busy;
        }
        seen = std::move(now);
        *out = {gauge.read(busy), 0};
        return success;
    });
}

NVML nvmlDeviceGetComputeRunningProcesses_v3(Device device, unsigned* count, ProcessInfo* infos) {
    return about(device, count, [&](int d) {
        const std::vector<Entry> all = entries(d);
        const unsigned room = infos ? *count : 0, there = static_cast<unsigned>(all.size());
        for (unsigned i = 0; i < std::min(room, there); ++i) infos[i] = {all[i].pid, all[i].used, ~0u, ~0u};
        *count = there;
        return there > room ? insufficient_size : success;
    });
}

// Every device can read and write every other one's memory, and use atomics there. There is no NVLink and no bus.
NVML nvmlDeviceGetP2PStatus(Device device, Device peer, unsigned what, unsigned* status) {
    return about(device, status, [&](int) {
        constexpr unsigned ok = 0, not_supported_here = 5;
        if (device_of(peer) < 0 || what > 4) return invalid_argument;
        *status = what == 0 || what == 1 || what == 3 ? ok : not_supported_here;
        return success;
    });
}
