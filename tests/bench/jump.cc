// SPDX-License-Identifier: Apache-2.0
// jump.cc: a malloc and a free that are a jump to libc's, and nothing else: what it costs a program to have any library
// at all in front of its allocator. tests/bench/run measures it beside ours.
#include <stddef.h>

extern "C" {
void* __libc_malloc(size_t bytes) noexcept;
void __libc_free(void* p) noexcept;

__attribute__((aligned(64))) void* malloc(size_t bytes) noexcept { return __libc_malloc(bytes); }
__attribute__((aligned(64))) void free(void* p) noexcept { __libc_free(p); }
}
