// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/bridge/bridge.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/inotify.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <vector>

#include "base/log.h"
#include "host-bridge/bridge/patience.h"
#include "host-bridge/bridge/resuming.h"
#include "shm-device/cuda/visible_devices.h"
#include "shm-device/queue/wait.h"

namespace barcuda {

// Everything before the first client. Returns what is wrong.
Failure Bridge::start() {
    Startup startup(ground_, signals_.fd());
    if (Failure e = startup.check()) return e;
    if (Failure e = startup.find_devices()) return e;
    if (Failure e = startup.open_region()) return e;
    place_ = Place(ground_.options.region, ground_.region.fd());
    desks_.emplace(ground_, loop_, monitoring_, since_);
    if (Failure e = startup.start_driver(desks_->launcher, desks_->pool)) return e;
    if (Failure e = startup.open_to_tools()) return e;
    if (Failure e = startup.publish_devices()) return e;
    desks_->cards.begin();
    const std::string& expected = ground_.options.expected;
    desks_->pool.expect(expected.empty() ? ground_.host.every : devices_seen(ground_.host.devices, expected.c_str()));
    return {};
}

int Bridge::run() {
    sigset_t signals;
    sigemptyset(&signals);
    for (int s : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&signals, s);
    sigprocmask(SIG_BLOCK, &signals, nullptr);
    signals_ = File(signalfd(-1, &signals, SFD_CLOEXEC));
    if (const Failure error = start()) {
        pollfd told{signals_.fd(), POLLIN, 0};
        if (poll(&told, 1, 0) <= 0) return fail(error);
        log::info("stopped before it served");
        return 0;
    }
    opens_ = File(inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
    const char* const region = ground_.options.region.c_str();
    if (opens_ && inotify_add_watch(opens_.fd(), region, IN_OPEN | IN_ACCESS | IN_CLOSE) < 0) opens_ = File();
    if (const Failure e = resume()) return fail(e);
    desks_->pool.keep({});
    monitoring_.start(ground_.region, ground_.host.devices.all, ground_.host.library);
    desks_->limits.show_memory();
    if (const Failure e = desks_->cards.listen(loop_)) return fail(e);
    if (!ground_.adopted) ground_.region.announce();
    announce();
    // In this order: until the keeper has heard it, a bridge of the earlier file may follow, which must read the books.
    ground_.kept.ready();
    ground_.ledger.own();
    listen();
    serve();
    if (desks_->suspends.ended()) leave_asleep();
    else shut_down();
    return 0;
}

// A bridge on trial, or one that has adopted an earlier one's region, ends as if it was killed: the next one will go on
// with the region, the doorbell, the rows in the books of others and the workers. Here they are released by their
// destructors. (A bridge that wakes clients loses none: they are on the disk.)
int Bridge::fail(const Failure& error) const {
    log::critical("{}", error.text());
    const int trial = ground_.options.trial;
    if (trial < 0 && (!ground_.adopted || ground_.set)) return 1;
    if (trial >= 0 && write(trial, error.text().data(), error.text().size()) < 0)
        log::warn("--trial {} cannot be written", trial);
    _exit(1);
}

// Goes on with the clients of an earlier bridge, if there are any. Returns why they cannot go on.
Failure Bridge::resume() {
    if (!ground_.adopted) {
        desks_->clients.reclaim_left();
        return {};
    }
    const auto worker_of = [this](std::uint32_t slot, const KeptClient& its) {
        return desks_->launcher.for_client(slot, its, ground_.set != nullptr);
    };
    Resuming resuming(ground_, *desks_, loop_, signals_.fd(), worker_of, [this] { beat(); });
    resuming.restore();
    const Failure e = resuming.wake();
    if (!e) return {};
    desks_->end_workers([this] { beat(); });
    return fmt::format("{}: {}. What is on the disk is as it was", ground_.options.wake, e.text());
}

void Bridge::announce() {
    const Host& host = ground_.host;
    const Shape& shape = ground_.region.shape();
    std::string names;
    for (const barcuda_device& d : host.devices.all)
        names += fmt::format("{}{} {} (GPU-{})", names.empty() ? "" : ", ", &d - host.devices.all.data(), d.name,
                             uuid_text(d.uuid));
    const std::string serves = fmt::format("region {} of {} MiB at {:#x}, {}: {}", ground_.options.region,
                                           shape.size >> 20, shape.base, host.software ? "software GPU" : "GPU", names);
    log::info("{}", serves);
    service_.ready(serves);
    const int ready = ground_.options.ready_fd;
    if (ready < 0) return;
    const std::string line = fmt::format("ready {} {}\n", host.software ? "soft" : "cuda", names);
    if (write(ready, line.data(), line.size()) < 0) log::warn("--ready-fd {} has no reader", ready);
    close(ready);
}

// What the loop watches. The pool watches waiting workers, the control visitors.
void Bridge::listen() {
    const auto is_worker = [this](const Visitor& visitor) { return this->is_worker(visitor); };
    on_signal_ = loop_.watch(signals_.fd(), Loop::Rank::stop, [this](short) { loop_.stop(); });
    if (opens_)
        on_open_ = loop_.watch(opens_.fd(), Loop::Rank::guest, [this](short) {
            if (char news[4096]; read(opens_.fd(), news, sizeof news) < 0) log::debug("inotify: {}", strerror(errno));
        });
    if (ground_.doorbell)
        on_ring_ = loop_.watch(ground_.doorbell.fd(), Loop::Rank::guest, [this, is_worker](short) {
            if (!ground_.doorbell.answer(is_worker)) return;
            desks_->clients.each([](const Client& client) {
                if (client.is_served()) client.bell.relay();
            });
        });
    ground_.control.serve(loop_, desks_->answers(is_worker));
}

// How long to wait for an event.
std::chrono::milliseconds Bridge::patience() const {
    const Desks& desks = *desks_;
    if (desks.heap.short_of_time()) return {};
    const bool hears_of_clients = (ground_.doorbell.connected() || ground_.options.no_vm) && opens_;
    const auto quiet = Clock::now() - std::max(heard_, desks.clients.last_came());
    return desks.cards.patience(patience::between_looks(quiet, desks.is_busy(), hears_of_clients));
}

void Bridge::serve() {
    Desks& desks = *desks_;
    for (;;) {
        const bool happened = loop_.wait(patience());
        beat();
        const bool frozen = desks.suspends.frozen();
        if (!frozen) desks.heap.begin_turn();
        if (!frozen && !happened && !desks.heap.short_of_time()) desks.heap.release_pages();
        const auto first = loop_.dispatch();
        if (loop_.stopped() || desks.suspends.ended()) return;
        if (first && *first < Loop::Rank::log) heard_ = Clock::now();  // logs and tools announce no client
        std::vector<Client*> waiting;
        if (!desks.suspends.frozen()) waiting = desks.clients.look([this](Client& client) { look_at(client); });
        if (desks.suspends.admits())
            desks.acceptor.admit(waiting, [&](Client& client) {
                desks.hear(client);
                desks.cards.admit(client);
            });
        desks.clients.reap_workers();
        desks.pauses.look();
        desks.suspends.look();
        desks.cards.look();
        desks.idle_contexts.look(Os::now());
        place_.look();
        monitoring_.look();
        ground_.exporting.look();
        if (desks.pool.is_leaving()) desks.pool.reap_leaving();
        desks.pool.keep(desks.clients.state());
    }
}

void Bridge::look_at(Client& client) {
    desks_->look_at(client);
    if (client.has_watched()) monitoring_.want();
}

void Bridge::beat() {
    constexpr std::chrono::seconds alive_every{1};
    ground_.region.beat();
    service_.beat();
    const auto now = Clock::now();
    if (now - told_alive_ < alive_every) return;
    told_alive_ = now;
    ground_.kept.alive();
}

// A worker must not get a part of the region through another door, or change limits. The same holds for another
// bridge's worker.
bool Bridge::is_worker(const Visitor& visitor) const {
    if (visitor.pid == ground_.exporting.pid()) return false;
    const cage::Order& order = ground_.cage.order;
    return desks_->has_worker(visitor.pid) || (order.has(cage::Measure::user) && visitor.user == order.user) ||
           is_a_bridges(visitor);
}

// The clients are on a disk now. None is told: a program that still runs waits as for a paused client. No bridge comes
// after this one, even if it is killed meanwhile: that would find clients without workers.
void Bridge::leave_asleep() {
    service_.leaving();
    ground_.kept.done();
    desks_->end_workers([this] { beat(); });
    log::info("suspended");
}

void Bridge::shut_down() {
    constexpr const char* why = "the bridge has been stopped";
    service_.leaving();
    desks_->clients.each([](Client& client) { client.end(Client::Ending::stopped, why); });
    desks_->end_workers([this] { beat(); });
    ground_.kept.done();
    log::info("stopped");
}

}  // namespace barcuda
