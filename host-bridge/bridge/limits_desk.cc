// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/bridge/limits_desk.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/field.h"
#include "base/log.h"
#include "shm-device/queue/sync.h"
#include "shm-device/queue/wait.h"

namespace barcuda {
namespace {

void tell_word(std::uint64_t& word, std::uint64_t value) {
    if (observe(word) != value) publish(word, value);
}

constexpr unsigned index(Limit limit) { return static_cast<unsigned>(limit); }

Of whose(const LimitRequest& request) { return request.whose == LimitRequest::the_guests ? Of::guest : Of::client; }

std::string text_of(const turns::Share& share) {
    return fmt::format("weight {}, priority {}", share.weight ? std::to_string(share.weight) : "none",
                       turns::priorities[static_cast<std::size_t>(share.priority)]);
}

}  // namespace

LimitsDesk::LimitsDesk(Rules rules, Clients& clients, Quotas& quotas, const Grants& grants, HostRegion& region,
                       const Host& host, turns::Member& turns, std::function<void(std::uint64_t)> shown,
                       const Rooms& rooms)
    : rules_(rules),
      clients_(clients),
      quotas_(quotas),
      grants_(grants),
      region_(region),
      host_(host),
      turns_(turns),
      shown_(std::move(shown)),
      rooms_(rooms) {
    restore();
}

// What an administrator has changed holds for the next bridge, too.
void LimitsDesk::restore() {
    if (!rules_.book || !rules_.book->get().changed) return;
    const KeptRules& kept = rules_.book->get();
    std::ranges::copy(kept.client, rules_.limits.client.all.begin());
    std::ranges::copy(kept.guest, rules_.limits.guest.all.begin());
    rules_.share = {};
    rules_.share.weight = kept.weight;
    rules_.share.priority = static_cast<decltype(rules_.share.priority)>(kept.priority);
    if (turns_.fd() >= 0) turns_.change(rules_.share);
}

void LimitsDesk::write_down() const {
    if (!rules_.book) return;
    KeptRules kept{};
    kept.changed = 1;
    kept.weight = static_cast<std::uint32_t>(rules_.share.weight);
    kept.priority = static_cast<std::uint32_t>(rules_.share.priority);
    std::ranges::copy(rules_.limits.client.all, kept.client);
    std::ranges::copy(rules_.limits.guest.all, kept.guest);
    rules_.book->set(kept);
}

std::uint64_t LimitsDesk::of(const Client& client, Limit limit) const {
    return client.own[index(limit)].value_or(rules_.limits.client[limit]);
}

MemoryLimits LimitsDesk::memory(const Client& client) const {
    return {of(client, Limit::device_memory), of_guest(Limit::device_memory)};
}

bool LimitsDesk::may_reserve(std::uint64_t bytes) const {
    const std::uint64_t limit = rules_.limits.client[Limit::region_memory];
    return of_guest(Limit::region_memory) == 0 && (limit == 0 || bytes <= limit);
}

std::uint64_t LimitsDesk::room(std::uint32_t channel) const {
    constexpr auto room = [](std::uint64_t limit, std::uint64_t held) {
        return limit == 0 ? ~std::uint64_t{0} : limit - std::min(limit, held);
    };
    const Client* const client = clients_[channel];
    const std::uint64_t guests = of_guest(Limit::region_memory), own = client ? of(*client, Limit::region_memory) : 0;
    return std::min(own ? room(own, grants_.held(channel)) : room(0, 0),
                    guests ? room(guests, grants_.held()) : room(0, 0));
}

bool LimitsDesk::has_a_channel_left() const {
    const std::uint64_t limit = of_guest(Limit::channels);
    return limit == 0 || clients_.served() < limit;
}

void LimitsDesk::tell(Client& client) const {
    if (!client.worker) return;
    each_limit([&](Limit limit, const AboutLimit&) {
        std::uint64_t value = of(client, limit);
        if (limit == Limit::device_memory) value = least(value, of_guest(limit));
        if (limit == Limit::log_text) client.worker->may_say(value);
        if (index(limit) < limits_in_sheet) tell_word(client.worker->sheet().limits[index(limit)], value);
    });
    client.bound = false;
}

void LimitsDesk::show_memory() const {
    const std::uint64_t limit = least(rules_.limits.client[Limit::device_memory], of_guest(Limit::device_memory));
    const auto& devices = host_.devices.all;
    for (std::size_t i = 0; i < devices.size(); ++i)
        tell_word(region_.host_devices()[i].total_memory, least(devices[i].total_memory, limit));
    shown_(limit);
}

void LimitsDesk::note_memory() const {
    clients_.each([this](Client& client) {
        if (!client.worker) return;
        const std::vector<int>& devices = client.worker->devices();
        for (std::size_t i = 0; i < devices.size(); ++i)
            quotas_.note(client.slot(), devices[i], observe(client.worker->sheet().device_memory[i]));
    });
}

// With a wrapper the process to limit would be a different one.
void LimitsDesk::bound(Client& client) const {
    if (client.bound || !client.worker || client.worker->wrapped() || observe(client.worker->sheet().bare) == 0) return;
    client.bound = true;
    const auto check = [&](bool limited) {
        if (!limited)
            log::warn("channel {}: the worker's memory cannot be limited: {}", client.slot(), strerror(errno));
    };
    check(client.worker->limit_group(host_memory(client)));
    const std::uint64_t own = of(client, Limit::worker_memory);
    check(client.worker->limit_data(own == 0 || own > ~std::uint64_t{0} - client.away ? 0 : own + client.away));
}

// Pages of the region count where they are first touched; device memory may be on the host: managed memory, or the
// software GPU's.
std::uint64_t LimitsDesk::host_memory(const Client& client) const {
    const auto whole = [&](Limit limit, std::uint64_t there) {
        return least(there, least(of(client, limit), of_guest(limit)));
    };
    constexpr std::uint64_t no_host_has = std::uint64_t{1} << 60;
    std::uint64_t bytes = std::min(of(client, Limit::worker_memory), no_host_has);
    if (bytes == 0) return 0;
    bytes += whole(Limit::region_memory, region_.shape().size);
    for (const int device : client.worker->devices())
        bytes += whole(Limit::device_memory, host_.devices.all[static_cast<std::size_t>(device)].total_memory);
    return bytes;
}

// Other VMs' workers may write anything into the book of turns, so a turn may never come.
void LimitsDesk::look_at_turns(Client& client) {
    if (!client.worker || turns_.fd() < 0) return;
    const std::uint64_t vain = observe(client.worker->sheet().vain_turns);
    if (vain != std::exchange(client.vain_turns, vain) && trust_.lose(Os::now()))
        log::warn(
            "no turn at a GPU came: a worker of another VM keeps its turn, or a lock of the file of turns; for {} s "
            "this VM's workers do not wait for turns. If this goes on, restart the bridges that share the file, one "
            "after the other",
            trust_.length() / 1'000'000'000);
    tell_word(client.worker->sheet().turns_off_until, trust_.lost_until());
}

// ---- `barcuda limit`

// Returns an error text, or nothing.
Failure LimitsDesk::change_share(const LimitRequest& request) {
    turns::Share wanted = rules_.share;
    if (request.weight_given) wanted.weight = request.share.weight;
    if (request.priority_given) wanted.priority = request.share.priority;
    if (request.priority_given && !request.weight_given && wanted.weight == 0) wanted.weight = turns::usual_weight;
    if (wanted.weight > turns::most_weight) return fmt::format("a weight is at most {}", turns::most_weight);
    if (static_cast<std::size_t>(wanted.priority) >= std::size(turns::priorities)) return "there is no such priority";
    if (turns_.fd() < 0)
        return "this bridge's workers take no turns: start it with --weight or --priority, or with --turns FILE to "
               "set a weight later";
    rules_.share = wanted;
    turns_.change(wanted);
    return {};
}

// The log says which limits change, from what to what, and which user and process asked for it.
void LimitsDesk::change(const LimitRequest& request, Client* one, const ucred& by) {
    const Of of_whom = whose(request);
    std::string told;
    const auto text = [](const AboutLimit& its, std::uint64_t value) {
        return value || its.unit == Unit::on_or_off ? its.text(value) : "none";
    };
    each_limit([&](Limit limit, const AboutLimit& its) {
        const unsigned i = index(limit);
        if (!request.given[i]) return;
        auto& all = (of_whom == Of::guest ? rules_.limits.guest : rules_.limits.client).all;
        const std::uint64_t before = one ? of(*one, limit) : all[i];
        if (one) one->own[i] = request.values[i];
        else all[i] = request.values[i];
        told += fmt::format("{}{} {} -> {}", told.empty() ? "" : ", ", one ? its.name() : its.option(of_whom),
                            text(its, before), text(its, request.values[i]));
    });
    if (one) one->write_down();
    if (!told.empty())
        log::info("limits: {}{} (user {}, pid {})", one ? fmt::format("channel {}: ", one->slot()) : "", told, by.uid,
                  by.pid);
    clients_.each([this](Client& client) { tell(client); });
    show_memory();
}

std::vector<Client*> LimitsDesk::named(const LimitRequest& request) const {
    std::vector<Client*> all;
    clients_.each([&](Client& client) {
        const bool is_its_pid = client.pid() == request.client ||
                                (client.worker && client.worker->pid() == static_cast<pid_t>(request.client));
        if (request.by == LimitRequest::channel ? client.slot() == request.client : is_its_pid) all.push_back(&client);
    });
    return all;
}

Failure LimitsDesk::refusal(const LimitRequest& request, const std::vector<Client*>& named) const {
    const Of of_whom = whose(request);
    for (unsigned i = 0; i < limit_count; ++i)
        if (const AboutLimit& its = about(static_cast<Limit>(i)); request.given[i] && !its.is(of_whom))
            return fmt::format("{} is no limit of {}", its.name(), of_whom == Of::guest ? "a guest's" : "a client's");
    if (request.whose == LimitRequest::one_clients && named.size() != 1)
        return named.empty() ? "there is no such client"
                             : "several clients say that they have this pid: name one by its channel";
    return {};
}

void LimitsDesk::serve(const LimitRequest& request, LimitReply& reply, const ucred& by) {
    const auto refuse = [&](const std::string& why) { put(reply.error, why); };
    const std::vector<Client*> clients = named(request);
    if (const Failure why = refusal(request, clients)) return refuse(why.text());
    if (request.weight_given || request.priority_given) {
        const turns::Share before = rules_.share;
        if (const Failure why = change_share(request)) return refuse(why.text());
        log::info("limits: {} -> {} (user {}, pid {})", text_of(before), text_of(rules_.share), by.uid, by.pid);
    }
    if (request.whose != LimitRequest::nobodys)
        change(request, request.whose == LimitRequest::one_clients ? clients[0] : nullptr, by);

    if (request.weight_given || request.priority_given || request.whose != LimitRequest::nobodys) write_down();

    note_memory();
    std::ranges::copy(rules_.limits.client.all, reply.client);
    std::ranges::copy(rules_.limits.guest.all, reply.guest);
    reply.share = rules_.share;
    for (std::size_t d = 0; d < host_.devices.all.size(); ++d) {
        std::uint64_t& most = reply.use[index(Limit::device_memory)];
        most = std::max(most, quotas_.held(static_cast<int>(d)));
    }
    reply.use[index(Limit::region_memory)] = grants_.held();
    reply.use[index(Limit::store_memory)] = rooms_.held();
    reply.use[index(Limit::channels)] = clients_.served();
    clients_.each([&](const Client& client) {
        if (reply.count < std::size(reply.rows)) describe(client, reply.rows[reply.count++]);
    });
}

// What a client uses; where the bridge cannot count, as far as its worker is honest.
void LimitsDesk::describe(const Client& client, LimitRow& row) const {
    row = {};
    row.channel = client.slot();
    row.pid = client.pid();
    for (unsigned i = 0; i < limit_count; ++i) {
        row.own[i] = client.own[i].has_value();
        row.limits[i] = of(client, static_cast<Limit>(i));
    }
    row.use[index(Limit::region_memory)] = grants_.held(client.slot());
    if (!client.worker) return;
    const WorkerProcess& worker = *client.worker;
    row.worker = worker.pid();
    row.use[index(Limit::store_memory)] = rooms_.held(client.slot());
    for (unsigned i = 0; i < limits_in_sheet; ++i)
        if (i != index(Limit::region_memory)) row.use[i] = observe(worker.sheet().use[i]);
    for (const int device : worker.devices()) {  // the GPU of which it has most
        std::uint64_t& most = row.use[index(Limit::device_memory)];
        most = std::max(most, quotas_.held(client.slot(), device));
    }
    row.use[index(Limit::worker_memory)] = worker.own_data();
}

}  // namespace barcuda
