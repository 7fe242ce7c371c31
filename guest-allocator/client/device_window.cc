// SPDX-License-Identifier: Apache-2.0
#include "guest-allocator/client/device_window.h"

#include <algorithm>

#include "base/os/map.h"
#include "base/os/maps.h"

namespace barcuda::guest {

heap::Ranges<Taken> taken;

namespace {

// No program's memory is as large as that: a sanitizer's shadow is, of which no address is ever handed out.
constexpr std::uintptr_t shadow = std::uintptr_t{1} << 40;

void note(std::uintptr_t begin, std::uintptr_t end) noexcept {
    if (const std::size_t n = taken.count(); n && taken[n - 1].end == begin) taken[n - 1].end = end;
    else if (taken.make_room()) taken.add({begin, end});
}

}  // namespace

void reserve_window(std::uintptr_t begin, std::uintptr_t end) noexcept {
    // First the look, then what it found: each reservation changes the list.
    const std::size_t before = taken.count();
    os::Maps maps;
    for (os::Mapping m; maps.next(m) && m.begin < end;)
        if (m.end > begin && m.end - m.begin < shadow) note(std::max(m.begin, begin), std::min(m.end, end));
    for (std::size_t i = before; i < taken.count(); ++i) {
        os::reserve(begin, taken[i].begin);
        begin = taken[i].end;
    }
    os::reserve(begin, end);  // not fatal where address space is limited (ulimit -v)
}

}  // namespace barcuda::guest
