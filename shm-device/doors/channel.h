// SPDX-License-Identifier: Apache-2.0
// channel.h: a mapped channel. The same struct on both sides; layout.h says which side writes which part.
#pragma once
#include <cstddef>
#include <cstdint>

#include "shm-device/layout.h"

namespace barcuda {

struct Channel {
    char* memory = nullptr;  // BARCUDA_CHANNEL_SIZE bytes, zero when a client gets them
    std::uint32_t index = 0;
    std::uint32_t opening = 0;  // the slot's `opened` when this channel was mapped
    std::uint64_t offset = 0;   // of `memory` in the region: what descriptors' addresses count from

    barcuda_status& status() const { return *reinterpret_cast<barcuda_status*>(memory + BARCUDA_STATUS_OFFSET); }
    barcuda_client& client() const { return *reinterpret_cast<barcuda_client*>(memory + BARCUDA_CLIENT_OFFSET); }
    barcuda_calls& calls() const { return *reinterpret_cast<barcuda_calls*>(memory + BARCUDA_CALLS_OFFSET); }
    barcuda_supply& supply() const { return *reinterpret_cast<barcuda_supply*>(memory + BARCUDA_SUPPLY_OFFSET); }
    std::uint64_t* fences() const { return reinterpret_cast<std::uint64_t*>(memory + BARCUDA_FENCES_OFFSET); }
    bool contains(const void* p) const {
        return static_cast<std::size_t>(static_cast<const char*>(p) - memory) < BARCUDA_CHANNEL_SIZE;
    }
    char* commands() const { return memory + BARCUDA_COMMANDS_OFFSET; }
    explicit operator bool() const { return memory != nullptr; }
};

}  // namespace barcuda
