// SPDX-License-Identifier: Apache-2.0
// device_choice.cc: a Windows machine is a guest: no GPU of its own is asked for.
#include "host-bridge/between/device_choice.h"

namespace barcuda {

DeviceChoice choose_device(const std::string& device, int) {
    DeviceChoice none;
    none.error = "--device " + device + ": a Windows guest has its bridge's GPUs, and no others here";
    return none;
}
std::string nvml_of(const std::string& library) { return library; }

}  // namespace barcuda
