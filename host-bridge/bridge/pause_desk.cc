// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/bridge/pause_desk.h"

#include <algorithm>
#include <cstring>

#include "base/field.h"
#include "base/log.h"
#include "shm-device/queue/sync.h"

namespace barcuda {
namespace {

// GPU memory of a context that no worker counts: 525 MiB were seen on an H100.
constexpr std::uint64_t of_a_context = 640 << 20;
// A monitor that has not answered by then has no working NVML.
constexpr std::chrono::seconds monitor_answers_within{5};

std::uint32_t page_word(Paused state) {
    switch (state) {
        case Paused::running:
        case Paused::holding: return BARCUDA_PAUSED_NO;
        case Paused::held: return BARCUDA_PAUSED_HELD;
        case Paused::away:
        case Paused::returning:
        case Paused::stuck: return BARCUDA_PAUSED_AWAY;
    }
    return BARCUDA_PAUSED_NO;  // a worker may write any number
}

}  // namespace

Failure PauseDesk::pause(Client& client, const PauseRequest& request) {
    const std::uint32_t slot = client.slot();
    if (!client.is_served()) return "it has no worker (yet), so there is nothing to pause";
    if (request.what == PauseRequest::resume) return pausing_.resume(slot);
    return pause(client, {.keep_memory = request.keep_memory, .within = std::chrono::milliseconds(request.within)});
}

Failure PauseDesk::park(Client& client) {
    constexpr std::chrono::seconds within{1};  // it is idle
    return pause(client, {.within = within, .parks = true});
}

Failure PauseDesk::pause(Client& client, Pausing::Terms terms) {
    const std::uint32_t slot = client.slot();
    WorkerProcess& worker = *client.worker;
    Pausing::Facts facts{.wrapped = wrapped_, .shares_with = shared_.shares_with(slot)};
    for (std::size_t i = 0; i < worker.devices().size(); ++i) {
        const int device = worker.devices()[i];
        // A worker may report any number: it may take no more host memory than the GPU has.
        const std::uint64_t its =
            std::min(std::max(observe(worker.sheet().device_memory[i]), quotas_.held(slot, device)), memory_of(device));
        if (its != 0 || i == 0) facts.memory.emplace_back(device, its + (host_.software ? 0 : of_a_context));
    }
    terms.limit = limits_.of_guest(Limit::paused_memory);
    Failure refusal = pausing_.pause(slot, worker.sheet().orders, slot, facts, terms);
    allow_away(client);
    tell(client);
    client.bell.relay();  // its worker may sleep
    return refusal;
}

bool PauseDesk::resume(Client& client) {
    if (pausing_.resume(client.slot())) return false;
    look();
    return state(client.slot()) == Paused::running && !pausing_.is_busy(client.slot());
}

// Lets the worker hold more memory than its client may normally make it take.
void PauseDesk::allow_away(Client& client) {
    const std::uint64_t bytes = pausing_.away_bytes(client.slot());
    if (bytes == client.away) return;
    client.away = bytes;
    client.bound = false;
    limits_.bound(client);
}

std::uint64_t PauseDesk::memory_of(int device) const {
    return host_.devices.all[static_cast<std::size_t>(device)].total_memory;
}

std::optional<std::uint64_t> PauseDesk::free_memory(int device, Clock::time_point after) const {
    const auto waited = Clock::now() - after;
    const Busy* const seen = monitor_.busy(std::chrono::system_clock::now());
    const auto taken =
        std::chrono::system_clock::time_point{} + std::chrono::microseconds(seen ? observe(seen->taken) : 0);
    if (seen && taken > std::chrono::system_clock::now() - waited && seen->free[device] != Busy::not_known)
        return seen->free[device];
    if (monitor_.asks() && waited < monitor_answers_within) return {};
    // Without NVML: what this guest's clients hold.
    std::uint64_t held = 0;
    clients_.each([&](const Client& client) {
        if (pausing_.away_bytes(client.slot()) == 0) held += quotas_.held(client.slot(), device);
    });
    const std::uint64_t all = memory_of(device);
    return all - std::min(all, held);
}

// A parked client runs, as far as its program can see: it waits for nothing but its own return.
void PauseDesk::tell(const Client& client) const {
    const std::uint32_t slot = client.slot();
    const Paused shown = pausing_.is_parked(slot) ? Paused::running : pausing_.state(slot);
    publish(client.channel.status().paused, page_word(shown));
}

void PauseDesk::restore(Client& client) {
    pausing_.restore(client.slot(), client.worker->sheet().orders);
    allow_away(client);
    tell(client);
    client.bell.relay();  // its worker may sleep, and not know of an order
}

void PauseDesk::look() {
    if (!pausing_.busy()) return;
    constexpr std::chrono::milliseconds sweeps_every{200};
    const auto now = Clock::now();
    if (pausing_.waits_for_room() && now - asked_for_room_ > sweeps_every) {
        monitor_.want();
        asked_for_room_ = now;
    }
    for (const Pausing::News& news : pausing_.look([this](int d, auto after) { return free_memory(d, after); }, now)) {
        Client& client = *clients_[news.slot];
        switch (news.what) {
            case Pausing::News::paused:
                log::info("pause: channel {} is {}", news.slot,
                          pausing_.is_parked(news.slot) ? "parked until its next command: others need the card"
                                                        : name_of(pausing_.state(news.slot)));
                break;
            case Pausing::News::resumed: log::info("pause: channel {} is resumed", news.slot); break;
            case Pausing::News::refused: log::warn("pause: channel {}: {}", news.slot, news.text); break;
            case Pausing::News::lost: client.end_worker("the client was lost while it was paused: " + news.text);
        }
        allow_away(client);
        tell(client);
    }
    clients_.each([this](const Client& client) {
        if (pausing_.is_busy(client.slot())) client.bell.relay();  // its worker may sleep
    });
}

std::vector<Client*> PauseDesk::meant(const PauseRequest& request) const {
    std::vector<Client*> found;
    clients_.each([&](Client& client) {
        const auto worker = client.worker ? static_cast<std::uint32_t>(client.worker->pid()) : 0;
        const bool named = request.by == PauseRequest::channel ? client.slot() == request.client
                           : request.by == PauseRequest::pid
                               ? client.record.pid == request.client || (worker && worker == request.client)
                               : client.is_served();
        if (named) found.push_back(&client);
    });
    return found;
}

void PauseDesk::serve(const PauseRequest& request, PauseReply& reply, const ucred& by) {
    const std::vector<Client*> clients = meant(request);
    if (request.by != PauseRequest::all && clients.size() != 1)
        return put(reply.error, clients.empty()
                                    ? "there is no such client"
                                    : "several clients say that they have this pid: name one by its channel");
    for (Client* const client : clients) {
        PauseRow& row = reply.rows[reply.count++];
        const std::uint32_t slot = client->slot();
        row.channel = slot;
        row.pid = client->record.pid;
        row.worker = client->worker ? client->worker->pid() : 0;
        Failure refusal;
        if (request.what != PauseRequest::look) {
            refusal = pause(*client, request);
            log::info("pause: channel {}: {}{}{} (user {}, pid {})", slot,
                      request.what == PauseRequest::pause ? "pause" : "resume",
                      request.what == PauseRequest::pause && request.keep_memory ? " with its memory kept" : "",
                      refusal ? ", refused: " + refusal.text() : "", by.uid, by.pid);
        }
        row.state = pausing_.is_parked(slot) ? Paused::running : pausing_.state(slot);
        row.busy = pausing_.is_busy(slot);
        put(row.text, (refusal ? refusal : pausing_.refusal(slot)).text());
    }
    look();
}

}  // namespace barcuda
