// SPDX-License-Identifier: Apache-2.0
// stat.cc: stat() and its relatives, which older glibcs do not have (stubs.py): up to 2.32 a header made each of them
// from one of these, which take the structure's version. On x86-64 there is one version, and it holds files of any
// size: so stat64 is stat.
#include <sys/types.h>

extern "C" {
using Status = void;  // struct stat, or struct stat64
int __xstat(int, const char*, Status*) noexcept;
int __lxstat(int, const char*, Status*) noexcept;
int __fxstat(int, int, Status*) noexcept;
int __fxstatat(int, int, const char*, Status*, int) noexcept;
int __xmknod(int, const char*, mode_t, dev_t*) noexcept;

constexpr int form = 1, device_form = 0;

int stat(const char* path, Status* to) noexcept { return __xstat(form, path, to); }
int lstat(const char* path, Status* to) noexcept { return __lxstat(form, path, to); }
int fstat(int file, Status* to) noexcept { return __fxstat(form, file, to); }
int fstatat(int folder, const char* path, Status* to, int flags) noexcept {
    return __fxstatat(form, folder, path, to, flags);
}
int mknod(const char* path, mode_t mode, dev_t device) noexcept { return __xmknod(device_form, path, mode, &device); }

int stat64(const char*, Status*) noexcept __attribute__((alias("stat")));
int lstat64(const char*, Status*) noexcept __attribute__((alias("lstat")));
int fstat64(int, Status*) noexcept __attribute__((alias("fstat")));
int fstatat64(int, const char*, Status*, int) noexcept __attribute__((alias("fstatat")));
}
