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
#include "base/caught.h"
#include "base/log.h"
#include "base/os/thread.h"
#include "host-bridge/between/conveyor.h"
#include "host-bridge/suspended/conveyed.h"
#include "host-bridge/suspended/frames.h"
#include "shm-device/queue/sync.h"

namespace barcuda {
namespace {

using carrying::Hand;
using carrying::Wanted;
using carrying::Which;

Failure hand(const Client& client, Which part, int file, std::uint32_t order, bool ahead = false) {
    Hand message;
    message.number = order;
    message.part = part;
    message.ahead = ahead ? 1 : 0;
    if (send_message(client.worker->link(), &message, sizeof message, file)) return {};
    const std::string why = strerror(errno);
    if (part == Which::none) return "its worker does not take an order: " + why;
    return fmt::format("its worker does not take the descriptor of its {}: {}", carrying::name_of(part), why);
}

std::uint32_t next(const Client& client) { return observe(client.worker->sheet().carry.order) + 1; }

// Each frame of a part. The taker may end early; the worker then reports what is missing.
void feed(const FrameReader& from, File socket, const File& room) {
    Conveyor to;
    const Failure failure = caught([&] {
        Failure none = to.open(std::move(socket), room);
        return none ? std::move(none) : feed_conveyor(from, to);
    });
    if (failure) log::error("the memory of a client: {}", failure.text());
}

// The same of a part that goes by a pipe.
void feed(const FrameReader& from, const File& to) {
    const Failure failure = caught([&] {
        return each_frame(from, [&](std::span<const std::byte> bytes) -> Failure {
            const int error = write_all(to.fd(), bytes);
            return error == 0 ? Failure() : Failure(strerror(error));
        });
    });
    if (failure) log::error("the code of a client: {}", failure.text());
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
    const std::uint32_t number = next(client);
    place.wanted = wanted;
    publish(place.order, number);
    client.bell.relay();
    return orders_[client.slot()] = number;
}

Failure Carrier::order(Client& client, bool check, std::vector<File>& ends) {
    if (observe(client.worker->sheet().orders.link) < Orders::link_of_this_build)
        return "its worker is of an earlier build, which carries no clients: end the program, or let it end";
    // All first: descriptors that no order follows would stay in the worker's link.
    std::vector<File> write_ends;
    if (!check) {
        for (int plain = 0; plain < 2; ++plain)  // births, and code
            if (!make_pipe(ends.emplace_back(), write_ends.emplace_back())) return strerror(errno);
        Conveyor::Ends memory;
        if (Failure failure = Conveyor::make(Conveyor::usual_slots(), memory)) return failure;
        ends.push_back(std::move(memory.taker));
        if (!ends.emplace_back(fcntl(memory.room.fd(), F_DUPFD_CLOEXEC, 0))) return strerror(errno);
        write_ends.push_back(std::move(memory.filler));
        write_ends.push_back(std::move(memory.room));
    }
    Failure failure;
    const std::uint32_t number = next(client);
    for (std::size_t part = 0; part < write_ends.size() && !failure; ++part)
        failure = hand(client, static_cast<Which>(part), write_ends[part].fd(), number);
    // A worker that waits for an answer looks at its orders when a message comes.
    if (check) failure = hand(client, Which::none, -1, number);
    if (failure) withdraw_left(client);
    else tell(client, check ? Wanted::check : Wanted::write);
    return failure;
}

Failure Carrier::order_ahead(Client& client, std::vector<File>& ends) {
    if (observe(client.worker->sheet().orders.link) < Orders::link_of_this_build)
        return "its worker is of an earlier build, which carries no clients: end the program, or let it end";
    Conveyor::Ends memory;
    if (Failure failure = Conveyor::make(Conveyor::usual_slots(), memory)) return failure;
    if (Failure failure = hand(client, Which::memory, memory.filler.fd(), next(client), true)) return failure;
    if (Failure failure = hand(client, Which::room, memory.room.fd(), next(client), true)) return failure;
    tell(client, Wanted::ahead);
    ends.push_back(std::move(memory.taker));
    ends.push_back(std::move(memory.room));
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

void Carrier::withdraw_left(Client& client) {
    const std::uint32_t number = next(client);
    client.worker->sheet().carry.wanted = Wanted::nothing;
    publish(client.worker->sheet().carry.order, number);
}

void Carrier::announce(Client& client) { tell(client, Wanted::read); }

Failure Carrier::give(Client& client, const SetReader& set) {
    const std::uint32_t slot = client.slot(), order = orders_.at(slot);
    const File& births = set.part(births_of(slot));
    if (lseek(births.fd(), 0, SEEK_SET) != 0) return fmt::format("{}: {}", births_of(slot), strerror(errno));
    if (Failure failure = hand(client, Which::births, births.fd(), order)) return failure;
    FrameReader frames, code;
    if (Failure failure = code.open(set.part(code_of(slot)).fd())) return failure;
    if (Failure failure = frames.open(set.part(memory_of(slot)).fd())) return failure;
    File read_end, write_end;
    if (!make_pipe(read_end, write_end)) return strerror(errno);
    if (Failure failure = hand(client, Which::code, read_end.fd(), order)) return failure;
    Conveyor::Ends ends;
    if (Failure failure = Conveyor::make(Conveyor::usual_slots(), ends)) return failure;
    if (Failure failure = hand(client, Which::memory, ends.taker.fd(), order)) return failure;
    if (Failure failure = hand(client, Which::room, ends.room.fd(), order)) return failure;
    const os::SignalsBlocked blocked;  // SIGPIPE, too: then a word is not said
    return caught([&]() -> Failure {
        feeders_.emplace_back([from = std::move(code), to = std::move(write_end)] { feed(from, to); });
        feeders_.emplace_back([from = std::move(frames), to = std::move(ends.filler),
                               room = std::move(ends.room)]() mutable { feed(from, std::move(to), room); });
        return {};
    });
}

Carrier::Returned Carrier::returned(const Client& client, std::string& why) const {
    const CarryPlace& place = client.worker->sheet().carry;
    if (observe(place.done) != orders_.at(client.slot())) return Returned::not_yet;
    if (observe(place.able) == 1) return Returned::able;
    why = copied(place.what);
    return Returned::failed;
}

}  // namespace barcuda
