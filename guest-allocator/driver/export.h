// SPDX-License-Identifier: Apache-2.0
// export.h: how a driver function of the guest is spelled. Everything else in the library is hidden.
#pragma once
#include <cuda.h>

namespace barcuda::guest {
using namespace barcuda;  // for functions outside of both: what both sides share
}

#define CU extern "C" [[gnu::visibility("default")]] CUresult CUDAAPI
