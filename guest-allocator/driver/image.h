// SPDX-License-Identifier: Apache-2.0
// image.h: how long a module image is. The driver API takes a pointer alone; to send an image one has to know where it
// ends.
#pragma once
#include <cstddef>

namespace barcuda::guest {

struct Image {
    const void* start = nullptr;  // null: not an image
    std::size_t bytes = 0;
};

// A fat binary (or the wrapper that nvcc puts around one), a cubin (ELF), or PTX text that ends with a NUL.
Image find_image(const void* image) noexcept;

}  // namespace barcuda::guest
