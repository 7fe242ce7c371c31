// SPDX-License-Identifier: Apache-2.0
// arena.h: the memory of machine code. One range of addresses, reserved once and aligned to its size, so that a filter
// of system calls can recognize it by a mask. Code is written while its pages are writable, then they become
// executable; they are never both.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

namespace barcuda::soft {

inline constexpr std::size_t arena_bytes = std::size_t{64} << 20;  // thousands of kernels

std::uintptr_t reserve_arena();  // 0 if there is no room; always returns the same address
// Puts a relocatable object (ELF, x86-64) there. Returns the start of its function `run`, or null; release `*memory`
// later.
void* place_object(std::span<const std::byte> object, std::byte** memory);
void give_back(std::byte* memory);

}  // namespace barcuda::soft
