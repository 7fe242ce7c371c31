// SPDX-License-Identifier: Apache-2.0
#include "base/os/maps.h"

#include <windows.h>

namespace barcuda::os {

// `fd_` means nothing here; `at_` is the address to ask about next.
Maps::Maps() noexcept : fd_(0), text_{} {}
Maps::~Maps() = default;

bool Maps::next(Mapping& out) noexcept {
    MEMORY_BASIC_INFORMATION found;
    for (; VirtualQuery(reinterpret_cast<void*>(at_), &found, sizeof found) != 0;) {
        const auto begin = reinterpret_cast<std::uintptr_t>(found.BaseAddress);
        at_ = begin + found.RegionSize;
        if (found.State == MEM_FREE) continue;
        out = {};
        out.begin = begin;
        out.end = at_;
        constexpr DWORD writes = PAGE_READWRITE | PAGE_WRITECOPY | PAGE_EXECUTE_READWRITE | PAGE_EXECUTE_WRITECOPY;
        out.readable = found.State == MEM_COMMIT && !(found.Protect & (PAGE_NOACCESS | PAGE_GUARD));
        out.writable = out.readable && found.Protect & writes;
        out.shared = found.Type == MEM_MAPPED;
        return true;
    }
    return false;
}

bool Maps::find(const void* p, Mapping& out) noexcept {
    while (next(out))
        if (out.holds(reinterpret_cast<std::uintptr_t>(p))) return true;
    return false;
}

}  // namespace barcuda::os
