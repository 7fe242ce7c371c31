// SPDX-License-Identifier: Apache-2.0
// variables.h: what an image of code has beside its kernels: variables in device memory, which kernels change without a
// command that says so; and whether it uses what only the driver knows: the heap of the device, launches from kernels.
#pragma once
#include <cstddef>
#include <optional>
#include <set>
#include <span>
#include <string>

namespace barcuda {

struct CodeContents {
    std::set<std::string> variables;
    bool heap = false;      // a kernel calls malloc
    bool launches = false;  // a kernel launches kernels
};
// Of a fat binary, a cubin or PTX. Nothing: it cannot be read.
std::optional<CodeContents> contents_of(std::span<const std::byte> image);

}  // namespace barcuda
