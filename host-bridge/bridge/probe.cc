// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/bridge/probe.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "host-bridge/driver.h"
#include "shm-device/visible_devices.h"

namespace barcuda {
namespace {

constexpr int most_probed = 64;  // what CUDA's own runtime can count

// What the child says, in memory that it shares.
struct Answer {
    int count, version;
    barcuda_device devices[most_probed];
};

void describe(const Driver& driver, CUdevice device, barcuda_device& d) {
    driver.cuDeviceGetName(d.name, sizeof d.name, device);
    driver.cuDeviceGetUuid_v2(reinterpret_cast<CUuuid*>(d.uuid), device);
    driver.cuDeviceGetPCIBusId(d.pci_bus_id, sizeof d.pci_bus_id, device);
    std::size_t bytes = 0;
    driver.cuDeviceTotalMem_v2(&bytes, device);
    d.total_memory = bytes;
    d.attribute_count = CU_DEVICE_ATTRIBUTE_MAX;
    for (int a = 0; a < 256; ++a) {
        int value = 0;
        const bool known =
            a > 0 && a < CU_DEVICE_ATTRIBUTE_MAX &&
            driver.cuDeviceGetAttribute(&value, static_cast<CUdevice_attribute>(a), device) == CUDA_SUCCESS;
        d.attributes[a] = known ? value : BARCUDA_ATTRIBUTE_UNKNOWN;
    }
}

int probe(Answer& answer, const std::string& library) {
    Driver driver;
    if (!driver.open(library).empty() || driver.cuInit(0) != CUDA_SUCCESS) return 1;
    int count = 0;
    if (driver.cuDeviceGetCount(&count) != CUDA_SUCCESS) return 1;
    driver.cuDriverGetVersion(&answer.version);
    answer.count = std::min(count, most_probed);
    for (int i = 0; i < answer.count; ++i) {
        CUdevice device = 0;
        if (driver.cuDeviceGet(&device, i) != CUDA_SUCCESS) return 1;
        describe(driver, device, answer.devices[i]);
    }
    return 0;
}

std::vector<DeviceId> ids(std::span<const barcuda_device> devices) {
    std::vector<DeviceId> all;
    for (const barcuda_device& d : devices) all.push_back({d.uuid, d.pci_bus_id});
    return all;
}

}  // namespace

HostDevices probe_devices(const std::string& library) {
    HostDevices found;
    void* const shared = mmap(nullptr, sizeof(Answer), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    const pid_t child = shared == MAP_FAILED ? -1 : fork();
    if (child < 0) return found.error = "cannot start a process", found;
    Answer& answer = *static_cast<Answer*>(shared);
    if (child == 0) _exit(probe(answer, library));
    int status = 0;
    waitpid(child, &status, 0);
    if (status != 0) found.error = "the driver " + library + " did not say what its devices are";
    else found.all.assign(answer.devices, answer.devices + answer.count);
    found.driver_version = static_cast<unsigned>(answer.version);
    munmap(shared, sizeof(Answer));
    return found;
}

std::string choose(HostDevices& devices, const std::string& gpus) {
    if (gpus.starts_with("MIG-"))
        return "--gpus names whole GPUs; for a part of one start the bridge with CUDA_VISIBLE_DEVICES=" + gpus;
    const VisibleDevices chosen = visible_devices(ids(devices.all), gpus.c_str(), nullptr);
    if (!chosen.stopped_at.empty() || chosen.numbers.empty()) {
        std::string there;
        for (std::size_t i = 0; i < devices.all.size(); ++i)
            there += fmt::format("\n  {}  GPU-{}  {}", i, uuid_text(devices.all[i].uuid), devices.all[i].name);
        const std::string what = chosen.numbers.empty() && chosen.stopped_at.empty() ? "it names no GPU"
                                 : chosen.repeated ? "it names " + chosen.stopped_at + " twice"
                                                   : "there is no GPU " + chosen.stopped_at;
        return fmt::format("--gpus {}: {}; these are here:{}", gpus, what, there);
    }
    std::vector<barcuda_device> kept;
    for (const int number : chosen.numbers) kept.push_back(devices.all[static_cast<std::size_t>(number)]);
    devices.chosen = chosen != visible_devices(ids(devices.all), nullptr, nullptr);
    devices.all = std::move(kept);
    return {};
}

void publish_devices(Region& region, const HostDevices& devices) {
    std::copy(devices.all.begin(), devices.all.end(), region.host_devices());
    region.host_header().driver_version = devices.driver_version;
    region.host_header().device_count = static_cast<std::uint32_t>(devices.all.size());
}

std::string visible_list(const HostDevices& devices, const std::vector<int>& numbers) {
    std::string list;
    for (const int number : numbers)
        list += (list.empty() ? "GPU-" : ",GPU-") + uuid_text(devices.all[static_cast<std::size_t>(number)].uuid);
    return list;
}

std::vector<int> devices_seen(const HostDevices& devices, const char* list) {
    return visible_devices(ids(devices.all), list, nullptr).numbers;
}

}  // namespace barcuda
