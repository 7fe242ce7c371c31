// SPDX-License-Identifier: Apache-2.0
// device_choice.h: which CUDA driver this host has for `--device auto|cuda|soft`, by its path. (driver.h opens one;
// this header does not read the command table.)
#pragma once
#include <string>

namespace barcuda {

// Which driver `--device auto|cuda|soft` means here.
struct DeviceChoice {
    std::string library;  // for Driver::open
    bool software = false;
    std::string error;  // not empty: there is no such device, and why
    bool tried = true;
};
// Stops waiting for a driver when `stop` becomes readable.
DeviceChoice choose_device(const std::string& device, int stop = -1);
// The same, but if a GPU seems to be present, its driver is not tried, because that takes as long as a start of the
// driver. If the driver does not start later, choose_device() says what else is available.
DeviceChoice likely_device(const std::string& device, int stop = -1);
std::string nvml_of(const std::string& library);  // the NVML that belongs to a driver is in the same folder
std::string software_library();                   // the path of the software GPU's libcuda.so.1, beside this program

}  // namespace barcuda
