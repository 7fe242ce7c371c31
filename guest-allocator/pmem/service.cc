// SPDX-License-Identifier: Apache-2.0
// service.cc: which client gets which file, and when a file is unused (is_unused()). The kernel knows that: a file
// cannot be leased for reading while any process has it open, or mapped, for writing. To truncate the file to its
// present length waits for pages that are in use without a mapping: in a pipe after vmsplice(), under direct I/O. So
// nothing depends on what clients say or on how they end, and a restarted service finds everything as it is: the truth
// is in the kernel and in the two tables of the region, slots and grants, for which this is the door
// (shm-device/layout.h).
//
// A descriptor, once given, cannot be taken back. What a client keeps after its release counts as mapped, and the host
// does not grant it to another client.
#include "guest-allocator/pmem/service.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <grp.h>
#include <linux/fs.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "base/log.h"
#include "base/message.h"
#include "guest-allocator/pmem/stack.h"
#include "guest-allocator/pmem/tables.h"
#include "guest-allocator/pmem/visitors.h"
#include "shm-device/doors/service_messages.h"
#include "shm-device/queue/sync.h"
#include "shm-device/region/region.h"

namespace barcuda::pmem {
namespace {

constexpr std::uint32_t no_client = 0;  // as in a grant; else a channel + 1
constexpr char folder[] = "/run/barcuda/parts";
// How often what was given is looked at (ms): while there are clients, and while something is about to become free.
constexpr int usual_look = 100, soon = 10;
constexpr unsigned most_kept = 8;  // in one look

struct Visitor {
    File socket;
    uid_t user;
    std::uint32_t client = no_client;
};

// Interrupts a system call that waits.
class Alarm {
  public:
    Alarm() { set({0, 1000}); }
    ~Alarm() { set({}); }
    Alarm(const Alarm&) = delete;
    static bool prepare() {
        struct sigaction action {};
        action.sa_handler = [](int) {};
        return sigaction(SIGALRM, &action, nullptr) == 0;
    }

  private:
    // Again and again: the first may come before the call waits.
    static void set(timeval every) {
        const itimerval timer{every, every};
        setitimer(ITIMER_REAL, &timer, nullptr);
    }
};

class Service {
  public:
    Service(File listener, barcuda_header header, void* tables)
        : listener_(std::move(listener)),
          header_(header),
          tables_(static_cast<char*>(tables)),
          given_(header.granule_count) {
        for (std::uint32_t g = 0; g < header.granule_count;
             ++g)  // by an earlier service, or before the guest was reset
            if (grant(g).mapped) {
                given_[g] = observe(grant(g).owner);
                ++given_count_;
            }
    }

    // One turn: until something happens, or it is time to look.
    void turn() {
        std::vector<pollfd> fds = {{listener_.fd(), static_cast<short>(places_.has_place() ? POLLIN : 0), 0}};
        for (const Visitor& v : visitors_) fds.push_back({v.socket.fd(), POLLIN, 0});
        if (poll(fds.data(), fds.size(), look_at_all()) < 0 && errno != EINTR) log::error("poll: {}", strerror(errno));
        for (std::size_t i = visitors_.size(); i-- > 0;)
            if (fds[i + 1].revents && !answer(visitors_[i])) {
                places_.went(visitors_[i].user);
                visitors_.erase(visitors_.begin() + static_cast<std::ptrdiff_t>(i));
            }
        if (fds[0].revents) welcome();
    }

