// SPDX-License-Identifier: Apache-2.0
#include "guest-windows/include/glibc.h"

#include <cctype>

const char* barcuda_program_name() noexcept {
    const char* name = _pgmptr ? _pgmptr : "";
    for (const char* c = name; *c; ++c)
        if (*c == '\\' || *c == '/') name = c + 1;
    return name;
}

int strverscmp(const char* a, const char* b) noexcept {
    while (*a && *b) {
        if (std::isdigit(static_cast<unsigned char>(*a)) && std::isdigit(static_cast<unsigned char>(*b))) {
            char *end_of_a, *end_of_b;
            const unsigned long long left = std::strtoull(a, &end_of_a, 10), right = std::strtoull(b, &end_of_b, 10);
            if (left != right) return left < right ? -1 : 1;
            a = end_of_a;
            b = end_of_b;
            continue;
        }
        if (*a != *b) break;
        ++a;
        ++b;
    }
    return static_cast<unsigned char>(*a) - static_cast<unsigned char>(*b);
}
