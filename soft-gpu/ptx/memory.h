// SPDX-License-Identifier: Apache-2.0
// memory.h: from a lane's address to a checked place in this process. Kernels access memory only through it.
#pragma once
#include <cuda.h>

#include "soft-gpu/ptx/lanes.h"

namespace barcuda::soft {

// Finds the range that holds an address, or throws. Slow: the block keeps the ranges it found last.
void find_range(Warp& w, int lane, std::uint64_t address, unsigned bytes, bool write);
[[noreturn]] void misaligned(int lane, std::uint64_t address, unsigned bytes);
[[noreturn]] void out_of_bounds(Warp& w, int lane, Space space, std::uint64_t address, unsigned bytes);

// Drops cached ranges after a range has been removed. Called by every instruction that touches global memory.
[[gnu::always_inline]] inline void refresh_ranges(Block& b) {
    const auto now = b.grid->space->generation();
    if (now == b.generation) return;
    b.generation = now;
    b.range = b.other_range = {};
    b.older_ranges = {};
}

[[gnu::always_inline]] inline bool within(const AddressSpace::Range& r, std::uint64_t address, unsigned bytes,
                                          bool write) {
    const std::uint64_t offset = address - r.base;
    return offset < r.size && r.size - offset >= bytes && (r.writable || !write);
}

template <Space space> [[gnu::always_inline]] inline std::byte* resolve(Warp& w, int lane, std::uint64_t address,
                                                                        unsigned bytes, unsigned align, bool write) {
    Block& b = *w.block;
    if ((address & (align - 1)) != 0) misaligned(lane, address, align);
    if constexpr (space == Space::shared) {
        if (address > b.shared_bytes || b.shared_bytes - address < bytes) out_of_bounds(w, lane, space, address, bytes);
        return b.shared + address;
    } else if constexpr (space == Space::local) {
        if (address > b.stack_bytes || b.stack_bytes - address < bytes) out_of_bounds(w, lane, space, address, bytes);
        return w.stacks + static_cast<std::size_t>(lane) * b.stack_stride + address;
    } else {
        if constexpr (space == Space::generic) {
            const std::uint64_t offset = address - window.base;
            if (offset < Window::shared_size) return resolve<Space::shared>(w, lane, offset, bytes, align, write);
            if (offset < Window::size)
                return resolve<Space::local>(w, lane, offset - Window::shared_size, bytes, align, write);
        }
        if (!within(b.range, address, bytes, write)) [[unlikely]] {
            std::swap(b.range, b.other_range);
            if (!within(b.range, address, bytes, write)) find_range(w, lane, address, bytes, write);
        }
        return reinterpret_cast<std::byte*>(address);
    }
}

// The same without an error: null if the bytes are not certainly in one place. For instructions that try many lanes at
// once.
template <Space space>
[[gnu::always_inline]] inline std::byte* try_resolve(Warp& w, std::uint64_t address, unsigned bytes, bool write) {
    Block& b = *w.block;
    if constexpr (space == Space::shared) {
        return address <= b.shared_bytes && b.shared_bytes - address >= bytes ? b.shared + address : nullptr;
    } else if constexpr (space == Space::local) {
        return nullptr;
    } else {
        if (space == Space::generic && address - window.base < Window::size) return nullptr;
        if (!within(b.range, address, bytes, write)) return nullptr;
        return reinterpret_cast<std::byte*>(address);
    }
}

// The pattern of some lanes' addresses.
enum class Pattern : std::uint8_t { scattered, row, same };  // row: lane after lane, `size` bytes each
inline constexpr int half_warp = 16;                         // tiles of 16 columns are common, so halves are checked
// With vectors of `bytes`, a size that the machine has: compilers unroll the plain loop into scalars.
template <class A, int bytes> [[gnu::always_inline]] inline Pattern pattern_with(const A* a, A size) {
    constexpr int n = bytes / static_cast<int>(sizeof(A));
    typedef A Vector __attribute__((vector_size(bytes)));
    Vector step, row{}, same{};
    for (int i = 0; i < n; ++i) step[i] = static_cast<A>(i) * size;
    for (int part = 0; part < half_warp / n; ++part) {
        Vector x;
        std::memcpy(&x, a + part * n, sizeof x);
        same |= x ^ a[0];
        row |= x ^ (step + (a[0] + static_cast<A>(part * n) * size));
    }
    A in_row = 0, in_same = 0;
    for (int i = 0; i < n; ++i) {
        in_row |= row[i];
        in_same |= same[i];
    }
    return in_row == 0 ? Pattern::row : in_same == 0 ? Pattern::same : Pattern::scattered;
}
template <class A> inline Pattern pattern_narrow(const A* a, A size) { return pattern_with<A, 16>(a, size); }
template <class A> BARCUDA_WIDE inline Pattern pattern_wide(const A* a, A size) { return pattern_with<A, 32>(a, size); }
template <bool wide, class A> [[gnu::always_inline]] inline Pattern pattern_of(const A* a, A size) {
    return wide ? pattern_wide<A>(a, size) : pattern_narrow<A>(a, size);
}

// A pointer of a builtin's argument: any space.
inline std::byte* resolve_generic(Warp& w, int lane, std::uint64_t address, unsigned bytes, bool write) {
    refresh_ranges(*w.block);
    return resolve<Space::generic>(w, lane, address, bytes, 1, write);
}

// A lane that reads memory which other threads change may be waiting for them: it uses up its turn sooner.
inline constexpr int look_cost = 64;
inline void looked(Warp& w) { w.budget -= look_cost; }

}  // namespace barcuda::soft
