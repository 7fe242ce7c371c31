// SPDX-License-Identifier: Apache-2.0
// newer.cc: what this tree and libstdc++ want of glibc that older ones have not (stubs.py), each by what these have.
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>

extern "C" {

// 2.30
pid_t gettid() noexcept { return static_cast<pid_t>(syscall(SYS_gettid)); }

// 2.32. libstdc++ counts references without atomic instructions where it says so: never, then.
char __libc_single_threaded = false;

// 2.32. The table that it reads.
extern const char* const error_texts[];
extern const int error_count;
asm(".symver error_texts, _sys_errlist@GLIBC_2.12");
asm(".symver error_count, _sys_nerr@GLIBC_2.12");
const char* strerrordesc_np(int code) noexcept { return code >= 0 && code < error_count ? error_texts[code] : nullptr; }

// 2.36. For std::random_device, which asks for few.
std::uint32_t arc4random() noexcept {
    std::uint32_t number;
    while (getrandom(&number, sizeof number, 0) != sizeof number) continue;  // interrupted
    return number;
}
}
