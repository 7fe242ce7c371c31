// SPDX-License-Identifier: Apache-2.0
#include "base/os/futex.h"

#include <windows.h>

#include "base/os/mutex.h"

extern "C" BOOLEAN NTAPI RtlDllShutdownInProgress();  // of ntdll.dll; mingw's headers lack it

namespace barcuda {

bool futex_wait(const std::uint32_t& word, std::uint32_t seen, std::uint64_t nanoseconds, Among) noexcept {
    const std::uint64_t milliseconds = (nanoseconds + 999'999) / 1'000'000;
    auto* const at = const_cast<std::uint32_t*>(&word);
    return WaitOnAddress(at, &seen, sizeof seen,
                         static_cast<DWORD>(milliseconds < INFINITE ? milliseconds : INFINITE)) ||
           GetLastError() != ERROR_TIMEOUT;
}

void futex_wake(const std::uint32_t& word, Among) noexcept { WakeByAddressAll(const_cast<std::uint32_t*>(&word)); }

bool os::process_ends() noexcept { return RtlDllShutdownInProgress(); }

}  // namespace barcuda
