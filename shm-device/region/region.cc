// SPDX-License-Identifier: Apache-2.0
// region.cc: opening a region and mapping its parts; the same steps for a file, a UIO device, a BAR and a DAX device.
// (How a guest service is asked for them: door.cc. What a header must say: validate.cc. How the host makes a region: create.cc. Who holds which slot: slots.cc.)
#include "shm-device/region/region.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/out_of_the_way.h"
#include "shm-device/queue/sync.h"

namespace barcuda {
namespace {

// The guest module's maps (docs/region.md): mmap's offset chooses one, in pages.
constexpr off_t kUioHeader = 0, kUioChannel = BARCUDA_PAGE, kUioExtents = 2 * BARCUDA_PAGE;

// A small text file of sysfs, without its newline. False if it cannot be read.
bool read_line(const char* path, char* line, std::size_t size) {
    const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    ssize_t n = ::read(fd, line, size - 1);
    ::close(fd);
    if (n <= 0) return false;
    if (line[n - 1] == '\n') --n;
    line[n] = '\0';
    return true;
}

std::uint64_t read_number(const char* format, unsigned major, unsigned minor) {
    char path[96], line[32];
    std::snprintf(path, sizeof path, format, major, minor);
    return read_line(path, line, sizeof line) ? std::strtoull(line, nullptr, 0) : 0;
}

Error cannot_open(const char* path, int code) {
    if (code == ENOENT || code == ENXIO || code == ENODEV)
        return error(Error::not_found, 0, "%s: there is no such region; start barcuda-bridge, or name another path",
                     path);
    if (code == EACCES || code == EPERM)
        return error(
            Error::permission, 0,
            "%s: permission denied; only root and members of the group 'barcuda' may open it (usermod -aG barcuda "
            "USER, then log in again)",
            path);
    if (code == ELOOP)
        return error(Error::foreign, 0,
                     "%s: a symbolic link, which may lead to any file; name the file that it shall lead to", path);
    return error(Error::system, code, "%s: cannot be opened", path);
}

// Names of open files (/proc/PID/fd/N) are links too, but nobody else makes them.
bool names_a_descriptor(const char* path) {
    const int link = ::open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    struct statfs fs;
    const bool yes = link >= 0 && ::fstatfs(link, &fs) == 0 && fs.f_type == PROC_SUPER_MAGIC;
    if (link >= 0) ::close(link);
    return yes;
}

// Names what lies in [from, to): the first overlapping line of /proc/self/maps, read piece by piece into `line`.
void who_is_there(std::uintptr_t from, std::uintptr_t to, char* line, std::size_t size) {
    std::snprintf(line, size, "another mapping");
    const int fd = ::open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    char piece[1024];
    char text[400];
    std::size_t length = 0;
    bool found = false;
    for (ssize_t n; !found && (n = ::read(fd, piece, sizeof piece)) > 0;)
        for (ssize_t i = 0; i < n && !found; ++i) {
            if (piece[i] != '\n') {
                if (length < sizeof text - 1) text[length++] = piece[i];
                continue;
            }
            text[length] = '\0';
            length = 0;
            char* end = text;
            const std::uintptr_t begin = std::strtoull(text, &end, 16);
            const std::uintptr_t stop = *end == '-' ? std::strtoull(end + 1, nullptr, 16) : 0;
            found = begin < to && from < stop;
        }
    ::close(fd);
    if (!found) return;
    // "200000000000-200002000000 rw-s 00000000 00:01 1025      /name": the range, and the name if it has one.
    const char* name = std::strpbrk(text, "/[");
    std::snprintf(line, size, "%.*s (%.200s)", static_cast<int>(std::strcspn(text, " ")), text,
                  name ? name : "anonymous");
}

}  // namespace

Error find_region(char* path, std::size_t bytes, const char* sys, const char* door) {
    if (const char* named = secure_getenv("BARCUDA_REGION"); named && *named) {
        if (std::strlen(named) >= bytes) return error(Error::not_found, 0, "$BARCUDA_REGION is too long a path");
        std::snprintf(path, bytes, "%s", named);
        return {};
    }
    // Names are tried rather than listed, since opendir() allocates. 256: more UIO devices than any machine here has.
    for (unsigned i = 0; i < 256 && ::access(sys, F_OK) == 0; ++i) {
        char file[128], name[16];
        std::snprintf(file, sizeof file, "%s/uio%u/name", sys, i);
        if (!read_line(file, name, sizeof name) || std::strcmp(name, "barcuda") != 0) continue;
        std::snprintf(path, bytes, "/dev/uio%u", i);
        return {};
    }
    if (::access(door, F_OK) == 0 && std::strlen(door) < bytes) {
        std::snprintf(path, bytes, "%s", door);
        return {};
    }
    return error(Error::not_found, 0,
                 "no region found: neither $BARCUDA_REGION, nor a UIO device named 'barcuda', nor %s; in a guest, load "
                 "uio_barcuda "
                 "or, with virtio-pmem, start barcuda-guest; without a VM, use 'barcuda run -- PROGRAM'",
                 door);
}

// Opens the file and finds out what it is: kind, size, and in which units it can be mapped.
Error Region::open_file(const char* path, int flags) {
    const std::size_t length = std::strlen(path);
    if (length >= sizeof path_) return error(Error::not_found, 0, "a region's path has at most 255 bytes");
    std::memcpy(path_, path, length + 1);
    struct stat st;
    if (!(flags & O_CREAT) && ::stat(path, &st) == 0 && S_ISSOCK(st.st_mode)) return open_door(path);
    if (flags & O_NOFOLLOW && names_a_descriptor(path)) flags &= ~O_NOFOLLOW;
    fd_ = ::open(path, O_RDWR | O_CLOEXEC | flags, 0660);
    if (fd_ < 0 && errno == ENOENT && flags & O_CREAT)
        return error(Error::not_found, 0, "%s: its folder is not there; make it, or name another path", path);
    if (fd_ < 0) return cannot_open(path, errno);
    fd_ = out_of_the_way(fd_);
    struct statfs fs;
    if (::fstat(fd_, &st) != 0 || ::fstatfs(fd_, &fs) != 0)
        return error(Error::system, errno, "%s: cannot be examined", path);
    device_ = st.st_dev;
    inode_ = st.st_ino;
    unit_ = BARCUDA_PAGE;
    if (S_ISREG(st.st_mode)) {
        kind_ = fs.f_type == SYSFS_MAGIC ? Kind::pci : Kind::file;
        file_size_ = st.st_size;
        if (fs.f_type == HUGETLBFS_MAGIC) unit_ = fs.f_bsize;
    } else if (S_ISCHR(st.st_mode)) {
        const unsigned major = gnu_dev_major(st.st_rdev), minor = gnu_dev_minor(st.st_rdev);
        char file[64], name[16];
        std::snprintf(file, sizeof file, "/sys/dev/char/%u:%u/name", major, minor);
        if (read_line(file, name, sizeof name) && std::strcmp(name, "barcuda") == 0) {
            kind_ = Kind::uio;
            file_size_ = 0;  // the module has compared the header with the BAR
        } else if ((file_size_ = read_number("/sys/dev/char/%u:%u/size", major, minor)) != 0) {
            kind_ = Kind::dax;
            if (const std::uint64_t align = read_number("/sys/dev/char/%u:%u/align", major, minor)) unit_ = align;
        }
    }
    if (kind_ == Kind::none)
        return error(Error::not_a_region, 0, "%s: neither a file nor a device that can hold a region", path);
    if (unit_ < BARCUDA_PAGE || BARCUDA_GRANULE % unit_ != 0)
        return error(Error::bad_size, 0, "%s: made of pages of %llu MiB, but extents are mapped in steps of %llu MiB",
                     path, (unsigned long long)(unit_ >> 20), (unsigned long long)(BARCUDA_GRANULE >> 20));
    return {};
}

// Who owns a region's file, or may write to it, reads all that goes through the region, changes it, and ends every
// process that has mapped the file by cutting it short. In a folder like /dev/shm any user may have made it. (The
// rights of devices are the administrator's.)
Error Region::check_owner(bool to_serve) const {
    struct stat st;
    if (::fstat(fd_, &st) != 0) return error(Error::system, errno, "%s: cannot be examined", path_);
    if (kind_ != Kind::file) return {};
    if (st.st_uid != 0 && st.st_uid != ::geteuid())
        return error(
            Error::foreign, 0,
            "%s: belongs to user %u, who could read and change all that is in it; a region must belong to root "
            "or to you (user %u): remove the file, give it to one of them (chown), or name another path",
            path_, st.st_uid, ::geteuid());
    if (st.st_nlink == 0) return {};  // a memfd: what has no name nobody else can open
    if (st.st_mode & S_IWOTH)
        return error(Error::foreign, 0,
                     "%s: every user of this machine may write to it (mode %04o); take that right away (chmod o-w)",
                     path_, st.st_mode & 07777);
    if (to_serve && st.st_nlink != 1)
        return error(Error::foreign, 0,
                     "%s: the file has %u names (hard links), so it is something else as well; name a file of its own",
                     path_, static_cast<unsigned>(st.st_nlink));
    return {};
}

// Maps a part of the file anywhere. Huge pages are mapped whole: then the part lies inside a larger mapping.
Error Region::map_window(std::uint64_t offset, std::uint64_t bytes, int protection, char** address) {
    const std::uint64_t begin = offset / unit_ * unit_;
    const std::uint64_t end = (offset + bytes + unit_ - 1) / unit_ * unit_;
    // Where that is free, at the address that it has in the worker: any other will do.
    void* const wish = shape_.base ? at(begin) : nullptr;
    void* p = ::mmap(wish, end - begin, protection, MAP_SHARED, fd_, static_cast<off_t>(begin));
    if (p == MAP_FAILED)
        return error(Error::system, errno, "%s: cannot map its part at 0x%llx", path_, (unsigned long long)offset);
    *address = static_cast<char*>(p) + (offset - begin);
    return {};
}

void Region::unmap_window(char* address, std::uint64_t offset, std::uint64_t bytes) {
    const std::uint64_t begin = offset / unit_ * unit_;
    const std::uint64_t end = (offset + bytes + unit_ - 1) / unit_ * unit_;
    ::munmap(address - (offset - begin), end - begin);
}

Error Region::open(const char* path) {
    close();
    char found[sizeof path_];
    if (!path) {
        if (Error e = find_region(found, sizeof found)) return e;
        path = found;
    }
    Error e = open_file(path, 0);
    if (!e) e = check_owner(false);
    char* header = nullptr;
    if (!e && kind_ == Kind::uio) {
        void* p = ::mmap(nullptr, BARCUDA_CHANNELS_OFFSET, PROT_READ, MAP_SHARED, fd_, kUioHeader);
        if (p == MAP_FAILED && errno == ENXIO)
            e = error(Error::not_ready, 0,
                      "%s: the module finds no region in the device's memory ('dmesg' says what it found); start "
                      "barcuda-bridge on the host",
                      path_);
        else if (p == MAP_FAILED) e = error(Error::system, errno, "%s: cannot map the header", path_);
        else header = static_cast<char*>(p);
    } else if (!e && kind_ == Kind::door) {
        e = map_door_header(&header);
    } else if (!e) {
        // Before anything is read: a file that ends inside a page would answer with SIGBUS.
        if (file_size_ < BARCUDA_MIN_SIZE)
            e = error(Error::not_a_region, 0, "%s: not a Barcuda region: it has %llu bytes, the least is %llu", path_,
                      (unsigned long long)file_size_, BARCUDA_MIN_SIZE);
        else e = map_window(0, BARCUDA_CHANNELS_OFFSET, PROT_READ, &header);
    }
    if (header) {
        header_ = reinterpret_cast<const barcuda_header*>(header);
        barcuda_header copy{};
        copy.magic = observe(header_->magic);  // WORD: what was written before it is there now
        if (copy.magic == BARCUDA_MAGIC) std::memcpy(&copy, header_, sizeof copy);
        e = validate(copy, file_size_, path_);
        if (!e) e = check_packets(copy, path_);  // last, so that a damaged region is called damaged, not foreign
        shape_ = Shape(copy);
        if (!e) rows_ = {table<barcuda_u64>(copy.rows_offset), copy.row_count};
        if (!e && copy.snapshot_offset) snapshot_ = table<barcuda_snapshot>(copy.snapshot_offset);
    }
    if (e) close();
    return e;
}

const char* Region::build(char (&text)[sizeof barcuda_header::build + 1]) const { return build_of(*header_, text); }

void Region::close() {
    // While the lock is held, and if nobody has put another in its place.
    struct stat mine, there;
    if (made_ && creator_ == ::getpid() && ::fstat(fd_, &mine) == 0 && ::lstat(path_, &there) == 0 &&
        mine.st_dev == there.st_dev && mine.st_ino == there.st_ino)
        ::unlink(path_);
    if (header_) {
        if (creator_ != 0 && creator_ == ::getpid()) {
            publish(writable_header().bridge_pid, 0);             // WORD
            if (!check_fd()) lock_byte(F_OFD_SETLK, F_UNLCK, 0);  // mappings that stay would keep it
        }
        if (kind_ == Kind::uio || kind_ == Kind::door) ::munmap(&writable_header(), BARCUDA_CHANNELS_OFFSET);
        else unmap_window(reinterpret_cast<char*>(&writable_header()), 0, BARCUDA_CHANNELS_OFFSET);
    }
    if (fd_ >= 0 && !check_fd()) ::close(fd_);
    made_ = false;
    header_ = nullptr;
    snapshot_ = nullptr;
    rows_ = {};
    shape_ = {};
    beats_ = file_size_ = unit_ = device_ = inode_ = 0;
    fd_ = -1;
    creator_ = 0;
    kind_ = Kind::none;
    path_[0] = '\0';
}

// Programs close descriptors that they did not open (daemons close them all), and get the number again for another
// file. To map that one would be a disaster.
Error Region::check_fd() const {
    struct stat st;
    if (fd_ >= 0 && ::fstat(fd_, &st) == 0 && st.st_dev == device_ && st.st_ino == inode_) return {};
    if (kind_ == Kind::none && fd_ >= 0) return {};  // closing what could not be opened wholly
    return error(Error::lost, 0,
                 "%s: this program has closed the region's file descriptor (%d), which it did not open; let it close "
                 "those that it has opened",
                 path_, fd_);
}

// A file is opened again, if it is the same one. A door, or the module's device, knows this process by the one that was lost.
Error Region::have_fd() {
    Error e = check_fd();
    if (e.kind != Error::lost || (kind_ != Kind::file && kind_ != Kind::pci && kind_ != Kind::dax)) return e;
    const int fd = ::open(path_, O_RDWR | O_CLOEXEC);
    if (fd < 0) return e;
    struct stat st;
    if (::fstat(fd, &st) != 0 || st.st_dev != device_ || st.st_ino != inode_) return ::close(fd), e;
    fd_ = out_of_the_way(fd);
    return {};
}

Error Region::map_extent(std::uint64_t offset, std::uint64_t bytes, void** address) {
    if (bytes == 0 || offset % BARCUDA_GRANULE != 0 || bytes % BARCUDA_GRANULE != 0 || offset < shape_.extents_offset ||
        offset > shape_.size || bytes > shape_.size - offset)
        return error(Error::bad_range, 0, "%s: 0x%llx bytes at 0x%llx are not an extent of this region", path_,
                     (unsigned long long)bytes, (unsigned long long)offset);
    if (Error e = have_fd()) return e;
    void* const want = at(offset);
    const off_t file_offset = kind_ == Kind::uio ? kUioExtents : static_cast<off_t>(offset);
    const int flags = MAP_SHARED | MAP_FIXED_NOREPLACE;
    int code = kind_ == Kind::door ? map_door_extent(offset, bytes) : 0;
    void* p = kind_ != Kind::door ? ::mmap(want, bytes, PROT_READ | PROT_WRITE, flags, fd_, file_offset)
              : code == 0         ? want
                                  : MAP_FAILED;
    if (p == want) {
        if (address) *address = p;
        return {};
    }
    if (code == 0) code = errno;
    if (p != MAP_FAILED) ::munmap(p, bytes);  // Linux before 4.17 takes the flag for a hint
    if (p != MAP_FAILED || code == EEXIST) {
        char there[280];
        const auto from = reinterpret_cast<std::uintptr_t>(want);
        who_is_there(from, from + bytes, there, sizeof there);
        return error(Error::address_taken, 0,
                     "%s: the extent at %p cannot be mapped, that address is taken by %s; give the region another base "
                     "(barcuda-bridge --base)",
                     path_, want, there);
    }
    if (code == EACCES || code == EPERM)
        return error(Error::permission, 0, "%s: the extent at 0x%llx was not granted to this process", path_,
                     (unsigned long long)offset);
    return error(Error::system, code, "%s: cannot map the extent at 0x%llx", path_, (unsigned long long)offset);
}

Error Region::map_again(std::uint64_t offset, std::uint64_t bytes, void** address) {
    const auto failed = [&](void* p) {
        return error(Error::system, errno, "%s: 0x%llx bytes at %p cannot be mapped again", path_,
                     (unsigned long long)bytes, p);
    };
    void* const own = at(offset);
    if (offset % unit_ != 0 || bytes % unit_ != 0)
        return error(Error::bad_range, 0, "%s: made of pages of %llu MiB", path_, (unsigned long long)(unit_ >> 20));
    if (Error e = have_fd()) return e;
    if (kind_ != Kind::uio && kind_ != Kind::door) {
        void* p = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, static_cast<off_t>(offset));
        return p == MAP_FAILED ? failed(own) : (*address = p, Error{});
    }
    // The module maps an extent at its own address alone, but lets it be moved: so it is moved, and mapped anew. Before
    // that, too, since what was mapped bit by bit cannot be moved as one.
    const auto renew = [&] {
        return ::mmap(own, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd_, kUioExtents) == own;
    };
    void* const room = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED) return failed(own);
    Error e;
    // A mapping of no length that is to grow is one more of the same file. Each granule is a file.
    for (std::uint64_t at = 0, n; kind_ == Kind::door && at < bytes; at += n) {
        n = std::min<std::uint64_t>(bytes - at, BARCUDA_GRANULE - (offset + at) % BARCUDA_GRANULE);
        char* const to = static_cast<char*>(room) + at;
        if (::mremap(static_cast<char*>(own) + at, 0, n, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to) continue;
        e = failed(own);
        ::munmap(room, bytes);
        return e;
    }
    if (kind_ == Kind::door) return *address = room, Error{};
    if (!renew() || ::mremap(own, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, room) != room) e = failed(own);
    // The next user of this memory would fault on what is not mapped here now.
    if (!renew()) std::abort();
    if (e) ::munmap(room, bytes);
    else *address = room;
    return e;
}

