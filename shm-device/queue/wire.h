// SPDX-License-Identifier: Apache-2.0
// wire.h: numbers that both ends of a channel count on, and that neither a row nor a struct shows. To change one
// is to change what commands mean: BARCUDA_PACKETS grows.
#pragma once
#include <cstddef>
#include <cstdint>

#include "shm-device/layout.h"

namespace barcuda::wire {

// Objects travel as ids. Values below first_id (null, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD) travel unchanged. Ids up
// to most_ids are chosen by the guest, so that it need not wait for the host (a client with more objects than that is
// broken); ids from `given` on are chosen by the host. The bits above 32 tell an id from earlier ones in the same
// place.
constexpr std::uint64_t first_id = 0x10, most_ids = 1u << 22, given = 1ull << 31;

constexpr std::size_t most_parameter_bytes = 32764;  // of a kernel: CUDA's own limit, since 12.1

constexpr std::size_t most_image_parts = 1 << 30;  // bytes of an image that comes in parts: of the worker's own memory

// What a client's heap asks for first, and a waiting worker has ready. What is more is allocated, pinned and unpinned
// for nothing where programs need little. (Another number at the other end is only slower.)
constexpr std::size_t first_extent = BARCUDA_GRANULE;

}  // namespace barcuda::wire
