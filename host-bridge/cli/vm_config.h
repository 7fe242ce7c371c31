// SPDX-License-Identifier: Apache-2.0
// vm_config.h: a region as a device of a VM: `barcuda vm-config` prints it, and `barcuda vm` uses it.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace barcuda {

struct VmConfig {
    std::string manager, name, region, socket;  // region and socket empty: those of the unit barcuda-bridge@NAME
    std::string id = "barcuda";                 // of the device among a VM's
    std::uint64_t size = 4ull << 30;
    std::uint64_t memory = 4ull << 30;  // of the VM itself
    int windows = 0;                    // devices of a Windows guest, each with a region; 0: one, of any guest
    bool interrupts = false;
    bool pmem = false;      // as memory, not as an ivshmem device
    bool suspends = false;  // QEMU may save the device: for `barcuda suspend --qmp`
};
// QEMU's options for the device.
std::vector<std::string> qemu_options(const VmConfig& config);

}  // namespace barcuda
