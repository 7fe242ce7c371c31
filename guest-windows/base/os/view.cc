// SPDX-License-Identifier: Apache-2.0
#include "base/os/view.h"

#include <io.h>
#include <windows.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <mutex>

#include "base/os/clock.h"
#include "base/os/ivshmem.h"

constinit barcuda::os::Views barcuda_views{barcuda::os::views_form, {}};

namespace barcuda::os {
namespace {

struct Opening {
    int file = -1;
    View* view = nullptr;
};

constinit Mutex mutex;
constinit std::array<Opening, 16> openings{};
constinit std::array<View*, 16> used{};  // by this library, ever

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

int map_device_view(HANDLE device, View& view) noexcept {
    const HANDLE me = GetCurrentProcess();
    if (!DuplicateHandle(me, device, me, &view.device, 0, FALSE, DUPLICATE_SAME_ACCESS)) return EIO;
    const int code = ivshmem::map(view.device, view.base, view.bytes);
    if (code != 0) CloseHandle(view.device);
    return code;
}

View* find_in(Views& views, const char* path) noexcept {
    for (View& view : views.all)
        if (view.state.load(std::memory_order_acquire) == View::there && std::strcmp(view.path, path) == 0)
            return &view;
    return nullptr;
}

// Adds to what this library uses. False: no room.
bool use(int file, View* view) noexcept {
    for (View*& place : used) {
        if (place && place != view) continue;
        place = view;
        for (Opening& opening : openings)
            if (opening.file < 0) {
                opening = {file, view};
                return true;
            }
        return false;
    }
    return false;
}

// A library that uses a region stays in the process: with its part of the views, which others use as well, and with
// its threads, which may be running.
void stay_loaded() noexcept {
    HMODULE here;
    GetModuleHandleExW(GET_MODULE_HANDLE_EX_FLAG_PIN | GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS,
                       reinterpret_cast<LPCWSTR>(&barcuda_views), &here);
}

// Under the lock.
int map_own(int file, const char* path, View*& out) noexcept {
    const auto handle = reinterpret_cast<HANDLE>(_get_osfhandle(file));
    if (handle == INVALID_HANDLE_VALUE) return EBADF;
    for (View& view : barcuda_views.all) {
        if (view.state.load(std::memory_order_relaxed) != View::empty) continue;
        view.base = nullptr;
        view.device = nullptr;
        const int code =
            GetFileType(handle) == FILE_TYPE_DISK ? map_file_view(handle, view) : map_device_view(handle, view);
        if (code != 0) return code;
        std::snprintf(view.path, sizeof view.path, "%s", path);
        view.state.store(View::there, std::memory_order_release);
        out = &view;
        return 0;
    }
    return EMFILE;
}

}  // namespace

int View::lock(std::uint64_t offset) noexcept {
    const std::lock_guard lock(held_mutex);
    const auto free = std::ranges::find(held, 0u);
    if (free == held.end() || std::ranges::find(held, offset + 1) != held.end()) return EAGAIN;
    *free = offset + 1;
    return 0;
}

void View::unlock(std::uint64_t offset) noexcept {
    const std::lock_guard lock(held_mutex);
    std::ranges::replace(held, offset + 1, std::uint64_t{0});
}

View* find_view(const char* path) noexcept {
    if (View* const own = find_in(barcuda_views, path)) return own;
    for (const char* name : {"nvcuda.dll", "nvml.dll"}) {
        const HMODULE library = GetModuleHandleA(name);
        void* const symbol = library ? reinterpret_cast<void*>(GetProcAddress(library, "barcuda_views")) : nullptr;
        auto* const views = static_cast<Views*>(symbol);
        if (!views || views == &barcuda_views || views->form != views_form) continue;
        if (View* const theirs = find_in(*views, path)) return theirs;
    }
    return nullptr;
}

View* view_of(int file) noexcept {
    const std::lock_guard lock(mutex);
    for (const Opening& opening : openings)
        if (opening.view && opening.file == file) return opening.view;
    return nullptr;
}

const View* view_with(const void* address) noexcept {
    const std::lock_guard lock(mutex);
    for (const View* view : used)
        if (view && view->holds(address)) return view;
    return nullptr;
}

int map_view(int file, const char* path, View*& out) noexcept {
    const std::lock_guard lock(mutex);
    out = find_view(path);
    if (!out) {
        int code = map_own(file, path, out);
        if (code == EBUSY) {  // perhaps the other library has mapped it at this moment
            nap(1'000'000);
            out = find_view(path);
        }
        if (!out && code != 0) return code;
    }
    if (!use(file, out)) return EMFILE;
    stay_loaded();
    return 0;
}

void forget_view(int file) noexcept {
    const std::lock_guard lock(mutex);
    for (Opening& opening : openings)
        if (opening.file == file) opening = {};
}

void drop_view(int file) noexcept {
    View* const view = view_of(file);
    forget_view(file);
    if (!view || view < barcuda_views.all.data() || view >= barcuda_views.all.data() + barcuda_views.all.size()) return;
    const std::lock_guard lock(mutex);
    for (View*& place : used)
        if (place == view) place = nullptr;
    view->state.store(View::filling, std::memory_order_release);
    if (view->device) {
        ivshmem::unmap(view->device);
        CloseHandle(view->device);
    } else {
        UnmapViewOfFile(view->base);
    }
    view->state.store(View::empty, std::memory_order_release);
}

}  // namespace barcuda::os
