// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/bridge/carrier.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/os/thread.h"
#include "host-bridge/suspended/frames.h"
#include "shm-device/queue/sync.h"

namespace barcuda {
namespace {

using carrying::Hand;
using carrying::Wanted;
using carrying::Which;

// A worker may write into its sheet at any time, and may leave out the zero.
template <std::size_t N> std::string copied(const char (&text)[N]) {
    char copy[N];
    std::memcpy(copy, text, N);
    return {copy, strnlen(copy, N)};
}

Failure hand(const Client& client, Which part, int file) {
    Hand message;
    message.part = part;
    if (send_message(client.worker->link(), &message, sizeof message, file)) return {};
    return fmt::format("its worker does not take the descriptor of its {}: {}", carrying::name_of(part),
                       strerror(errno));
}

// All bytes of a part, into a pipe. (Its reader may go.)
void feed(const FrameReader& from, const File& to) {
    std::vector<std::byte> bytes;
    for (std::size_t i = 0; i < from.count(); ++i) {
        bytes.resize(from.size(i));
        if (from.read(i, bytes)) return;  // the worker notices what is missing
        for (std::size_t done = 0; done < bytes.size();) {
            const ssize_t n = write(to.fd(), bytes.data() + done, bytes.size() - done);
            if (n < 0 && errno == EINTR) continue;
            if (n <= 0) return;
            done += static_cast<std::size_t>(n);
        }
    }
}

}  // namespace

std::uint32_t Carrier::tell(Client& client, Wanted wanted) {
    CarryPlace& place = client.worker->sheet().carry;
    const std::uint32_t number = observe(place.order) + 1;
    place.wanted = wanted;
    publish(place.order, number);
    client.bell.relay();
    return orders_[client.slot()] = number;
}

Failure Carrier::order(Client& client, bool check, std::vector<File>& ends) {
    if (observe(client.worker->sheet().orders.link) < Orders::link_of_this_build)
        return "its worker is of an earlier build, which carries no clients: end the program, or let it end";
    // All pipes first: descriptors that no order follows would stay in the worker's link.
    std::vector<File> write_ends;
    for (unsigned part = 0; part < carrying::parts && !check; ++part) {
        int pipe[2];
        if (pipe2(pipe, O_CLOEXEC) != 0) return strerror(errno);
        ends.emplace_back(pipe[0]);
        write_ends.emplace_back(pipe[1]);
    }
    for (std::size_t part = 0; part < write_ends.size(); ++part)
        if (Failure failure = hand(client, static_cast<Which>(part), write_ends[part].fd())) return failure;
    // A worker that waits for an answer looks at its orders when a message comes.
    if (check)
        if (Failure failure = hand(client, Which::none, -1)) return failure;
    tell(client, check ? Wanted::check : Wanted::write);
    return {};
}

void Carrier::look(const Client& client, SuspendRow& row) const {
    const auto its = orders_.find(client.slot());
    const CarryPlace& place = client.worker->sheet().carry;
    if (its == orders_.end()) return;
    if (observe(place.done) != its->second) {
        row.state = SuspendRow::busy;
        return;
    }
    row.state = observe(place.able) == 1 ? SuspendRow::able : SuspendRow::hindered;
    copied(place.what).copy(row.text, sizeof row.text - 1);
    copied(place.cure).copy(row.cure, sizeof row.cure - 1);
}

void Carrier::announce(Client& client) { tell(client, Wanted::read); }

Failure Carrier::give(Client& client, const SetReader& set) {
    const std::uint32_t slot = client.slot();
    const std::pair<Which, std::string> plain[] = {{Which::births, births_of(slot)}, {Which::code, code_of(slot)}};
    for (const auto& [part, name] : plain) {
        const File& file = set.part(name);
        if (lseek(file.fd(), 0, SEEK_SET) != 0) return fmt::format("{}: {}", name, strerror(errno));
        if (Failure failure = hand(client, part, file.fd())) return failure;
    }
    FrameReader frames;
    if (Failure failure = frames.open(set.part(memory_of(slot)).fd())) return failure;
    int pipe[2];
    if (pipe2(pipe, O_CLOEXEC) != 0) return strerror(errno);
    File write_end(pipe[1]);
    const File read_end(pipe[0]);
    if (Failure failure = hand(client, Which::memory, read_end.fd())) return failure;
    const os::SignalsBlocked blocked;  // SIGPIPE, too: then write() says it
    feeders_.emplace_back([from = std::move(frames), to = std::move(write_end)] { feed(from, to); });
    return {};
}

Carrier::Returned Carrier::returned(const Client& client, std::string& why) const {
    const CarryPlace& place = client.worker->sheet().carry;
    if (observe(place.done) != orders_.at(client.slot())) return Returned::not_yet;
    if (observe(place.able) == 1) return Returned::able;
    why = copied(place.what);
    return Returned::failed;
}

}  // namespace barcuda
