// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/between/probe.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstring>

#include "base/message.h"
#include "host-bridge/between/driver.h"
#include "shm-device/cuda/visible_devices.h"

namespace barcuda {
namespace {

constexpr int most_probed = 64;  // the most that CUDA's runtime can count

struct Report {  // then one message with a barcuda_device for each; or `why` there is none
    int version, count;
    char why[512];
};

std::ptrdiff_t receive(int link, int stop, void* to, std::size_t size) {
    pollfd said[] = {{link, POLLIN, 0}, {stop, POLLIN, 0}};
    while (poll(said, std::size(said), -1) < 0 && errno == EINTR) {}
    return said[1].revents ? -1 : recv(link, to, size, MSG_DONTWAIT);
}

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

std::vector<DeviceId> ids(std::span<const barcuda_device> devices) {
    std::vector<DeviceId> all;
    for (const barcuda_device& d : devices) all.push_back({d.uuid, d.pci_bus_id});
    return all;
}

}  // namespace

bool report_devices(const Driver& driver, int link, const std::string& why) {
    Report report{};
    if (!why.empty()) {
        why.copy(report.why, sizeof report.why - 1);
        return send(link, &report, sizeof report, MSG_NOSIGNAL) == sizeof report;
    }
    if (driver.cuDeviceGetCount(&report.count) != CUDA_SUCCESS) return false;
    driver.cuDriverGetVersion(&report.version);
    report.count = std::min(report.count, most_probed);
    if (send(link, &report, sizeof report, MSG_NOSIGNAL) != sizeof report) return false;
    for (int i = 0; i < report.count; ++i) {
        CUdevice device = 0;
        barcuda_device told{};
        if (driver.cuDeviceGet(&device, i) != CUDA_SUCCESS) return false;
        describe(driver, device, told);
        if (send(link, &told, sizeof told, MSG_NOSIGNAL) != sizeof told) return false;
    }
    return true;
}

HostDevices receive_devices(int link, const std::string& library, int stop) {
    HostDevices found;
    Report report{};
    bool whole = receive(link, stop, &report, sizeof report) == sizeof report && report.count >= 0 &&
                 report.count <= most_probed;
    report.why[sizeof report.why - 1] = '\0';
    found.all.resize(whole ? static_cast<std::size_t>(report.count) : 0);
    for (barcuda_device& device : found.all)
        whole = whole && receive(link, stop, &device, sizeof device) == sizeof device;
    if (!whole) {
        found.error = "the driver " + library + " did not say what its devices are";
        found.all.clear();
    } else if (found.all.empty()) found.error = *report.why ? report.why : "the driver " + library + " sees no GPU";
    found.driver_version = static_cast<unsigned>(report.version);
    found.answered = whole;
    return found;
}

HostDevices probe_devices(const std::string& library, int stop) {
    HostDevices found;
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
        found.error = fmt::format("cannot ask the driver in a process of its own: {}", strerror(errno));
        return found;
    }
    const File link(ends[0]);
    File end_of_child(ends[1]);
    const pid_t child = fork();
    if (child == 0) {
        Driver driver;
        const bool open = !driver.open(library) && driver.cuInit(0) == CUDA_SUCCESS;
        _exit(open && report_devices(driver, end_of_child.fd()) ? 0 : 1);
    }
    if (child < 0) {
        found.error = fmt::format("cannot start a process: {}", strerror(errno));
        return found;
    }
    end_of_child = File();  // so that the child's death ends the wait
    found = receive_devices(link.fd(), library, stop);
    if (!found.error.empty()) kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    return found;
}

Failure choose(HostDevices& devices, const std::string& gpus) {
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

void publish_devices(HostRegion& region, const HostDevices& devices) {
    std::copy(devices.all.begin(), devices.all.end(), region.host_devices());
    region.tell_devices(devices.driver_version, static_cast<unsigned>(devices.all.size()));
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
