// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/bridge/desks.h"

#include <fcntl.h>
#include <poll.h>

#include <utility>

#include "base/field.h"
#include "host-bridge/bridge/describing.h"
#include "host-bridge/bridge/patience.h"

namespace barcuda {

namespace {

Shared::Keep keep_by(const Kept& kept) {
    if (!kept) return {};
    return {[&kept](const std::string& name, int file) { return kept.keep("shared." + name, file) == 0; },
            [&kept](const std::string& name) { kept.drop("shared." + name); },
            [&kept](const std::string& name) { return kept.take("shared." + name); },
            [&kept](const std::string& prefix) {
                std::vector<std::string> all = kept.names("shared." + prefix);
                for (std::string& name : all) name.erase(0, std::string_view("shared.").size());
                return all;
            }};
}

File another(int file) { return File(file < 0 ? -1 : fcntl(file, F_DUPFD_CLOEXEC, 0)); }

SuspendDesk::Given what_it_gives(const Ground& ground) {
    return {[&ground] { return text_of(describe(ground)); }, [&ground] { return another(ground.region.fd()); },
            [&ground] { return another(ground.ledger.fd()); }};
}

CardsDesk::Terms terms_of(const BridgeOptions& options) {
    CardsDesk::Terms terms;
    terms.rules.wait = options.wait * residency::second;
    terms.reserve = options.card_reserve;
    return terms;
}

constexpr const char* cannot_listen = "the bridge cannot listen to the worker";

// Returns when the process has ended, or after a moment: a process under a debugger has ended for its descriptor, but
// not for us.
void await_end(const WorkerProcess& worker) {
    pollfd end{worker.end(), POLLIN, 0};
    if (poll(&end, 1, static_cast<int>(patience::look_every.count())) > 0 && !worker.has_gone()) poll(nullptr, 0, 1);
}

}  // namespace

Desks::Desks(Ground& ground, Loop& loop, Monitoring& monitoring, std::chrono::system_clock::time_point since)
    : grants(
          ground.region.shape(), ground.region.host_grants(),
          [&region = ground.region](auto offset, auto bytes) { clear(region, offset, bytes); },
          ground.ledger.granules()),
      shared(Startup::files_of_each(ground.region.shape().channel_count, WarmPool(Startup::warm(ground.options)).most(),
                                    Rooms::most_files(ground.options.cards.empty() ? 0 : ground.options.store),
                                    ground.files),
             ground.ledger.shown(), keep_by(ground.kept)),
      quotas(ground.ledger.accounts()),
      rooms(ground.options.cards.empty() ? 0 : ground.options.store, ground.options.store_ready,
            ground.region.shape().channel_count, ground.ledger.rooms()),
      clients(ground.region, {grants, shared, quotas, totals, &ground.ledger}, ground.doorbell.guest(),
              ground.options.wrapper,
              [this, &monitoring](std::uint32_t slot, pid_t worker) {
                  monitoring.client(slot, worker);
                  if (worker != 0) return;  // before the worker's sheet ends:
                  pauses.forget(slot);
                  cards.forget(slot);
                  suspends.forget(slot);
                  idle_contexts.forget(slot);
              }),
      limits(
          {ground.options.limits, ground.options.share, ground.ledger.rules()}, clients, quotas, grants, ground.region,
          ground.host, ground.turns, [&](std::uint64_t bytes) { monitoring.show_memory(least(bytes, cards.most())); },
          rooms),
      launcher(ground.options, ground.region, ground.doorbell, ground.turns, ground.cage, ground.host, ground.files,
               ground.kept, [this](std::uint64_t bytes) { return heap.reserve(bytes); }),
      pool(
          Startup::warm(ground.options), loop, [this](const auto& devices) { return launcher.start(devices); },
          [this](Grants::Run run) { grants.release(run); }),
      heap(ground.region, grants, clients, limits, pool),
      cards(ground.cards, rooms, terms_of(ground.options),
            {[&](auto now) { return monitoring.busy(now); }, [&] { monitoring.want(); },
             [this, &monitoring, &ground] {
                 limits.note_memory();
                 for (std::size_t d = 0; d < ground.host.devices.all.size(); ++d)
                     monitoring.show_held(d, quotas.held(static_cast<int>(d)));
             }},
            clients, limits, ground.host, ground.ledger.residents(),
            [this](std::uint32_t slot) { return pauses.returns(slot); }),
      pauses({[&](auto now) { return monitoring.busy(now); }, [&] { monitoring.want(); },
              [&] { return monitoring.asks(); }},
             clients, shared, quotas, limits, ground.host, !ground.options.wrapper.empty(), ground.ledger.pauses(),
             {[this](std::uint32_t slot, int device, std::uint64_t bytes) { return cards.claim(slot, device, bytes); },
              [this](std::uint32_t slot) { return cards.totals(slot).out; }}),
      idle_contexts(std::chrono::seconds(ground.options.context_idle), clients, cards, pauses),
      list({ground.options.name, ground.options.region, ground.options.no_vm, ground.region.shape(), since},
           {[&] { return ground.doorbell.connected(); }, [this] { return pool.warm(); },
            [&](auto now) { return monitoring.busy(now); }, [&] { monitoring.want(); }},
           clients, quotas, grants, totals, ground.host, limits, pauses, cards),
      upgrades(ground.kept, clients),
      acceptor(clients, pool, limits, heap, ground.host, totals, [&] { return ground.doorbell.connected(); }),
      requests({clients, grants, shared, quotas, limits, heap, cards}, loop),
      suspends(clients, pauses, ground.kept,
               {[this](Client& client, bool check, auto& ends) { return carrier.order(client, check, ends); },
                [this](const Client& client, SuspendRow& row) { carrier.look(client, row); },
                [this](Client& client) { carrier.withdraw(client); },
                [this](Client& client, auto& ends) { return carrier.order_ahead(client, ends); }},
               what_it_gives(ground), [this](Client& client) { hear_requests(client); }),
      loop_(loop) {}

void Desks::look_at(Client& client) {
    limits.bound(client);
    limits.look_at_turns(client);
    requests.look_at_mapper(client);
}

void Desks::hear(Client& client) {
    clients.roster()(client.slot(), client.worker->pid());
    hear_end(client);
    hear_requests(client);
}

void Desks::hear_requests(Client& client) {
    if (!requests.hear(client)) client.end_worker(cannot_listen);
}

void Desks::hear_end(Client& client) {
    if (!client.worker->hear_end(loop_, [this, &client] { clients.worker_ended(client); }))
        client.end_worker(cannot_listen);
}

Control::Answers Desks::answers(std::function<bool(const Visitor&)> is_worker) {
    // Whether a change has to wait, because the VM is being written to a disk; says so.
    const auto frozen = [this](bool changes, auto& reply) {
        if (!changes || !suspends.frozen()) return false;
        put(reply.error, "the VM is being suspended: wait until that has ended");
        return true;
    };
    return {[this, frozen](const auto& request, auto& reply, const ucred& by) {
                if (frozen(request.whose != LimitRequest::nobodys, reply)) return;
                limits.serve(request, reply, by);
                cards.change();
            },
            [this](const auto& request, auto& reply, const ucred&) { list.serve(request, reply); },
            [this, frozen](const auto& request, auto& reply, const ucred& by) {
                if (!frozen(request.what != PauseRequest::look, reply)) pauses.serve(request, reply, by);
            },
            [this](const auto& request, auto& reply, const ucred& by) { upgrades.serve(request, reply, by); },
            [this](const auto& request, auto& reply, const ucred& by) { return suspends.serve(request, reply, by); },
            std::move(is_worker)};
}

bool Desks::is_busy() const {
    return pauses.is_busy() || suspends.is_busy() || acceptor.some_wait() || pool.is_leaving() || clients.one_leaves();
}

void Desks::end_workers(const std::function<void()>& beat) {
    clients.each([](const Client& client) {
        if (client.worker) client.worker->dismiss();
    });
    pool.end();
    clients.each([&beat](const Client& client) {  // a profiler may take long to write its results
        for (; client.worker && !client.worker->release(); beat()) await_end(*client.worker);
    });
}

bool Desks::has_worker(pid_t process) const {
    bool found = false;
    pool.each([&](const WorkerProcess& w) { found |= w.pid() == process; });
    clients.each([&](const Client& client) { found |= client.worker && client.worker->pid() == process; });
    return found;
}

}  // namespace barcuda
