// SPDX-License-Identifier: Apache-2.0
// glibc.h: what the sources that both systems share take from glibc and mingw's C library has not. Included in front of
// each file (mk/windows.mk).
#pragma once

#ifdef __cplusplus
#include <cstdio>
#include <cstdlib>
#include <cstring>

#define O_CLOEXEC O_NOINHERIT
#define program_invocation_short_name barcuda_program_name()

// The program's file, without its folder.
const char* barcuda_program_name() noexcept;

inline char* secure_getenv(const char* name) { return std::getenv(name); }  // no program has another user's rights
inline int unsetenv(const char* name) { return _putenv_s(name, ""); }
inline const char* strerrordesc_np(int code) { return std::strerror(code); }
inline void* mempcpy(void* to, const void* from, std::size_t bytes) {
    return static_cast<char*>(std::memcpy(to, from, bytes)) + bytes;
}

// Versions: runs of digits are compared as numbers.
int strverscmp(const char* a, const char* b) noexcept;
#endif
