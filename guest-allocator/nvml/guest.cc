// SPDX-License-Identifier: Apache-2.0
// guest.cc: the functions that the guest's library answers itself: handles, which are numbers of the region's devices,
// so that NVML counts and orders them as CUDA does in this guest (without regard to CUDA_VISIBLE_DEVICES); older forms
// of other functions; and processes, which are those of this guest, by its own pids.
#include <cstdio>

#include "guest-allocator/nvml/library.h"

namespace barcuda::guest::nvml {

namespace {

// What both forms of a bus id say, "0000:BA:00.0" and "00000000:BA:00.0", with or without the function.
struct BusAddress {
    unsigned domain = 0, bus = 0, device = 0;
    bool read(const char* text) {
        int end = 0;
        unsigned function = 0;
        if (std::sscanf(text, "%x:%x:%x%n", &domain, &bus, &device, &end) != 3) {
            domain = 0;
            end = 0;
            if (std::sscanf(text, "%x:%x%n", &bus, &device, &end) != 2) return false;
        }
        return !text[end] || (std::sscanf(text + end, ".%x%n", &function, &end) == 1 && function == 0);
    }
    bool operator==(const BusAddress&) const = default;
};

template <class Matches> Status find_device(Device* found, const Matches& matches) {
    if (Status s = ready(); s != success) return s;
    if (!found) return invalid_argument;
    for (unsigned i = 0; i < device_count(); ++i)
        if (matches(i)) {
            *found = Guest::handle(i);
            return success;
        }
    return not_found;
}

Status by_text(Device* found, const char* wanted, Status (*ask)(Device, char*, unsigned) noexcept) {
    if (!wanted) return invalid_argument;
    return find_device(found, [&](unsigned i) {
        char text[96];
        return ask(Guest::handle(i), text, sizeof text) == success && std::strcmp(text, wanted) == 0;
    });
}

Status by_bus(Device* found, const char* wanted) {
    BusAddress place;
    if (!wanted || !place.read(wanted)) return invalid_argument;
    return find_device(found, [&](unsigned i) {
        char text[sizeof(barcuda_device::pci_bus_id) + 1]{};
        std::memcpy(text, region().devices()[i].pci_bus_id, sizeof text - 1);
        BusAddress its;
        return its.read(text) && its == place;
    });
}

Status check(Device device) {
    if (Status s = ready(); s != success) return s;
    return Guest::index(device) < device_count() ? success : invalid_argument;
}

// The structure of the older functions ends before bus_id (with 16 reserved bytes in its place).
template <Question q, class... P> Status older_pci_info(void* out, P... given) {
    PciInfo info;
    if (!out) return invalid_argument;
    if (Status s = ask<q>(given..., &info); s != success) return s;
    std::memcpy(out, &info, offsetof(PciInfo, bus_id));
    return success;
}

// Calls use(process) for each that uses the device.
template <class Use> Status for_each_process(Device device, const Use& use) {
    if (Status s = check(device); s != success) return s;
    thread_local barcuda_process all[BARCUDA_MAX_PROCESSES];
    std::size_t count = 0;
    if (Status s = processes(all, count); s != success) return s;
    for (const barcuda_process& p : std::span(all, std::min<std::size_t>(count, BARCUDA_MAX_PROCESSES)))
        if (p.device == Guest::index(device)) use(p);
    return success;
}

Status running(Device device, unsigned* count, ProcessInfoV1* infos) {
    if (!count) return invalid_argument;
    unsigned there = 0;
    const unsigned room = infos ? *count : 0;
    const Status status = for_each_process(device, [&](const barcuda_process& p) {
        if (there < room) infos[there] = {p.pid, p.used_memory};
        ++there;
    });
    if (status != success) return status;
    *count = there;
    return there > room ? insufficient_size : success;
}
Status running(Device device, unsigned* count, ProcessInfo* infos) {
    if (!count) return invalid_argument;
    unsigned there = 0;
    const unsigned room = infos ? *count : 0, none = ~0u;
    const Status status = for_each_process(device, [&](const barcuda_process& p) {
        if (there < room) infos[there] = {p.pid, p.used_memory, none, none};
        ++there;
    });
    if (status != success) return status;
    *count = there;
    return there > room ? insufficient_size : success;
}

// Graphics and MPS: a guest has neither.
Status no_processes(Device device, unsigned* count) {
    if (Status s = check(device); s != success) return s;
    if (!count) return invalid_argument;
    *count = 0;
    return success;
}

}  // namespace
}  // namespace barcuda::guest::nvml

