// SPDX-License-Identifier: Apache-2.0
// single_threaded.h: Windows does not say whether a process has only one thread.
#pragma once
inline constexpr bool __libc_single_threaded = false;
