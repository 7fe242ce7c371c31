// SPDX-License-Identifier: Apache-2.0
// mischief.h: what a process may do to the module's device and to the memory that it maps: system calls with arguments
// that are sometimes right, one line of Life::acts each. For module_fuzz.cc, which says what must hold whatever they
// do.
#pragma once
#include <linux/futex.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include <cstring>
#include <string>

#include "tests/vm/holdings.h"

namespace barcuda::vm {

class Life : public Holdings {
  public:
    explicit Life(const Means& means) : Holdings(means), mem_(open("/proc/self/mem", O_RDWR | O_CLOEXEC)) {}

    void live(Random& r, unsigned steps) {
        static const unsigned all = [] {
            unsigned sum = 0;
            for (const Named& a : acts) sum += a.weight;
            return sum;
        }();
        while (steps--) {
            std::size_t i = 0;
            for (auto n = r.below(all); n >= acts[i].weight; ++i) n -= acts[i].weight;
            means_.found.calls[i]++;
            bool succeeded = false;
            if (dare([&] { succeeded = (this->*acts[i].act)(r); }) && succeeded) means_.found.successes[i]++;
        }
    }

  private:
    struct Named {
        const char* name;
        bool (Life::*act)(Random&);
        unsigned weight;
    };

    // ---- the device and its maps