Error Region::map_pages(std::uint64_t offset, std::uint64_t bytes) {
    if (kind_ == Kind::door)  // the service gives each granule's file once
        return error(Error::system, ENOTSUP, "%s: pages cannot be mapped again", path_);
    if (Error e = check_fd()) return e;
    const off_t file_offset = kind_ == Kind::uio ? kUioExtents : static_cast<off_t>(offset);
    void* const own = at(offset);
    if (::mmap(own, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd_, file_offset) == own) return {};
    return error(Error::system, errno, "%s: 0x%llx bytes at %p cannot be mapped again", path_,
                 (unsigned long long)bytes, own);
}

void Region::unmap_extent(std::uint64_t offset, std::uint64_t bytes) {
    ::munmap(at(offset), bytes);
    tell_door();
}

Error Region::map_channel(std::uint32_t index, Channel& channel) {
    if (index >= shape_.channel_count) return error(Error::bad_range, 0, "%s: there is no channel %u", path_, index);
    if (Error e = have_fd()) return e;
    Channel c;
    c.index = index;
    c.offset = BARCUDA_CHANNELS_OFFSET + index * BARCUDA_CHANNEL_SIZE;
    c.opening = observe(slots()[index].opened);  // WORD
    if (Error e = map_window(c.offset, BARCUDA_CHANNEL_SIZE, PROT_READ | PROT_WRITE, &c.memory)) return e;
    channel = c;
    return {};
}