  private:
    barcuda_slot& slot(std::uint32_t i) { return reinterpret_cast<barcuda_slot*>(tables_ + BARCUDA_SLOTS_OFFSET)[i]; }
    barcuda_grant& grant(std::uint32_t i) {
        return reinterpret_cast<barcuda_grant*>(tables_ + BARCUDA_GRANTS_OFFSET)[i];
    }
    static File open_part(const std::string& name, int how) {
        return File(open(fmt::format("{}/{}", folder, name).c_str(), how | O_CLOEXEC | O_NOFOLLOW));
    }
    // Fixes the file's length and blocks, or not. A process that has a file open for writing may truncate it and
    // lengthen another one, and so exchange their blocks. An immutable file prevents that, and mappings of a descriptor
    // that was opened before still write to it.
    static bool fix(const File& file, bool fixed) {
        int flags = 0;
        if (ioctl(file.fd(), FS_IOC_GETFLAGS, &flags)) return false;
        flags = fixed ? flags | FS_IMMUTABLE_FL : flags & ~FS_IMMUTABLE_FL;
        return ioctl(file.fd(), FS_IOC_SETFLAGS, &flags) == 0;
    }
    // Opens an unused file for a client. No file, with errno: not available.
    static File give(const std::string& name) {
        File file = open_part(name, O_RDWR);
        return file && fix(file, true) ? std::move(file) : File();
    }
    // Afterwards it can be given.
    static bool is_unused(const std::string& name, std::uint64_t bytes) {
        {
            const File file = open_part(name, O_RDONLY);
            if (!file || fcntl(file.fd(), F_SETLEASE, F_RDLCK) || !fix(file, false)) return false;
        }
        const File file = open_part(name, O_RDWR);
        // Without a mapping ftruncate() would check no page.
        void* const p = mmap(nullptr, BARCUDA_PAGE, PROT_READ, MAP_SHARED, file.fd(), 0);
        if (p == MAP_FAILED) return false;
        const Alarm alarm;
        const bool unused = ftruncate(file.fd(), static_cast<off_t>(bytes)) == 0;
        munmap(p, BARCUDA_PAGE);
        return unused;
    }
    bool is_free_channel(std::uint32_t i) const { return is_unused(channel_file(i), BARCUDA_CHANNEL_SIZE); }

    // Closes what is unused. How long until the next look, in ms; -1: there is nothing to look at.
    int look_at_all() {
        int wait = visitors_.empty() ? -1 : usual_look;
        const auto sooner = [&](int than) { wait = wait < 0 ? than : std::min(wait, than); };
        for (std::uint32_t i = 0; i < header_.channel_count; ++i) {
            barcuda_slot& s = slot(i);
            const std::uint32_t opened = observe(s.opened);
            if (opened == observe(s.closed)) continue;
            if (is_free_channel(i)) {
                publish(s.closed, opened);
                log::debug("channel {} is closed", i);
            } else {
                // Without a visitor for it, its process is ending.
                const bool lives = std::ranges::any_of(visitors_, [&](const Visitor& v) { return v.client == i + 1; });
                sooner(lives ? usual_look : soon);
            }
        }
        // A few of those that are still in use, since the kernel may have to wait for pages. The others next time.
        unsigned kept = 0;
        for (std::uint32_t i = 0, n = header_.granule_count; given_count_ && kept < most_kept && i < n; ++i) {
            const std::uint32_t g = next_ = (next_ + 1) % n;
            const std::uint32_t owner = observe(grant(g).owner);
            if (!grant(g).mapped || (owner != no_client && owner == given_[g])) continue;
            if (is_unused(granule_file(g), BARCUDA_GRANULE)) {
                publish(grant(g).mapped, 0);
                --given_count_;
            } else {
                sooner(soon);
                ++kept;
            }
        }
        return wait;
    }

    void welcome() {
        File socket(accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC));
        ucred who{};
        socklen_t size = sizeof who;
        if (!socket && errno != EAGAIN && errno != ECONNABORTED) {
            log::error("accept: {}", strerror(errno));
            usleep(100'000);  // it will be so again at once
        }
        if (!socket || getsockopt(socket.fd(), SOL_SOCKET, SO_PEERCRED, &who, &size)) return;
        if (!places_.may_come(who.uid))
            return log::warn("process {} was refused: its user {} has as many connections as one user may have",
                             who.pid, who.uid);
        log::debug("process {} of user {}", who.pid, who.uid);
        places_.came(who.uid);
        visitors_.push_back({std::move(socket), who.uid});
    }

    // False: it has gone, or sent what no client sends.
    bool answer(Visitor& visitor) {
        door::Request request;
        const ssize_t n = recv(visitor.socket.fd(), &request, sizeof request, MSG_DONTWAIT | MSG_TRUNC);
        if (n < 0) return errno == EAGAIN || errno == EINTR;
        if (n != sizeof request) return false;
        std::array<File, door::most_files> files;
        door::Answer answer;
        switch (request.what) {
            case door::What::header: files[0] = open_part(header_file, O_RDONLY); break;
            case door::What::channel: answer.error = open_channel(visitor, files[0], answer.channel); break;
            case door::What::extent: answer.error = open_extent(visitor.client, request, files); break;
            case door::What::released: return true;  // the next turn begins with a look
            default: return false;
        }
        return send(visitor.socket.fd(), answer, files);
    }