    bool open_device(Random& r) {
        const int flags = r.of({O_RDWR, O_RDWR, O_RDWR, O_RDONLY, O_WRONLY}) | r.of({0, O_NONBLOCK, O_CLOEXEC, O_SYNC});
        return keep_fd(r, open(means_.node(), flags));
    }
    bool close_device(Random& r) {
        int& place = fds_[r.below(fds_.size())];
        const int fd = place;
        place = -1;
        return close(fd) == 0;
    }
    // As the library does it, mostly: a channel, then the extents that the host grants.
    bool open_client(Random& r) {
        const int fd = open(means_.node(), O_RDWR | O_CLOEXEC);
        char* channel = nullptr;
        if (map(fd, map_channel, nullptr, BARCUDA_CHANNEL_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, &channel)) {
            close(fd);
            return false;
        }
        unsigned slot = 0;
        if (!dare([&] { slot = reinterpret_cast<volatile barcuda_status*>(channel)->channel; })) {
            close(fd);
            return false;
        }
        for (int i = 0; i < 40 && observe(header_.slot(slot).served) != observe(header_.slot(slot).opened); ++i)
            usleep(500);
        char* at = header_.address(slot * stub_granules);
        const std::size_t bytes = BARCUDA_GRANULE * (1 + r.below(stub_granules));
        const int flags = MAP_SHARED | MAP_FIXED | (r.chance(5) ? MAP_LOCKED : 0);
        const bool has = !map(fd, map_extents, at, bytes, PROT_READ | PROT_WRITE, flags);
        if (has) note(r, at, bytes);
        char* const place = elsewhere_ + r.below(100) * BARCUDA_CHANNEL_SIZE;
        note(r, mremap(channel, BARCUDA_CHANNEL_SIZE, BARCUDA_CHANNEL_SIZE, MREMAP_MAYMOVE | MREMAP_FIXED, place),
             BARCUDA_CHANNEL_SIZE);
        keep_fd(r, fd);
        return has;
    }
    bool map_anything(Random& r) {
        const off_t offset = r.chance(95) ? static_cast<off_t>(r.below(5) * BARCUDA_PAGE)
                                          : static_cast<off_t>(r.next() & ~(BARCUDA_PAGE - 1));
        const int protection = r.chance(60) ? PROT_READ | PROT_WRITE : static_cast<int>(r.below(16));
        int flags = r.of({MAP_SHARED, MAP_SHARED, MAP_SHARED, MAP_PRIVATE, MAP_SHARED_VALIDATE});
        flags |= r.of({0, MAP_FIXED, MAP_FIXED, MAP_FIXED_NOREPLACE});
        if (r.chance(15))
            flags |= r.of({MAP_POPULATE, MAP_LOCKED, MAP_NORESERVE, MAP_GROWSDOWN, MAP_NONBLOCK, MAP_SYNC, MAP_HUGETLB,
                           MAP_STACK, MAP_32BIT, MAP_POPULATE | MAP_LOCKED});
        const int fd = r.chance(90) ? this->fd(r) : -1;
        if (fd < 0) flags |= MAP_ANONYMOUS;
        Piece p = inside({r.chance(50) ? piece(r).at : address(r), length(r)});
        // Where extents lie nothing else is mapped that holds other words.
        if (fd >= 0 && offset != map_extents) p = inside({elsewhere_ + r.below(60000) * BARCUDA_PAGE, p.bytes});
        // RLIMIT_DATA does not count shared memory, and a few extents' size of it is all the guest has: its kernel
        // would end processes.
        if (fd < 0) p.bytes = std::min(p.bytes, most_anonymous);
        void* at = mmap(p.at, p.bytes, protection, flags, fd, offset);
        if (at != MAP_FAILED && fd >= 0 && offset == map_header && (protection & PROT_WRITE))
            means_.found.say("the header was mapped writable, flags %#x", flags);
        return note(r, at, p.bytes);
    }
    bool write_header(Random& r) {
        char* const at = elsewhere_ + r.below(60000) * BARCUDA_PAGE;
        const int flags = MAP_FIXED | r.of({MAP_SHARED, MAP_PRIVATE});
        if (map(fd(r), map_header, at, BARCUDA_PAGE, PROT_READ, flags)) return false;
        std::uint64_t word = 0;
        iovec here{&word, sizeof word}, there{at + 8 * r.below(512), sizeof word};
        const char* const how[] = {"mprotect", "mremap", "process_vm_writev", "read", "populating"};
        const auto i = r.below(std::size(how));
        if ((i == 0 && mprotect(at, BARCUDA_PAGE, PROT_READ | PROT_WRITE) == 0) ||
            (i == 1 && mremap(at, BARCUDA_PAGE, 2 * BARCUDA_CHANNELS_OFFSET, MREMAP_MAYMOVE) != MAP_FAILED) ||
            (i == 2 && process_vm_writev(getpid(), &here, 1, &there, 1, 0) > 0) ||
            (i == 3 && read(pipe_end(r, 0), there.iov_base, 8) > 0) ||
            (i == 4 && madvise(at, BARCUDA_PAGE, MADV_POPULATE_WRITE) == 0))
            means_.found.say("the header could be written or outgrown by %s", how[i]);
        return note(r, at, BARCUDA_PAGE);
    }
    bool unmap(Random& r) {
        const Piece p = piece(r);
        return munmap(p.at, p.bytes) == 0;
    }
    bool protect(Random& r) {
        const Piece p = piece(r);
        const int how = r.chance(60) ? PROT_READ | (r.chance(50) ? PROT_WRITE : 0) : static_cast<int>(r.below(16));
        if (r.chance(5)) return syscall(SYS_pkey_mprotect, p.at, p.bytes, how, r.below(3)) == 0;
        return mprotect(p.at, p.bytes, how | (r.chance(3) ? PROT_GROWSDOWN : 0)) == 0;
    }
    // Every advice but HWPOISON and SOFT_OFFLINE, with which root may break real memory.
    bool advise(Random& r) {
        const Piece p = piece(r);
        const int advice = r.chance(90) ? static_cast<int>(r.below(28)) : r.of({102, 103, -1, 99});
        return madvise(p.at, p.bytes, advice) == 0;
    }
    bool move(Random& r) {
        const Piece p = piece(r);
        Piece to{address(r), r.chance(80) ? p.bytes : length(r)};
        if (window(p.at).at == elsewhere_) to.at = elsewhere_ + r.below(60000) * BARCUDA_PAGE;
        to = inside(to);
        const int flags = r.of({MREMAP_MAYMOVE | MREMAP_FIXED, MREMAP_MAYMOVE | MREMAP_FIXED, MREMAP_MAYMOVE, 0,
                                MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP, MREMAP_MAYMOVE | MREMAP_DONTUNMAP});
        return note(r, mremap(p.at, r.chance(5) ? 0 : p.bytes, to.bytes, flags, to.at), to.bytes);
    }
    bool lock(Random& r) {
        const Piece p = piece(r);
        switch (r.below(8)) {
            case 0:
            case 1: return mlock(p.at, p.bytes) == 0;
            case 2: return mlock2(p.at, p.bytes, MLOCK_ONFAULT) == 0;
            case 3: return r.chance(80) ? munlockall() == 0 : mlockall(MCL_CURRENT | MCL_ONFAULT) == 0;
            default: return munlock(p.at, p.bytes) == 0;
        }
    }

