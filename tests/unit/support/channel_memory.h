// SPDX-License-Identifier: Apache-2.0
// channel_memory.h: a channel's memory outside a region, zero and at a page's beginning, as in a region.
#pragma once
#include <cstdlib>
#include <cstring>
#include <memory>

#include "shm-device/layout.h"

namespace barcuda {

struct FreeMemory {
    void operator()(char* p) const { std::free(p); }
};
using ChannelMemory = std::unique_ptr<char[], FreeMemory>;

inline ChannelMemory channel_memory() {
    ChannelMemory memory(static_cast<char*>(std::aligned_alloc(4096, BARCUDA_CHANNEL_SIZE)));
    std::memset(memory.get(), 0, BARCUDA_CHANNEL_SIZE);
    return memory;
}

}  // namespace barcuda
