// SPDX-License-Identifier: Apache-2.0
#include "base/os/clock.h"

#include <windows.h>

#include <utility>

namespace barcuda::os {
namespace {

constexpr std::uint64_t second = 1'000'000'000, millisecond = 1'000'000;
constexpr std::uint64_t shortest = millisecond / 2;  // nap that the system is asked for: what its finest timer can do

std::uint64_t ticks_a_second() noexcept {
    LARGE_INTEGER frequency;
    QueryPerformanceFrequency(&frequency);
    return static_cast<std::uint64_t>(frequency.QuadPart);
}

// Sleep() counts in ticks of the system's clock, of up to 16 ms; this timer does not (Windows 10 from 1803 on). Null:
// there is none. It is the thread's own.
HANDLE own_timer() noexcept {
    constexpr DWORD high_resolution = 2;  // CREATE_WAITABLE_TIMER_HIGH_RESOLUTION, which mingw's headers lack
    struct Timer {
        HANDLE handle = CreateWaitableTimerExW(nullptr, nullptr, high_resolution, TIMER_MODIFY_STATE | SYNCHRONIZE);
        ~Timer() {
            if (handle) CloseHandle(std::exchange(handle, nullptr));  // what ends after it sleeps by Sleep()
        }
    };
    static thread_local Timer timer;
    return timer.handle;
}

bool nap_by_timer(std::uint64_t nanoseconds) noexcept {
    const HANDLE timer = own_timer();
    LARGE_INTEGER due;
    due.QuadPart = -static_cast<LONGLONG>(nanoseconds / 100);  // from now on
    return timer && SetWaitableTimer(timer, &due, 0, nullptr, nullptr, FALSE) &&
           WaitForSingleObject(timer, INFINITE) == WAIT_OBJECT_0;
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
    if (nanoseconds >= shortest) {
        if (!nap_by_timer(nanoseconds)) Sleep(static_cast<DWORD>((nanoseconds + millisecond - 1) / millisecond));
        return;
    }
    for (const std::uint64_t begin = now(); now() - begin < nanoseconds;) SwitchToThread();
}

}  // namespace barcuda::os
