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
#include <set>
#include <string_view>
#include <utility>

#include "base/field.h"
#include "base/log.h"
#include "shm-device/cuda/visible_devices.h"
#include "shm-device/queue/sync.h"
#include "shm-device/queue/wait.h"

namespace barcuda {
namespace {

// How soon the bridge notices a new client, and the cost of looking: some loads and a system call each time. After any
// event (a worker's request or end, the doorbell, a program that opens or closes the region's file) the bridge looks
// often for some time, because more may follow. After that, the loop of a bridge that hears of every client wakes only
// for the heartbeat; a bridge for a plain VM must keep looking.
constexpr std::chrono::milliseconds new_look_every{1}, look_every{2}, deaf_look_every{8}, idle_look_every{250};
constexpr std::chrono::milliseconds looks_for_new{50}, looks_often{1000};  // after anything has happened

// Returns when the process has ended, or after a moment: a process under a debugger has ended for its descriptor, but
// not for us.
void await_end(const WorkerProcess& worker) {
    pollfd end{worker.end(), POLLIN, 0};
    if (poll(&end, 1, static_cast<int>(look_every.count())) > 0 && !worker.has_gone()) poll(nullptr, 0, 1);
}

}  // namespace

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
        const int trial = ground_.options.trial;
        if (trial >= 0 && write(trial, error.text().data(), error.text().size()) < 0)
            log::warn("--trial {} cannot be written", trial);
        pollfd told{signals_.fd(), POLLIN, 0};
        if (poll(&told, 1, 0) > 0) {
            log::info("stopped before it served");
            return 0;
        }
        log::critical("{}", error.text());
        return 1;
    }
    opens_ = File(inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
    const char* const region = ground_.options.region.c_str();
    if (opens_ && inotify_add_watch(opens_.fd(), region, IN_OPEN | IN_ACCESS | IN_CLOSE) < 0) opens_ = File();
    if (ground_.adopted) restore();
    else desks_->clients.reclaim_left();
    if (const Failure e = wake()) {
        log::critical("{}: {}. What is on the disk is as it was", ground_.options.wake, e.text());
        end_workers();
        return 1;
    }
    desks_->pool.keep({});
    monitoring_.start(ground_.region, ground_.host.devices.all, ground_.host.library);
    desks_->limits.show_memory();
    if (const Failure e = desks_->cards.listen(loop_)) {
        log::critical("{}", e.text());
        return 1;
    }
    if (!ground_.adopted) ground_.region.announce();
    announce();
    ground_.ledger.own();
    ground_.kept.ready();
    listen();
    serve();
    if (desks_->suspends.ended()) leave_asleep();
    else shut_down();
    return 0;
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
    // Whether a change has to wait, because the VM is being written to a disk; says so.
    const auto frozen = [this](bool changes, auto& reply) {
        if (!changes || !desks_->suspends.frozen()) return false;
        put(reply.error, "the VM is being suspended: wait until that has ended");
        return true;
    };
    ground_.control.serve(
        loop_,
        {[this, frozen](const auto& request, auto& reply, const ucred& by) {
             if (frozen(request.whose != LimitRequest::nobodys, reply)) return;
             desks_->limits.serve(request, reply, by);
             desks_->cards.change();
         },
         [this](const auto& request, auto& reply, const ucred&) { desks_->list.serve(request, reply); },
         [this, frozen](const auto& request, auto& reply, const ucred& by) {
             if (!frozen(request.what != PauseRequest::look, reply)) desks_->pauses.serve(request, reply, by);
         },
         [this](const auto& request, auto& reply, const ucred& by) { desks_->upgrades.serve(request, reply, by); },
         [this](const auto& request, auto& reply, const ucred& by) {
             return desks_->suspends.serve(request, reply, by);
         },
         is_worker});
}

// How long to wait for an event.
std::chrono::milliseconds Bridge::patience() const {
    if (desks_->heap.short_of_time()) return {};
    return desks_->cards.patience(patience_with_guest());
}

