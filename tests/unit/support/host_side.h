// SPDX-License-Identifier: Apache-2.0
// host_side.h: the host for a process whose guest layers are under test: a region in memory, its bridge's books, and a
// worker's session and loop on a thread of their own. Guest and worker see channel and extents at the same addresses
// here, as they do in two processes; so ThreadSanitizer relates what the one does to what the other does. A process is
// one client for its life: each test is a child process (as_client()).
#pragma once
#include <fcntl.h>
#include <sys/mman.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "guest-allocator/client/client.h"
#include "guest-allocator/heap/settings.h"
#include "host-bridge/between/device_choice.h"
#include "host-bridge/between/link.h"
#include "host-bridge/between/probe.h"
#include "host-bridge/bridge/grants.h"
#include "host-bridge/worker/channel.h"
#include "host-bridge/worker/leave.h"
#include "host-bridge/worker/serve.h"
#include "host-bridge/worker/session/session.h"
#include "host-bridge/worker/supply.h"
#include "shm-device/region/host_region.h"
#include "shm-device/rows/identity.h"
#include "tests/unit/support/scratch.h"

namespace barcuda::test {

class HostSide final : public Granter {
  public:
    // Where the software GPU's memory lies: in the device's window, and where a sanitizer lets programs have memory.
#ifdef __SANITIZE_THREAD__
    static constexpr std::uint64_t device_memory = 0x400000000;
#else
    static constexpr std::uint64_t device_memory = 0x300000000000;
#endif
    static constexpr std::uint64_t base = 0x7e8000000000;  // for the same reason
    static constexpr std::uint64_t size = 512 << 20, device_bytes = 256 << 20;

    // `open`: makes the worker's driver, on its thread.
    HostSide(const std::string& path, std::function<Driver()> open) : open_(std::move(open)) {
        const Error e =
            region.create(path.c_str(), {.size = size, .base = base, .build = "test build", .rows = identities});
        if (e) ADD_FAILURE() << e.text;
        grants_ = std::make_unique<Grants>(
            region.shape(), region.host_grants(), [this](std::uint64_t offset, std::uint64_t bytes) {
                EXPECT_EQ(0, fallocate(region.fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                       static_cast<off_t>(offset), static_cast<off_t>(bytes)));
            });
    }

    // Guests may come. The bridge's heart beats from here on.
    void announce() {
        region.announce();
        heart_ = std::thread([this] {
            for (;;) {
                region.beat();
                std::this_thread::sleep_for(std::chrono::milliseconds(50));
            }
        });
        heart_.detach();  // until the process ends
    }

    // The bridge admits a client: a worker begins to serve it.
    void admit(const Channel& channel) {
        EXPECT_EQ(channel.memory, region.at(channel.offset)) << "the worker would have the channel elsewhere";
        channel_ = channel;
        channel.status().opening = channel.opening;
        worker_ = std::thread([this] { work(); });
    }
    // Until the worker has ended its client's session.
    void join() { worker_.join(); }

    HostRegion region;
    Sheet sheet;  // that bridge and worker share

    // Orders that, and returns when the worker has carried it out, or refused to.
    Obstacle order(Paused wanted, std::uint32_t within_ms = 60'000) {
        Orders& orders = sheet.orders;
        publish(orders.wanted, static_cast<std::uint32_t>(wanted));
        publish(orders.within, within_ms);
        publish(orders.order, orders.order + 1);
        for (const Bell bell(channel_, -1); observe(orders.done) != orders.order; std::this_thread::yield())
            bell.relay();
        return static_cast<Obstacle>(observe(orders.obstacle));
    }
    Paused is() { return static_cast<Paused>(observe(sheet.orders.is)); }

    CUresult grant(std::uint64_t bytes, std::uint64_t& offset, std::uint64_t& granted) override {
        const std::lock_guard lock(mutex_);
        const Grants::Run run = grants_->grant(channel_.index, bytes);
        offset = run.offset;
        granted = run.bytes;
        return run.bytes ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    }
    void release(std::uint64_t offset, std::uint64_t bytes) override {
        const std::lock_guard lock(mutex_);
        EXPECT_TRUE(grants_->release(channel_.index, {offset, bytes}));
    }
    CUresult share(Shared::Kind, Shared::Handle&, const File&) override { return CUDA_ERROR_NOT_SUPPORTED; }
    CUresult find_shared(Shared::Kind, Shared::Handle&, File&) override { return CUDA_ERROR_NOT_SUPPORTED; }
    void withdraw(const Shared::Handle&) override {}

