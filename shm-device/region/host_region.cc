// SPDX-License-Identifier: Apache-2.0
// host_region.cc: the host makes a region, or takes over one that an earlier bridge has left. Until announce() stores
// the magic no guest can open it, so that a half-formatted region is never seen.
#include "shm-device/region/host_region.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>

#include "base/os/clock.h"
#include "shm-device/queue/sync.h"
#include "shm-device/region/status.h"

namespace barcuda {
namespace {

bool is_regular(const os::FileFacts& facts) { return facts.type == os::FileFacts::Type::regular; }

}  // namespace

// Pages of a file are there when they are first touched, unless another process has taken the last ones: then the
// process that touches one is killed (SIGBUS). So what the bridge touches is there for good; the heap's part is not.
Error HostRegion::keep_there(std::uint64_t offset, std::uint64_t bytes, const char* path) const {
    if (::fallocate(fd(), 0, static_cast<off_t>(offset), static_cast<off_t>(bytes)) == 0 ||
        (errno != ENOSPC && errno != EDQUOT && errno != ENOMEM))
        return {};  // or a device, or a file system that cannot promise
    return error(Error::system, errno, "%s: there is no memory for the region's tables", path);
}

// What the new header starts from, given what the file holds now. `keep`: slots and grants stay, for there may still be
// clients of the last epoch; only their memory is shared with a new bridge, never their commands.
Error HostRegion::prepare(const char* path, const Format& format, barcuda_header& h, bool& keep) {
    barcuda_header old{};
    bool untouched = false;  // never written to: there is nothing to lose
    const std::uint64_t there = whole_->properties().size;
    if (there >= BARCUDA_MIN_SIZE) {
        char* memory = nullptr;
        os::FileFacts facts;
        if (const int code = os::facts_of(fd(), facts))
            return error(Error::system, code, "%s: cannot be examined", path);
        untouched = is_regular(facts) && facts.blocks == 0;
        if (Error e = whole_->map_window({}, 0, sizeof old, os::Access::read, &memory)) return e;
        std::memcpy(&old, memory, sizeof old);
        whole_->unmap_window(memory, 0, sizeof old);
    }
    // A bridge that died while it formatted has left everything but the magic.
    barcuda_header whole = old;
    whole.magic = BARCUDA_MAGIC;
    const bool half = old.magic == 0 && old.layout != 0;
    const Error invalid = validate(half ? whole : old, there, path);
    const bool wants_change = format.size != 0 && format.size != there;
    keep = !invalid && !(format.overwrite && wants_change);
    if (!keep && there != 0 && !untouched && !format.overwrite) {
        if (invalid.kind == Error::other_layout)
            return error(Error::other_layout, 0,
                         "%s: it was made by another version of barcuda-bridge (its layout is number %u, ours %u); end "
                         "its clients, then remove it, or allow it to be overwritten (--overwrite)",
                         path, old.layout, BARCUDA_LAYOUT);
        return error(Error::exists, 0,
                     "%s: exists and is not a usable region; remove it, or allow it to be overwritten (--overwrite)",
                     path);
    }
    if (wants_change && there != 0 && !format.overwrite)
        return error(Error::bad_size, 0, "%s: exists with %llu MiB, not %llu MiB; remove it, or leave out --size", path,
                     (unsigned long long)(there >> 20), (unsigned long long)(format.size >> 20));
    if (!keep && format.size == 0 && there == 0)
        return error(Error::bad_size, 0, "%s: a new region needs a size (--size 4G)", path);

    const std::uint64_t size = format.size != 0 ? format.size : keep ? old.size : there;
    const std::uint64_t base = format.base != 0 ? format.base : keep ? old.base : BARCUDA_DEFAULT_BASE;
    if (Error e = check_size(size, path)) return e;
    if (Error e = check_base(base, size, path)) return e;
    const bool elastic = whole_->is_elastic();
    if (size != there && (!elastic || ::ftruncate(fd(), static_cast<off_t>(size)) != 0))
        return error(Error::bad_size, elastic ? errno : 0, "%s: cannot be given %llu MiB", path,
                     (unsigned long long)(size >> 20));
    whole_->set_size(size);
    h = {};
    divide(h, size);
    h.base = base;
    h.epoch = (!invalid || old.magic == BARCUDA_MAGIC ? old.epoch : 0) + 1;
    return {};
}

// Workers of a bridge that was killed are killed, too: a new one waits for the last of them, which a driver may take
// seconds to let go.
Error HostRegion::lock_to_serve(const char* path) {
    constexpr int most_tries = 1000;
    constexpr std::uint64_t nap = 10'000'000;  // nanoseconds: ten seconds in all
    for (int tries = 1; whole_->lock_as_bridge() != 0; ++tries) {
        barcuda_header h{};
        const bool known = ::pread(fd(), &h, sizeof h, 0) == sizeof h && h.layout == BARCUDA_LAYOUT;
        if (!known || lives(h.bridge_pid, h.bridge_start) || tries == most_tries)
            return error(Error::in_use, 0, "%s: another bridge serves this region", path);
        os::nap(nap);
    }
    return {};
}

// Opens the file, new or not, and locks it.
Error HostRegion::open_file(const char* path) {
    Error e = open_door(door_, path, Opening::to_make);
    const bool made = door_ && fd() >= 0;
    if (e.kind == Error::system && e.code == EEXIST) {
        close();
        e = open_door(door_, path, Opening::to_serve);
    }
    creator_ = os::this_process();
    whole_ = properties().whole;
    if (!e && whole_) e = lock_to_serve(path);
    else if (!e)
        e = error(Error::not_a_region, 0, "%s: a guest's view of a region; the host formats the file behind it", path);
    // A file that we made is ours to remove, or to take for zeros, only with the lock: before that another bridge may
    // have found it, and serve it.
    const bool locked = !e || (made && whole_ && whole_->lock_as_bridge() == 0);
    if (os::FileFacts facts; whole_ && locked && fd() >= 0 && os::facts_of(fd(), facts) == 0 && is_regular(facts)) {
        whole_->set_size(facts.size);
        made_ = made && facts.size == 0;
    }
    return e;
}

// All but what follows from its size and its place.
void HostRegion::fill(barcuda_header& h, const Format& format) const {
    h.layout = BARCUDA_LAYOUT;
    h.header_bytes = BARCUDA_CHANNELS_OFFSET;
    h.packets = BARCUDA_PACKETS;
    h.row_count = static_cast<barcuda_u32>(format.rows.size());
    h.rows_offset = BARCUDA_ROWS_OFFSET;
    h.snapshot_offset = BARCUDA_SNAPSHOT_OFFSET;
    h.windows_epoch = h.epoch;
    h.device_base = BARCUDA_DEVICE_BASE;
    h.device_pools_end = BARCUDA_DEVICE_POOLS_END;
    h.device_mapped = BARCUDA_DEVICE_MAPPED;
    h.device_end = BARCUDA_DEVICE_END;
    h.bridge_pid = static_cast<barcuda_u32>(creator_);
    h.bridge_start = start_time_of(0);
    std::snprintf(h.build, sizeof h.build, "%s", format.build);
}

Error HostRegion::create(const char* path, const Format& format) {
    close();
    if (format.rows.empty() || format.rows.size() > BARCUDA_MAX_ROWS)
        return error(Error::malformed, 0, "%s: %zu rows; a region has 1 to %u", path, format.rows.size(),
                     BARCUDA_MAX_ROWS);
    barcuda_header h{};
    bool keep = false;
    char* memory = nullptr;
    Error e = open_file(path);
    if (e || !whole_) {
        close();
        return e;
    }
    e = prepare(path, format, h, keep);
    if (!e) e = keep_there(0, BARCUDA_CHANNELS_OFFSET, path);
    if (!e) e = whole_->map_header_to_write(&memory);
    if (e || !memory) {
        close();
        return e;
    }
    mine_ = reinterpret_cast<barcuda_header*>(memory);

    publish(mine_->magic, 0);  // WORD: closed for guests until announce()
    fill(h, format);
    constexpr std::size_t behind_magic = offsetof(barcuda_header, layout);
    std::memcpy(memory + behind_magic, reinterpret_cast<const char*>(&h) + behind_magic, sizeof h - behind_magic);
    const std::uint64_t clean = keep ? BARCUDA_ROWS_OFFSET : BARCUDA_SLOTS_OFFSET;
    if (!made_) std::memset(memory + clean, 0, BARCUDA_CHANNELS_OFFSET - clean);  // a file made just now is all zeros
    take(memory, h);
    std::memcpy(memory + BARCUDA_ROWS_OFFSET, format.rows.data(), format.rows.size_bytes());
    for (std::uint32_t i = 0; i < h.channel_count && !e; ++i) {
        const barcuda_slot& s = slots()[i];
        const std::uint32_t opened = observe(s.opened);
        if (opened == observe(s.closed) && opened == observe(s.reclaimed)) e = clean_channel(i);
        else if (opened == s.served) e = disown(i);
    }
    if (e) close();
    return e;
}

// Why this bridge cannot go on with that region. Both values are named.
Error HostRegion::refusal(const char* path, const Format& format, const Predecessor& before) const {
    const auto mib = [](std::uint64_t bytes) { return (unsigned long long)(bytes >> 20); };
    constexpr const char* instead = "let its clients end, then start this bridge";
    if (before.layout != BARCUDA_LAYOUT)
        return error(Error::other_layout, 0, "%s: the earlier bridge's layout has number %u, this bridge's %u; %s",
                     path, before.layout, BARCUDA_LAYOUT, instead);
    if (before.packets != BARCUDA_PACKETS)
        return error(Error::other_packets, 0, "%s: the earlier bridge's packets have number %u, this bridge's %u; %s",
                     path, before.packets, BARCUDA_PACKETS, instead);
    const Shape& its = before.shape;
    if (format.size != 0 && format.size != its.size)
        return error(Error::bad_size, 0,
                     "%s: the earlier bridge's region has %llu MiB, this bridge is told %llu MiB; %s", path,
                     mib(its.size), mib(format.size), instead);
    if (format.base != 0 && format.base != its.base)
        return error(Error::bad_base, 0,
                     "%s: the earlier bridge's region lies at 0x%llx, this bridge is told 0x%llx; %s", path,
                     (unsigned long long)its.base, (unsigned long long)format.base, instead);
    if (Error e = check_size(its.size, path)) return e;
    if (Error e = check_base(its.base, its.size, path)) return e;
    barcuda_header divided{};
    divide(divided, its.size);
    if (divided.channel_count != its.channel_count || divided.granule_count != its.granule_count ||
        divided.extents_offset != its.extents_offset)
        return error(Error::malformed, 0,
                     "%s: the earlier bridge's region has %u channels and %u granules, this bridge divides it into %u "
                     "and %u; %s",
                     path, its.channel_count, its.granule_count, divided.channel_count, divided.granule_count, instead);
    return {};
}

// A guest may be reading the header, or opening a channel. So where nothing changes for guests, the header stays whole
// all the time.
Error HostRegion::adopt(const char* path, const Format& format, const Predecessor& before) {
    close();
    if (format.rows.empty() || format.rows.size() > BARCUDA_MAX_ROWS)
        return error(Error::malformed, 0, "%s: %zu rows; a region has 1 to %u", path, format.rows.size(),
                     BARCUDA_MAX_ROWS);
    if (Error e = refusal(path, format, before)) return e;
    if (os::FileFacts facts;
        os::facts_of(before.fd, facts) != 0 || (is_regular(facts) && facts.size < before.shape.size))
        return error(Error::bad_size, 0, "%s: the earlier bridge's region has %llu MiB, its file %llu MiB", path,
                     (unsigned long long)(before.shape.size >> 20), (unsigned long long)(facts.size >> 20));
    const int own = ::fcntl(before.fd, F_DUPFD_CLOEXEC, 0);  // the same open file: the lock is this one's, too
    if (own < 0) return error(Error::system, errno, "%s: its descriptor cannot be taken over", path);
    Error e = take_door(door_, path, own, Opening::to_serve);
    whole_ = properties().whole;
    if (!e && !whole_) e = error(Error::not_a_region, 0, "%s: a guest's view of a region, and no host's", path);
    if (!e && whole_ && whole_->lock_as_bridge() != 0)
        e = error(Error::in_use, 0, "%s: another bridge serves this region", path);
    if (!e && whole_) whole_->set_size(before.shape.size);
    if (e || !whole_) {
        close();
        return e;
    }
    return go_on(path, format, before);
}

// With the file open and locked, and of the right size.
Error HostRegion::go_on(const char* path, const Format& format, const Predecessor& before) {
    char* memory = nullptr;
    Error e = keep_there(0, BARCUDA_CHANNELS_OFFSET, path);
    if (!e) e = whole_->map_header_to_write(&memory);
    if (e || !memory) {
        close();
        return e;
    }
    creator_ = os::this_process();
    mine_ = reinterpret_cast<barcuda_header*>(memory);

    barcuda_header there, h{};
    std::memcpy(&there, memory, sizeof there);
    divide(h, before.shape.size);
    h.base = before.shape.base;
    h.epoch = there.epoch;
    fill(h, format);
    h.device_count = there.device_count < BARCUDA_MAX_DEVICES ? there.device_count : BARCUDA_MAX_DEVICES;
    h.driver_version = there.driver_version;
    h.heartbeat = beats_ = there.heartbeat;
    h.magic = there.magic;
    barcuda_header same = there;  // except for what tells of this bridge
    same.bridge_pid = h.bridge_pid;
    same.bridge_start = h.bridge_start;
    same.device_count = h.device_count;
    std::memcpy(same.build, h.build, sizeof h.build);
    char* const rows = memory + BARCUDA_ROWS_OFFSET;
    const bool changes =
        std::memcmp(&same, &h, sizeof h) != 0 || std::memcmp(rows, format.rows.data(), format.rows.size_bytes()) != 0;
    if (changes) publish(mine_->magic, 0);  // WORD
    constexpr std::size_t behind_magic = offsetof(barcuda_header, layout);
    std::memcpy(memory + behind_magic, reinterpret_cast<const char*>(&h) + behind_magic, sizeof h - behind_magic);
    if (changes) {
        std::memset(rows, 0, BARCUDA_SNAPSHOT_OFFSET - BARCUDA_ROWS_OFFSET);
        std::memcpy(rows, format.rows.data(), format.rows.size_bytes());
        publish(mine_->magic, BARCUDA_MAGIC);  // WORD
    }
    take(memory, h);
    bool disowned = false;
    for (std::uint32_t i = 0; i < h.channel_count && !e; ++i) {
        const barcuda_slot& s = slots()[i];
        if (before.knows(i) || observe(s.opened) == observe(s.closed) || observe(s.opened) != observe(s.served))
            continue;
        e = disown(i);
        disowned = true;
    }
    if (disowned) mine_->windows_epoch = mine_->epoch = h.epoch + 1;
    if (e) {  // the lock stays, and the earlier bridge's pid says what it said
        creator_ = 0;
        close();
    }
    return e;
}

// What the open file holds decides whether it may be filled: nothing yet, zeros, or the region that was suspended.
Error HostRegion::fill_in_place(const char* path, const Format& format, const Predecessor& before,
                                const Asleep& asleep) {
    os::FileFacts facts;
    if (const int code = os::facts_of(fd(), facts)) return error(Error::system, code, "%s: cannot be examined", path);
    const std::uint64_t size = before.shape.size, there = whole_->properties().size;
    if (there != size && (there != 0 && !format.overwrite))
        return error(Error::bad_size, 0, "%s: has %llu MiB, and the suspended region has %llu MiB; remove it", path,
                     (unsigned long long)(there >> 20), (unsigned long long)(size >> 20));
    if (there != size && (!whole_->is_elastic() || ::ftruncate(fd(), static_cast<off_t>(size)) != 0))
        return error(Error::bad_size, errno, "%s: cannot be given %llu MiB", path, (unsigned long long)(size >> 20));
    whole_->set_size(size);
    char* memory = nullptr;
    if (Error e = whole_->map_window({}, 0, BARCUDA_CHANNELS_OFFSET, os::Access::read, &memory)) return e;
    constexpr barcuda_header zeros{};
    barcuda_header its;
    std::memcpy(&its, memory, sizeof its);
    const bool new_here = std::memcmp(&its, &zeros, sizeof its) == 0;
    const bool same_file = asleep.this_boot && facts.device == asleep.device && facts.inode == asleep.inode;
    const bool unserved = same_file && its.magic == BARCUDA_MAGIC && its.epoch == asleep.epoch && its.bridge_pid == 0;
    bool lives = false;
    const auto* const slots = reinterpret_cast<const barcuda_slot*>(memory + BARCUDA_SLOTS_OFFSET);
    for (std::uint32_t i = 0; i < before.shape.channel_count && unserved; ++i)
        lives = lives || (slots[i].opened != slots[i].closed && slots[i].pid != 0 && !whole_->gone(slots, i));
    whole_->unmap_window(memory, 0, BARCUDA_CHANNELS_OFFSET);
    if (!new_here && !unserved && !format.overwrite)
        return error(Error::exists, 0,
                     "%s: it holds something else than the region that was suspended, or a bridge has served it since; "
                     "remove it, or allow it to be overwritten (--overwrite)",
                     path);
    return lives ? Error() : asleep.fill(fd());
}

Error HostRegion::wake(const char* path, const Format& format, const Predecessor& before, const Asleep& asleep) {
    close();
    if (Error e = refusal(path, format, before)) return e;
    Error e = open_file(path);
    if (!e && whole_) e = fill_in_place(path, format, before, asleep);
    if (e || !whole_) {
        close();
        return e;
    }
    return go_on(path, format, before);
}

void HostRegion::awake() {
    made_ = false;
    const std::uint32_t next = epoch() + 1;
    publish(mine_->windows_epoch, next);
    publish(mine_->epoch, next);
}

void HostRegion::close() {
    const bool is_ours = creator_ != 0 && creator_ == os::this_process();
    // While the lock is held, and if no other file has its name.
    if (made_ && is_ours && os::is_named(fd(), path())) ::unlink(path());
    if (mine_ && is_ours) {
        publish(mine_->bridge_pid, 0);                                   // WORD
        if (whole_ && !door_->check_file()) whole_->unlock_as_bridge();  // mappings that stay would keep it
    }
    Region::close();
    whole_ = nullptr;
    mine_ = nullptr;
    beats_ = 0;
    made_ = false;
    creator_ = 0;
}

// A client that an earlier bridge served: its worker has died with the queue's place in mind, and no process knows it.
Error HostRegion::disown(std::uint32_t index) {
    Channel c;
    if (Error e = map_channel(index, c)) return e;
    if (Error e = keep_there(c.offset, BARCUDA_COMMANDS_OFFSET, path())) {
        unmap_channel(c);
        return e;
    }
    end_session(c.status(), BARCUDA_STATE_GONE, 0, "the bridge was restarted; start this program again");
    unmap_channel(c);
    return {};
}

void HostRegion::announce() {
    made_ = false;
    publish(mine_->magic, BARCUDA_MAGIC);  // WORD
}

void HostRegion::tell_devices(unsigned driver_version, unsigned count) {
    mine_->driver_version = driver_version;
    mine_->device_count = count;
}

void HostRegion::beat() { publish(mine_->heartbeat, ++beats_); }

Error HostRegion::clean_channel(std::uint32_t index) {
    Channel c;
    if (Error e = map_channel(index, c)) return e;
    const Error e = keep_there(c.offset, BARCUDA_COMMANDS_OFFSET, path());
    if (!e && !made_) {
        // A hole reads as zeros and costs no memory. Where holes cannot be punched, write the zeros.
        const bool holes =
            whole_->is_elastic() && whole_->properties().unit <= BARCUDA_PAGE &&
            ::fallocate(fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                        static_cast<off_t>(c.offset + BARCUDA_COMMANDS_OFFSET), BARCUDA_COMMANDS_SIZE) == 0;
        std::memset(c.memory, 0, holes ? BARCUDA_COMMANDS_OFFSET : BARCUDA_CHANNEL_SIZE);
    }
    if (!e) c.status().channel = index;
    unmap_channel(c);
    return e;
}

}  // namespace barcuda
