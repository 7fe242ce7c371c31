// SPDX-License-Identifier: Apache-2.0
// limiting.cc: how the bridge enforces limits (host-bridge/between/limits.h). It compares its own grants here. Limits that only a worker can count
// it writes into the worker's sheet (link.h), which the worker reads before each action. It also answers `barcuda limit`.
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>
#include <utility>

#include "base/log.h"
#include "host-bridge/bridge/bridge.h"
#include "host-bridge/cage/users.h"
#include "shm-device/queue/sync.h"
#include "shm-device/queue/wait.h"

namespace barcuda {
namespace {

void tell(std::uint64_t& word, std::uint64_t value) {
    if (observe(word) != value) publish(word, value);
}

}  // namespace

std::uint64_t Bridge::limit_of(const Client& client, Limit limit) const {
    return client.own[static_cast<unsigned>(limit)].value_or(options_.limits.client[limit]);
}

MemoryLimits Bridge::memory_limits(const Client& client) const {
    return {limit_of(client, Limit::device_memory), options_.limits.guest[Limit::device_memory]};
}

// Before a worker gets its client, and whenever something has changed.
void Bridge::tell_limits(Client& client) {
    if (!client.worker) return;
    each_limit([&](Limit limit, const AboutLimit&) {
        std::uint64_t value = limit_of(client, limit);
        if (limit == Limit::device_memory) value = least(value, options_.limits.guest[limit]);
        if (limit == Limit::log_text) client.worker->may_say(value);
        tell(client.worker->sheet().limits[static_cast<unsigned>(limit)], value);
    });
    client.bound = false;
}

// A device's size, as programs see it that have no limit of their own.
void Bridge::show_memory() {
    const std::uint64_t limit =
        least(options_.limits.client[Limit::device_memory], options_.limits.guest[Limit::device_memory]);
    for (std::size_t i = 0; i < devices_.all.size(); ++i)
        tell(region_.host_devices()[i].total_memory, least(devices_.all[i].total_memory, limit));
    monitoring_.show_memory(limit);
}

// Beyond what its driver has taken for its start, which the worker says once it is through. A wrapper's process is another.
void Bridge::bound_host_memory(Client& client) {
    if (client.bound || !client.worker || client.worker->wrapped() || observe(client.worker->sheet().bare) == 0) return;
    client.bound = true;
    const bool bounded = client.worker->limit_group(group_bound(client));
    if (!bounded) warn_unbounded(client);
    if (!client.worker->limit_data(limit_of(client, Limit::worker_memory))) warn_unbounded(client);
}

void Bridge::warn_unbounded(const Client& client) {
    log::warn("channel {}: the worker's memory cannot be limited: {}", client.channel.index, strerror(errno));
}

// All that the client may have the worker take of the host's memory beyond what the worker took for its start; 0: any amount. Pages of
// the region are counted where they are first touched; device memory may lie on the host: managed, or the software GPU's.
std::uint64_t Bridge::group_bound(const Client& client) const {
    const auto whole = [&](Limit limit, std::uint64_t there) {
        return least(there, least(limit_of(client, limit), options_.limits.guest[limit]));
    };
    constexpr std::uint64_t no_host_has = std::uint64_t{1} << 60;
    std::uint64_t bytes = std::min(limit_of(client, Limit::worker_memory), no_host_has);
    if (bytes == 0) return 0;
    bytes += whole(Limit::region_memory, region_.shape().size);
    for (const int device : client.worker->devices())
        bytes += whole(Limit::device_memory, devices_.all[static_cast<std::size_t>(device)].total_memory);
    return bytes;
}

// What workers have counted, and have not asked for: of clients without a limit, or of their drivers' own.
void Bridge::note_memory() {
    for (const auto& client : clients_) {
        if (!client || !client->worker) continue;
        const std::vector<int>& devices = client->worker->devices();
        for (std::size_t i = 0; i < devices.size(); ++i)
            quotas_.note(client->channel.index, devices[i], observe(client->worker->sheet().device_memory[i]));
    }
}

// For a client that is to come.
bool Bridge::may_reserve(std::uint64_t bytes) const {
    const std::uint64_t limit = options_.limits.client[Limit::region_memory];
    return options_.limits.guest[Limit::region_memory] == 0 && (limit == 0 || bytes <= limit);
}

// What a channel may be granted yet, in bytes.
std::uint64_t Bridge::room_of(std::uint32_t channel) const {
    constexpr auto room = [](std::uint64_t limit, std::uint64_t held) {
        return limit == 0 ? ~std::uint64_t{0} : limit - std::min(limit, held);
    };
    const std::uint64_t guests = options_.limits.guest[Limit::region_memory],
                        own = clients_[channel] ? limit_of(*clients_[channel], Limit::region_memory) : 0;
    return std::min(own ? room(own, grants_->held(channel)) : room(0, 0),
                    guests ? room(guests, grants_->held()) : room(0, 0));
}

bool Bridge::has_a_channel_left() const {
    const std::uint64_t limit = options_.limits.guest[Limit::channels];
    return limit == 0 || served_clients() < limit;
}

std::uint64_t Bridge::served_clients() const {
    return static_cast<std::uint64_t>(
        std::ranges::count_if(clients_, [](const auto& c) { return c && c->worker && !c->worker->is_leaving(); }));
}

// What a client has, as far as its worker is honest where the bridge cannot count.
void Bridge::describe(const Client& client, LimitRow& row) {
    row = {client.channel.index,
           client.worker ? client.worker->pid() : 0,
           observe(client.channel.client().pid),
           {},
           {},
           {}};
    for (unsigned i = 0; i < limit_count; ++i) {
        row.own[i] = client.own[i].has_value();
        row.limits[i] = limit_of(client, static_cast<Limit>(i));
        row.use[i] = client.worker ? observe(client.worker->sheet().use[i]) : 0;
    }
    for (const int device :
         client.worker ? client.worker->devices() : std::vector<int>()) {  // of the GPU of which it has most
        std::uint64_t& most = row.use[static_cast<unsigned>(Limit::device_memory)];
        most = std::max(most, quotas_.held(client.channel.index, device));
    }
    row.use[static_cast<unsigned>(Limit::region_memory)] = grants_->held(client.channel.index);
    row.use[static_cast<unsigned>(Limit::worker_memory)] = client.worker ? client.worker->own_data() : 0;
}

// Other VMs' workers may write into the book of turns as they like, and a turn may never come.
void Bridge::look_at_turns(Client& client) {
    if (!client.worker || turns_.fd() < 0) return;
    const std::uint64_t vain = observe(client.worker->sheet().vain_turns);
    if (vain != std::exchange(client.vain_turns, vain) && turns_trust_.lose(Os::now()))
        log::warn("turns at the GPUs do not come: somebody does not keep the rules; workers wait for none for {} s",
                  turns_trust_.length() / 1'000'000'000);
    tell(client.worker->sheet().turns_off_until, turns_trust_.lost_until());
}

// An error text, or nothing.
std::string Bridge::share(const LimitRequest& request) {
    turns::Share wanted = options_.share;
    if (request.weight_given) wanted.weight = request.share.weight;
    if (request.priority_given) wanted.priority = request.share.priority;
    if (request.priority_given && !request.weight_given && wanted.weight == 0) wanted.weight = turns::usual_weight;
    if (wanted.weight > turns::most_weight) return fmt::format("a weight is at most {}", turns::most_weight);
    if (static_cast<std::size_t>(wanted.priority) >= std::size(turns::priorities)) return "there is no such priority";
    if (turns_.fd() < 0)
        return "this bridge's workers take no turns: start it with --weight or --priority, or with --turns FILE for a "
               "weight to come";
    turns_.change(options_.share = wanted);
    return {};
}

// Says in the log which, from what, to what, and by whom.
void Bridge::change_limits(const LimitRequest& request, Client* one, const ucred& by) {
    const Of of = request.whose == LimitRequest::the_guests ? Of::guest : Of::client;
    std::string told;
    const auto text = [](const AboutLimit& its, std::uint64_t value) { return value ? its.text(value) : "none"; };
    each_limit([&](Limit limit, const AboutLimit& its) {
        const auto i = static_cast<unsigned>(limit);
        if (!request.given[i]) return;
        auto& all = (of == Of::guest ? options_.limits.guest : options_.limits.client).all;
        const std::uint64_t before = one ? limit_of(*one, limit) : all[i];
        if (one) one->own[i] = request.values[i];
        else all[i] = request.values[i];
        told += fmt::format("{}{} {} -> {}", told.empty() ? "" : ", ", one ? its.name() : its.option(of),
                            text(its, before), text(its, request.values[i]));
    });
    if (!told.empty())
        log::info("limits: {}{} (user {}, pid {})", one ? fmt::format("channel {}: ", one->channel.index) : "", told,
                  by.uid, by.pid);
    for (auto& client : clients_)
        if (client) tell_limits(*client);
    show_memory();
}

void Bridge::serve_limits(const LimitRequest& request, LimitReply& reply, const ucred& by) {
    const auto refuse = [&](const std::string& why) { why.copy(reply.error, sizeof reply.error - 1); };
    std::vector<Client*> named;
    for (auto& client : clients_)
        if (client && (request.by == LimitRequest::channel
                           ? client->channel.index == request.client
                           : observe(client->channel.client().pid) == request.client ||
                                 (client->worker && client->worker->pid() == static_cast<pid_t>(request.client))))
            named.push_back(client.get());
    const auto of = request.whose == LimitRequest::the_guests ? Of::guest : Of::client;
    for (unsigned i = 0; i < limit_count; ++i)
        if (const AboutLimit& its = about(static_cast<Limit>(i)); request.given[i] && !its.is(of))
            return refuse(
                fmt::format("{} is no limit of {}", its.name(), of == Of::guest ? "a guest's" : "a client's"));
    if (request.whose == LimitRequest::one_clients && named.size() != 1)
        return refuse(named.empty() ? "there is no such client"
                                    : "several clients say that they have this pid: name one by its channel");
    const turns::Share before = options_.share;
    if (request.weight_given || request.priority_given) {
        if (const std::string e = share(request); !e.empty()) return refuse(e);
        const auto text = [](const turns::Share& share) {
            return fmt::format("weight {}, priority {}", share.weight ? std::to_string(share.weight) : "none",
                               turns::priorities[static_cast<std::size_t>(share.priority)]);
        };
        log::info("limits: {} -> {} (user {}, pid {})", text(before), text(options_.share), by.uid, by.pid);
    }
    if (request.whose != LimitRequest::nobodys)
        change_limits(request, request.whose == LimitRequest::one_clients ? named[0] : nullptr, by);

    note_memory();
    std::ranges::copy(options_.limits.client.all, reply.client);
    std::ranges::copy(options_.limits.guest.all, reply.guest);
    reply.share = options_.share;
    for (std::size_t d = 0; d < devices_.all.size(); ++d) {
        std::uint64_t& most = reply.use[static_cast<unsigned>(Limit::device_memory)];
        most = std::max(most, quotas_.held(static_cast<int>(d)));
    }
    reply.use[static_cast<unsigned>(Limit::region_memory)] = grants_->held();
    reply.use[static_cast<unsigned>(Limit::channels)] = served_clients();
    for (const auto& client : clients_)
        if (client && reply.count < std::size(reply.rows)) describe(*client, reply.rows[reply.count++]);
}

}  // namespace barcuda
