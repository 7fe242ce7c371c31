/* SPDX-License-Identifier: Apache-2.0
 * dlfcn.h: libraries that are opened by name. Each may be asked for its symbols; none is closed. */
#pragma once
#include <stdio.h>
#include <windows.h>

#define RTLD_NOW 0
#define RTLD_LOCAL 0

inline void* dlopen(const char* path, int) { return (void*)LoadLibraryA(path); }
inline void* dlsym(void* library, const char* name) { return (void*)GetProcAddress((HMODULE)library, name); }
inline const char* dlerror() {
    static thread_local char text[300];
    const DWORD code = GetLastError();
    const int length = snprintf(text, sizeof text, "Windows error %lu: ", (unsigned long)code);
    const DWORD more = FormatMessageA(FORMAT_MESSAGE_FROM_SYSTEM | FORMAT_MESSAGE_IGNORE_INSERTS, NULL, code, 0,
                                      text + length, (DWORD)(sizeof text - (size_t)length), NULL);
    for (DWORD end = (DWORD)length + more; end > 0 && (unsigned char)text[end - 1] <= ' '; --end) text[end - 1] = 0;
    return text;
}
