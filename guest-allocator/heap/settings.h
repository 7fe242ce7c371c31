// SPDX-License-Identifier: Apache-2.0
// settings.h: what the user says in the environment.
//
//   BARCUDA_HEAP       auto     malloc stays the program's own until the program uses CUDA (default)
//                      always   malloc uses the region from the start
//                      never    malloc stays the program's own; pinned memory still comes from the region
//   BARCUDA_THRESHOLD  bytes, with K, M or G: malloc blocks from this size up go to the region (default 64K; 0: all)
//   BARCUDA_MANAGED    device   managed memory moves between the region and the device (default)
//                      host     it stays in the region, where the device reaches it over the bus
//   BARCUDA_STATS      1, or the path of a file: a table of copies and memory at exit
#pragma once
#include <cstddef>

namespace barcuda::heap {

enum class Mode { automatic, always, never };

struct Settings {
    Mode mode = Mode::automatic;
    // Why 64 KiB: a smaller copy rides inside its command, where it costs less than a DMA of its own; blocks of that
    // size are whole pages, so that neither a segment per thread nor mimalloc is needed; and small blocks in private
    // memory keep fork cheap. glibc itself starts to treat blocks apart at 128 KiB.
    std::size_t threshold = std::size_t{64} << 10;
    bool managed_stays = false;
    const char* stats = nullptr;
};
extern Settings settings;
void read_settings() noexcept;  // from the environment, once; before the heap is used

// Reads one variable's text; false if it is not well-formed.
bool parse_mode(const char* text, Mode& out) noexcept;
bool parse_bytes(const char* text, std::size_t& out) noexcept;

}  // namespace barcuda::heap
