// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/bridge/control.h"

#include <fmt/format.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <memory>
#include <type_traits>

#include "base/field.h"
#include "base/log.h"
#include "host-bridge/between/files_message.h"

namespace barcuda {
namespace {

constexpr std::size_t most_visitors = 8;

// If the message has this request's length and form, answers it, and returns true.
template <class Request, class Reply, class Result>
bool answered(int to, const ucred& by, const char* message, ssize_t bytes,
              const std::function<Result(const Request&, Reply&, const ucred&)>& serve) {
    Request request;
    if (bytes != sizeof request) return false;
    std::memcpy(&request, message, sizeof request);
    const auto reply = std::make_unique<Reply>();
    std::vector<File> files;
    constexpr std::string_view other = "the bridge is of another version (" BARCUDA_VERSION ")";
    if (request.version != Request::form) put(reply->error, other);
    else if constexpr (std::is_void_v<Result>) serve(request, *reply, by);
    else files = serve(request, *reply, by);
    if (!send_files(to, reply.get(), reply->bytes(), files))
        log::debug("the process that asked does not take the answer: {}", strerror(errno));
    return true;
}
constexpr std::size_t lengths[] = {sizeof(LimitRequest), sizeof(ListRequest), sizeof(PauseRequest),
                                   sizeof(UpgradeRequest), sizeof(SuspendRequest)};
constexpr bool differ() {
    for (std::size_t i = 0; i < std::size(lengths); ++i)
        for (std::size_t j = 0; j < i; ++j)
            if (lengths[i] == lengths[j]) return false;
    return true;
}
static_assert(differ(), "they are told apart by their length");

const sockaddr* as_address(const sockaddr_un& address) { return reinterpret_cast<const sockaddr*>(&address); }

// Removes the sockets of bridges that were killed: no process answers there.
void remove_old() {
    std::error_code ec;
    for (const auto& entry : std::filesystem::directory_iterator(limits_folder, ec)) {
        struct stat st {};
        if (!entry.path().filename().string().starts_with(limits_name) || lstat(entry.path().c_str(), &st) != 0 ||
            !S_ISSOCK(st.st_mode) || st.st_uid != geteuid())
            continue;
        const File to(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
        const sockaddr_un address = unix_address(entry.path());
        if (connect(to.fd(), as_address(address), sizeof address) != 0 && errno == ECONNREFUSED)
            unlink(entry.path().c_str());
    }
}

}  // namespace

Control::~Control() {
    if (!path_.empty()) unlink(path_.c_str());
}

Failure Control::open(int region) {
    struct stat st {};
    std::uint64_t number = 0;
    File listener(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!listener || fstat(region, &st) != 0 || getrandom(&number, sizeof number, 0) != sizeof number)
        return strerror(errno);
    remove_old();
    // It gets its final name when it can answer: otherwise another bridge would take it for an old one.
    const std::string first = fmt::format("{}/barcuda-{:x}", limits_folder, number),
                      path = fmt::format("{}/{}{:x}", limits_folder, limits_name_of(st), number);
    const sockaddr_un address = unix_address(first);
    const mode_t mask = umask(0177);
    const bool bound = bind(listener.fd(), as_address(address), sizeof address) == 0;
    umask(mask);
    if (!bound) return fmt::format("{}: {}", first, strerror(errno));
    if (listen(listener.fd(), most_visitors) != 0 || rename(first.c_str(), path.c_str()) != 0) {
        const std::string why = strerror(errno);
        unlink(first.c_str());
        return why;
    }
    listener_ = std::move(listener);
    path_ = path;
    return {};
}

void Control::serve(Loop& loop, Answers answers) {
    answers_ = std::move(answers);
    if (listener_) knocks_ = loop.watch(listener_.fd(), Loop::Rank::tool, [this, &loop](short) { greet(loop); });
}

void Control::answer(Seat& visitor) {
    char message[1024];
    static_assert(sizeof message > *std::ranges::max_element(lengths));
    const int from = visitor.socket.fd();
    const ssize_t n = recv(from, message, sizeof message, MSG_DONTWAIT | MSG_TRUNC);
    const auto is = [&](const auto& serve) { return answered(from, visitor.who, message, n, serve); };
    if (!is(answers_.limits) && !is(answers_.list) && !is(answers_.pause) && !is(answers_.upgrade))
        is(answers_.suspend);
    visitors_.remove_if([&](const Seat& seat) { return &seat == &visitor; });
}

void Control::greet(Loop& loop) {
    File visitor(accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    const Visitor who = visitor ? visitor_at(visitor.fd()) : Visitor();
    if (!who.process || (who.user != 0 && who.user != geteuid())) return;
    if (answers_.is_worker(who)) {
        // A bridge that starts looks whether this one lives, and says nothing.
        if (char first; recv(visitor.fd(), &first, sizeof first, MSG_PEEK | MSG_DONTWAIT) > 0)
            log::error("worker {} connected to the socket of `barcuda limit` and was refused", who.pid);
        return;
    }
    if (visitors_.size() == most_visitors) visitors_.pop_front();
    Seat& seat = visitors_.emplace_back();
    seat.socket = std::move(visitor);
    seat.who = {.pid = who.pid, .uid = who.user, .gid = static_cast<gid_t>(-1)};
    seat.watch = loop.watch(seat.socket.fd(), Loop::Rank::tool, [this, &seat](short) { answer(seat); });
}

}  // namespace barcuda