    // EAGAIN: the host is about to free one.
    int open_channel(Visitor& visitor, File& file, std::uint32_t& channel) {
        if (visitor.client != no_client) return EBUSY;
        int error = ENOSPC;
        for (std::uint32_t i = 0; i < header_.channel_count; ++i) {
            barcuda_slot& s = slot(i);
            const std::uint32_t opened = observe(s.opened);
            if (opened != observe(s.closed)) continue;
            error = EAGAIN;
            if (observe(s.reclaimed) != opened) continue;
            file = give(channel_file(i));
            if (!file) return errno;
            publish(s.pid, 0);
            publish(s.start_time, 0);
            publish(s.opened, opened + 1);
            channel = i;
            visitor.client = i + 1;
            return 0;
        }
        return error;
    }

    int open_extent(std::uint32_t client, const door::Request& r, std::span<File> files) {
        const std::uint64_t end = header_.extents_offset + header_.granule_count * BARCUDA_GRANULE;
        if (client == no_client || r.bytes == 0 || r.bytes > files.size() * BARCUDA_GRANULE ||
            r.offset % BARCUDA_GRANULE || r.bytes % BARCUDA_GRANULE || r.offset < header_.extents_offset ||
            r.offset > end || r.bytes > end - r.offset)
            return EINVAL;
        const auto first = static_cast<std::uint32_t>((r.offset - header_.extents_offset) / BARCUDA_GRANULE);
        const auto count = static_cast<std::uint32_t>(r.bytes / BARCUDA_GRANULE);
        for (std::uint32_t i = first; i < first + count; ++i) {
            if (observe(grant(i).owner) != client) return EACCES;
            if (grant(i).mapped) return EBUSY;  // it has that one, or has just given it back
        }
        int error = 0;
        for (std::uint32_t i = first; i < first + count; ++i) {
            publish(grant(i).mapped, 1);
            Smp::fence();  // pairs with the bridge, which clears `owner` and then looks at `mapped`
            ++given_count_;
            given_[i] = client;
            files[i - first] = give(granule_file(i));
            if (!files[i - first]) error = errno;
            if (observe(grant(i).owner) != client) error = EACCES;
        }
        for (std::uint32_t i = first; error && i < first + count; ++i) given_[i] = no_client;  // free at the next look
        return error;
    }

    // Never waits: a client that does not read its answers gets no further ones.
    static bool send(int socket, const door::Answer& answer, std::span<const File> files) {
        std::array<int, door::most_files> fds;
        std::size_t count = 0;
        for (const File& file : files)
            if (file && !answer.error) fds[count++] = file.fd();
        alignas(cmsghdr) char control[CMSG_SPACE(sizeof fds)] = {};
        iovec data{const_cast<door::Answer*>(&answer), sizeof answer};
        msghdr message{};
        message.msg_iov = &data;
        message.msg_iovlen = 1;
        if (count) {
            message.msg_control = control;
            message.msg_controllen = CMSG_SPACE(count * sizeof(int));
            cmsghdr* c = CMSG_FIRSTHDR(&message);
            c->cmsg_level = SOL_SOCKET;
            c->cmsg_type = SCM_RIGHTS;
            c->cmsg_len = CMSG_LEN(count * sizeof(int));
            std::memcpy(CMSG_DATA(c), fds.data(), count * sizeof(int));
        }
        return sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == sizeof answer;
    }

