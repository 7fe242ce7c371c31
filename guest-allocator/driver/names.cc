// SPDX-License-Identifier: Apache-2.0
// names.cc: the other names of the driver's functions, all from the table of CUDA's names. Twins: what programs call
// that were compiled for per-thread default streams (CUDA_API_PER_THREAD_DEFAULT_STREAM). Plain names: what programs
// ask for that look functions up by themselves (dlsym), where the first version took the same parameters as a later
// one. (A plain cuMemAlloc is another function, with 32-bit sizes: there is none here.) Every symbol of the table
// exists in this library; what Barcuda does not have says so when it is called (unsupported.sh), under each of its
// names.
#define __CUDA_API_VERSION_INTERNAL  // all versions of each function
#include <cuda.h>

#include "guest-allocator/driver/streams.h"
#include "shm-device/cuda/api.h"
#include "shm-device/cuda/other_names.h"

#define PLAIN_same(symbol, name) BARCUDA_NAME(name, &::symbol)
#define PLAIN_wide(symbol, name)
#define PLAIN_other(symbol, name)

#define FIRST(name, since, twin) BARCUDA_TWIN(name, twin, barcuda::guest::NoStreamIsMine)
#define LATER(symbol, name, since, twin, form) \
    BARCUDA_TWIN(symbol, twin, barcuda::guest::NoStreamIsMine) PLAIN_##form(symbol, name)
BARCUDA_API(FIRST, LATER)
