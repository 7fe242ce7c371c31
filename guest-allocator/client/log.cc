// SPDX-License-Identifier: Apache-2.0
#include "guest-allocator/client/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>

#include "base/os/output.h"
#include "guest-allocator/client/error_log.h"
#include "shm-device/cuda/results.h"

namespace barcuda::guest {

bool logs_debug() noexcept {
    static const bool wanted = [] {
        const char* text = secure_getenv("BARCUDA_LOG");
        return text && (!strcmp(text, "debug") || !strcmp(text, "trace"));
    }();
    return wanted;
}

void log_failure(const char* name, CUresult result) noexcept {
    if (result == CUDA_SUCCESS || result == CUDA_ERROR_NOT_READY) return;  // not ready: an answer
    const ResultText* text = find_result(result);
    char line[200];
    snprintf(line, sizeof line, "%s: %s (%d)", name, text ? text->name : "no known result", static_cast<int>(result));
    if (logs_debug()) log_line("%s", line);
    error_log::add(line);
}

void log_line(const char* format, ...) noexcept {
    char line[512] = "barcuda: ";
    constexpr int start = sizeof "barcuda: " - 1, room = sizeof line - start - 1;
    va_list arguments;
    va_start(arguments, format);
    const int n = vsnprintf(line + start, room, format, arguments);
    va_end(arguments);
    if (n < 0) return;
    const int end = start + std::min(n, room - 1);
    line[end] = '\n';
    os::write_error(line, static_cast<std::size_t>(end) + 1);
}

}  // namespace barcuda::guest
