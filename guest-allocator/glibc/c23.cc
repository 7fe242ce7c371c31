// SPDX-License-Identifier: Apache-2.0
// c23.cc: the functions that headers of glibc 2.38 and newer call in place of C's parsers of numbers (stubs.py). C23's
// accept 0b1010, too, which nothing here writes. The names are given in assembly: a header would turn the old names
// into the new ones.
#include <cstdarg>
#include <cstdio>

extern "C" {
#define SAME(type, name)                                                \
    type old_##name(const char* text, char** end, int base) asm(#name); \
    type __isoc23_##name(const char* text, char** end, int base) { return old_##name(text, end, base); }
SAME(long, strtol)
SAME(long long, strtoll)
SAME(unsigned long, strtoul)
SAME(unsigned long long, strtoull)

int old_vsscanf(const char* text, const char* format, va_list to) asm("__isoc99_vsscanf");
int old_vfscanf(std::FILE* file, const char* format, va_list to) asm("__isoc99_vfscanf");
int __isoc23_sscanf(const char* text, const char* format, ...) {
    va_list to;
    va_start(to, format);
    const int n = old_vsscanf(text, format, to);
    va_end(to);
    return n;
}
int __isoc23_fscanf(std::FILE* file, const char* format, ...) {
    va_list to;
    va_start(to, format);
    const int n = old_vfscanf(file, format, to);
    va_end(to);
    return n;
}
}