    // ---- the memory

    bool load(Random& r) {
        const Piece p = words(r);
        std::uint64_t copy[512];
        const std::size_t bytes = std::min(p.bytes, sizeof copy);
        const bool is_there = dare([&] { std::memcpy(copy, p.at, bytes); });
        if (is_there && is_extent(p)) check("by a load", copy, bytes);
        return is_there;
    }
    bool store(Random& r) {
        const Piece p = words(r);
        return dare([&] {
            for (std::size_t i = 0; i + 8 <= p.bytes; i += r.chance(90) ? 8 : 4096)
                *reinterpret_cast<volatile std::uint64_t*>(p.at + i) = word(r);
        });
    }
    // Pipes carry extents alone, in whole words; what comes out goes to extents again.
    bool write_pipe(Random& r) {
        const Piece p = words(r);
        return is_extent(p) && write(pipe_end(r, 1), p.at, p.bytes & ~7ull) > 0;
    }
    bool splice_pages(Random& r) {
        const Piece p = words(r);
        if (!is_extent(p)) return false;
        iovec from[2] = {{p.at, p.bytes & ~7ull}, {p.at, 8}};
        return vmsplice(pipe_end(r, 1), from, 1 + r.below(2),
                        static_cast<unsigned>(SPLICE_F_NONBLOCK | (r.chance(20) ? SPLICE_F_GIFT : 0))) > 0;
    }
    bool drain_pipe(Random& r) {
        const Piece p = words(r);
        std::uint64_t copy[512];
        switch (r.below(4)) {
            case 0: return tee(pipe_end(r, 0), pipe_end(r, 1), BARCUDA_PAGE, SPLICE_F_NONBLOCK) > 0;
            case 1: return splice(pipe_end(r, 0), nullptr, pipe_end(r, 1), nullptr, 4096, SPLICE_F_NONBLOCK) > 0;
            case 2: return is_extent(p) && read(pipe_end(r, 0), p.at, p.bytes & ~7ull) > 0;
        }
        const ssize_t got = read(pipe_end(r, 0), copy, sizeof copy);
        if (got > 0) check("through a pipe", copy, static_cast<std::size_t>(got));
        return got > 0;
    }
    // On a part of the disk that is this family's.
    bool direct_io(Random& r) {
        Piece p = piece(r);
        p.bytes = std::min<std::size_t>(p.bytes, 64 * BARCUDA_PAGE) & ~511ull;
        const auto place = static_cast<off_t>(means_.family % 8 * (1u << 20));
        if (!is_extent(p)) return false;
        return (r.chance(50) ? pwrite(means_.disk, p.at, p.bytes, place) : pread(means_.disk, p.at, p.bytes, place)) >
               0;
    }
    bool copy_between(Random& r) {
        const Piece p = words(r), q = words(r);
        if (!is_extent(p) || !is_extent(q)) return false;
        iovec here{p.at, p.bytes & ~7ull}, there{q.at, q.bytes & ~7ull};
        const pid_t who = r.chance(50) ? getpid() : getppid();  // the parent is of the same family, or maps nothing
        return (r.chance(50) ? process_vm_readv(who, &here, 1, &there, 1, 0)
                             : process_vm_writev(who, &here, 1, &there, 1, 0)) > 0;
    }
    // Through mem_, which goes on meaning the process that opened it: a parent's, after fork.
    bool debug(Random& r) {
        const Piece p = words(r);
        std::uint64_t copy[64];
        const std::size_t bytes = std::min<std::size_t>(p.bytes & ~7ull, sizeof copy);
        const auto at = static_cast<off_t>(reinterpret_cast<std::uintptr_t>(p.at));
        if (r.chance(50)) {
            for (std::uint64_t& w : copy) w = word(r);
            return pwrite(mem_, copy, bytes, at) > 0;
        }
        const ssize_t got = pread(mem_, copy, bytes, at);
        if (got > 0 && is_extent(p)) check("as a debugger", copy, static_cast<std::size_t>(got) & ~7ull);
        return got > 0;
    }
    bool futex(Random& r) {
        const Piece p = words(r);
        const int flag = r.of({0, FUTEX_PRIVATE_FLAG});
        const timespec soon{0, 100000};
        if (r.chance(50)) return syscall(SYS_futex, p.at, FUTEX_WAKE | flag, 10, nullptr, nullptr, 0) > 0;
        return syscall(SYS_futex, p.at, FUTEX_WAIT | flag, 0, &soon, nullptr, 0) == 0 || errno == ETIMEDOUT;
    }