    File listener_;
    const barcuda_header header_;
    char* const tables_;
    std::vector<std::uint32_t> given_;  // to which client, of granules that count as mapped
    std::size_t given_count_ = 0;
    std::uint32_t next_ = 0;  // with which a look begins
    UserPlaces places_{UserPlaces::raise_descriptors()};
    std::vector<Visitor> visitors_;
};

int refuse(const std::string& why) {
    log::critical("{}", why);
    return 1;
}

// A door has one service at a time: the lock ends with the process. Two would take each other's clients, and the one
// that ends first the door's name.
File lock_door(const std::string& path, std::string& error) {
    const std::string name = path + ".lock";
    std::error_code ignored;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ignored);
    File lock(open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (lock && flock(lock.fd(), LOCK_EX | LOCK_NB) == 0) return lock;
    if (errno == EWOULDBLOCK)
        error = fmt::format("another service has {} (systemctl status barcuda-guest): stop that one first", path);
    else error = fmt::format("{}: {}", name, strerror(errno));
    return File();
}

// Its group's: as the module's device is.
File listen_for(const std::string& path, const std::string& group, std::string& error) {
    const bool number = !group.empty() && group.find_first_not_of("0123456789") == group.npos;
    const struct group* const its = number ? nullptr : getgrnam(group.c_str());
    const gid_t gid = number ? static_cast<gid_t>(std::stoul(group)) : its ? its->gr_gid : 0;
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    File listener(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    // Made under another name: no client finds it before its rights are set, nor while an earlier one is there.
    const std::string fresh = path + ".new";
    if (fresh.size() >= sizeof address.sun_path) {
        error = path + ": too long";
        return File();
    }
    fresh.copy(address.sun_path, fresh.size());
    unlink(fresh.c_str());
    if (!number && !its) error = fmt::format("there is no group \"{}\"", group);
    else if (!listener || bind(listener.fd(), reinterpret_cast<sockaddr*>(&address), sizeof address) ||
             chown(fresh.c_str(), 0, gid) || chmod(fresh.c_str(), 0660) || listen(listener.fd(), SOMAXCONN) ||
             rename(fresh.c_str(), path.c_str()))
        error = fmt::format("{}: {}", path, strerror(errno));
    return error.empty() ? std::move(listener) : File();
}

// As sd_notify(3); a guest may lack its library.
void tell_systemd(const std::string& what) {
    const char* const where = getenv("NOTIFY_SOCKET");
    const std::string path = where ? where : "";
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.empty() || path.size() >= sizeof address.sun_path) return;
    path.copy(address.sun_path, path.size());
    if (path[0] == '@') address.sun_path[0] = 0;
    const File socket_(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
    sendto(socket_.fd(), what.data(), what.size(), MSG_NOSIGNAL, reinterpret_cast<sockaddr*>(&address), size);
}

}  // namespace

int serve(const ServiceOptions& options) {
    if (geteuid() != 0) return refuse("it owns the device, so it is for root");
    std::string wrong;
    const File lock = lock_door(options.socket, wrong);
    if (!lock) return refuse(wrong);
    std::string device = options.device;
    barcuda_header header;
    for (bool said = false;; said = true) {
        if (options.device.empty()) device = find_device();
        const Error e = device.empty() ? error(Error::not_ready, 0, "no pmem device has a region yet")
                                       : read_header(device, header);
        if (!e) break;
        if (e.kind != Error::not_ready) return refuse(e.text);
        if (!said) {
            log::info("{}; waiting for the host's bridge", e.text);
            tell_systemd("READY=1\nSTATUS=waiting for the host's bridge");
        }
        usleep(200'000);
    }
    if (wrong = mount_files(device, header, folder); !wrong.empty()) return refuse(wrong);
    const File tables(open(fmt::format("{}/{}", folder, header_file).c_str(), O_RDWR | O_CLOEXEC));
    void* const p = mmap(nullptr, BARCUDA_CHANNELS_OFFSET, PROT_READ | PROT_WRITE, MAP_SHARED, tables.fd(), 0);
    if (p == MAP_FAILED) return refuse(fmt::format("cannot map the region's tables: {}", strerror(errno)));
    File listener = listen_for(options.socket, options.group, wrong);
    if (!listener) return refuse(wrong);
    log::info("serves {}: {} MiB, at {}", device, header.size >> 20, options.socket);
    if (!Alarm::prepare()) return refuse(strerror(errno));
    tell_systemd("READY=1\nSTATUS=serves " + device);
    Service service(std::move(listener), header, p);
    for (;;) service.turn();
}

}  // namespace barcuda::pmem
