// SPDX-License-Identifier: Apache-2.0
// logs.cc: the log of errors, as programs read it. The entries are this library's: which command failed and with which
// error, and what is refused and why.
#include <stdio.h>
#include <string.h>

#include "guest-allocator/client/error_log.h"
#include "guest-allocator/driver/export.h"

using namespace barcuda::guest;

CU cuLogsRegisterCallback(CUlogsCallback function, void* data, CUlogsCallbackHandle* out) {
    if (!function) return CUDA_ERROR_INVALID_VALUE;
    const CUlogsCallbackHandle handle = error_log::hear(function, data);
    if (!handle) return CUDA_ERROR_OUT_OF_MEMORY;
    if (out) *out = handle;
    return CUDA_SUCCESS;
}
CU cuLogsUnregisterCallback(CUlogsCallbackHandle handle) {
    return handle && error_log::unhear(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CU cuLogsCurrent(CUlogIterator* next, unsigned flags) {
    if (!next || flags) return CUDA_ERROR_INVALID_VALUE;
    *next = error_log::count();
    return CUDA_SUCCESS;
}

CU cuLogsDumpToFile(CUlogIterator* next, const char* path, unsigned flags) {
    if (!path || flags) return CUDA_ERROR_INVALID_VALUE;
    const unsigned now = error_log::count();
    const std::string text = error_log::since(next ? *next : 0, SIZE_MAX);
    FILE* const file = fopen(path, "we");
    if (!file) return CUDA_ERROR_INVALID_VALUE;
    const bool written = fwrite(text.data(), 1, text.size(), file) == text.size();
    if (fclose(file) != 0 || !written) return CUDA_ERROR_OPERATING_SYSTEM;
    if (next) *next = now;
    return CUDA_SUCCESS;
}

CU cuLogsDumpToMemory(CUlogIterator* next, char* buffer, size_t* bytes, unsigned flags) {
    if (!buffer || !bytes || *bytes == 0 || flags) return CUDA_ERROR_INVALID_VALUE;
    const unsigned first = next ? *next : 0, now = error_log::count();
    const std::string text = error_log::since(first, *bytes - 1);  // and a NUL
    memcpy(buffer, text.c_str(), text.size() + 1);
    *bytes = text.size();
    if (text.empty() && now != first) return CUDA_ERROR_INVALID_VALUE;  // not one message fits
    if (next) *next = now;
    return CUDA_SUCCESS;
}
