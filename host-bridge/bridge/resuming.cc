// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/bridge/resuming.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/log.h"
#include "host-bridge/bridge/patience.h"

namespace barcuda {
namespace {

constexpr const char* told_to_stop = "the bridge was told to stop";

const char* plural(std::size_t count) { return count == 1 ? "" : "s"; }

Failure failed(std::uint32_t slot, std::string_view why) {
    return fmt::format("the client of channel {} cannot go on: {}", slot, why);
}

}  // namespace

void Resuming::restore() {
    if (ground_.set) desks_.clients.close_ended();
    desks_.clients.restore(worker_of_, !ground_.set);
    std::size_t served = 0;
    const auto each_served = [&](const auto& f) {
        desks_.clients.each([&](Client& client) {
            if (client.is_served()) f(client);
        });
    };
    // What workers have prepared is their clients', before one of those asks for memory.
    each_served([&](Client& client) {
        ++served;
        complete_admission(client);
    });
    desks_.grants.release_reserves();
    each_served([&](Client& client) { restore(client); });
    if (!ground_.set) desks_.suspends.restore();
    desks_.cards.all_are_back();
    end_workers_left();
    if (!ground_.set) log::info("this bridge goes on with the {} client{} of an earlier one", served, plural(served));
}

void Resuming::complete_admission(Client& client) {
    client.worker->hear_log(loop_);
    desks_.hear(client);
    // A worker that does not come to go on with a client on a disk does not end that client: wake() looks at it.
    if (ground_.set) client.worker->hear_end(loop_, [] {});
    if (ground_.set) desks_.carrier.announce(client);
    else Carrier::withdraw_left(client);
    desks_.acceptor.restore(client);
}

void Resuming::restore(Client& client) {
    desks_.requests.restore(client);
    desks_.pauses.restore(client);
    if (ground_.set) desks_.cards.admit(client);
    else desks_.cards.restore(client);
}

void Resuming::end_workers_left() const {
    std::vector<pid_t> with_client;
    desks_.clients.each([&](const Client& client) {
        if (client.worker) with_client.push_back(client.worker->pid());
    });
    for (const pid_t worker : WorkerProcess::left(ground_.kept))
        if (std::ranges::find(with_client, worker) == with_client.end()) WorkerProcess::end_left(worker, ground_.kept);
}

Failure Resuming::wake() {
    if (!ground_.set) return {};
    const std::vector<std::uint32_t> slots = slots_on_the_disk();
    const auto stop = loop_.watch(stop_, Loop::Rank::stop, [this](short) { loop_.stop(); });
    for (const std::uint32_t slot : slots)
        if (Failure e = give(slot)) return e;
    if (Failure e = await_workers({slots.begin(), slots.end()})) return e;
    if (Failure e = await_go()) return e;
    // From here on the set is not needed any more, and cannot be woken in this file again.
    ground_.kept.keep("region", ground_.region.fd());
    ground_.kept.keep("books", ground_.ledger.fd());
    ground_.region.awake();
    for (const std::uint32_t slot : slots) {
        Client& client = *desks_.clients[slot];
        desks_.hear_end(client);
        desks_.pauses.resume(client);
    }
    log::info("awake, with {} client{}", slots.size(), plural(slots.size()));
    ground_.set.reset();
    return {};
}

// A program without a VM may have ended meanwhile: its slot is reclaimed once the others go on.
std::vector<std::uint32_t> Resuming::slots_on_the_disk() {
    std::vector<std::uint32_t> slots = ground_.set->description().clients;
    std::erase_if(slots, [this](std::uint32_t slot) {
        Client* const client = desks_.clients[slot];
        if (!client || !desks_.clients.has_left(*client)) return false;
        if (client->worker) desks_.hear_end(*client);
        log::info("channel {}: its program has ended while it was suspended", slot);
        return true;
    });
    return slots;
}

// Gives the client's new worker what the set has of the client.
Failure Resuming::give(std::uint32_t slot) {
    Client* const client = desks_.clients[slot];
    if (!client || !client->is_served()) return failed(slot, "its worker does not start");
    client->record.worker = client->worker->pid();
    client->write_down();
    if (const Failure e = desks_.carrier.give(*client, *ground_.set)) return failed(slot, e.text());
    return {};
}

// Returns when each of these clients is held, as it was before it was suspended.
Failure Resuming::await_workers(std::set<std::uint32_t> missing) {
    const std::set<std::uint32_t> all = missing;
    while (!missing.empty()) {
        if (!turn([this] { desks_.heap.begin_turn(); })) return told_to_stop;
        desks_.pauses.look();
        desks_.cards.look();
        for (const std::uint32_t slot : all) {
            bool is_back = false;
            if (Failure e = look_at(slot, is_back)) return e;
            if (is_back) missing.erase(slot);
        }
    }
    return {};
}

Failure Resuming::look_at(std::uint32_t slot, bool& is_back) {
    const Client& client = *desks_.clients[slot];
    std::string why = client.record.how;
    if (!client.is_served()) return failed(slot, why.empty() ? "its worker was ended" : why);
    const Carrier::Returned result = desks_.carrier.returned(client, why);
    if (result == Carrier::Returned::failed) return failed(slot, why);
    if (client.worker->has_gone()) return failed(slot, "its new worker has ended");
    is_back = result == Carrier::Returned::able && desks_.pauses.is_held(slot);
    return {};
}

// Another bridge still serves these clients. Until --go-fd says it has ended, this one may be stopped and leaves
// nothing behind.
Failure Resuming::await_go() {
    const int fd = ground_.options.go_fd;
    if (fd < 0) return {};
    constexpr std::string_view back = "back\n";
    if (write(fd, back.data(), back.size()) < 0) return fmt::format("--go-fd {}: {}", fd, strerror(errno));
    log::info("all clients are back, and wait until the bridge that has them has ended");
    for (pollfd told{fd, POLLIN, 0}; poll(&told, 1, 0) == 0;)
        if (!turn([] {})) return told_to_stop;
    char go = 0;
    if (read(fd, &go, 1) != 1) return "the bridge that has its clients goes on with them";
    close(fd);
    return {};
}

// `begin`: called before the events are handled. False: the bridge is to stop.
bool Resuming::turn(const std::function<void()>& begin) {
    loop_.wait(patience::look_every);
    beat_();
    begin();
    loop_.dispatch();
    return !loop_.stopped();
}

}  // namespace barcuda
