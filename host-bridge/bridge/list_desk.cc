// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/bridge/list_desk.h"

#include <algorithm>
#include <utility>

#include "base/field.h"
#include "shm-device/queue/sync.h"

namespace barcuda {
namespace {

std::uint64_t microseconds(ListDesk::Clock::time_point time) {
    return static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::microseconds>(time.time_since_epoch()).count());
}

std::uint64_t queued(const Client& client) {
    return client.worker ? observe(client.worker->sheet().use[static_cast<unsigned>(Limit::work)]) : 0;
}

SharedMemory shared(const Residents::Totals& its) {
    return {its.promised, its.out, its.lacks, its.moved_out, its.moved_back, its.waits, its.refusals, its.waited};
}

void add(SharedMemory& sum, const SharedMemory& more) {
    sum.promised += more.promised;
    sum.out += more.out;
    sum.lacks += more.lacks;
    sum.moved_out += more.moved_out;
    sum.moved_back += more.moved_back;
    sum.waits += more.waits;
    sum.refusals += more.refusals;
    sum.waited += more.waited;
}

}  // namespace

ListDesk::ListDesk(About about, Asks asks, const Clients& clients, const Quotas& quotas, const Grants& grants,
                   const Totals& totals, const Host& host, const LimitsDesk& limits, const PauseDesk& pauses,
                   const CardsDesk& cards)
    : about_(std::move(about)),
      asks_(std::move(asks)),
      clients_(clients),
      quotas_(quotas),
      grants_(grants),
      totals_(totals),
      host_(host),
      limits_(limits),
      pauses_(pauses),
      cards_(cards) {}

void ListDesk::serve(const ListRequest& request, ListReply& reply) const {
    if (request.busy) asks_.want_busy();
    limits_.note_memory();
    const auto now = Clock::now();
    const Busy* const busy = asks_.busy(now);
    put(reply.name, about_.name);
    put(reply.region, about_.region);
    put(reply.build, BARCUDA_VERSION);
    reply.software = host_.software;
    reply.interrupts = asks_.interrupts();
    reply.no_vm = about_.no_vm;
    reply.now = microseconds(now);
    reply.since = microseconds(about_.since);
    reply.region_size = about_.shape.size;
    reply.region_heap = about_.shape.granule_count * about_.shape.granule;
    reply.region_held = grants_.held();
    reply.channels = about_.shape.channel_count;
    reply.warm = asks_.warm();
    reply.came = totals_.came;
    reply.counts = totals_.counts;
    std::ranges::copy(totals_.went, reply.went);
    describe_host(reply, busy);
    reply.shares_cards = static_cast<bool>(cards_);
    reply.store = cards_.store();
    reply.store_held = cards_.store_held();
    reply.shared = shared(cards_.gone());
    clients_.each([&](Client& client) {
        client.note(grants_.held(client.slot()));
        add(reply.counts, client.record.counts);
        if (!client.record.is_a_client()) client.introduce();  // it watches
        add(reply.shared, shared(cards_.totals(client.slot())));
        reply.clients += client.worker != nullptr;
        reply.queued += queued(client);
        if (client.slot() < request.from || reply.next) return;
        if (reply.count == ListReply::most) reply.next = client.slot();
        else describe(client, reply.rows[reply.count++], busy);
    });
}

void ListDesk::describe_host(ListReply& reply, const Busy* busy) const {
    const auto& devices = host_.devices.all;
    for (std::size_t d = 0; d < devices.size(); ++d) {
        ListedGpu& gpu = reply.gpus[reply.gpu_count++];
        put(gpu.name, devices[d].name);
        std::ranges::copy(devices[d].uuid, gpu.uuid);
        gpu.memory = devices[d].total_memory;
        gpu.held = quotas_.held(static_cast<int>(d));
        gpu.busy = busy ? busy->gpus[d] : Busy::unknown;
    }
}

void ListDesk::describe(const Client& client, ListedClient& row, const Busy* busy) const {
    const ClientRecord& record = client.record;
    const std::uint32_t slot = client.slot();
    row.channel = slot;
    row.worker = client.worker ? client.worker->pid() : 0;
    row.pid = record.pid;
    put(row.program, record.program);
    put(row.user, record.user);
    row.since = microseconds(record.since);
    row.region_memory = grants_.held(slot);
    row.most_region_memory = record.most_region_memory;
    row.queued = queued(client);
    for (std::size_t d = 0; d < host_.devices.all.size(); ++d)
        row.device_memory[d] = quotas_.held(slot, static_cast<int>(d));
    row.most_device_memory = record.most_device_memory;
    row.counts = record.counts;
    row.paused = pauses_.state(slot);
    row.parked = pauses_.is_parked(slot);
    if (const auto since = pauses_.since(slot))
        row.paused_for = static_cast<std::uint64_t>(
            std::chrono::duration_cast<std::chrono::microseconds>(PauseDesk::Clock::now() - *since).count());
    row.shared = shared(cards_.totals(slot));
    for (std::size_t d = 0; d < BARCUDA_MAX_DEVICES; ++d)
        row.busy[d] = busy && slot < std::size(busy->clients) ? busy->clients[slot][d] : Busy::unknown;
}

}  // namespace barcuda
