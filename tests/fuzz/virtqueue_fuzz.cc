// SPDX-License-Identifier: Apache-2.0
// virtqueue_fuzz: both halves of the queue against chosen bytes; the property is "hostile.h's expectations hold".
// The first byte picks the half and the ring's size, the rest is what the memory says, load by load.
#include "tests/unit/support/hostile.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace barcuda::hostile;
    if (size == 0) return 0;
    const std::span<const std::uint8_t> bytes(data + 1, size - 1);
    switch (data[0] % 6) {
        case 0: torment_device<1>(bytes); break;
        case 1: torment_device<3>(bytes); break;
        case 2: torment_device<8>(bytes); break;
        case 3: torment_driver<1>(bytes); break;
        case 4: torment_driver<3>(bytes); break;
        case 5: torment_driver<8>(bytes); break;
    }
    return 0;
}
