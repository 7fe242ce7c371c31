// SPDX-License-Identifier: Apache-2.0
// ivshmem.h: the memory of an ivshmem device by virtio-win's driver. Nothing of it has been run: it is written after
// the driver's public source (kvm-guest-drivers-windows), its header for programs and its answers to requests.
#pragma once
#include <cstdint>

namespace barcuda::os::ivshmem {

using Handle = void*;

// How many devices the machine has, with or without a driver.
unsigned present() noexcept;
// How many of them virtio-win's driver has.
unsigned count() noexcept;
// Opens the device of that number, from 0 on. Null: there is no such one.
Handle open(unsigned number) noexcept;
// All of its memory, cached. EBUSY: another process has it, and the driver gives it to one at a time.
int map(Handle device, char*& base, std::uint64_t& bytes) noexcept;
void unmap(Handle device) noexcept;

}  // namespace barcuda::os::ivshmem
