// SPDX-License-Identifier: Apache-2.0
// printf.h: a kernel's printf: the C format, with arguments that are fetched as the format needs them.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace barcuda::soft {

struct PrintfArguments {
    std::function<std::uint64_t(unsigned bytes)> next;       // the next argument, of 4 or 8 bytes
    std::function<std::string(std::uint64_t address)> text;  // the string at a device address
};

// `count` becomes the number of arguments used.
std::string format_printf(std::string_view format, const PrintfArguments& arguments, int* count);

}  // namespace barcuda::soft
