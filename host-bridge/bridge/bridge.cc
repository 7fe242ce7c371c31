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
#include <utility>
#include <vector>

#include "base/log.h"
#include "shm-device/cuda/visible_devices.h"
#include "shm-device/queue/sync.h"

namespace barcuda {
namespace {

// How soon a new client is noticed, and how much looking costs: some loads and a system call each time. Whatever is heard (a worker's request
// or end, the doorbell, a program that opens or closes the region's file) makes the bridge look often for a while, since it may be the sign
// of what is still to come. After that the loop of a bridge that hears everything wakes only for the heartbeat; one that a plain VM may come
// to must go on looking.
constexpr int new_look_every_ms = 1, look_every_ms = 2, deaf_look_every_ms = 8, idle_look_every_ms = 250;
constexpr std::chrono::milliseconds looks_for_new{50}, looks_often{1000};  // after anything has happened

// Returns when the process has ended, or after a moment: one that a debugger keeps has ended for its descriptor, and not for us.
void await_end(const WorkerProcess& worker) {
    pollfd end{worker.end(), POLLIN, 0};
    if (poll(&end, 1, look_every_ms) > 0 && !worker.has_gone()) poll(nullptr, 0, 1);
}

}  // namespace

Bridge::Desks::Desks(Ground& ground, Monitoring& monitoring, std::chrono::system_clock::time_point since)
    : grants(ground.region.shape(), ground.region.host_grants(),
             [&region = ground.region](auto offset, auto bytes) { clear(region, offset, bytes); }),
      shared(Startup::files_of_each(ground.region.shape().channel_count, WarmPool(Startup::warm(ground.options)).most(),
                                    ground.files)),
      clients(ground.region, {grants, shared, quotas, totals}, ground.doorbell.guest(), ground.options.wrapper,
              [&](std::uint32_t slot, pid_t worker) { monitoring.client(slot, worker); }),
      limits({ground.options.limits, ground.options.share}, clients, quotas, grants, ground.region, ground.host,
             ground.turns, [&](std::uint64_t bytes) { monitoring.show_memory(bytes); }),
      launcher(ground.options, ground.region, ground.doorbell, ground.turns, ground.cage, ground.host, ground.files,
               [this](std::uint64_t bytes) { return heap.reserve(bytes); }),
      pool(
          Startup::warm(ground.options), [this](const auto& devices) { return launcher.start(devices); },
          [this](Grants::Run run) { grants.release(run); }),
      heap(ground.region, grants, clients, limits, pool),
      list({ground.options.name, ground.options.region, ground.options.no_vm, ground.region.shape(), since},
           {[&] { return ground.doorbell.connected(); }, [this] { return pool.warm(); },
            [&](auto now) { return monitoring.busy(now); }, [&] { monitoring.want(); }},
           clients, quotas, grants, totals, ground.host, limits),
      acceptor(clients, pool, limits, heap, ground.host, totals, [&] { return ground.doorbell.connected(); }),
      requests({clients, grants, shared, quotas, limits, heap}, ground.region.shape().base) {}

// All that comes before the first client. Returns what is wrong.
std::string Bridge::start() {
    Startup startup(ground_, signals_);
    if (std::string e = startup.check(); !e.empty()) return e;
    if (std::string e = startup.find_devices(); !e.empty()) return e;
    if (std::string e = startup.open_region(); !e.empty()) return e;
    place_ = Place(ground_.options.region, ground_.region.fd());
    desks_.emplace(ground_, monitoring_, since_);
    if (std::string e = startup.start_driver(desks_->launcher, desks_->pool); !e.empty()) return e;
    if (std::string e = startup.open_to_tools(); !e.empty()) return e;
    if (std::string e = startup.publish_devices(); !e.empty()) return e;
    const std::string& expected = ground_.options.expected;
    desks_->pool.expect(expected.empty() ? ground_.host.every : devices_seen(ground_.host.devices, expected.c_str()));
    return {};
}

int Bridge::run() {
    sigset_t signals;
    sigemptyset(&signals);
    for (int s : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&signals, s);
    sigprocmask(SIG_BLOCK, &signals, nullptr);
    signals_ = signalfd(-1, &signals, SFD_CLOEXEC);
    if (const std::string error = start(); !error.empty()) {
        pollfd told{signals_, POLLIN, 0};
        if (poll(&told, 1, 0) > 0) return log::info("stopped before it served"), 0;
        return log::critical("{}", error), 1;
    }
    opens_ = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (opens_ >= 0 && inotify_add_watch(opens_, ground_.options.region.c_str(), IN_OPEN | IN_ACCESS | IN_CLOSE) < 0)
        close(std::exchange(opens_, -1));
    desks_->clients.reclaim_left();
    desks_->pool.keep({});
    monitoring_.start(ground_.region, ground_.host.devices.all, ground_.host.library);
    desks_->limits.show_memory();
    ground_.region.announce();
    announce();
    serve();
    shut_down();
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
    if (write(ready, line.data(), line.size()) < 0) log::warn("nobody listens at --ready-fd {}", ready);
    close(ready);
}

// How long to wait for something to be heard, in milliseconds.
int Bridge::patience() const {
    if (desks_->heap.short_of_time()) return 0;
    const auto quiet = Clock::now() - std::max(heard_, desks_->clients.last_came());
    if (quiet < looks_for_new) return new_look_every_ms;
    if (desks_->acceptor.some_wait() || desks_->pool.is_leaving() || quiet < looks_often ||
        desks_->clients.one_leaves())
        return look_every_ms;
    return (ground_.doorbell.connected() || ground_.options.no_vm) && opens_ >= 0 ? idle_look_every_ms
                                                                                  : deaf_look_every_ms;
}

void Bridge::serve() {
    auto& [grants, shared, quotas, totals, clients, limits, launcher, pool, heap, list, acceptor, requests] = *desks_;
    Control& control = ground_.control;
    const auto is_worker = [this](const Visitor& visitor) { return this->is_worker(visitor); };
    for (std::vector<pollfd> fds;;) {
        fds.assign({{signals_, POLLIN, 0}, {opens_, POLLIN, 0}});
        ground_.doorbell.watch(fds);
        const std::size_t first = fds.size();
        std::vector<Client*> at;  // the client of fds[first + 3 * i] (link) and the next two (end, mapper)
        clients.each([&](Client& client) {
            if (!client.is_served()) return;
            fds.push_back({client.worker->link(), POLLIN, 0});
            fds.push_back({client.worker->end(), POLLIN, 0});
            fds.push_back({client.worker->mapper().fd(), POLLIN, 0});
            at.push_back(&client);
        });
        const std::size_t warm = fds.size();
        pool.each_waiting([&](const WorkerProcess& w) { fds.push_back({w.end(), POLLIN, 0}); });
        const std::size_t tools = fds.size();
        control.watch(fds);
        const std::size_t logs = fds.size();
        each_worker([&, now = Clock::now()](const WorkerProcess& w) { fds.push_back({w.said(now), POLLIN, 0}); });
        const int events = poll(fds.data(), fds.size(), patience());
        const auto any = [&](std::size_t from, std::size_t to) {
            const auto place = [&](std::size_t i) { return fds.begin() + static_cast<std::ptrdiff_t>(i); };
            return std::any_of(place(from), place(to), [](const pollfd& fd) { return fd.revents != 0; });
        };
        if (any(0, tools)) heard_ = Clock::now();  // a tool that asks what there is is no sign of a client
        beat();
        if (fds[0].revents) break;
        heap.begin_turn();
        if (events == 0 && !heap.short_of_time()) heap.release_pages();
        if (char news[4096]; fds[1].revents && read(opens_, news, sizeof news) < 0)
            log::debug("inotify: {}", strerror(errno));
        if (ground_.doorbell.answer(&fds[2], is_worker))
            for (Client* client : at) client->bell.relay();
        for (std::size_t i = 0; i < at.size(); ++i) {
            const pollfd* const its = &fds[first + 3 * i];
            if (its[0].revents & POLLIN) requests.receive(*at[i]);
            if (its[2].revents) requests.answer_mapper(*at[i], its[2].revents);
            if (its[1].revents) clients.worker_ended(*at[i]);
        }
        if (any(logs, fds.size())) each_worker([now = Clock::now()](WorkerProcess& w) { w.read_log(now); });
        look_at_slots();
        if (pool.is_leaving()) pool.reap_leaving();
        if (any(warm, tools)) pool.reap_waiting();
        control.answer(
            &fds[tools],
            {[&](const auto& request, auto& reply, const ucred& by) { limits.serve(request, reply, by); },
             [&](const auto& request, auto& reply, const ucred&) { list.serve(request, reply); }, is_worker});
        pool.keep(clients.state());
    }
}

void Bridge::look_at_slots() {
    const auto waiting = desks_->clients.look([this](Client& client) { look_at(client); });
    desks_->acceptor.admit(waiting,
                           [this](Client& client) { monitoring_.client(client.slot(), client.worker->pid()); });
    desks_->clients.reap_workers();
    place_.look();
    monitoring_.look();
    ground_.exporting.look();
}

// Once in each turn of the loop.
void Bridge::look_at(Client& client) {
    desks_->limits.bound(client);
    desks_->limits.look_at_turns(client);
    desks_->requests.look_at_mapper(client);
    if (client.has_watched()) monitoring_.want();
}

void Bridge::beat() {
    ground_.region.beat();
    service_.beat();
}

template <class F> void Bridge::each_worker(const F& f) const {
    desks_->pool.each(f);
    desks_->clients.each([&](Client& client) {
        if (client.worker) f(*client.worker);
    });
}

// A worker gets no part of the region by any other door, and no say in limits. That holds for another bridge's, too.
bool Bridge::is_worker(const Visitor& visitor) const {
    if (visitor.pid == ground_.exporting.pid()) return false;
    bool ours = false;
    each_worker([&](const WorkerProcess& w) { ours |= w.pid() == visitor.pid; });
    const cage::Order& order = ground_.cage.order;
    return ours || (order.has(cage::Measure::user) && visitor.user == order.user) || is_a_bridges(visitor);
}

void Bridge::shut_down() {
    service_.leaving();
    desks_->clients.each([](Client& client) {
        client.end(Client::Ending::stopped, "the bridge has been stopped");
        if (client.worker) client.worker->release();
    });
    desks_->pool.end();
    desks_->clients.each([this](Client& client) {  // a profiler may take long to write what it has seen
        for (; client.worker && !client.worker->release(); beat()) await_end(*client.worker);
    });
    log::info("stopped");
}

}  // namespace barcuda
