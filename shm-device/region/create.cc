// SPDX-License-Identifier: Apache-2.0
// create.cc: the host makes a region, or takes over one that an earlier bridge has left. Until announce() stores the
// magic no guest can open it, so that a half-formatted region is never seen.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>

#include "shm-device/queue/sync.h"
#include "shm-device/queue/wait.h"
#include "shm-device/region/region.h"
#include "shm-device/region/status.h"

namespace barcuda {
namespace {

// Pages of a file are there when they are first touched, unless somebody else has taken the last ones: then whoever touches
// one is killed (SIGBUS). So what the bridge touches is there for good; the heap's part is not.
Error keep_there(int file, std::uint64_t offset, std::uint64_t bytes, const char* path) {
    if (::fallocate(file, 0, static_cast<off_t>(offset), static_cast<off_t>(bytes)) == 0 ||
        (errno != ENOSPC && errno != EDQUOT && errno != ENOMEM))
        return {};  // or a device, or a file system that cannot promise
    return error(Error::system, errno, "%s: there is no memory for the region's tables", path);
}

}  // namespace

// What the new header starts from, given what the file holds now. `keep`: slots and grants stay, for there may still be
// clients of the last epoch; only their memory is shared with a new bridge, never their commands.
Error Region::prepare(const char* path, const Format& format, barcuda_header& h, bool& keep) {
    barcuda_header old{};
    bool untouched = false;  // never written to: there is nothing to lose
    if (file_size_ >= BARCUDA_MIN_SIZE) {
        char* memory = nullptr;
        struct stat st;
        if (::fstat(fd_, &st) != 0) return error(Error::system, errno, "%s: cannot be examined", path);
        untouched = S_ISREG(st.st_mode) && st.st_blocks == 0;
        if (Error e = map_window(0, sizeof old, PROT_READ, &memory)) return e;
        std::memcpy(&old, memory, sizeof old);
        unmap_window(memory, 0, sizeof old);
    }
    // A bridge that died while it formatted has left everything but the magic.
    barcuda_header whole = old;
    whole.magic = BARCUDA_MAGIC;
    const bool half = old.magic == 0 && old.layout != 0;
    const Error invalid = validate(half ? whole : old, file_size_, path);
    const bool wants_change = format.size != 0 && format.size != file_size_;
    keep = !invalid && !(format.overwrite && wants_change);
    if (!keep && file_size_ != 0 && !untouched && !format.overwrite) {
        if (invalid.kind == Error::other_layout)
            return error(Error::other_layout, 0,
                         "%s: it was made by another version of barcuda-bridge (its layout is number %u, ours %u); end "
                         "its clients, then remove it, or allow it to be overwritten (--overwrite)",
                         path, old.layout, BARCUDA_LAYOUT);
        return error(Error::exists, 0,
                     "%s: exists and is not a usable region; remove it, or allow it to be overwritten (--overwrite)",
                     path);
    }
    if (wants_change && file_size_ != 0 && !format.overwrite)
        return error(Error::bad_size, 0, "%s: exists with %llu MiB, not %llu MiB; remove it, or leave out --size", path,
                     (unsigned long long)(file_size_ >> 20), (unsigned long long)(format.size >> 20));
    if (!keep && format.size == 0 && file_size_ == 0)
        return error(Error::bad_size, 0, "%s: a new region needs a size (--size 4G)", path);

    const std::uint64_t size = format.size != 0 ? format.size : keep ? old.size : file_size_;
    const std::uint64_t base = format.base != 0 ? format.base : keep ? old.base : BARCUDA_DEFAULT_BASE;
    if (Error e = check_size(size, path)) return e;
    if (Error e = check_base(base, size, path)) return e;
    if (size != file_size_ && (kind_ != Kind::file || ::ftruncate(fd_, static_cast<off_t>(size)) != 0))
        return error(Error::bad_size, kind_ == Kind::file ? errno : 0, "%s: cannot be given %llu MiB", path,
                     (unsigned long long)(size >> 20));
    file_size_ = size;
    h = {};
    divide(h, size);
    h.base = base;
    h.epoch = (!invalid || old.magic == BARCUDA_MAGIC ? old.epoch : 0) + 1;
    return {};
}

// The lock is this open file's, so it is held by the bridge and its workers, as long as one of them lives. Workers of a bridge
// that was killed are killed, too: a new one waits for the last of them, which a driver may take seconds to let go.
Error Region::lock_to_serve(const char* path) {
    constexpr int kTries = 1000;
    constexpr std::uint64_t kNap = 10'000'000;  // nanoseconds: ten seconds in all
    for (int tries = 1; lock_byte(F_OFD_SETLK, F_WRLCK, 0) != 0; ++tries) {
        barcuda_header h{};
        const bool known = ::pread(fd_, &h, sizeof h, 0) == sizeof h && h.layout == BARCUDA_LAYOUT;
        if (!known || lives(h.bridge_pid, h.bridge_start) || tries == kTries)
            return error(Error::in_use, 0, "%s: another bridge serves this region", path);
        Os::nap(kNap);
    }
    return {};
}

Error Region::create(const char* path, const Format& format) {
    close();
    if (format.rows.empty() || format.rows.size() > BARCUDA_MAX_ROWS)
        return error(Error::malformed, 0, "%s: %zu rows; a region has 1 to %u", path, format.rows.size(),
                     BARCUDA_MAX_ROWS);
    Error e = open_file(path, O_CREAT | O_EXCL);
    const bool made = fd_ >= 0;
    if (e.kind == Error::system && e.code == EEXIST) {
        close();
        e = open_file(path, O_NOFOLLOW);
    }
    creator_ = ::getpid();
    if (!e) e = check_owner(true);
    if (!e && kind_ != Kind::file && kind_ != Kind::dax)
        e = error(Error::not_a_region, 0, "%s: a guest's view of a region; the host formats the file behind it", path);
    if (!e) e = lock_to_serve(path);
    // A file that we made is ours to remove, or to take for zeros, only with the lock: before that another bridge may have found it, and
    // serve it.
    const bool locked = !e || (made && lock_byte(F_OFD_SETLK, F_WRLCK, 0) == 0);
    if (struct stat st; locked && fd_ >= 0 && ::fstat(fd_, &st) == 0 && S_ISREG(st.st_mode)) {
        file_size_ = static_cast<std::uint64_t>(st.st_size);
        made_ = made && st.st_size == 0;
    }
    barcuda_header h{};
    bool keep = false;
    char* memory = nullptr;
    if (!e) e = prepare(path, format, h, keep);
    if (!e) e = keep_there(fd_, 0, BARCUDA_CHANNELS_OFFSET, path);
    if (!e) e = map_window(0, BARCUDA_CHANNELS_OFFSET, PROT_READ | PROT_WRITE, &memory);
    if (e) return close(), e;
    header_ = reinterpret_cast<const barcuda_header*>(memory);
    shape_ = Shape(h);

    publish(writable_header().magic, 0);  // WORD: closed for guests until announce()
    h.layout = BARCUDA_LAYOUT;
    h.header_bytes = BARCUDA_CHANNELS_OFFSET;
    h.packets = BARCUDA_PACKETS;
    h.row_count = static_cast<barcuda_u32>(format.rows.size());
    h.rows_offset = BARCUDA_ROWS_OFFSET;
    h.snapshot_offset = BARCUDA_SNAPSHOT_OFFSET;
    h.bridge_pid = static_cast<barcuda_u32>(creator_);
    h.bridge_start = start_time_of(0);
    std::snprintf(h.build, sizeof h.build, "%s", format.build);
    constexpr std::size_t kAfterMagic = offsetof(barcuda_header, layout);
    std::memcpy(memory + kAfterMagic, reinterpret_cast<const char*>(&h) + kAfterMagic, sizeof h - kAfterMagic);
    const std::uint64_t clean = keep ? BARCUDA_ROWS_OFFSET : BARCUDA_SLOTS_OFFSET;
    if (!made_) std::memset(memory + clean, 0, BARCUDA_CHANNELS_OFFSET - clean);  // a file made just now is all zeros
    rows_ = {table<barcuda_u64>(BARCUDA_ROWS_OFFSET), format.rows.size()};
    snapshot_ = table<barcuda_snapshot>(BARCUDA_SNAPSHOT_OFFSET);
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

// A client that an earlier bridge served: its worker has died with the queue's place in mind, and nobody else knows it.
Error Region::disown(std::uint32_t index) {
    Channel c;
    if (Error e = map_channel(index, c)) return e;
    if (Error e = keep_there(fd_, c.offset, BARCUDA_COMMANDS_OFFSET, path_)) return unmap_channel(c), e;
    end_session(c.status(), BARCUDA_STATE_GONE, 0, "the bridge was restarted; start this program again");
    unmap_channel(c);
    return {};
}

void Region::announce() {
    made_ = false;
    publish(writable_header().magic, BARCUDA_MAGIC);  // WORD
}

void Region::tell_devices(unsigned driver_version, unsigned count) {
    writable_header().driver_version = driver_version;
    writable_header().device_count = count;
}

void Region::beat() { publish(writable_header().heartbeat, ++beats_); }

Error Region::clean_channel(std::uint32_t index) {
    Channel c;
    if (Error e = map_channel(index, c)) return e;
    const Error e = keep_there(fd_, c.offset, BARCUDA_COMMANDS_OFFSET, path_);
    if (!e && !made_) {
        // A hole reads as zeros and costs no memory. Where holes cannot be punched, write the zeros.
        const bool holes =
            kind_ == Kind::file && unit_ <= BARCUDA_PAGE &&
            ::fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                        static_cast<off_t>(c.offset + BARCUDA_COMMANDS_OFFSET), BARCUDA_COMMANDS_SIZE) == 0;
        std::memset(c.memory, 0, holes ? BARCUDA_COMMANDS_OFFSET : BARCUDA_CHANNEL_SIZE);
    }
    if (!e) c.status().channel = index;
    unmap_channel(c);
    return e;
}

bool Region::served() const {
    if (observe(header_->bridge_pid) == 0) return false;  // WORD
    // The creator's own description holds the lock; asking through it would find no conflict.
    return kind_ != Kind::file || creator_ != 0 || check_fd() || lock_byte(F_OFD_GETLK, F_WRLCK, 0) != 0;
}

}  // namespace barcuda
