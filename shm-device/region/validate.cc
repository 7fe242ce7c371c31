// SPDX-License-Identifier: Apache-2.0
// validate.cc: can this header be trusted with our addresses? A region's parts are a table of ranges, checked by four
// loops: valid, within, aligned, disjoint. docs/region.md says the same in numbered sentences.
#include <array>
#include <bit>
#include <span>

#include "shm-device/region/client_base.h"
#include "shm-device/region/region.h"

namespace barcuda {
namespace {

constexpr std::uint64_t one_mib = 1 << 20;
constexpr std::uint64_t user_end = 1ull << 47;  // x86-64 and arm64 give user space at least this much

// What a guest is told that speaks another version than its bridge. (A bridge on an old region: host_region.cc.)
Error other_version(Error::Kind kind, const char* what, const barcuda_header& h, unsigned its, unsigned ours,
                    const char* path) {
    char build[sizeof h.build + 1];
    return error(kind, 0,
                 "%s: the bridge (Barcuda %s) speaks %s version %u, this library (Barcuda " BARCUDA_VERSION
                 ") version %u: upgrade %s",
                 path, build_of(h, build), what, its, ours,
                 its < ours                    ? "barcuda-bridge on the host"
                 : kind == Error::other_layout ? "Barcuda in this guest, library and kernel module"
                                               : "Barcuda in this guest");
}

struct TableRange {
    const char* name;
    std::uint64_t offset;
    std::uint64_t count;
    std::uint64_t each;  // bytes
    std::uint64_t alignment;
    std::uint64_t bytes() const { return count * each; }
};

Error check(std::span<const TableRange> ranges, std::uint64_t size, const char* path) {
    for (const TableRange& r : ranges)
        if (r.count == 0 || r.each == 0 || r.count > size / r.each)
            return error(
                Error::malformed, 0, "%s: its header claims %llu %s of %llu bytes each, in a region of %llu MiB", path,
                (unsigned long long)r.count, r.name, (unsigned long long)r.each, (unsigned long long)(size / one_mib));
    for (const TableRange& r : ranges)
        if (r.offset > size || r.bytes() > size - r.offset)
            return error(Error::malformed, 0, "%s: its header puts the %s outside the region, at 0x%llx", path, r.name,
                         (unsigned long long)r.offset);
    for (const TableRange& r : ranges)
        if (r.offset % r.alignment != 0)
            return error(Error::malformed, 0, "%s: its header puts the %s at 0x%llx, not at a multiple of 0x%llx", path,
                         r.name, (unsigned long long)r.offset, (unsigned long long)r.alignment);
    for (const TableRange& a : ranges)
        for (const TableRange& b : ranges)
            if (&a < &b && a.offset < b.offset + b.bytes() && b.offset < a.offset + a.bytes())
                return error(Error::malformed, 0, "%s: its header puts the %s and the %s in the same place", path,
                             a.name, b.name);
    return {};
}

}  // namespace

void divide(barcuda_header& h, std::uint64_t size) {
    const std::uint64_t wanted = size / BARCUDA_BYTES_PER_CHANNEL;
    h.size = size;
    h.channel_size = BARCUDA_CHANNEL_SIZE;
    h.granule = BARCUDA_GRANULE;
    h.channel_count = static_cast<std::uint32_t>(wanted < 8                      ? 8
                                                 : wanted > BARCUDA_MAX_CHANNELS ? BARCUDA_MAX_CHANNELS
                                                                                 : wanted);
    const std::uint64_t end = BARCUDA_CHANNELS_OFFSET + h.channel_count * BARCUDA_CHANNEL_SIZE;
    h.extents_offset = (end + BARCUDA_GRANULE - 1) / BARCUDA_GRANULE * BARCUDA_GRANULE;
    h.granule_count = static_cast<std::uint32_t>((size - h.extents_offset) / BARCUDA_GRANULE);
}

Error check_size(std::uint64_t size, const char* path) {
    const auto mib = static_cast<unsigned long long>(size / one_mib);
    if (size < BARCUDA_MIN_SIZE)
        return error(Error::bad_size, 0, "%s: too small for a region: %llu bytes, the least is %llu MiB", path,
                     (unsigned long long)size, (unsigned long long)(BARCUDA_MIN_SIZE / one_mib));
    if (size > BARCUDA_MAX_SIZE)
        return error(Error::bad_size, 0, "%s: too large for a region: %llu MiB, the most is %llu MiB", path, mib,
                     (unsigned long long)(BARCUDA_MAX_SIZE / one_mib));
    if (!std::has_single_bit(size))
        return error(Error::bad_size, 0,
                     "%s: %llu bytes are not a power of two, as a PCI BAR must be; %llu MiB would be one", path,
                     (unsigned long long)size, (unsigned long long)(std::bit_floor(size) / one_mib));
    return {};
}

static Error check_place(std::uint64_t base, std::uint64_t unit, std::uint64_t size, const char* path,
                         const Windows& windows) {
    if (base == 0 || base % unit != 0 || base >= user_end || size > user_end - base)
        return error(
            Error::bad_base, 0,
            "%s: no process can map it at 0x%llx: the base must be a multiple of 0x%llx, and the region must end "
            "below 0x%llx",
            path, (unsigned long long)base, (unsigned long long)unit, (unsigned long long)user_end);
    if (windows.meets(base, size))
        return error(
            Error::bad_base, 0,
            "%s: the region would lie at 0x%llx, where the GPU's own memory is (below 0x%llx, and from 0x%llx to "
            "0x%llx)",
            path, (unsigned long long)base, (unsigned long long)windows.pools_end, (unsigned long long)windows.mapped,
            (unsigned long long)windows.end);
    return {};
}

Error check_base(std::uint64_t base, std::uint64_t size, const char* path, const Windows& windows) {
    return check_place(base, BARCUDA_GRANULE, size, path, windows);
}
Error check_client_base(std::uint64_t base, std::uint64_t size, const char* path, const Windows& windows) {
    return check_place(base, client_base_unit, size, path, windows);
}

// Nothing of what a header says of windows may make a page of the region, or null, an address of the GPU's.
static Error check_windows(const Windows& w, const char* path) {
    if (w.begin >= BARCUDA_PAGE && w.begin < w.pools_end && w.pools_end <= w.mapped && w.mapped < w.end &&
        w.end <= user_end && (w.begin | w.pools_end | w.mapped | w.end) % BARCUDA_PAGE == 0)
        return {};
    return error(Error::malformed, 0,
                 "%s: its header puts the GPU's own memory from 0x%llx to 0x%llx, and from 0x%llx to 0x%llx", path,
                 (unsigned long long)w.begin, (unsigned long long)w.pools_end, (unsigned long long)w.mapped,
                 (unsigned long long)w.end);
}

const char* build_of(const barcuda_header& h, char (&build)[sizeof h.build + 1]) {
    unsigned i = 0;
    for (; i < sizeof h.build && h.build[i] >= ' ' && h.build[i] <= '~'; ++i) build[i] = h.build[i];
    build[i] = '\0';
    return build;
}

Error validate(const barcuda_header& h, std::uint64_t file_size, const char* path) {
    if (h.magic == 0)
        return error(Error::not_ready, 0,
                     "%s: no bridge has formatted this region yet; start barcuda-bridge on the host", path);
    if (h.magic != BARCUDA_MAGIC)
        return error(Error::not_a_region, 0, "%s: not a Barcuda region (it begins with 0x%016llx)", path,
                     (unsigned long long)h.magic);
    if (h.layout != BARCUDA_LAYOUT)
        return other_version(Error::other_layout, "layout", h, h.layout, BARCUDA_LAYOUT, path);
    if (Error e = check_size(h.size, path)) return e;
    if (file_size != 0 && file_size < h.size)
        return error(Error::bad_size, 0, "%s: too small: its header says %llu MiB, but only %llu MiB are there", path,
                     (unsigned long long)(h.size / one_mib), (unsigned long long)(file_size / one_mib));
    if (Error e = check_windows(windows_of(h), path)) return e;
    if (Error e = check_base(h.base, h.size, path, windows_of(h))) return e;
    if (h.header_bytes != BARCUDA_CHANNELS_OFFSET || h.channel_size != BARCUDA_CHANNEL_SIZE ||
        h.granule != BARCUDA_GRANULE || h.channel_count > BARCUDA_MAX_CHANNELS ||
        h.device_count > BARCUDA_MAX_DEVICES || h.row_count > BARCUDA_MAX_ROWS)
        return error(Error::malformed, 0, "%s: its header contradicts its layout number %u", path, h.layout);
    const std::array ranges = {
        TableRange{"header", 0, 1, sizeof(barcuda_header), BARCUDA_PAGE},
        TableRange{"slots", BARCUDA_SLOTS_OFFSET, h.channel_count, sizeof(barcuda_slot), BARCUDA_PAGE},
        TableRange{"grants", BARCUDA_GRANTS_OFFSET, h.granule_count, sizeof(barcuda_grant), BARCUDA_PAGE},
        TableRange{"devices", BARCUDA_DEVICES_OFFSET, BARCUDA_MAX_DEVICES, sizeof(barcuda_device), BARCUDA_PAGE},
        TableRange{"rows", h.rows_offset, h.row_count, sizeof(barcuda_u64), sizeof(barcuda_u64)},
        TableRange{"channels", BARCUDA_CHANNELS_OFFSET, h.channel_count, h.channel_size, BARCUDA_CHANNEL_SIZE},
        TableRange{"extents", h.extents_offset, h.granule_count, h.granule, h.granule},
        TableRange{"snapshot", h.snapshot_offset, 1, BARCUDA_SNAPSHOT_SIZE, BARCUDA_PAGE},
    };
    // An older bridge takes no snapshot.
    if (Error e = check(std::span(ranges).first(ranges.size() - (h.snapshot_offset == 0)), h.size, path)) return e;
    // Disjoint is not enough: there is room between other parts, some of it where no guest can read.
    if (h.rows_offset < BARCUDA_ROWS_OFFSET || h.rows_offset > h.header_bytes)
        return error(Error::malformed, 0, "%s: its header puts the rows at 0x%llx, not between devices and channels",
                     path, (unsigned long long)h.rows_offset);
    if (h.snapshot_offset != 0 &&
        (h.snapshot_offset < BARCUDA_ROWS_OFFSET || h.snapshot_offset + BARCUDA_SNAPSHOT_SIZE > h.header_bytes))
        return error(Error::malformed, 0,
                     "%s: its header puts the snapshot at 0x%llx, not between devices and channels", path,
                     (unsigned long long)h.snapshot_offset);
    return {};
}

Error check_packets(const barcuda_header& h, const char* path) {
    if (h.packets == BARCUDA_PACKETS) return {};
    return other_version(Error::other_packets, "packet", h, h.packets, BARCUDA_PACKETS, path);
}

}  // namespace barcuda
