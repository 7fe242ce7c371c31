// SPDX-License-Identifier: Apache-2.0
// listing.cc: what the bridge reports about itself and its clients: in the log, at the start and the end of each client; and to `barcuda ps`
// and similar commands (list_link.h). A worker counts in its sheet (link.h); the bridge reads it on request, and when the worker ends.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "base/log.h"
#include "host-bridge/bridge/bridge.h"
#include "shm-device/queue/sync.h"

namespace barcuda {
namespace {

std::uint64_t microseconds(std::chrono::system_clock::time_point time) {
    return static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::microseconds>(time.time_since_epoch()).count());
}

// Guest memory, which may change meanwhile and need not end.
template <std::size_t N> std::string copied(const char (&text)[N]) {
    char copy[N];
    std::memcpy(copy, text, N);
    return {copy, strnlen(copy, N)};
}
template <std::size_t N> void put(char (&there)[N], const std::string& text) { text.copy(there, N - 1); }

void add(Counts& sum, const Counts& more) {
    sum.commands += more.commands, sum.launches += more.launches, sum.graph_launches += more.graph_launches;
    sum.waits += more.waits;
    for (unsigned way = 0; way < Counts::ways; ++way)
        sum.copies[way] += more.copies[way], sum.copied[way] += more.copied[way];
}

// In the log a name stands between quotes, and ends there; journald would hide a line that is no UTF-8.
std::string quoted(std::string name) {
    std::ranges::replace_if(
        name, [](char c) { return c == '"' || static_cast<unsigned char>(c) >= 0x80; }, '?');
    return fmt::format("\"{}\"", name);
}

}  // namespace

std::string Bridge::Known::text() const {
    return fmt::format("pid {}, user {}, program {}", pid, quoted(user), quoted(program));
}

// Once, when it wants a worker; who only asks NVML gets none.
void Bridge::introduce(Client& client) {
    const barcuda_client& page = client.channel.client();
    client.known.pid = observe(page.pid);
    client.known.program = copied(page.program);
    client.known.user = copied(page.user);
}

void Bridge::note(Client& client) {
    Known& known = client.known;
    known.most_region_memory = std::max(known.most_region_memory, grants_->held(client.channel.index));
    if (!client.worker || !client.known.worker) return;
    known.counts = read_counts(client.worker->sheet().counts);
    known.most_device_memory = 0;
    for (std::size_t i = 0; i < client.worker->devices().size(); ++i)
        known.most_device_memory += observe(client.worker->sheet().device_memory_most[i]);
}

void Bridge::note_end(Client& client, End end, const std::string& how) {
    if (client.known.end) return;  // the first reason counts
    client.known.end = end;
    client.known.how = how;
}

// What the log says of a client that is gone; empty: it was none.
std::string Bridge::farewell(Client& client) {
    Known& known = client.known;
    if (!known.worker && !known.end) return {};
    note_end(client, End::left, "it left");
    ++went_[static_cast<unsigned>(*known.end)];
    add(gone_, known.counts);
    const std::chrono::duration<double> took = std::chrono::system_clock::now() - known.since;
    const auto size = [](std::uint64_t bytes) { return about(Limit::device_memory).text(bytes); };
    return fmt::format("{}, worker {}; {:.1f} s, at most {} of device memory and {} of the region; {}", known.text(),
                       known.worker, took.count(), size(known.most_device_memory), size(known.most_region_memory),
                       known.how);
}

std::uint64_t Bridge::queued() const {
    std::uint64_t sum = 0;
    for (const auto& client : clients_)
        if (client && client->worker) sum += observe(client->worker->sheet().use[static_cast<unsigned>(Limit::work)]);
    return sum;
}

void Bridge::describe(const Client& client, ListedClient& row) const {
    const Known& known = client.known;
    const std::uint32_t slot = client.channel.index;
    row.channel = slot, row.worker = client.worker ? client.worker->pid() : 0, row.pid = known.pid;
    put(row.program, known.program), put(row.user, known.user);
    row.since = microseconds(known.since);
    row.region_memory = grants_->held(slot), row.most_region_memory = known.most_region_memory;
    row.queued = client.worker ? observe(client.worker->sheet().use[static_cast<unsigned>(Limit::work)]) : 0;
    for (std::size_t d = 0; d < devices_.all.size(); ++d)
        row.device_memory[d] = quotas_.held(slot, static_cast<int>(d));
    row.most_device_memory = known.most_device_memory;
    row.counts = known.counts;
    const Busy* const busy = monitoring_.busy(std::chrono::system_clock::now());
    for (std::size_t d = 0; d < BARCUDA_MAX_DEVICES; ++d)
        row.busy[d] = busy && slot < std::size(busy->clients) ? busy->clients[slot][d] : Busy::unknown;
}

void Bridge::serve_list(const ListRequest& request, ListReply& reply) {
    if (request.busy) monitoring_.want();
    note_memory();
    const auto now = std::chrono::system_clock::now();
    put(reply.name, options_.name), put(reply.region, options_.region), put(reply.build, BARCUDA_VERSION);
    reply.software = software_, reply.interrupts = doorbell_.connected(), reply.no_vm = options_.no_vm;
    reply.now = microseconds(now), reply.since = microseconds(since_);
    const Shape& shape = region_.shape();
    reply.region_size = shape.size, reply.region_heap = shape.granule_count * shape.granule;
    reply.region_held = grants_->held();
    reply.channels = shape.channel_count;
    reply.warm = pool_.warm();
    reply.came = came_, reply.queued = queued(), reply.counts = gone_;
    std::ranges::copy(went_, reply.went);
    const Busy* const busy = monitoring_.busy(now);
    for (std::size_t d = 0; d < devices_.all.size(); ++d) {
        const barcuda_device& device = devices_.all[d];
        ListedGpu& gpu = reply.gpus[reply.gpu_count++];
        put(gpu.name, device.name);
        std::ranges::copy(device.uuid, gpu.uuid);
        gpu.memory = device.total_memory, gpu.held = quotas_.held(static_cast<int>(d));
        gpu.busy = busy ? busy->gpus[d] : Busy::unknown;
    }
    for (const auto& client : clients_) {
        if (!client) continue;
        note(*client);
        add(reply.counts, client->known.counts);
        if (!client->known.worker && !client->known.end) introduce(*client);  // it watches
        reply.clients += client->worker != nullptr;
        if (client->channel.index < request.from || reply.next) continue;
        if (reply.count == ListReply::most) reply.next = client->channel.index;
        else describe(*client, reply.rows[reply.count++]);
    }
}

}  // namespace barcuda
