// SPDX-License-Identifier: Apache-2.0
// places.h: what memory may be asked for by where it is to be, and how it is to be shared (cuMemCreate,
// cuMemPoolCreate).
#pragma once
#include <cuda.h>

namespace barcuda::guest {

// Fits CUmemAllocationProp, CUmemPoolProps: what NVIDIA's driver (580) says of memory that it would not make; and of
// memory that is shared by fabric handles, which a guest cannot have, `fabric`.
CUresult may_be_made(const CUmemLocation& location, unsigned handles, CUresult bad_device, CUresult fabric) noexcept;

}  // namespace barcuda::guest
