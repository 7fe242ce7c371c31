// SPDX-License-Identifier: Apache-2.0
// faults.h: the CPU gets access to memory that it touches, or that a system call is about to touch.
#pragma once
#include <cstddef>
#include <cstdint>

namespace barcuda::guest::managed {

// The CPU may touch [address, address + bytes) when this returns true. False: it is not managed, or not any more.
bool fault_in(std::uintptr_t address, std::size_t bytes, bool write) noexcept;
// The CPU may touch it already. Under the state's lock.
bool is_accessible(std::uintptr_t address, std::size_t bytes, bool write) noexcept;

}  // namespace barcuda::guest::managed
