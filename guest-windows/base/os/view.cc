// SPDX-License-Identifier: Apache-2.0
#include "base/os/view.h"

#include <io.h>
#include <windows.h>

#include <array>
#include <cerrno>
#include <mutex>

#include "base/os/ivshmem.h"
#include "base/os/mutex.h"

namespace barcuda::os {
namespace {

Mutex mutex;
std::array<View, 4> views;  // a process has one region; a tool may have several

// Where a file goes: above the GPU's own memory, where nothing is yet, at a multiple of no more than what Windows gives
// addresses in: a driver's memory comes to lie like that.
constexpr std::uintptr_t first_place = 0x600000010000, last_place = 0x700000000000, step = std::uintptr_t{1} << 38;

char* map_somewhere(HANDLE mapping) noexcept {
    for (std::uintptr_t place = first_place; place < last_place; place += step)
        if (void* const p =
                MapViewOfFileEx(mapping, FILE_MAP_READ | FILE_MAP_WRITE, 0, 0, 0, reinterpret_cast<void*>(place)))
            return static_cast<char*>(p);
    return nullptr;
}

int map_file_view(HANDLE file, View& view) noexcept {
    LARGE_INTEGER size;
    if (!GetFileSizeEx(file, &size)) return EIO;
    const HANDLE mapping = CreateFileMappingW(file, nullptr, PAGE_READWRITE, 0, 0, nullptr);
    if (!mapping) return ENOMEM;
    view.base = map_somewhere(mapping);
    CloseHandle(mapping);  // the view holds it
    view.bytes = static_cast<std::uint64_t>(size.QuadPart);
    return view.base ? 0 : ENOMEM;
}

}  // namespace

const View* view_of(int file) noexcept {
    const std::lock_guard lock(mutex);
    for (const View& view : views)
        if (view.base && view.file == file) return &view;
    return nullptr;
}

const View* view_with(const void* address) noexcept {
    const std::lock_guard lock(mutex);
    for (const View& view : views)
        if (view.base && view.holds(address)) return &view;
    return nullptr;
}

int map_view(int file, View& out) noexcept {
    if (const View* there = view_of(file)) {
        out = *there;
        return 0;
    }
    const auto handle = reinterpret_cast<HANDLE>(_get_osfhandle(file));
    if (handle == INVALID_HANDLE_VALUE) return EBADF;
    View view;
    view.file = file;
    const int code = GetFileType(handle) == FILE_TYPE_DISK ? map_file_view(handle, view)
                                                           : ivshmem::map(handle, view.base, view.bytes);
    if (code != 0) return code;
    const std::lock_guard lock(mutex);
    for (View& place : views)
        if (!place.base) {
            out = place = view;
            return 0;
        }
    return EMFILE;
}

}  // namespace barcuda::os
