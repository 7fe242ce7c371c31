// SPDX-License-Identifier: Apache-2.0
#include "guest-allocator/heap/say.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "guest-allocator/heap/uncancelled.h"

namespace barcuda::heap {

void say(const char* a, const char* b, const char* c) noexcept {
    char text[256];
    std::size_t n = 0;
    for (const char* part : {"barcuda: ", a, b, c, "\n"})
        for (; *part && n < sizeof text; ++part) text[n++] = *part;
    const Uncancelled uncancelled;  // malloc() says something, too
    const int before = errno;
    if (write(2, text, n) < 0) errno = before;
}

void die(const char* what, const void* p) noexcept {
    char address[24] = "";
    if (p) {
        const auto value = reinterpret_cast<std::uintptr_t>(p);
        char* to = address;
        for (const char* c = ": 0x"; *c; ++c) *to++ = *c;
        for (int shift = 44; shift >= 0; shift -= 4) *to++ = "0123456789abcdef"[value >> shift & 15];
        *to = 0;
    }
    say(what, address);
    abort();
}

}  // namespace barcuda::heap
