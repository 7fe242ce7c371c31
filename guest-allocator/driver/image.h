// SPDX-License-Identifier: Apache-2.0
// image.h: how long a module image is, and what of it is sent. The driver API takes a pointer alone; to send an image one has to
// know where it ends. Of a fat binary a driver looks at the heads of all entries, and loads one: libraries have hundreds of megabytes
// of code for other GPUs, which would cross for nothing.
#pragma once
#include <array>
#include <cstddef>
#include <span>

#include "shm-device/cuda/fat_binary.h"

namespace barcuda::guest {

struct Image {
    const void* start = nullptr;  // null: not an image
    std::size_t bytes = 0;
};

// A fat binary (or the wrapper that nvcc puts around one), a cubin (ELF), or PTX text that ends with a NUL.
Image find_image(const void* image) noexcept;

// What is sent of an image, in pieces, one behind the other. Of a fat binary what none of the devices can run is left out; an image
// that is none, does not read as one to its very end, or has nothing for any of them is sent as it is: the driver is to say
// what it always says of it.
class Selection {
  public:
    // `devices`: their compute capabilities, 90 for 9.0. None: they are not known.
    Selection(Image image, std::span<const int> devices) noexcept;
    explicit Selection(Image image) noexcept : Selection(image, {}) {}
    Selection(const Selection&) = delete;
    Selection& operator=(const Selection&) = delete;

    std::span<const Image> pieces() const noexcept { return {pieces_.data(), count_}; }
    std::size_t bytes() const noexcept { return bytes_; }

  private:
    bool select(Image image, std::span<const int> devices) noexcept;
    void add(const void* start, std::size_t bytes) noexcept;
    bool last_place() const noexcept { return count_ == pieces_.size(); }

    // Entries for one device stand side by side: of the containers of NVIDIA's libraries four pieces are the most. What does
    // not fit in here is sent with all that is behind it.
    std::array<Image, 16> pieces_;
    std::size_t count_ = 0, bytes_ = 0;
    fatbin::ContainerHead head_{};  // the first piece, if something is left out
};

}  // namespace barcuda::guest
