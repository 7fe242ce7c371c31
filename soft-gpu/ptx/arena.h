// SPDX-License-Identifier: Apache-2.0
// arena.h: where machine code lies. One range of addresses, reserved once and aligned to its size, so that a filter of
// system calls can tell it by a mask: code is written while its pages are writable, then they become executable, and
// never are they both.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

namespace barcuda::soft {

inline constexpr std::size_t arena_bytes = std::size_t{64} << 20;  // thousands of kernels

std::uintptr_t reserve_arena();  // 0 if there is no room; the same however often it is asked
// Puts a relocatable object (ELF, x86-64) there. Where its function `run` begins, or null; `*memory` is to be given back.
void* place_object(std::span<const std::byte> object, std::byte** memory);
void give_back(std::byte* memory);

}  // namespace barcuda::soft