using namespace barcuda;
using namespace barcuda::guest::nvml;

NVML nvmlInit_v2() { return note("nvmlInit_v2", init()); }
NVML nvmlInit() { return nvmlInit_v2(); }
NVML nvmlInitWithFlags(unsigned) {
    return nvmlInit_v2();
}  // flags: that there may be no device, which is no error here
NVML nvmlShutdown() { return shut_down(); }

extern "C" [[gnu::visibility("default")]] const char* nvmlErrorString(Status status) {
    switch (static_cast<int>(status)) {
        case 0: return "Success";
        case 1: return "Uninitialized";
        case 2: return "Invalid Argument";
        case 3: return "Not Supported";
        case 4: return "Insufficient Permissions";
        case 5: return "Already Initialized";
        case 6: return "Not Found";
        case 7: return "Insufficient Size";
        case 8: return "Insufficient External Power";
        case 9: return "Driver Not Loaded";
        case 10: return "Timeout";
        case 11: return "Interrupt Request Issue";
        case 12: return "NVML Shared Library Not Found";
        case 13: return "Function Not Found";
        case 14: return "Corrupted infoROM";
        case 15: return "GPU is lost";
        case 16: return "GPU requires reset";
        case 17: return "GPU access blocked by the operating system";
        case 18: return "Driver/library version mismatch";
        case 19: return "GPU is currently in use";
        case 20: return "Insufficient Memory";
        case 21: return "No data";
        case 25: return "Argument version mismatch";
        default: return "Unknown Error";
    }
}

// ---- handles

NVML nvmlDeviceGetCount_v2(unsigned* count) {
    if (Status s = ready(); s != success) return s;
    if (!count) return invalid_argument;
    *count = device_count();
    return success;
}
NVML nvmlDeviceGetCount(unsigned* count) { return nvmlDeviceGetCount_v2(count); }

NVML nvmlDeviceGetHandleByIndex_v2(unsigned index, Device* device) {
    if (Status s = ready(); s != success) return s;
    if (!device || index >= device_count()) return invalid_argument;
    *device = Guest::handle(index);
    return success;
}
NVML nvmlDeviceGetHandleByIndex(unsigned index, Device* device) { return nvmlDeviceGetHandleByIndex_v2(index, device); }

NVML nvmlDeviceGetIndex(Device device, unsigned* index) {
    if (Status s = check(device); s != success) return s;
    if (!index) return invalid_argument;
    *index = Guest::index(device);
    return success;
}

NVML nvmlDeviceGetHandleByPciBusId_v2(const char* id, Device* device) { return by_bus(device, id); }
NVML nvmlDeviceGetHandleByPciBusId(const char* id, Device* device) { return by_bus(device, id); }
NVML nvmlDeviceGetHandleByUUID(const char* uuid, Device* device) {
    return by_text(device, uuid, &ask<Question::nvmlDeviceGetUUID, Device, char*, unsigned>);
}
NVML nvmlDeviceGetHandleBySerial(const char* serial, Device* device) {
    return by_text(device, serial, &ask<Question::nvmlDeviceGetSerial, Device, char*, unsigned>);
}
NVML nvmlDeviceGetHandleByUUIDV(const Uuid* uuid, Device* device) {
    if (!uuid) return invalid_argument;
    if (uuid->version != version_of<Uuid, 1>) return argument_version_mismatch;
    if (uuid->type == Uuid::ascii && strnlen(uuid->text, sizeof uuid->text) < sizeof uuid->text)
        return nvmlDeviceGetHandleByUUID(uuid->text, device);
    if (uuid->type != Uuid::binary) return invalid_argument;
    return find_device(device, [&](unsigned i) {
        return std::memcmp(region().devices()[i].uuid, uuid->bytes, sizeof uuid->bytes) == 0;
    });
}

