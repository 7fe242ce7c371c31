// SPDX-License-Identifier: Apache-2.0
// stack.h: what the guest's own kernel puts between the pmem device and a process: a device-mapper device that begins
// with the tables' room (tables.h), and ext4 with DAX on it, mounted where this process alone sees it. All for root.
#pragma once
#include <string>

#include "base/error.h"
#include "shm-device/layout.h"

namespace barcuda::pmem {

// The first pmem device of this machine that begins as a region does; empty: there is none.
std::string find_device();
// What the region in it says of itself, checked. Error::not_ready: no bridge has announced it yet.
Error read_header(const std::string& device, barcuda_header& header);

// Mounts its files on a folder, which is made. Where clients of an earlier service still hold some of them, they are
// mounted again as they are. Says what failed; empty: nothing.
std::string mount_files(const std::string& device, const barcuda_header& header, const std::string& folder);

}  // namespace barcuda::pmem
