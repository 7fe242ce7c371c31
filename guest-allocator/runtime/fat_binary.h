// SPDX-License-Identifier: Apache-2.0
// fat_binary.h: what nvcc leaves in a program for each of its device-code images, and how one becomes a library.
#pragma once
#include "guest-allocator/runtime/runtime.h"

namespace barcuda::runtime {

// The public layout of fatbinary_section.h, with its last member's real type.
struct FatWrapper {
    int magic;
    int version;               // 2: relocatable device code
    const void* data;          // the image: linked by nvcc as far as it could
    const void* const* parts;  // version 2: the images that it was linked of, null at the end
};
constexpr int kFatMagic = 0x466243b1;

// With a context current (linking belongs to one).
CUresult load_library(const FatWrapper& wrapper, CUlibrary* library);

}  // namespace barcuda::runtime