NVML nvmlDeviceIsMigDeviceHandle(Device device, unsigned* is) {
    if (Status s = check(device); s != success) return s;
    if (!is) return invalid_argument;
    *is = 0;
    return success;
}

// ---- older and newer forms of what the host has answered

NVML nvmlDeviceGetPciInfo(Device device, void* pci) {
    return older_pci_info<Question::nvmlDeviceGetPciInfo_v3>(pci, device);
}
NVML nvmlDeviceGetPciInfo_v2(Device device, void* pci) { return nvmlDeviceGetPciInfo(device, pci); }
NVML nvmlDeviceGetNvLinkRemotePciInfo(Device device, unsigned link, void* pci) {
    return older_pci_info<Question::nvmlDeviceGetNvLinkRemotePciInfo_v2>(pci, device, link);
}
NVML nvmlDeviceGetAttributes(Device device, DeviceAttributes* attributes) {
    return ask<Question::nvmlDeviceGetAttributes_v2>(device, attributes);
}
NVML nvmlDeviceGetTemperatureV(Device device, TemperatureV1* temperature) {
    if (!temperature) return invalid_argument;
    if (temperature->version != version_of<TemperatureV1, 1>) return argument_version_mismatch;
    unsigned degrees = 0;
    if (Status s = ask<Question::nvmlDeviceGetTemperature>(device, temperature->sensor, &degrees); s != success)
        return s;
    temperature->temperature = static_cast<int>(degrees);
    return success;
}

// Those of the other devices whose nearest common ancestor with this one is of that level.
NVML nvmlDeviceGetTopologyNearestGpus(Device device, unsigned level, unsigned* count, Device* nearest) {
    if (Status s = check(device); s != success) return s;
    if (!count) return invalid_argument;
    unsigned there = 0;
    const unsigned room = nearest ? *count : 0;
    for (unsigned i = 0; i < device_count(); ++i) {
        unsigned ancestor = 0;
        if (Guest::handle(i) == device) continue;
        if (Status s = ask<Question::nvmlDeviceGetTopologyCommonAncestor>(device, Guest::handle(i), &ancestor);
            s != success)
            return s;
        if (ancestor != level) continue;
        if (there < room) nearest[there] = Guest::handle(i);
        ++there;
    }
    *count = there;
    return nearest && there > room ? insufficient_size : success;
}

// ---- processes

NVML nvmlDeviceGetComputeRunningProcesses(Device device, unsigned* count, ProcessInfoV1* infos) {
    return running(device, count, infos);
}
NVML nvmlDeviceGetComputeRunningProcesses_v2(Device device, unsigned* count, ProcessInfo* infos) {
    return running(device, count, infos);
}
NVML nvmlDeviceGetComputeRunningProcesses_v3(Device device, unsigned* count, ProcessInfo* infos) {
    return running(device, count, infos);
}

#define NO_PROCESSES(name) \
    NVML name(Device device, unsigned* count, void*) { return no_processes(device, count); }
NO_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses)
NO_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v2)
NO_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v3)
NO_PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses)
NO_PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v2)
NO_PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v3)

NVML nvmlDeviceGetProcessUtilization(Device device, ProcessUtilization* samples, unsigned* count,
                                     unsigned long long since) {
    if (!count) return invalid_argument;
    unsigned there = 0;
    const unsigned room = samples ? *count : 0;
    const Status status = for_each_process(device, [&](const barcuda_process& p) {
        if (p.sampled <= since) return;
        if (there < room) samples[there] = {p.pid, p.sampled, p.sm, p.memory, p.encoder, p.decoder};
        ++there;
    });
    if (status != success) return status;
    *count = there;
    return there == 0 ? not_found : there > room ? insufficient_size : success;
}