    // ---- the file

    bool file_call(Random& r) {
        const int fd = this->fd(r);
        std::uint32_t vector = r.chance(60) ? 0 : static_cast<std::uint32_t>(r.next());
        char buffer[16];
        pollfd waits{fd, static_cast<short>(r.next()), 0};
        switch (r.below(15)) {
            case 0: return fcntl(fd, F_SETFL, O_NONBLOCK | r.of({0, O_APPEND, O_DIRECT, O_ASYNC})) == 0;
            case 1: return poll(&waits, 1, 1) >= 0;
            case 2: return fcntl(fd, F_SETFL, O_NONBLOCK) == 0 && read(fd, buffer, r.below(9)) > 0;
            case 3: return write(fd, &vector, r.of({4u, 4u, 4u, 3u, 8u})) > 0;
            case 4: return pwrite(fd, &vector, 4, static_cast<off_t>(r.next())) > 0;
            case 5: return lseek(fd, static_cast<off_t>(r.next()), static_cast<int>(r.below(6))) >= 0;
            case 6: return splice(pipe_end(r, 0), nullptr, fd, nullptr, 4, SPLICE_F_NONBLOCK) > 0;
            case 7:
            case 8: {
                int other[2];
                if (pipe2(other, O_NONBLOCK | O_CLOEXEC)) return false;
                const bool done = splice(fd, nullptr, other[1], nullptr, 4096, SPLICE_F_NONBLOCK) > 0 ||
                                  sendfile(other[1], fd, nullptr, 4096) > 0;
                close(other[0]);
                close(other[1]);
                return done;
            }
            case 9: return fallocate(fd, static_cast<int>(r.below(16)), 0, 4096) == 0 || ftruncate(fd, 4096) == 0;
            case 10: return fsync(fd) == 0 || flock(fd, LOCK_EX | LOCK_NB) == 0 || flock(fd, LOCK_UN) == 0;
            case 11: return fcntl(fd, F_SETLEASE, r.of({F_RDLCK, F_WRLCK, F_UNLCK})) == 0;
            case 12: return keep_fd(r, open(("/proc/self/fd/" + std::to_string(fd)).c_str(), O_RDWR | O_CLOEXEC));
            case 13: return fcntl(fd, F_SETOWN, getpid()) == 0 && fcntl(fd, F_SETSIG, SIGURG) == 0;
            default: return ioctl(fd, r.chance(50) ? r.next() : 0x5400 + r.below(256), words(r).at) == 0;
        }
    }
    // Who looks at mappings, or marks them.
    bool ask_kernel(Random& r) {
        const Piece p = piece(r);
        unsigned char resident[16];
        unsigned long node = 1;
        switch (r.below(9)) {
            case 0: return mincore(p.at, std::min<std::size_t>(p.bytes, sizeof resident << 12), resident) == 0;
            case 1: return msync(p.at, p.bytes, r.of({MS_ASYNC, MS_SYNC, MS_INVALIDATE})) == 0;
            case 2: return syscall(SYS_mbind, p.at, p.bytes, r.below(6), &node, 2, r.below(8)) == 0;
            case 3: {
                void* page = p.at;
                int where = 0, status = 0;
                return syscall(SYS_move_pages, 0, 1, &page, r.chance(50) ? &where : nullptr, &status, 2) == 0;
            }
            case 4: return syscall(SYS_remap_file_pages, p.at, p.bytes, 0, r.below(4), 0) == 0;
            case 5: {
                const int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
                const bool done = write(fd, r.of({"1", "3", "4"}), 1) == 1;
                close(fd);
                return done;
            }
            case 6: {
                const int fd = open(r.of({"/proc/self/smaps", "/proc/self/numa_maps", "/proc/self/pagemap"}), O_RDONLY);
                char some[4096];
                bool done = lseek(fd, 0, SEEK_CUR) >= 0;
                for (int i = 0; i < 20 && read(fd, some, sizeof some) > 0; ++i) continue;
                close(fd);
                return done;
            }
            case 7: return syscall(462 /* mseal */, p.at, r.chance(10) ? BARCUDA_PAGE : 0, 0) == 0;
            default: {
                const int fd = static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY));
                uffdio_api api{UFFD_API, UFFD_FEATURE_SIGBUS, 0};
                uffdio_register area{{reinterpret_cast<std::uintptr_t>(p.at), p.bytes}, 1 + r.below(7), 0};
                const bool done = ioctl(fd, UFFDIO_API, &api) == 0 && ioctl(fd, UFFDIO_REGISTER, &area) == 0;
                close(fd);
                return done;
            }
        }
    }
    bool send_device(Random& r) {
        char byte = 0, room[CMSG_SPACE(sizeof(int))] = {};
        iovec body{&byte, 1};
        msghdr letter{};
        letter.msg_iov = &body;
        letter.msg_iovlen = 1;
        letter.msg_control = room;
        letter.msg_controllen = sizeof room;
        cmsghdr* c = CMSG_FIRSTHDR(&letter);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int));
        const int fd = this->fd(r);
        std::memcpy(CMSG_DATA(c), &fd, sizeof fd);
        return sendmsg(means_.letters[0], &letter, MSG_DONTWAIT) == 1;
    }
    bool receive_device(Random& r) {
        char byte = 0, room[CMSG_SPACE(sizeof(int))] = {};
        iovec body{&byte, 1};
        msghdr letter{};
        letter.msg_iov = &body;
        letter.msg_iovlen = 1;
        letter.msg_control = room;
        letter.msg_controllen = sizeof room;
        if (recvmsg(means_.letters[1], &letter, MSG_DONTWAIT) != 1 || !CMSG_FIRSTHDR(&letter)) return false;
        int fd = -1;
        std::memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&letter)), sizeof fd);
        return keep_fd(r, fd);
    }

    // ---- processes

    bool bear(Random& r) {
        if (depth_ == 2) return false;
        const pid_t pid = fork();
        if (pid != 0) {
            if (pid > 0 && r.chance(20)) {
                usleep(static_cast<unsigned>(r.below(5000)));
                kill(pid, SIGKILL);
            }
            return pid > 0;
        }
        ++depth_;
        alarm(3);
        Random own(r.next() ^ static_cast<std::uint64_t>(getpid()) << 32);
        live(own, 20 + static_cast<unsigned>(own.below(100)));
        _exit(0);
    }
    bool run_program(Random& r) {
        const pid_t pid = r.chance(50) ? vfork() : fork();
        if (pid == 0) {
            execl("/bin/true", "true", nullptr);
            _exit(1);
        }
        return pid > 0 && (r.chance(50) || waitpid(pid, nullptr, 0) == pid);
    }
    bool end(Random& r) {
        if (depth_ == 0) return false;  // a life ends by itself, or is killed
        if (r.chance(30)) kill(getpid(), SIGKILL);
        if (r.chance(50)) execl("/bin/true", "true", nullptr);
        signal(SIGABRT, SIG_DFL);
        if (r.chance(60)) abort();  // with a core file, which holds extents
        _exit(0);
    }

  public:
    static constexpr Named acts[] = {{"open", &Life::open_device, 8},
                                     {"close", &Life::close_device, 3},
                                     {"client", &Life::open_client, 12},
                                     {"mmap", &Life::map_anything, 20},
                                     {"header", &Life::write_header, 4},
                                     {"munmap", &Life::unmap, 5},
                                     {"mprotect", &Life::protect, 10},
                                     {"madvise", &Life::advise, 20},
                                     {"mremap", &Life::move, 10},
                                     {"mlock", &Life::lock, 4},
                                     {"load", &Life::load, 30},
                                     {"store", &Life::store, 30},
                                     {"write", &Life::write_pipe, 5},
                                     {"vmsplice", &Life::splice_pages, 5},
                                     {"drain", &Life::drain_pipe, 8},
                                     {"O_DIRECT", &Life::direct_io, 8},
                                     {"process_vm", &Life::copy_between, 5},
                                     {"debugger", &Life::debug, 5},
                                     {"futex", &Life::futex, 3},
                                     {"file", &Life::file_call, 8},
                                     {"ask", &Life::ask_kernel, 8},
                                     {"send", &Life::send_device, 3},
                                     {"receive", &Life::receive_device, 3},
                                     {"fork", &Life::bear, 4},
                                     {"program", &Life::run_program, 1},
                                     {"end", &Life::end, 2}};

  private:
    int mem_;
    unsigned depth_ = 0;
};

}  // namespace barcuda::vm
