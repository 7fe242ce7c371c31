// SPDX-License-Identifier: Apache-2.0
// ivshmem.h: the memory of an ivshmem device by virtio-win's driver. It is written after the driver's public source
// (kvm-guest-drivers-windows), its header for programs and its answers to requests, and has been run with a driver of
// the tests that answers so (tests/windows/device), never with virtio-win's own.
#pragma once
#include <cstdint>

namespace barcuda::os::ivshmem {

using Handle = void*;

// How many devices the machine has, with or without a driver.
unsigned present() noexcept;
// How many of them virtio-win's driver has.
unsigned count() noexcept;
// Opens the device of that number, from 0 on. Returns 0 or an errno; ENODEV: there is none, EACCES: this user may not,
// EIO: something else (last_error).
int open(unsigned number, Handle& device) noexcept;
// All of its memory, cached. Returns 0 or an errno; EBUSY: another process has it, and the driver gives it to one at a
// time; EAGAIN: the device has no memory yet; ENOTSUP: the driver does not know the request; ENOMEM: Windows could not
// map it; EIO: something else (last_error).
int map(Handle device, char*& base, std::uint64_t& bytes) noexcept;
// Windows' own error of this thread's last open() or map() that failed.
unsigned last_error() noexcept;
void unmap(Handle device) noexcept;

}  // namespace barcuda::os::ivshmem
