// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/watch/bridges.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <string_view>

#include "base/message.h"
#include "host-bridge/between/limits_link.h"
#include "host-bridge/monitor/monitor.h"
#include "shm-device/cuda/visible_devices.h"

namespace barcuda::watch {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds patience{3};  // for all of them together: a bridge answers several times a second
// Every user may create such names. The limit is per user, so one user cannot hide another's bridges.
constexpr std::size_t most_doors_of_a_user = 256;

template <std::size_t N> std::string text(const char (&from)[N]) { return printable({from, strnlen(from, N)}); }

double seconds_between(std::uint64_t from, std::uint64_t to) { return to > from ? double(to - from) / 1e6 : 0; }

Percent percent(std::uint8_t value) { return value == Busy::unknown ? Percent() : std::min<unsigned>(value, 100); }

Client client_of(const ListedClient& row, std::uint64_t now, unsigned gpus) {
    Client c;
    c.channel = row.channel;
    c.worker = row.worker;
    c.pid = row.pid;
    c.program = text(row.program);
    c.user = text(row.user);
    c.age = seconds_between(row.since, now);
    c.state = name_of(row.paused);
    c.shared = row.shared;
    if (row.parked && row.paused == Paused::away) c.state = "parked";
    if (row.paused == Paused::running && c.shared.lacks) c.state = "waits";
    else if (row.paused == Paused::running && c.shared.out) c.state = "out";
    c.paused_for = double(row.paused_for) / 1e6;
    c.region_memory = row.region_memory;
    c.most_region_memory = row.most_region_memory;
    c.most_device_memory = row.most_device_memory;
    c.queued = row.queued;
    c.counts = row.counts;
    for (unsigned d = 0; d < gpus; ++d) {
        c.device_memory.push_back(row.device_memory[d]);
        c.busy.push_back(percent(row.busy[d]));
    }
    return c;
}

Bridge bridge_of(const ListReply& reply, const ucred& who) {
    Bridge b;
    b.pid = who.pid;
    b.user = who.uid;
    b.name = text(reply.name);
    b.region = text(reply.region);
    b.build = text(reply.build);
    b.software = reply.software;
    b.interrupts = reply.interrupts;
    b.no_vm = reply.no_vm;
    b.began = double(reply.since) / 1e6;
    b.age = seconds_between(reply.since, reply.now);
    b.region_size = reply.region_size;
    b.region_heap = reply.region_heap;
    b.region_held = reply.region_held;
    b.shares_cards = reply.shares_cards;
    b.store = reply.store;
    b.store_held = reply.store_held;
    b.shared = reply.shared;
    b.channels = reply.channels;
    b.warm = reply.warm;
    b.clients = reply.clients;
    b.came = reply.came;
    b.queued = reply.queued;
    b.counts = reply.counts;
    std::ranges::copy(reply.went, b.went.begin());
    for (unsigned d = 0; d < std::min(reply.gpu_count, BARCUDA_MAX_DEVICES); ++d) {
        const ListedGpu& gpu = reply.gpus[d];
        b.gpus.push_back({text(gpu.name), "GPU-" + uuid_text(gpu.uuid), gpu.memory, gpu.held, percent(gpu.busy)});
    }
    return b;
}

// One bridge that is being asked.
class Caller {
  public:
    Caller(const Doors& doors, std::string door, bool busy) : doors_(&doors), door_(std::move(door)), busy_(busy) {}
    // False: the answer is complete, or will not come.
    bool ask(View& view) {
        socklen_t size = sizeof who_;
        const sockaddr_un address = unix_address(door_);
        socket_ = File(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
        if (!socket_) return false;
        if (connect(socket_.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
            if (errno == EACCES) ++view.others;
            else if (errno == EAGAIN) be_silent(view, "too many processes wait for its answer");
            else if (errno != ECONNREFUSED) complain(view, strerror(errno));  // otherwise it has just ended
            return false;
        }
        if (getsockopt(socket_.fd(), SOL_SOCKET, SO_PEERCRED, &who_, &size) != 0) return false;
        if (!doors_->believes(who_.uid)) return false;
        if (geteuid() != 0 && who_.uid != geteuid()) {
            ++view.others;
            return false;
        }
        ListRequest request;
        request.from = from_;
        request.busy = busy_;
        return send(socket_.fd(), &request, sizeof request, MSG_NOSIGNAL) == sizeof request || errno == EPIPE;
    }
    int fd() const { return socket_.fd(); }
    bool hear(View& view) {
        const auto reply = std::make_unique<ListReply>();
        const ssize_t n = recv(socket_.fd(), reply.get(), sizeof *reply, MSG_DONTWAIT);
        if (n < static_cast<ssize_t>(offsetof(ListReply, rows)) || reply->version != ListRequest::form ||
            reply->count > ListReply::most || n != static_cast<ssize_t>(reply->bytes())) {
            complain(view, "it is of another version than this command");
            return false;
        }
        reply->error[sizeof reply->error - 1] = 0;
        if (*reply->error) {
            complain(view, printable(reply->error));
            return false;
        }
        if (!seen_) {
            seen_ = bridge_of(*reply, who_);
            seen_->door = door_;
        }
        for (const ListedClient& row : std::span(reply->rows, reply->count))
            seen_->rows.push_back(client_of(row, reply->now, static_cast<unsigned>(seen_->gpus.size())));
        if (reply->next > from_ && reply->next < BARCUDA_MAX_CHANNELS) {
            from_ = reply->next;
            return ask(view);
        }
        view.bridges.push_back(std::move(*seen_));
        return false;
    }
    void be_silent(View& view, const std::string& why) const {
        view.silent.push_back({who_.pid, who_.uid});
        complain(view, why);
    }
    void complain(View& view, const std::string& what) const {
        const std::string which = who_.pid ? fmt::format("with pid {}", who_.pid) : "at " + printable(door_);
        view.complaints.push_back(fmt::format("the bridge {}: {}", which, what));
    }

  private:
    const Doors* doors_;
    std::string door_;
    bool busy_;
    File socket_;
    ucred who_{};
    std::uint32_t from_ = 0;
    std::optional<Bridge> seen_;
};

}  // namespace

std::uint64_t Client::all_device_memory() const {
    return std::accumulate(device_memory.begin(), device_memory.end(), std::uint64_t{0});
}

Percent Client::all_busy() const {
    Percent sum;
    for (const Percent& its : busy)
        if (its) sum = sum.value_or(0) + *its;
    return sum;
}

std::string printable(const std::string& text) {
    std::string plain;
    for (const char c : text) {
        if (c >= 0x20 && c <= 0x7e) plain += c;
        else plain += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
    return plain;
}

Doors::Doors(const std::string& region, std::set<uid_t> users)
    : users_(std::move(users)), begins_(limits_name), folder_(open(limits_folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    if (struct stat st{}; !region.empty()) begins_ = stat(region.c_str(), &st) == 0 ? limits_name_of(st) : "/";
}

Doors::Found Doors::list() const {
    Found found;
    std::map<uid_t, std::size_t> counts;
    const int copy = fcntl(folder_.fd(), F_DUPFD_CLOEXEC, 0);
    DIR* const folder = copy < 0 ? nullptr : fdopendir(copy);
    if (!folder) return found;
    rewinddir(folder);  // all descriptors of one folder share its position
    struct stat st {};
    while (const dirent* entry = readdir(folder)) {
        if (!std::string_view(entry->d_name).starts_with(begins_) ||
            fstatat(folder_.fd(), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISSOCK(st.st_mode) ||
            !believes(st.st_uid) || ++counts[st.st_uid] > most_doors_of_a_user)
            continue;
        if (geteuid() != 0 && st.st_uid != geteuid()) ++found.others;
        else found.doors.insert(fmt::format("{}/{}", limits_folder, entry->d_name));
    }
    closedir(folder);
    return found;
}

View look(bool busy, const Doors& doors) {
    View view;
    const Doors::Found found = doors.list();
    view.others = found.others;
    std::vector<Caller> callers;
    for (const std::string& door : found.doors)
        if (Caller caller(doors, door, busy); caller.ask(view)) callers.push_back(std::move(caller));
    const auto end = Clock::now() + patience;
    while (!callers.empty()) {
        std::vector<pollfd> fds;
        fds.reserve(callers.size());
        for (const Caller& caller : callers) fds.push_back({caller.fd(), POLLIN, 0});
        const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
        if (left <= 0 || poll(fds.data(), fds.size(), static_cast<int>(left)) == 0) break;
        std::vector<Caller> still;
        for (std::size_t i = 0; i < callers.size(); ++i)
            if (!fds[i].revents || callers[i].hear(view)) still.push_back(std::move(callers[i]));
        callers = std::move(still);
    }
    for (const Caller& caller : callers) caller.be_silent(view, "it does not answer");
    std::ranges::sort(view.bridges, {}, [](const Bridge& b) { return std::pair(b.name, b.pid); });
    // Several users may choose the same name: they get "vm1/4711", which no name can be.
    std::map<std::string, unsigned> alike;
    for (const Bridge& b : view.bridges) ++alike[b.name];
    for (Bridge& b : view.bridges)
        if (alike[b.name] > 1) b.name += fmt::format("/{}", b.pid);
    return view;
}

View look_at_gpus(const Doors& doors) {
    constexpr int nap = 250, most_naps = 4;  // milliseconds; a running monitor needs some tens of them for a sweep
    View view = look(true, doors);
    const auto unknown = [](const Bridge& b) {
        return std::ranges::any_of(b.gpus, [](const Gpu& g) { return !g.busy; });
    };
    for (int naps = 0; naps < most_naps && std::ranges::any_of(view.bridges, unknown); ++naps) {
        poll(nullptr, 0, nap);
        view = look(true, doors);
    }
    return view;
}

}  // namespace barcuda::watch
