// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/worker/session/code.h"

#include "shm-device/queue/wire.h"

namespace barcuda {

bool Code::add_part(std::uint64_t place, const void* bytes, std::size_t size) {
    if (place == 0) drop_parts();
    expected_ = 0;  // it is not the image that was begun
    if (place != parts_.size() || size > wire::most_image_parts - place) {
        drop_parts();
        return false;
    }
    // A large image is coming: a buffer that grows by doubling is copied repeatedly, but untouched pages cost nothing.
    constexpr std::size_t large_part = 128 << 10, room = 16 << 20;
    if (place == 0 && size >= large_part) parts_.reserve(room);
    parts_.append(static_cast<const char*>(bytes), size);
    return true;
}

bool Code::begin(std::uint64_t bytes) {
    drop_parts();
    if (bytes > wire::most_image_parts) return false;
    parts_.reserve(bytes);
    expected_ = bytes;
    return true;
}

void Code::add_piece(const void* bytes, std::size_t size) {
    if (parts_.size() > expected_ || size > expected_ - parts_.size()) drop_parts();
    else parts_.append(static_cast<const char*>(bytes), size);
}

}  // namespace barcuda
