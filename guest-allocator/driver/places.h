// SPDX-License-Identifier: Apache-2.0
// places.h: what memory may be asked for by where it is to be, and how it is to be shared (cuMemCreate,
// cuMemPoolCreate).
#pragma once
#include <cuda.h>

namespace barcuda::guest {

// Whether NVIDIA's driver (580) would make such memory; else its error. `bad_device`: its error for a device that does
// not exist. `fabric`: the error for memory that is shared by fabric handles, which a guest cannot have.
CUresult may_be_made(const CUmemLocation& location, unsigned handles, CUresult bad_device, CUresult fabric) noexcept;

}  // namespace barcuda::guest
