// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/bridge/clients.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "shm-device/queue/sync.h"

namespace barcuda {
namespace {

// How often the bridge asks the kernel whether clients live: three system calls for each client, which delay the
// admission of others.
constexpr std::chrono::milliseconds owners_looked_after{20};
// A channel that cannot be mapped: the bridge may have no memory for it at the moment.
constexpr std::chrono::seconds mapped_again_after{1};

}  // namespace

Clients::Clients(HostRegion& region, Books books, int doorbell, std::string wrapper, Roster roster)
    : region_(region),
      books_(books),
      doorbell_(doorbell),
      wrapper_(std::move(wrapper)),
      roster_(std::move(roster)),
      kept_(books.ledger ? books.ledger->clients().records : std::span<Twice<KeptClient>>()),
      requests_(books.ledger ? books.ledger->requests().records : std::span<Twice<KeptRequest>>()),
      slots_(region.shape().channel_count) {}

void Clients::reclaim_left() {
    for (std::uint32_t i = 0; i < slots_.size(); ++i)
        if (const barcuda_slot& slot = region_.slots()[i]; observe(slot.closed) != observe(slot.reclaimed)) reclaim(i);
}

Client::Books Clients::books(std::uint32_t slot) const {
    if (kept_.empty()) return {};
    return {&kept_[slot], &requests_[slot]};
}

void Clients::restore(const Adopt& adopt, bool tells) {
    const KeptTotals gone = books_.ledger->totals().get();
    books_.totals.came = gone.came;
    std::ranges::copy(gone.went, books_.totals.went);
    books_.totals.counts = gone.counts;
    met_ = gone.closed;
    for (std::uint32_t slot = 0; slot < slots_.size(); ++slot) {
        const KeptClient kept = kept_[slot].get();
        if (kept.state == KeptClient::none) continue;
        met_ = std::max(met_, kept.number);
        if (kept.number == gone.closed) {  // it has gone, and only its slot is to be reclaimed yet
            kept_[slot].set({});
            continue;
        }
        books_.totals.came += kept.worker != 0;
        restore(slot, kept, {adopt, tells, Clock::now()});
    }
    // A slot that is open without a client of ours holds what it holds until it is closed.
    const auto lives = [this](std::uint32_t slot) {
        if (slot >= slots_.size()) return false;
        const barcuda_slot& its = region_.slots()[slot];
        return slots_[slot] || observe(its.opened) != observe(its.reclaimed);
    };
    books_.grants.restore(lives);
    books_.quotas.restore(lives);
    books_.shared.restore(lives);
}

void Clients::restore(std::uint32_t slot, const KeptClient& kept, const How& how) {
    Channel channel;
    if (!map(slot, kept.opening, channel, how.now)) return;
    slots_[slot] = std::make_unique<Client>(channel, doorbell_, kept.number, this->books(slot));
    Client& client = *slots_[slot];
    client.restore(kept);
    admitted(client, Client::Admission::restored);
    if (kept.state == KeptClient::assigned && (client.worker = how.adopt(slot, kept))) {
        for (const auto& [offset, bytes] : kept.reserved)  // what it was not told to be its client's
            if (bytes != 0) client.worker->reserved.push_back({offset, bytes});
        // Of a client that has left, the earlier bridge may have killed the worker already.
        if (client.record.end || has_left(client)) client.worker->dismiss();
    } else if (!client.record.end && how.tells) {
        client.end(Client::Ending::died, "the worker process ended while the bridge was restarted");
    }
}

void Clients::close_ended() {
    for (std::uint32_t i = 0; i < slots_.size(); ++i) {
        barcuda_slot& slot = region_.host_slots()[i];
        const std::uint32_t opened = observe(slot.opened);
        if (opened != observe(slot.closed) && region_.owner_gone(i)) publish(slot.closed, opened);
    }
}

std::vector<Client*> Clients::look(const std::function<void(Client&)>& f, Clock::time_point now) {
    std::vector<Client*> to_admit;
    if (now - owners_looked_ >= owners_looked_after) {
        owners_looked_ = now;
        close_ended();
    }
    for (std::uint32_t i = 0; i < slots_.size(); ++i) {
        const barcuda_slot& slot = region_.slots()[i];
        const std::uint32_t opened = observe(slot.opened), closed = observe(slot.closed);
        // A guest can write all of a slot. What it writes over a client can end that client, and nothing else.
        const bool has_gone = slots_[i] && (opened == closed || opened != slots_[i]->channel.opening);
        if (has_gone || (opened == closed && closed != observe(slot.reclaimed))) {
            reclaim(i);
        } else if (!slots_[i] && opened != closed && (observe(slot.served) != opened || unmapped_.contains(i))) {
            meet(i, opened, now);  // not one that an earlier bridge served
        }
        Client* const client = slots_[i].get();
        if (!client) continue;
        // It is admitted once it has said which devices its program sees.
        if (!has_gone && client->awaits_admission() && observe(client->page().device_count) != 0)
            to_admit.push_back(client);
        f(*client);
    }
    std::ranges::sort(to_admit, {}, &Client::number);
    return to_admit;
}

void Clients::meet(std::uint32_t slot, std::uint32_t opening, Clock::time_point now) {
    // One whose channel could not be mapped when this bridge began has lost its worker since.
    const KeptClient kept = kept_.empty() ? KeptClient() : kept_[slot].get();
    if (kept.state != KeptClient::none && kept.opening == opening)
        return restore(slot, kept, {[](auto...) { return nullptr; }, true, now});
    Channel channel;
    if (!map(slot, opening, channel, now)) return;
    last_came_ = now;
    channel.status().opening = opening;
    slots_[slot] = std::make_unique<Client>(channel, doorbell_, ++met_, books(slot));
}

bool Clients::map(std::uint32_t slot, std::uint32_t opening, Channel& channel, Clock::time_point now) {
    const auto before = unmapped_.find(slot);
    const bool again = before != unmapped_.end() && before->second.opening == opening;
    if (again && now < before->second.again) return false;
    if (Error e = region_.map_channel(slot, channel)) {
        if (!again) log::error("channel {}: its client waits: {}", slot, e.text);
        unmapped_[slot] = {opening, now + mapped_again_after};
        return false;
    }
    unmapped_.erase(slot);
    channel.opening = opening;
    return true;
}

// `served` tells its guest. The bridge itself goes by what it knows of the client.
void Clients::admitted(Client& client, Client::Admission how) {
    client.admission = how;
    publish(region_.host_slots()[client.slot()].served, client.channel.opening);
}

void Clients::worker_ended(Client& client) {
    WorkerProcess& worker = *client.worker;
    if (!worker.has_gone()) return worker.dismiss();  // its wrapper has ended
    roster_(client.slot(), 0);
    client.asked.reset();
    client.note(books_.grants.held(client.slot()));
    const bool wrapped = worker.wrapped(), was_told = worker.is_leaving() && !wrapped;
    const std::string end = worker.reap();
    if (!was_told && begins_again(client))
        return log::warn("channel {}: its worker {} before it had a command: it gets another one", client.slot(), end);
    client.worker.reset();
    if (was_told) {
        client.write_down();
        return client.bell.wake();
    }
    const bool refused = observe(client.channel.status().state) == BARCUDA_STATE_REFUSED;
    client.record.note_end(refused ? End::refused : End::died, "its worker " + end);
    client.write_down();
    if (client.has_ended()) {  // the worker has said why itself
        if (end.starts_with("was killed"))
            log::error("channel {}: behind the end of its session the worker process {}", client.slot(), end);
        return client.bell.wake();
    }
    const std::string how = wrapped ? "in its wrapper (" + wrapper_ + ")" : "process";
    client.end(Client::Ending::died, fmt::format("the worker {} {}", how, end));
}

// What its worker had prepared stays the client's.
bool Clients::begins_again(Client& client) {
    if (has_left(client) || !client.may_begin_again()) return false;
    client.begin_again();
    --books_.totals.came;
    books_.quotas.repay_all(client.slot());
    books_.shared.forget(client.slot());
    publish(region_.host_slots()[client.slot()].served, 0u);
    return true;
}

void Clients::reap_workers() {
    each([this](Client& client) {
        if (client.worker && client.worker->is_leaving() && client.worker->has_gone()) worker_ended(client);
    });
}

void Clients::reclaim(std::uint32_t slot) {
    std::string last;  // the log's last line about it
    if (auto& client = slots_[slot]) {
        client->note(books_.grants.held(slot));
        if (client->worker && !client->worker->release()) return;
        roster_(slot, 0);  // before it counts as gone: a bridge that comes later knows nothing of it then
        last = close(*client);
        Channel channel = client->channel;
        client.reset();
        region_.unmap_channel(channel);
    }
    books_.shared.forget(slot);
    books_.quotas.repay_all(slot);
    const std::size_t granules = books_.grants.release_all(slot);
    if (Error e = region_.clean_channel(slot)) return log::error("channel {}: {}", slot, e.text);
    if (!kept_.empty() && requests_[slot].get().state != KeptRequest::none) requests_[slot].set({});
    if (!kept_.empty() && kept_[slot].get().state != KeptClient::none) kept_[slot].set({});
    barcuda_slot& s = region_.host_slots()[slot];
    publish(s.map_lock, 0u);  // of the last client: a client of an earlier version does not write it
    publish(s.reclaimed, observe(s.closed));
    // not for processes that only ask NVML, nor for clients that left before they began
    if (!last.empty() || granules)
        log::info("channel {}: reclaimed, with {} granules{}{}", slot, granules, last.empty() ? "" : ": ", last);
}

// Where a bridge is killed between this and the end of the client's record, restore() finds its number here.
std::string Clients::close(Client& client) {
    const bool counts = client.record.is_a_client();
    if (!books_.ledger || !counts) return books_.totals.close(client.record);
    Twice<KeptTotals>& book = books_.ledger->totals();
    KeptTotals gone = book.get();
    std::string last = books_.totals.close(client.record);
    gone.came += client.record.worker != 0;
    std::ranges::copy(books_.totals.went, gone.went);
    gone.counts = books_.totals.counts;
    gone.closed = client.number;
    book.set(gone);
    return last;
}

bool Clients::one_leaves() const {
    return std::ranges::any_of(slots_, [](const auto& c) { return c && c->worker && c->worker->is_leaving(); });
}

std::uint64_t Clients::served() const {
    return static_cast<std::uint64_t>(std::ranges::count_if(slots_, [](const auto& c) { return c && c->is_served(); }));
}

Pool::Clients Clients::state() const {
    Pool::Clients all;
    each([&](Client& client) {
        if (client.worker) client.worker->look();
        all.one_starts |= client.worker && client.worker->state() == WorkerProcess::State::assigned;
        all.one_asks |= client.asked.has_value();
    });
    return all;
}

}  // namespace barcuda
