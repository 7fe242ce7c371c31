// SPDX-License-Identifier: Apache-2.0
// desks.h: the parts of a bridge that serve clients, over a region in a file, for tests. Clients are channels that the
// test opens, workers are processes of the shell's, and the host has two GPUs of 1 GiB.
#pragma once
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "host-bridge/bridge/acceptor.h"
#include "host-bridge/bridge/cards_desk.h"
#include "host-bridge/bridge/clients.h"
#include "host-bridge/bridge/heap_desk.h"
#include "host-bridge/bridge/limits_desk.h"
#include "host-bridge/bridge/pause_desk.h"
#include "host-bridge/bridge/pool.h"
#include "host-bridge/bridge/requests.h"
#include "host-bridge/bridge/rooms.h"
#include "shm-device/queue/sync.h"
#include "tests/unit/support/region_fixture.h"
#include "tests/unit/support/shell_worker.h"

namespace barcuda::test {

class DesksTest : public RegionTest {
  protected:
    static constexpr std::uint64_t GiB = 1 << 30;
    Loop loop;
    Host gpus;
    LimitOptions rules;
    turns::Share share;
    turns::Member turns;
    cards::Member book;  // of shared cards: open it before SetUp(), or none is shared
    Quotas quotas;
    std::optional<Rooms> rooms;
    Totals totals;
    Shared shared{2};
    std::optional<Grants> grants;
    std::optional<Clients> clients;
    std::optional<LimitsDesk> limits;
    std::optional<Pool> pool;
    std::optional<HeapDesk> heap;
    std::optional<Acceptor> acceptor;
    std::optional<PauseDesk> pauses;
    std::optional<CardsDesk> cards;
    std::optional<Requests> requests;
    std::string script = idle;  // what a worker runs
    bool can_start = true;
    std::uint64_t shown = ~std::uint64_t{0};              // as guests see a GPU's memory
    std::vector<std::pair<std::uint32_t, pid_t>> roster;  // what the monitor was told

    void SetUp() override {
        RegionTest::SetUp();
        ASSERT_FALSE(open_guest());
        gpus.devices.all.resize(2);
        for (barcuda_device& device : gpus.devices.all) device.total_memory = GiB;
        gpus.every = {0, 1};
        rooms.emplace(book.fd() < 0 ? 0 : GiB, 0, host.shape().channel_count);
        grants.emplace(host.shape(), host.host_grants(), [](std::uint64_t, std::uint64_t) {});
        clients.emplace(host, Clients::Books{*grants, shared, quotas, totals}, -1, "",
                        [this](std::uint32_t slot, pid_t worker) {
                            roster.emplace_back(slot, worker);
                            if (worker != 0) return;
                            pauses->forget(slot);
                            cards->forget(slot);
                        });
        limits.emplace(
            LimitsDesk::Rules{rules, share}, *clients, quotas, *grants, host, gpus, turns,
            [this](std::uint64_t bytes) { shown = bytes; }, *rooms);
        pool.emplace(
            WarmOptions{.least = 0}, loop, [this](const std::vector<int>& devices) { return start(devices); },
            [this](Grants::Run run) { grants->release(run); });
        heap.emplace(host, *grants, *clients, *limits, *pool);
        acceptor.emplace(*clients, *pool, *limits, *heap, gpus, totals, [] { return false; });
        pauses.emplace(PauseDesk::Monitor{[](auto) { return nullptr; }, [] {}, [] { return false; }}, *clients, shared,
                       quotas, *limits, gpus, false);
        cards.emplace(book, *rooms, CardsDesk::Terms{.reserve = 0},
                      CardsDesk::Monitor{[](auto) { return nullptr; }, [] {}}, *clients, *limits, gpus);
        cards->begin();
        requests.emplace(Requests::Desks{*clients, *grants, shared, quotas, *limits, *heap, *cards}, loop);
    }
    std::unique_ptr<WorkerProcess> start(const std::vector<int>& devices) {
        if (!can_start) {
            errno = EMFILE;
            return nullptr;
        }
        return start_worker(script, devices);
    }
    // A program of the guest's opens a channel, and says which devices it sees.
    Channel open(const std::vector<int>& devices = {0}) {
        Channel channel;
        EXPECT_FALSE(guest.open_channel(channel));
        barcuda_client& page = channel.client();
        page.pid = 4711;
        std::strcpy(page.program, "a \"program\"");
        std::strcpy(page.user, "alice");
        for (std::size_t i = 0; i < devices.size(); ++i) page.devices[i] = devices[i];
        publish(page.device_count, static_cast<barcuda_u32>(devices.size()));
        return channel;
    }
    Channel open_at(std::uint64_t base) {
        const Channel channel = open({});
        channel.client().base = base;
        publish(channel.client().device_count, 1u);
        return channel;
    }
    // One turn of the bridge's loop, as far as slots go.
    void turn() {
        acceptor->admit(clients->look([](Client&) {}), [](Client&) {});
    }
    Client& arrive(const std::vector<int>& devices = {0}) {
        const Channel channel = open(devices);
        turn();
        return *(*clients)[channel.index];
    }
    // Its worker's process ends, and the bridge has taken note of it.
    void kill_worker(Client& client) {
        kill(client.worker->pid(), SIGKILL);
        await_end(*client.worker);
        clients->worker_ended(client);
    }
};

}  // namespace barcuda::test
