// SPDX-License-Identifier: Apache-2.0
// view.h: a region as Windows gives it to a process: all of it, once, at an address that the system chooses. So does
// virtio-win's driver with the memory of an ivshmem device, and so is a file treated, whose parts could be mapped.
//
// A process may have several libraries of ours, each with this code: nvcuda.dll and nvml.dll. The driver maps a device
// once. So the one that has mapped it shows its views to the other (barcuda_views), stays loaded from then on, and both
// have their channels in the same view.
#pragma once
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/os/mutex.h"

namespace barcuda::os {

struct View {
    enum State : std::uint32_t { empty, filling, there };
    static constexpr std::size_t most_held = 16;  // a library has one channel

    std::atomic<std::uint32_t> state;
    char path[256];
    char* base;
    std::uint64_t bytes;
    void* device;  // its handle, open as long as the process lives: the driver unmaps when it is closed; null: a file
    // Bytes that are locked, each plus 1: a device has no locks, and its memory is one process's at a time, so that its
    // locks are that process's, too.
    std::array<std::uint64_t, most_held> held;
    Mutex held_mutex;

    bool holds(const void* p) const { return static_cast<std::uint64_t>(static_cast<const char*>(p) - base) < bytes; }
    // 0 or EAGAIN: it is held already, or too many are.
    int lock(std::uint64_t offset) noexcept;
    void unlock(std::uint64_t offset) noexcept;
};

struct Views {
    std::uint32_t form;  // of this struct: a library of another version may have another, and is left alone
    std::array<View, 8> all;
};
constexpr std::uint32_t views_form = 1;

// The view of this path, which a library of this process has mapped; null: none has.
View* find_view(const char* path) noexcept;
// Makes the view of this descriptor known; maps it, if none has. A mapping stays until the process ends: what lies in
// it may be in use until then. Returns 0 or an errno; EBUSY: another process has the device.
int map_view(int file, const char* path, View*& view) noexcept;
// The descriptor is about to be closed; or the view has turned out to be of no use to anyone, and goes with it.
void forget_view(int file) noexcept;
void drop_view(int file) noexcept;

View* view_of(int file) noexcept;  // null: none
const View* view_with(const void* address) noexcept;

}  // namespace barcuda::os

extern "C" [[gnu::visibility("default")]] barcuda::os::Views barcuda_views;
