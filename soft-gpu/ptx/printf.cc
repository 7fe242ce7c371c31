// SPDX-License-Identifier: Apache-2.0
// printf.cc: each conversion is handed to the host's snprintf with an argument of the type it asks for.
#include "soft-gpu/ptx/printf.h"

#include <algorithm>
#include <cstdio>
#include <vector>

namespace barcuda::soft {

template <class... T> static void append(std::string& out, const std::string& spec, T... values) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
#pragma GCC diagnostic ignored "-Wformat-security"
    const int size = std::snprintf(nullptr, 0, spec.c_str(), values...);
    if (size <= 0) return;
    std::vector<char> text(static_cast<std::size_t>(size) + 1);
    std::snprintf(text.data(), text.size(), spec.c_str(), values...);
#pragma GCC diagnostic pop
    out.append(text.data(), static_cast<std::size_t>(size));
}

std::string format_printf(std::string_view format, const PrintfArguments& arguments, int* count) {
    std::string out;
    *count = 0;
    for (std::size_t at = 0; at < format.size();) {
        if (format[at] != '%') {
            out += format[at++];
            continue;
        }
        const auto begin = at++;
        std::string spec = "%";
        const auto width = [&] {
            if (at < format.size() && format[at] == '*') {
                spec += std::to_string(std::clamp(static_cast<int>(arguments.next(4)), -4096, 4096));
                ++at;
                ++*count;
            }
            int digits = 0;
            while (at < format.size() && format[at] >= '0' && format[at] <= '9') {
                if (++digits <= 4) spec += format[at];  // wider fields are useless
                ++at;
            }
        };
        while (at < format.size() && std::string_view("-+ #0").find(format[at]) != std::string_view::npos)
            spec += format[at++];
        width();
        if (at < format.size() && format[at] == '.') {
            spec += format[at++];
            width();
        }
        int longs = 0;
        for (; at < format.size() && std::string_view("hlLqjzt").find(format[at]) != std::string_view::npos; ++at) {
            if (format[at] == 'h') spec += 'h';
            else longs += std::string_view("ljztqL").find(format[at]) != std::string_view::npos;
        }
        if (at >= format.size()) {
            out += format.substr(begin);
            break;
        }
        const char conversion = format[at++];
        const auto finish = [&](const char* length) {
            spec += length;
            spec += conversion;
            ++*count;
        };
        switch (conversion) {
            case '%': out += '%'; break;
            case 'd':
            case 'i':
                if (longs > 0) {
                    finish("ll");
                    append(out, spec, static_cast<long long>(arguments.next(8)));
                } else {
                    finish("");
                    append(out, spec, static_cast<int>(arguments.next(4)));
                }
                break;
            case 'u':
            case 'x':
            case 'X':
            case 'o':
                if (longs > 0) {
                    finish("ll");
                    append(out, spec, static_cast<unsigned long long>(arguments.next(8)));
                } else {
                    finish("");
                    append(out, spec, static_cast<unsigned>(arguments.next(4)));
                }
                break;
            case 'c':
                finish("");
                append(out, spec, static_cast<int>(arguments.next(4)));
                break;
            case 'f':
            case 'F':
            case 'e':
            case 'E':
            case 'g':
            case 'G':
            case 'a':
            case 'A':
                finish("");
                append(out, spec, __builtin_bit_cast(double, arguments.next(8)));
                break;
            case 'p':
                finish("");
                append(out, spec, reinterpret_cast<void*>(arguments.next(8)));
                break;
            case 's':
                finish("");
                append(out, spec, arguments.text(arguments.next(8)).c_str());
                break;
            default: out += format.substr(begin, at - begin); break;  // as CUDA prints an unknown conversion
        }
    }
    return out;
}

}  // namespace barcuda::soft
