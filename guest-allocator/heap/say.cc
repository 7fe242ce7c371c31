// SPDX-License-Identifier: Apache-2.0
#include "guest-allocator/heap/say.h"

#include <stdlib.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "base/os/output.h"
#include "base/os/thread.h"

namespace barcuda::heap {

void say(const char* a, const char* b, const char* c) noexcept {
    char text[256];
    std::size_t n = 0;
    for (const char* part : {"barcuda: ", a, b, c, "\n"})
        for (; *part && n < sizeof text; ++part) text[n++] = *part;
    const os::Uncancelled uncancelled;  // malloc() says something, too
    os::write_error(text, n);
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
