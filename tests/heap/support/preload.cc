// SPDX-License-Identifier: Apache-2.0
// preload.cc: the heap alone as a library for LD_PRELOAD, over a memfd of TEST_REGION bytes (default 4G; 0: no region).
#include <stdlib.h>

#include "guest-allocator/heap/settings.h"
#include "tests/heap/support/memfd_source.h"

namespace barcuda::heap {
ExtentSource* connect() noexcept {
    std::size_t bytes = std::size_t{4} << 30;
    if (const char* text = getenv("TEST_REGION")) parse_bytes(text, bytes);
    return bytes ? test::MemfdSource::open(bytes) : nullptr;
}
}  // namespace barcuda::heap
