// SPDX-License-Identifier: Apache-2.0
// region.cc: opening a region and mapping its parts: the same steps for each door. (What a header must say:
// validate.cc. How the host makes a region: host_region.cc. Which process holds which slot: doors/whole_door.cc.)
#include "shm-device/region/region.h"

#include <cerrno>
#include <cstring>

#include "base/os/clock.h"
#include "shm-device/queue/sync.h"
#include "shm-device/region/client_base.h"

namespace barcuda {

void Region::take(const char* header, const barcuda_header& copy) {
    header_ = reinterpret_cast<const barcuda_header*>(header);
    shape_ = Shape(copy);
    rows_ = {table<barcuda_u64>(copy.rows_offset), copy.row_count};
    if (copy.snapshot_offset) snapshot_ = table<barcuda_snapshot>(copy.snapshot_offset);
}

// A door whose system has put the region somewhere: the bridge must know that a client may have a base of its own.
Error Region::choose_base(barcuda_header& copy) const {
    const std::uint64_t own = base_of(door_->properties().base, copy.base);
    if (own == copy.base) return {};
    char build[sizeof copy.build + 1];
    if (!says_windows(copy))
        return error(Error::bad_base, 0,
                     "%s: this system has put the region at 0x%llx, and the bridge (Barcuda %s) only knows 0x%llx: "
                     "upgrade barcuda-bridge on the host",
                     path(), (unsigned long long)own, build_of(copy, build), (unsigned long long)copy.base);
    copy.base = own;
    return check_client_base(own, copy.size, path(), windows_of(copy));
}

Error Region::open(const char* path) {
    close();
    char found[Door::path_room];
    if (!path) {
        if (Error e = find_region(found, sizeof found)) return e;
        path = found;
    }
    const char* memory = nullptr;
    Error e = open_door(door_, path);
    if (!e) e = door_->map_header(&memory);
    if (!e) {
        const auto& header = *reinterpret_cast<const barcuda_header*>(memory);
        barcuda_header copy{};
        copy.magic = observe(header.magic);  // WORD: what was written before it is there now
        if (copy.magic == BARCUDA_MAGIC) std::memcpy(&copy, &header, sizeof copy);
        e = validate(copy, door_->properties().size, door_->path());
        if (!e)
            e = check_packets(copy, door_->path());  // last, so that a damaged region is called damaged, not foreign
        if (!e) e = choose_base(copy);
        if (!e) take(memory, copy);
    }
    if (e) close();
    return e;
}

const char* Region::build(char (&text)[sizeof barcuda_header::build + 1]) const { return build_of(*header_, text); }

void Region::close() {
    header_ = nullptr;
    snapshot_ = nullptr;
    rows_ = {};
    shape_ = {};
    door_.clear();
}

Error Region::map_extent(std::uint64_t offset, std::uint64_t bytes, void** address) {
    if (bytes == 0 || offset % BARCUDA_GRANULE != 0 || bytes % BARCUDA_GRANULE != 0 || offset < shape_.extents_offset ||
        offset > shape_.size || bytes > shape_.size - offset)
        return error(Error::bad_range, 0, "%s: 0x%llx bytes at 0x%llx are not an extent of this region", path(),
                     (unsigned long long)bytes, (unsigned long long)offset);
    if (Error e = door_->have_file()) return e;
    void* const want = at(offset);
    const int code = door_->map_extent(offset, bytes, want, os::Over::nothing);
    if (code == 0) {
        if (address) *address = want;
        return {};
    }
    if (code == EEXIST) {
        char there[280];
        const auto from = reinterpret_cast<std::uintptr_t>(want);
        os::name_mapping(from, from + bytes, there, sizeof there);
        return error(Error::address_taken, 0,
                     "%s: the extent at %p cannot be mapped, that address is taken by %s; give the region another base "
                     "(barcuda-bridge --base)",
                     path(), want, there);
    }
    if (code == EACCES || code == EPERM)
        return error(Error::permission, 0, "%s: the extent at 0x%llx was not granted to this process", path(),
                     (unsigned long long)offset);
    return error(Error::system, code, "%s: cannot map the extent at 0x%llx", path(), (unsigned long long)offset);
}

Error Region::not_again(std::uint64_t offset, std::uint64_t bytes, int code) const {
    return error(Error::system, code, "%s: 0x%llx bytes at %p cannot be mapped again", path(),
                 (unsigned long long)bytes, at(offset));
}

Error Region::map_again(std::uint64_t offset, std::uint64_t bytes, void** address) {
    const std::uint64_t unit = door_->properties().unit;
    if (offset % unit != 0 || bytes % unit != 0)
        return error(Error::bad_range, 0, "%s: made of pages of %llu MiB", path(), (unsigned long long)(unit >> 20));
    if (Error e = door_->have_file()) return e;
    const int code = door_->map_again(offset, bytes, at(offset), address);
    return code == 0 ? Error{} : not_again(offset, bytes, code);
}

Error Region::map_pages(std::uint64_t offset, std::uint64_t bytes) {
    if (!door_->properties().remaps) return error(Error::system, ENOTSUP, "%s: pages cannot be mapped again", path());
    if (Error e = door_->check_file()) return e;
    const int code = door_->map_extent(offset, bytes, at(offset), os::Over::any_mapping);
    return code == 0 ? Error{} : not_again(offset, bytes, code);
}

void Region::unmap_extent(std::uint64_t offset, std::uint64_t bytes) {
    os::unmap(at(offset), bytes);
    door_->released();
}

Error Region::open_channel(Channel& channel) {
    // A script that starts one short program after the other is faster than the host that cleans up behind them.
    constexpr int most_tries = 200;
    constexpr std::uint64_t nap = 10'000'000;  // nanoseconds: two seconds in all
    for (int tries = 1;; ++tries) {
        if (Error e = door_->have_file()) return e;
        Error e = door_->open_channel(tables(), channel);
        if (e.kind != Error::no_channel || e.code != EAGAIN || tries == most_tries) return e;
        if (door_->gone(slots(), Door::the_bridge)) return e;
        os::nap(nap);
    }
}

void Region::close_channel(Channel& channel) { door_->close_channel(tables(), channel, Door::Leave::to_nobody); }
void Region::leave_channel(Channel& channel) { door_->close_channel(tables(), channel, Door::Leave::to_the_parent); }

bool Region::served() const {
    return observe(header_->bridge_pid) != 0 && !door_->gone(slots(), Door::the_bridge);  // WORD
}

}  // namespace barcuda
