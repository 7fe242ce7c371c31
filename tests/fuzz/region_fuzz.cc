// SPDX-License-Identifier: Apache-2.0
// region_fuzz: whatever a header says, validate() either refuses it or it can be trusted: every part of the region lies
// within it, where arithmetic without overflow puts it. The bytes are a header; most of what must be right for the
// interesting checks to be reached is put right first, unless the first byte says otherwise.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "shm-device/region/region.h"

namespace {

void expect(bool ok, const char* what) {
    if (ok) return;
    std::fprintf(stderr, "a header that was accepted: %s\n", what);
    std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace barcuda;
    if (size == 0) return 0;
    barcuda_header h{};
    divide(h, BARCUDA_MIN_SIZE << data[0] % 12);
    h.base = BARCUDA_DEFAULT_BASE;
    h.row_count = 300;
    h.rows_offset = BARCUDA_ROWS_OFFSET;
    h.snapshot_offset = BARCUDA_SNAPSHOT_OFFSET;
    std::uint64_t words[sizeof h / 8];
    std::memcpy(words, &h, sizeof h);
    // Each further 9 bytes replace one word of the header: which, and by what.
    for (std::size_t at = 1; at + 9 <= size; at += 9) std::memcpy(&words[data[at] % (sizeof h / 8)], data + at + 1, 8);
    std::memcpy(&h, words, sizeof h);
    if (data[0] < 128) {
        h.magic = BARCUDA_MAGIC;
        h.layout = BARCUDA_LAYOUT;
        h.header_bytes = BARCUDA_CHANNELS_OFFSET;
    }
    const std::uint64_t file = data[0] & 64 ? h.size : BARCUDA_MAX_SIZE;
    const Error e = validate(h, file, "it");
    expect(std::strlen(e.text) < sizeof e.text, "a sentence without end");
    if (e) return 0;
    using Wide = unsigned __int128;
    const Wide channels_end = Wide{BARCUDA_CHANNELS_OFFSET} + Wide{h.channel_count} * h.channel_size;
    const Wide extents_end = Wide{h.extents_offset} + Wide{h.granule_count} * h.granule;
    expect(h.size <= file, "larger than its file");
    expect(channels_end <= h.extents_offset, "channels in the extents");
    expect(extents_end <= h.size, "extents outside");
    expect(h.channel_count > 0 && h.channel_count <= BARCUDA_MAX_CHANNELS, "channels without slots");
    expect(h.granule_count > 0 && h.granule_count <= BARCUDA_MAX_SIZE / BARCUDA_GRANULE, "granules without grants");
    expect(h.device_count <= BARCUDA_MAX_DEVICES, "devices without room");
    expect(h.row_count > 0 && h.row_count <= BARCUDA_MAX_ROWS, "rows without numbers");
    expect(h.rows_offset >= BARCUDA_DEVICES_OFFSET + BARCUDA_MAX_DEVICES * sizeof(barcuda_device),
           "rows in the devices");
    expect(Wide{h.rows_offset} + Wide{h.row_count} * 8 <= BARCUDA_CHANNELS_OFFSET, "rows that no guest may read");
    expect(h.rows_offset % 8 == 0, "rows that lie askew");
    const Wide snapshot_end = Wide{h.snapshot_offset} + BARCUDA_SNAPSHOT_SIZE;
    expect(
        h.snapshot_offset == 0 || (h.snapshot_offset >= BARCUDA_ROWS_OFFSET && snapshot_end <= BARCUDA_CHANNELS_OFFSET),
        "a snapshot that no guest may read");
    expect(Wide{h.base} + h.size <= Wide{1} << 47 && h.base % BARCUDA_GRANULE == 0, "an address of nobody");
    return 0;
}
