// SPDX-License-Identifier: Apache-2.0
// map.cc: mappings on Windows. A file is mapped whole, once, when its door opens (view.h), and its parts are
// found there.
#include "base/os/map.h"

#include <windows.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/os/view.h"

namespace barcuda::os {
namespace {

bool is_wine() noexcept { return GetProcAddress(GetModuleHandleA("ntdll.dll"), "wine_get_version") != nullptr; }

}  // namespace

int map_memory(std::size_t bytes, Access access, void** address, bool) {
    const DWORD kind = access == Access::none ? MEM_RESERVE : MEM_RESERVE | MEM_COMMIT;
    void* const p = VirtualAlloc(nullptr, bytes, kind, access == Access::none ? PAGE_NOACCESS : PAGE_READWRITE);
    if (!p) return ENOMEM;
    *address = p;
    return 0;
}

int grow_memory(std::size_t bytes, std::size_t more, void** address) {
    void* larger = nullptr;
    if (const int code = map_memory(more, Access::write, &larger)) return code;
    std::memcpy(larger, *address, bytes);
    unmap(*address, bytes);
    *address = larger;
    return 0;
}

// Whole pages, as on the other system: of those that have no memory yet, they get it.
int allow(void* address, std::size_t bytes, Access access) {
    if (access == Access::write) return VirtualAlloc(address, bytes, MEM_COMMIT, PAGE_READWRITE) ? 0 : ENOMEM;
    DWORD before;
    return VirtualProtect(address, bytes, access == Access::read ? PAGE_READONLY : PAGE_NOACCESS, &before) ? 0 : EINVAL;
}

void forget(void* address, std::size_t bytes) {
    constexpr std::uintptr_t page = 4096;
    const auto begin = reinterpret_cast<std::uintptr_t>(address), end = begin + bytes;
    const std::uintptr_t first = (begin + page - 1) / page * page, last = end / page * page;
    if (first >= last || !VirtualFree(reinterpret_cast<void*>(first), last - first, MEM_DECOMMIT))
        std::memset(address, 0, bytes);
    else VirtualAlloc(reinterpret_cast<void*>(first), last - first, MEM_COMMIT, PAGE_READWRITE);
}

// Wine keeps a byte for each page that is reserved, and would not come back for minutes: it gives addresses from below,
// so that it takes long until a program gets one of the GPU's.
bool reserve(std::uintptr_t begin, std::uintptr_t end) {
    constexpr std::uintptr_t unit = 65536;  // what Windows gives addresses in
    constexpr std::uintptr_t most_under_wine = std::uintptr_t{1} << 36;
    if (begin < end && end - begin > most_under_wine && is_wine()) return false;
    const std::uintptr_t first = (begin + unit - 1) / unit * unit;
    return first < end && VirtualAlloc(reinterpret_cast<void*>(first), end - first, MEM_RESERVE, PAGE_NOACCESS);
}

void unmap(void* address, std::size_t) {
    if (!view_with(address)) VirtualFree(address, 0, MEM_RELEASE);
}

int map_file(int file, std::uint64_t offset, std::size_t bytes, Access, void** address, void*) {
    const View* const view = view_of(file);
    if (!view) return EBADF;
    if (offset > view->bytes || bytes > view->bytes - offset) return EINVAL;
    *address = view->base + offset;
    return 0;
}

int map_file_at(int file, std::uint64_t offset, void* address, std::size_t bytes, Over) {
    void* there = nullptr;
    if (const int code = map_file(file, offset, bytes, Access::write, &there, nullptr)) return code;
    return there == address ? 0 : EEXIST;
}

void name_mapping(std::uintptr_t from, std::uintptr_t, char* text, std::size_t size) {
    std::snprintf(text, size, "a mapping at 0x%llx", static_cast<unsigned long long>(from));
}

// By what the system says of each piece of it.
bool is_mapped(const void* p, std::size_t bytes) {
    const auto end = reinterpret_cast<std::uintptr_t>(p) + bytes;
    MEMORY_BASIC_INFORMATION found;
    for (auto at = reinterpret_cast<std::uintptr_t>(p); at < end;
         at = reinterpret_cast<std::uintptr_t>(found.BaseAddress) + found.RegionSize)
        if (!VirtualQuery(reinterpret_cast<void*>(at), &found, sizeof found) || found.State != MEM_COMMIT) return false;
    return end > reinterpret_cast<std::uintptr_t>(p);
}

bool touch_to_write(void*, std::size_t) { return false; }

bool may_touch(const void* p, bool to_write) {
    constexpr DWORD writes = PAGE_READWRITE | PAGE_WRITECOPY | PAGE_EXECUTE_READWRITE | PAGE_EXECUTE_WRITECOPY;
    constexpr DWORD reads = writes | PAGE_READONLY | PAGE_EXECUTE_READ;
    MEMORY_BASIC_INFORMATION found;
    return VirtualQuery(p, &found, sizeof found) && found.Protect & (to_write ? writes : reads);
}

std::size_t memory_bytes() {
    MEMORYSTATUSEX status{};
    status.dwLength = sizeof status;
    return GlobalMemoryStatusEx(&status) ? static_cast<std::size_t>(status.ullTotalPhys) : SIZE_MAX;
}

}  // namespace barcuda::os
