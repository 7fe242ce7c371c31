// SPDX-License-Identifier: Apache-2.0
// sample.h: one honest request of every command, made from the table: arguments of the prototype's own types, packed by
// the kinds themselves. What a test of the protocol takes apart, cuts short or lies with.
#pragma once
#include <cstdint>
#include <vector>

#include "shm-device/rows/library_commands.h"

namespace barcuda::sample {

// The kinds' guest: it knows every handle, and all memory is at one offset of the region.
struct Guest {
    std::uint64_t next = 0x40;
    std::uint64_t new_id() { return next++; }
    void free_id(std::uint64_t) {}
    bool knows(std::uint64_t) const { return true; }
    std::uint64_t offset_of(const void*) const { return offset; }
    std::uint64_t on_device(std::uint64_t address, std::size_t) const { return address + moved; }
    std::uint64_t offset = 0x1000;
    std::uint64_t moved = 0;  // as registered memory is: the device finds it elsewhere
};

// Arguments: counts are two; handles are `handle`; pointers lead to memory that holds small numbers.
struct Arguments {
    alignas(128) std::byte memory[1 << 16] = {};  // as a tensor map lies
    std::uint64_t handle = 0x20;

    template <class T> T of() {
        if constexpr (std::is_same_v<T, const char*>) return "text";
        else if constexpr (std::is_same_v<T, std::size_t*>) {
            *reinterpret_cast<std::size_t*>(memory) = 2;
            return reinterpret_cast<T>(memory);
        } else if constexpr (std::is_pointer_v<T> && handle_like<T>) return reinterpret_cast<T>(handle);
        else if constexpr (std::is_pointer_v<T>) return reinterpret_cast<T>(const_cast<std::byte*>(memory) + 128);
        else if constexpr (std::is_integral_v<T>) return T{2};
        else return T{};
    }

  private:
    // Handles point to types that <cuda.h> never completes.
    template <class T> struct Incomplete {
        template <class U> static constexpr bool complete(decltype(sizeof(U))*) { return true; }
        template <class U> static constexpr bool complete(...) { return false; }
        static constexpr bool value = !complete<std::remove_pointer_t<T>>(nullptr);
    };
    template <class T> static constexpr bool handle_like =
        !std::is_void_v<std::remove_pointer_t<T>> && Incomplete<T>::value;
};

// The values of a request, without its head (sample.cc).
std::vector<std::byte> request(Op op, Guest& guest, Arguments& arguments);

}  // namespace barcuda::sample
