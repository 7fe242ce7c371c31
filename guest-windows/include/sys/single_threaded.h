// SPDX-License-Identifier: Apache-2.0
// single_threaded.h: nobody says on Windows whether a process has one thread only.
#pragma once
inline constexpr bool __libc_single_threaded = false;
