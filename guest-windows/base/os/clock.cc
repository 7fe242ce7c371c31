// SPDX-License-Identifier: Apache-2.0
#include "base/os/clock.h"

#include <windows.h>

namespace barcuda::os {
namespace {

constexpr std::uint64_t second = 1'000'000'000, millisecond = 1'000'000;

std::uint64_t ticks_a_second() noexcept {
    LARGE_INTEGER frequency;
    QueryPerformanceFrequency(&frequency);
    return static_cast<std::uint64_t>(frequency.QuadPart);
}

}  // namespace

std::uint64_t now() noexcept {
    static const std::uint64_t frequency = ticks_a_second();
    LARGE_INTEGER count;
    QueryPerformanceCounter(&count);
    const auto ticks = static_cast<std::uint64_t>(count.QuadPart);
    return ticks / frequency * second + ticks % frequency * second / frequency;
}

std::uint32_t coarse_seconds() noexcept { return static_cast<std::uint32_t>(GetTickCount64() / 1000); }

void yield() noexcept { SwitchToThread(); }

void nap(std::uint64_t nanoseconds) noexcept {
    if (nanoseconds >= millisecond) return Sleep(static_cast<DWORD>(nanoseconds / millisecond));
    for (const std::uint64_t begin = now(); now() - begin < nanoseconds;) SwitchToThread();
}

}  // namespace barcuda::os