void Region::unmap_channel(Channel& channel) {
    if (channel) unmap_window(channel.memory, channel.offset, BARCUDA_CHANNEL_SIZE);
    channel = {};
}

// The guest module picks the slot, and marks it closed when the last mapping goes.
Error Region::open_uio_channel(Channel& channel) {
    void* p = ::mmap(nullptr, BARCUDA_CHANNEL_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, kUioChannel);
    if (p == MAP_FAILED) {
        if (errno == ENOSPC || errno == EAGAIN) return all_in_use(errno == EAGAIN);
        return error(Error::system, errno, "%s: cannot open a channel", path_);
    }
    return take_channel(p, channel);
}

Error Region::take_channel(void* p, Channel& channel) {
    Channel c;
    c.memory = static_cast<char*>(p);
    c.index = c.status().channel;
    if (c.index >= shape_.channel_count) {
        ::munmap(p, BARCUDA_CHANNEL_SIZE);
        return error(Error::malformed, 0, "%s: the channel says that it is number %u of %u", path_, c.index,
                     shape_.channel_count);
    }
    c.offset = BARCUDA_CHANNELS_OFFSET + c.index * BARCUDA_CHANNEL_SIZE;
    c.opening = observe(slots()[c.index].opened);  // WORD
    channel = c;
    return {};
}

// The doorbell of ivshmem, as UIO hands it out: what is written rings, what is read counts interrupts.
bool Region::ring() const {
    const std::int32_t vector = 0;
    return kind_ == Kind::uio && !check_fd() && ::write(fd_, &vector, sizeof vector) == sizeof vector;
}

// A bridge watches its file (inotify), which is mapped all the time and read never but here.
void Region::knock() const {
    if (kind_ != Kind::file) return void(ring());
    char byte = 0;
    if (!check_fd() && ::pread(fd_, &byte, 1, 0) < 0) return;  // then it looks by itself, four times a second
}

bool Region::await_ring(std::uint64_t nanoseconds) const {
    if (kind_ != Kind::uio || check_fd()) return false;
    const timespec t{static_cast<time_t>(nanoseconds / 1'000'000'000), static_cast<long>(nanoseconds % 1'000'000'000)};
    pollfd p{fd_, POLLIN, 0};
    if (::ppoll(&p, 1, &t, nullptr) != 1) return true;
    std::uint32_t count;
    return ::read(fd_, &count, sizeof count) == sizeof count;
}

}  // namespace barcuda