std::chrono::milliseconds Bridge::patience_with_guest() const {
    const auto quiet = Clock::now() - std::max(heard_, desks_->clients.last_came());
    if (quiet < looks_for_new) return new_look_every;
    if (desks_->pauses.is_busy() || desks_->suspends.is_busy() || desks_->acceptor.some_wait() ||
        desks_->pool.is_leaving() || quiet < looks_often || desks_->clients.one_leaves())
        return look_every;
    return (ground_.doorbell.connected() || ground_.options.no_vm) && opens_ ? idle_look_every : deaf_look_every;
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
                hear(client);
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

// Goes on with the clients of the earlier bridge. Workers of it that have no client end.
void Bridge::restore() {
    Desks& desks = *desks_;
    const Kept& kept = ground_.kept;
    if (ground_.set) desks.clients.close_ended();
    desks.clients.restore([this](std::uint32_t slot, const KeptClient& its) { return take_worker(slot, its); },
                          !ground_.set);
    desks.grants.release_reserves();
    std::vector<pid_t> with_client;
    std::size_t served = 0;
    desks.clients.each([&](Client& client) {
        if (!client.worker) return;
        with_client.push_back(client.worker->pid());
        if (!client.is_served()) return;
        ++served;
        client.worker->hear_log(loop_);
        hear(client);
        // A worker that does not come to go on with a client on a disk does not end that client: wake() looks at it.
        if (ground_.set) client.worker->hear_end(loop_, [] {});
        desks.requests.restore(client);
        if (ground_.set) desks.carrier.announce(client);
        desks.acceptor.restore(client);
        desks.pauses.restore(client);
        if (ground_.set) desks.cards.admit(client);
        else desks.cards.restore(client);
    });
    if (!ground_.set) desks.suspends.restore();
    desks.cards.all_are_back();
    for (const pid_t worker : WorkerProcess::left(kept))
        if (std::ranges::find(with_client, worker) == with_client.end()) WorkerProcess::end_left(worker, kept);
    if (!ground_.set)
        log::info("this bridge goes on with the {} client{} of an earlier one", served, served == 1 ? "" : "s");
}

// The worker with which a client goes on: that of an earlier bridge, or a new one, if the client was on a disk.
std::unique_ptr<WorkerProcess> Bridge::take_worker(std::uint32_t slot, const KeptClient& its) {
    const auto called = [slot](pid_t worker) { return fmt::format("channel {}: worker {}", slot, worker); };
    if (!ground_.set) return desks_->launcher.adopt(its.worker, its.worker_start, called(its.worker));
    std::vector<int> devices(its.devices,
                             its.devices + std::min<std::size_t>(its.device_count, std::size(its.devices)));
    auto worker = desks_->launcher.start_bare(devices);
    if (worker) worker->assign(called(worker->pid()));
    return worker;
}

// All clients go on, or none: a worker that has made everything again takes no command before the others have.
Failure Bridge::wake() {
    if (!ground_.set) return {};
    Desks& desks = *desks_;
    std::vector<std::uint32_t> slots = ground_.set->description().clients;
    // A program without a VM may have ended meanwhile: its slot is reclaimed once the others go on.
    std::erase_if(slots, [&](std::uint32_t slot) {
        Client* const client = desks.clients[slot];
        if (!client || !desks.clients.has_left(*client)) return false;
        if (client->worker) hear_end(*client);
        log::info("channel {}: its program has ended while it was suspended", slot);
        return true;
    });
    const auto stop = loop_.watch(signals_.fd(), Loop::Rank::stop, [this](short) { loop_.stop(); });
    const auto failed = [&](std::uint32_t slot, const std::string& why) {
        return fmt::format("the client of channel {} cannot go on: {}", slot, why);
    };
    for (const std::uint32_t slot : slots) {
        Client* const client = desks.clients[slot];
        if (!client || !client->is_served()) return failed(slot, "its worker does not start");
        client->record.worker = client->worker->pid();
        client->write_down();
        if (Failure e = desks.carrier.give(*client, *ground_.set)) return failed(slot, e.text());
    }
    for (std::set<std::uint32_t> missing(slots.begin(), slots.end()); !missing.empty();) {
        loop_.wait(look_every);
        beat();
        desks.heap.begin_turn();
        loop_.dispatch();
        if (loop_.stopped()) return "the bridge was told to stop";
        desks.pauses.look();
        desks.cards.look();
        for (const std::uint32_t slot : slots) {
            const Client& client = *desks.clients[slot];
            std::string why = client.record.how;
            if (!client.is_served()) return failed(slot, why.empty() ? "its worker was ended" : why);
            const Carrier::Returned result = desks.carrier.returned(client, why);
            if (result == Carrier::Returned::failed) return failed(slot, why);
            if (client.worker->has_gone()) return failed(slot, "its new worker has ended");
            if (result == Carrier::Returned::able && desks.pauses.is_held(slot)) missing.erase(slot);
        }
    }
    if (Failure e = await_go()) return e;
    // From here on the set is not needed any more, and cannot be woken in this file again.
    ground_.kept.keep("region", ground_.region.fd());
    ground_.kept.keep("books", ground_.ledger.fd());
    ground_.region.awake();
    for (const std::uint32_t slot : slots) {
        Client& client = *desks.clients[slot];
        hear_end(client);
        desks.pauses.resume(client);
    }
    log::info("awake, with {} client{}", slots.size(), slots.size() == 1 ? "" : "s");
    ground_.set.reset();
    return {};
}

// Another bridge has the same clients yet. Until it has ended, which somebody says here, this one may be ended without
// a trace.
Failure Bridge::await_go() {
    const int fd = ground_.options.go_fd;
    if (fd < 0) return {};
    constexpr std::string_view back = "back\n";
    if (write(fd, back.data(), back.size()) < 0) return fmt::format("--go-fd {}: {}", fd, strerror(errno));
    log::info("all clients are back, and wait until the bridge that has them has ended");
    for (pollfd told{fd, POLLIN, 0}; poll(&told, 1, 0) == 0;) {
        loop_.wait(look_every);
        beat();
        loop_.dispatch();
        if (loop_.stopped()) return "the bridge was told to stop";
    }
    char go = 0;
    if (read(fd, &go, 1) != 1) return "the bridge that has its clients goes on with them";
    close(fd);
    return {};
}

void Bridge::hear(Client& client) {
    monitoring_.client(client.slot(), client.worker->pid());
    hear_end(client);
    if (!desks_->requests.hear(client)) client.end_worker("the bridge cannot listen to the worker");
}

void Bridge::hear_end(Client& client) {
    if (!client.worker->hear_end(loop_, [this, &client] { desks_->clients.worker_ended(client); }))
        client.end_worker("the bridge cannot listen to the worker");
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
    end_workers();
    log::info("suspended");
}

// And tells no client.
void Bridge::end_workers() {
    desks_->clients.each([](const Client& client) {
        if (client.worker) client.worker->dismiss();
    });
    desks_->pool.end();
    desks_->clients.each([this](const Client& client) {
        for (; client.worker && !client.worker->release(); beat()) await_end(*client.worker);
    });
}

void Bridge::shut_down() {
    service_.leaving();
    desks_->clients.each([](Client& client) {
        client.end(Client::Ending::stopped, "the bridge has been stopped");
        if (client.worker) client.worker->release();
    });
    desks_->pool.end();
    desks_->clients.each([this](Client& client) {  // a profiler may take long to write its results
        for (; client.worker && !client.worker->release(); beat()) await_end(*client.worker);
    });
    ground_.kept.done();
    log::info("stopped");
}

}  // namespace barcuda