  private:
    // What run_worker() does once it has a client. Nothing of it is ever destroyed: as in a worker, whose process is
    // killed, a thread of the driver's may be waiting here for an answer of the client's.
    void work() {
        auto& driver = *new Driver(open_());
        CUcontext home = nullptr;
        EXPECT_EQ(CUDA_SUCCESS, driver.cuInit(0));
        EXPECT_EQ(CUDA_SUCCESS, driver.cuDevicePrimaryCtxRetain(&home, 0));
        EXPECT_EQ(CUDA_SUCCESS, driver.cuCtxSetCurrent(home));
        auto& extents = *new Extents(-1, base);
        EXPECT_EQ("", extents.map_channel(channel_.offset, BARCUDA_CHANNEL_SIZE).text());
        extents.lend(Bounce::memory());
        barcuda_status& status = channel_.status();
        auto& bell = *new Bell(channel_, -1);
        auto& session = *new Session(driver, extents, *this, status, &channel_.calls(), bell, &sheet);
        session.contexts().set_home(home, 0);
        new SessionScope(session);
        auto& supply = *new Supply(channel_.supply(), bell, *this, extents, Preparation{});
        supply.begin();
        ChannelReader reader(channel_, bell);
        publish(status.state, static_cast<std::uint32_t>(BARCUDA_STATE_READY));
        auto& link = *new BridgeLink(-1);  // no bridge carries the client
        auto& leave = *new Leave(session, reader, supply, link, sheet.carry);
        EXPECT_EQ(1, serve(reader, session, supply, status, sheet, leave));
        bell.wake();  // the bridge does it
    }

    const std::function<Driver()> open_;
    std::mutex mutex_;  // the worker's thread and its clerk ask
    std::unique_ptr<Grants> grants_;
    Channel channel_;
    std::thread worker_, heart_;
};

// The session's end, by a command that no honest library sends.
inline void break_protocol() {
    const std::uint64_t nonsense = ~std::uint64_t{0};
    guest::Client::current()->queue().submit(sizeof nonsense, 0, nullptr, [&](std::span<std::byte> to) {
        std::memcpy(to.data(), &nonsense, sizeof nonsense);
    });
}

// Runs `body` in a child process that is a client of a worker with this driver, and then ends the session. `soft`: the
// driver is the software GPU's.
template <class Open, class Body> void as_client_of(bool soft, Open open, Body body) {
    const Scratch scratch;
    const int status = in_child([&] {
        const std::string path = scratch / "region";
        setenv("BARCUDA_REGION", path.c_str(), 1);
        setenv("BARCUDA_SOFT_WINDOW", std::to_string(HostSide::device_memory).c_str(), 1);
        setenv("BARCUDA_SOFT_MEMORY", std::to_string(HostSide::device_bytes).c_str(), 1);
        heap::settings.mode = heap::Mode::never;  // mallocs of the worker's thread are no guest's
        auto& host = *new HostSide(path, open);
        if (soft) {
            const HostDevices devices = probe_devices(software_library());
            EXPECT_EQ("", devices.error);
            publish_devices(host.region, devices);
        } else {
            host.region.tell_devices(0, 1);
            for (auto& value : host.region.host_devices()[0].attributes) value = 1024;
        }
        host.announce();
        guest::Client* client = guest::Client::get();
        if (!client) ADD_FAILURE() << guest::Client::why().text;
        if (testing::Test::HasFailure()) return 1;
        // The guest has reserved the addresses that are the GPU's, which is in this process too.
        munmap(reinterpret_cast<void*>(HostSide::device_memory), HostSide::device_bytes);
        host.admit(client->channel());
        body(host);
        break_protocol();
        host.join();
        return testing::Test::HasFailure() ? 1 : 0;
    });
    EXPECT_EQ(0, status) << "the client's process";
}

template <class Open, class Body> void as_client(bool soft, Open open, Body body) {
    as_client_of(soft, open, [&](HostSide&) { body(); });
}

}  // namespace barcuda::test
