// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/bridge/carrier.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <span>
#include <string_view>
#include <utility>

#include "base/bytes.h"
#include "base/os/thread.h"
#include "host-bridge/suspended/frames.h"
#include "shm-device/queue/sync.h"

namespace barcuda {
namespace {

using carrying::Hand;
using carrying::Wanted;
using carrying::Which;

Failure hand(const Client& client, Which part, int file) {
    Hand message;
    message.part = part;
    if (send_message(client.worker->link(), &message, sizeof message, file)) return {};
    const std::string why = strerror(errno);
    if (part == Which::none) return "its worker does not take an order: " + why;
    return fmt::format("its worker does not take the descriptor of its {}: {}", carrying::name_of(part), why);
}

// All bytes of a part, into a pipe. (Its reader may go; and the worker notices what is missing.)
void feed(const FrameReader& from, const File& to) {
    static_cast<void>(each_frame(from, [&](std::span<const std::byte> bytes) -> Failure {
        const int error = write_all(to.fd(), bytes);
        return error == 0 ? Failure() : Failure(strerror(error));
    }));
}

// A pipe that takes a mebibyte at a time, where the kernel lets it.
bool make_pipe(File& read_end, File& write_end) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return false;
    fcntl(ends[1], F_SETPIPE_SZ, 1 << 20);
    read_end = File(ends[0]);
    write_end = File(ends[1]);
    return true;
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
        if (!make_pipe(ends.emplace_back(), write_ends.emplace_back())) return strerror(errno);
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

void Carrier::withdraw(Client& client) { client.worker->sheet().carry.wanted = Wanted::nothing; }

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
    File read_end, write_end;
    if (!make_pipe(read_end, write_end)) return strerror(errno);
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
