// SPDX-License-Identifier: Apache-2.0
// reach.cc: the software GPU's own libraries (soft-gpu/blas) use device memory in functions of the host. They ask
// before each access, when the stream has reached them. An address that is invalid by then, or that the device may not
// read or write, is a fault of the context, as for a kernel.
#include <cstdio>

#include "soft-gpu/driver/context.h"
#include "soft-gpu/driver/driver.h"

using namespace barcuda::soft::driver;

extern "C" [[gnu::visibility("default")]] int barcuda_soft_reaches(CUcontext context, const void* address,
                                                                   std::size_t bytes, std::size_t alignment,
                                                                   int writes) {
    try {
        const auto at = reinterpret_cast<std::uintptr_t>(address);
        if (at % alignment == 0 && Driver::get().memory.covered(at, bytes, writes != 0)) return 1;
        char text[80];
        std::snprintf(text, sizeof text, "a library was led to %zu bytes at %p", bytes, address);
        Driver::get().contexts.find(context)->set_fault(CUDA_ERROR_ILLEGAL_ADDRESS, text);
    } catch (const barcuda::soft::Error&) {}
    return 0;
}
