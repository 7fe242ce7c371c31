// SPDX-License-Identifier: Apache-2.0
// image.h: how long a module image is, and which parts are sent. The driver API takes only a pointer; to send an image
// the library must know its end. A driver looks at the headers of all entries of a fat binary, and loads one: libraries
// have hundreds of megabytes of code for other GPUs, which would be sent for nothing.
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
bool is_text(const Image& image) noexcept;  // PTX

// What is sent of an image, in pieces, one after another. Of a fat binary, code that none of the devices can run is
// left out. An image that is no fat binary, that cannot be read to its end, or that has nothing for any device is sent
// unchanged: the driver returns its usual error.
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

    // Entries for one device are neighbours: containers of NVIDIA's libraries need at most four pieces. What does not
    // fit in here is sent with all that follows it.
    std::array<Image, 16> pieces_;
    std::size_t count_ = 0, bytes_ = 0;
    fatbin::ContainerHead head_{};  // the first piece, if something is left out
};

}  // namespace barcuda::guest
