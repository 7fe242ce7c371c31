// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/bridge/probe.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "host-bridge/driver.h"

namespace barcuda {
namespace {

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

int probe(Region& region, const std::string& library) {
    Driver driver;
    if (!driver.open(library).empty() || driver.cuInit(0) != CUDA_SUCCESS) return 1;
    int count = 0, version = 0;
    if (driver.cuDeviceGetCount(&count) != CUDA_SUCCESS) return 1;
    driver.cuDriverGetVersion(&version);
    count = std::min(count, static_cast<int>(BARCUDA_MAX_DEVICES));
    for (int i = 0; i < count; ++i) {
        CUdevice device = 0;
        if (driver.cuDeviceGet(&device, i) != CUDA_SUCCESS) return 1;
        describe(driver, device, region.host_devices()[i] = {});
    }
    region.host_header().driver_version = static_cast<std::uint32_t>(version);
    region.host_header().device_count = static_cast<std::uint32_t>(count);
    return 0;
}

}  // namespace

std::string publish_devices(Region& region, const std::string& library) {
    const pid_t child = fork();
    if (child < 0) return "cannot start a process";
    if (child == 0) _exit(probe(region, library));
    int status = 0;
    waitpid(child, &status, 0);
    return status == 0 ? "" : "the driver " + library + " did not say what its devices are";
}

}  // namespace barcuda
