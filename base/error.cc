// SPDX-License-Identifier: Apache-2.0
// error.cc: sentences made without malloc.
#include "base/error.h"

#include <cstdarg>
#include <cstdio>
#include <cstring>

namespace barcuda {

Error error(Error::Kind kind, int code, const char* format, ...) {
    Error e;
    e.kind = kind;
    e.code = code;
    va_list args;
    va_start(args, format);
    const int n = std::vsnprintf(e.text, sizeof e.text, format, args);
    va_end(args);
    if (code != 0 && n >= 0 && static_cast<std::size_t>(n) < sizeof e.text) {
        const char* why = strerrordesc_np(code);  // not strerror: that one may allocate
        std::snprintf(e.text + n, sizeof e.text - n, ": %s", why ? why : "unknown error");
    }
    return e;
}

}  // namespace barcuda
