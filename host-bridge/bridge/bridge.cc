// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/bridge/bridge.h"

#include <cuda.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/log.h"
#include "base/message.h"
#include "base/trace.h"
#include "host-bridge/between/driver.h"
#include "host-bridge/between/link.h"
#include "host-bridge/cage/users.h"
#include "shm-device/cuda/visible_devices.h"
#include "shm-device/queue/sync.h"
#include "shm-device/region/status.h"
#include "shm-device/rows/identity.h"

namespace barcuda {
namespace {

// How soon a new client is noticed, and how much looking costs: some loads and a system call each time. Whatever is
// heard (a worker's request or end, the doorbell, a program that opens or closes the region's file) makes the bridge
// look often for a while, since it may be the sign of what is still to come. Then a bridge that hears everything looks
// for its heart's sake; one that a plain VM may come to must go on looking.
constexpr int new_look_every_ms = 1, look_every_ms = 2, deaf_look_every_ms = 8, idle_look_every_ms = 250;
constexpr std::chrono::milliseconds looks_for_new{50}, looks_often{1000};  // after anything has happened
// How often the kernel is asked whether clients live: three system calls each, which many that come at once would wait for.
constexpr std::chrono::milliseconds owners_looked_after{20};
// Of a turn of the loop, for emptying memory that somebody asks for: everybody else waits.
constexpr std::chrono::milliseconds cleaning_time{2};

// All that the bridge touches of the region is there for good (shm-device/region/create.cc): unless somebody cuts the file short.
void say_that_memory_is_gone(int) {
    constexpr std::string_view text =
        "barcuda-bridge: the region's memory is gone: its file was cut short, or holes were made in it. All clients "
        "end; remove the file and start the bridge again\n";
    if (write(STDERR_FILENO, text.data(), text.size()) < 0) _exit(2);
    _exit(1);
}

// A wrapper is words for a shell. Here: is there a program of the first one's name?
std::string check_wrapper(const std::string& wrapper) {
    const pid_t child = fork();
    if (child == 0) {
        execl("/bin/sh", "sh", "-c", ("set -- " + wrapper + "\ncommand -v -- \"$1\" > /dev/null").c_str(), nullptr);
        _exit(127);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (child > 0 && status == 0) return {};
    const char* const path = getenv("PATH");
    return fmt::format("--worker-wrapper '{}': there is no such program (PATH is {})", wrapper,
                       path ? path : "not set");
}

}  // namespace

// How long to wait for something to be heard, in milliseconds.
int Bridge::patience() const {
    if (short_of_time_) return 0;
    const auto leaving = [](const auto& client) { return client && client->worker && client->worker->is_leaving(); };
    const auto quiet = std::chrono::steady_clock::now() - heard_;
    if (quiet < looks_for_new) return new_look_every_ms;
    if (some_wait_ || pool_.is_leaving() || quiet < looks_often || std::ranges::any_of(clients_, leaving))
        return look_every_ms;
    return (doorbell_.connected() || options_.no_vm) && opens_ >= 0 ? idle_look_every_ms : deaf_look_every_ms;
}

// A profile is of a client's work, and the tool that writes the profile may not be started twice.
WarmOptions Bridge::warm_options(const BridgeOptions& options) {
    return options.wrapper.empty() ? options.warm : WarmOptions{.least = 0};
}

Bridge::Bridge(BridgeOptions options)
    : options_(std::move(options)),
      launcher_(options_, region_, doorbell_, turns_, cage_, devices_,
                [this](std::uint64_t bytes) { return reserve(bytes); }),
      pool_(
          warm_options(options_), [this](const std::vector<int>& devices) { return launcher_.start(devices); },
          [this](Grants::Run run) { grants_->release(run); }) {}

// All that comes before the first client. Returns what is wrong.
std::string Bridge::start() {
    if (!options_.user.empty())
        if (std::string e = cage::step_down(options_.user, options_.cage.own); !e.empty()) return e;
    if (!options_.wrapper.empty())
        if (std::string e = check_wrapper(options_.wrapper); !e.empty()) return e;
    signal(SIGBUS, say_that_memory_is_gone);
    if (const char* e = trace::begin_run()) return fmt::format("BARCUDA_TRACE={}: {}", getenv("BARCUDA_TRACE"), e);
    // A program whose list names a part of a GPU that is not here sees no device; the bridge looks without that list.
    const bool names_a_part = options_.expected.starts_with("MIG-");
    // What there is of a region is not touched before it is known that there is a driver.
    const bool first_worker_says =
        pool_.wants_one() && options_.gpus.empty() && !names_a_part && access(options_.region.c_str(), F_OK) != 0;
    DeviceChoice choice =
        first_worker_says ? likely_device(options_.device, signals_) : choose_device(options_.device, signals_);
    if (!first_worker_says && choice.error.empty()) devices_ = probe_devices(choice.library, signals_);
    if (names_a_part && (choice.software || !choice.error.empty() || !devices_.error.empty())) {
        unsetenv("CUDA_VISIBLE_DEVICES");
        choice = choose_device(options_.device, signals_);
        if (choice.error.empty()) devices_ = probe_devices(choice.library, signals_);
    }
    if (!choice.error.empty()) return choice.error;
    if (devices_.error.empty() && !options_.gpus.empty()) devices_.error = choose(devices_, options_.gpus);
    if (!devices_.error.empty()) return devices_.error;

    Format format;
    format.size = options_.size ? options_.size : access(options_.region.c_str(), F_OK) == 0 ? 0 : 4ull << 30;
    format.base = options_.base;
    format.overwrite = options_.overwrite;
    format.build = BARCUDA_VERSION;
    format.rows = identities;
    if (Error e = region_.create(options_.region.c_str(), format)) return e.text;
    if (std::string e = options_.access.give(region_.fd(), options_.region); !e.empty()) return e;
    if (options_.share.weight || !options_.turns.empty()) {
        const std::string book =
            options_.turns.empty() ? fmt::format("/dev/shm/barcuda-turns-{}", geteuid()) : options_.turns;
        if (const std::string error = turns_.join(book, options_.share); !error.empty())
            return fmt::format("the file of turns: {}", error);
    }
    if (struct stat st; fstat(region_.fd(), &st) == 0) mode_ = st.st_mode;
    place_ = Place(options_.region, region_.fd());
    grants_ = std::make_unique<Grants>(region_.shape(), region_.host_grants(), [this](auto o, auto n) { clear(o, n); });
    shared_ = std::make_unique<Shared>(files_of_each());
    if (!options_.doorbell.empty()) {
        std::string e = doorbell_.open(options_.doorbell, region_.fd());
        if (e.empty() && options_.access) e = options_.access.give(options_.doorbell);
        if (!e.empty()) return e;
    }
    std::string error = first_worker_says ? start_first(choice) : plan_cage(choice);
    if (!error.empty() && cage_.error.empty() && !choice.tried) {  // a GPU whose driver does not start
        pool_.end();                                               // by the plan that they were started with
        choice = choose_device(options_.device, signals_);
        error = choice.error.empty() ? start_first(choice) : choice.error;
    }
    if (!error.empty()) return error;
    cage::report(cage_);
    cage::enter_bridge(cage_);
    if (std::string e = control_.open(region_.fd()); !e.empty())
        log::warn("no `barcuda limit`, no `barcuda ps`: {}", e);
    if (std::string e = exporting_.open(options_.metrics, options_.region); !e.empty()) return e;
    if (std::string e = cage::close_bridge(cage_); !e.empty()) return e;
    log::limit(options_.limits.guest[Limit::log_text]);
    if (devices_.all.size() > BARCUDA_MAX_DEVICES)
        return fmt::format("this host has {} GPUs and a region shows at most {}: name those that it gets with --gpus",
                           devices_.all.size(), BARCUDA_MAX_DEVICES);
    publish_devices(region_, devices_);
    every_ = devices_seen(devices_, nullptr);
    // The driver itself keeps workers, whatever their clients send them, from devices that are not this VM's.
    if (devices_.chosen) setenv("CUDA_VISIBLE_DEVICES", visible_list(devices_, every_).c_str(), 1);
    pool_.expect(options_.expected.empty() ? every_ : devices_seen(devices_, options_.expected.c_str()));
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
    if (opens_ >= 0 && inotify_add_watch(opens_, options_.region.c_str(), IN_OPEN | IN_ACCESS | IN_CLOSE) < 0)
        close(opens_), opens_ = -1;
    clients_.resize(region_.shape().channel_count);
    for (std::uint32_t i = 0; i < clients_.size(); ++i)  // what an earlier bridge left behind
        if (const barcuda_slot& s = region_.slots()[i]; observe(s.closed) != observe(s.reclaimed)) reclaim(i);

    keep_warm();
    monitoring_.start(region_, devices_.all, library_);
    show_memory();
    region_.announce();
    std::string names;
    for (const barcuda_device& d : devices_.all)
        names += fmt::format("{}{} {} (GPU-{})", names.empty() ? "" : ", ", &d - devices_.all.data(), d.name,
                             uuid_text(d.uuid));
    const std::string serves =
        fmt::format("region {} of {} MiB at {:#x}, {}: {}", options_.region, region_.shape().size >> 20,
                    region_.shape().base, software_ ? "software GPU" : "GPU", names);
    log::info("{}", serves);
    service_.ready(serves);
    if (options_.ready_fd >= 0) {
        const std::string line = fmt::format("ready {} {}\n", software_ ? "soft" : "cuda", names);
        if (write(options_.ready_fd, line.data(), line.size()) < 0)
            log::warn("nobody listens at --ready-fd {}", options_.ready_fd);
        close(options_.ready_fd);
    }

    const auto is_worker = [this](const Visitor& visitor) { return this->is_worker(visitor); };
    for (std::vector<pollfd> fds;;) {
        fds.assign({{signals_, POLLIN, 0}, {opens_, POLLIN, 0}});
        doorbell_.watch(fds);
        const std::size_t first = fds.size();
        std::vector<Client*> at;  // the client of fds[first + 3 * i] (link) and the next two (pid, mapper)
        for (auto& c : clients_)
            if (c && c->worker && !c->worker->is_leaving()) {
                fds.push_back({c->worker->link(), POLLIN, 0});
                fds.push_back({c->worker->end(), POLLIN, 0});
                fds.push_back({c->worker->mapper().fd(), POLLIN, 0});
                at.push_back(c.get());
            }
        const std::size_t warm = fds.size();
        pool_.each_waiting([&](const WorkerProcess& w) { fds.push_back({w.end(), POLLIN, 0}); });
        const std::size_t control = fds.size();
        control_.watch(fds);
        const std::size_t logs = fds.size();
        each_worker([&, now = std::chrono::steady_clock::now()](const WorkerProcess& w) {
            fds.push_back({w.said(now), POLLIN, 0});
        });
        const int events = poll(fds.data(), fds.size(), patience());
        // Who asks what there is (control_) is no sign of a client.
        const bool heard =
            std::any_of(fds.begin(), fds.begin() + control, [](const pollfd& fd) { return fd.revents != 0; });
        if (heard) heard_ = std::chrono::steady_clock::now();
        publish_heartbeat();
        if (fds[0].revents) break;
        short_of_time_ = false, time_ends_ = std::chrono::steady_clock::now() + cleaning_time;
        answer_asked();
        if (events == 0 && !short_of_time_) release_pages();
        if (char news[4096]; fds[1].revents && read(opens_, news, sizeof news) < 0)
            log::debug("inotify: {}", strerror(errno));
        if (doorbell_.answer(&fds[2], is_worker))
            for (Client* client : at) client->bell.relay();
        for (std::size_t i = 0; i < at.size(); ++i) {
            const pollfd* const its = &fds[first + 3 * i];
            if (its[0].revents & POLLIN) answer_request(*at[i]);
            if (its[2].revents) answer_mapper(*at[i], its[2].revents);
            if (its[1].revents) worker_ended(*at[i]);
        }
        if (std::any_of(fds.begin() + logs, fds.end(), [](const pollfd& fd) { return fd.revents != 0; }))
            each_worker([now = std::chrono::steady_clock::now()](WorkerProcess& w) { w.read_log(now); });
        look_at_slots();
        admit_waiting();
        for (auto& c : clients_)
            if (c && c->worker && c->worker->is_leaving() && c->worker->has_gone()) worker_ended(*c);
        place_.look();
        monitoring_.look();
        exporting_.look();
        if (pool_.is_leaving()) pool_.reap_leaving();
        if (std::any_of(fds.begin() + warm, fds.begin() + control, [](auto& fd) { return fd.revents != 0; }))
            pool_.reap_waiting();
        control_.answer(
            &fds[control],
            {[this](const auto& request, auto& reply, const ucred& by) { serve_limits(request, reply, by); },
             [this](const auto& request, auto& reply, const ucred&) { serve_list(request, reply); }, is_worker});
        keep_warm();
    }
    shut_down();
    return 0;
}

// How workers of that driver are shut in. `meanwhile`: while that is tried, with what is planned in cage_. Returns what is wrong.
std::string Bridge::plan_cage(const DeviceChoice& choice, const std::function<void()>& meanwhile) {
    library_ = choice.library, software_ = choice.software;
    launcher_.use(library_);
    options_.cage.wrapped = !options_.wrapper.empty(), options_.cage.software = software_;
    cage_ = cage::plan(options_.cage, library_, region_.fd(), [&](const cage::Plan& draft) {
        if (meanwhile) cage_ = draft, meanwhile();
    });
    return cage_.error;
}

// How many descriptors a client may have the bridge hold: an equal share of what the bridge has no need of itself.
std::size_t Bridge::files_of_each() {
    constexpr std::size_t own = 64, of_a_worker = 5, most = 4096;  // segments of 20 MiB, as PyTorch has them, of 80 GiB
    rlimit given{};
    getrlimit(RLIMIT_NOFILE, &given);
    launcher_.bound_files(given);
    rlimit all = given;
    all.rlim_cur = all.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &all) != 0) all = given;
    const std::size_t clients = region_.shape().channel_count, needed = own + of_a_worker * (clients + pool_.most());
    return all.rlim_cur < needed + clients ? 1 : std::min<std::size_t>(most, (all.rlim_cur - needed) / clients);
}

// The driver starts once, not twice, on the way to the first client: the first worker says what devices there are, and then waits for
// that client. It starts while a child tries its cage; where that finds something missing another one starts, without it. Returns what
// is wrong.
std::string Bridge::start_first(const DeviceChoice& choice) {
    std::unique_ptr<WorkerProcess> first;
    unsigned tried = 0;  // the measures that it was started with
    const auto start = [&] {
        tried = cage_.order.on;
        return (first = launcher_.start_first()) != nullptr;
    };
    const std::string error = plan_cage(choice, start);
    if (first && (!error.empty() || tried != cage_.order.on)) {
        log::info("the first worker is started anew, without what its cage lacks");
        pool_.dismiss(std::move(first));
    }
    if (!error.empty()) return error;
    if (!first && !start()) return fmt::format("cannot start a worker: {}", strerror(errno));
    devices_ = receive_devices(first->link(), library_, signals_);
    if (devices_.error.empty()) {
        first->set_devices(devices_seen(devices_, nullptr));
        pool_.add(std::move(first));
        return {};
    }
    constexpr int patience = 1000;  // milliseconds: of one that ends by itself, and has said why or died
    pollfd ended[] = {{first->end(), POLLIN, 0}, {signals_, POLLIN, 0}};
    poll(ended, std::size(ended), patience);
    if (ended[0].revents == 0) first->dismiss();
    while (!first->has_gone()) poll(nullptr, 0, 1);
    const std::string end = first->reap();
    return devices_.answered ? devices_.error : fmt::format("{}: its first worker {}", devices_.error, end);
}

void Bridge::keep_warm() {
    Pool::Clients clients;
    for (const auto& c : clients_) {
        if (!c) continue;
        if (c->worker) c->worker->look();
        clients.one_starts |= c->worker && c->worker->state() == WorkerProcess::State::assigned;
        clients.one_asks |= c->asked.has_value();
    }
    pool_.keep(clients);
}

void Bridge::look_at_slots() {
    const auto now = std::chrono::steady_clock::now();
    const bool look_for_owners = now - owners_looked_ >= owners_looked_after;
    if (look_for_owners) owners_looked_ = now;
    for (std::uint32_t i = 0; i < clients_.size(); ++i) {
        barcuda_slot& slot = region_.host_slots()[i];
        const std::uint32_t opened = observe(slot.opened), closed = observe(slot.closed);
        if (opened == closed && closed == observe(slot.reclaimed)) continue;
        if (opened != closed && look_for_owners && region_.owner_gone(i))
            publish(slot.closed, opened);  // no module speaks for the dead here
        if (opened == observe(slot.closed)) reclaim(i);
        else if (observe(slot.served) != opened && meet(i))
            to_admit_.push_back(clients_[i].get());  // not one that an earlier bridge served
        if (!clients_[i]) continue;
        bound_host_memory(*clients_[i]);
        look_at_turns(*clients_[i]);
        if (const auto& worker = clients_[i]->worker;
            worker && worker->mapper().has_left_its_worker() && !worker->is_ending())
            end_worker(*clients_[i], "the worker has lost the thread that maps its client's memory");
        if (const std::uint32_t watching = observe(clients_[i]->channel.client().watching);
            watching != std::exchange(clients_[i]->watching, watching))
            monitoring_.want();
    }
}

// Those that came first begin first.
void Bridge::admit_waiting() {
    const auto now = std::chrono::steady_clock::now();
    const std::uint64_t limit = options_.limits.guest[Limit::starts];
    std::ranges::sort(to_admit_, {}, &Client::number);
    some_wait_ = false;
    for (Client* const client : to_admit_) {
        const std::uint32_t process = observe(client->channel.client().pid);
        const Admissions::Answer answer = admissions_.ask(process, limit, now);
        if (answer == Admissions::Answer::now) {
            admit(*client);
            continue;
        }
        constexpr Bucket::Rate seldom{.a_second = 0.1, .at_once = 1};
        if (some_wait_ = true; !told_of_waiting_.take(1, seldom, now)) continue;
        if (answer == Admissions::Answer::process_waits)
            log::warn("the client with pid {} opens channels again and again: from now on it waits for each", process);
        else log::warn("more clients come than the guest may start in a second ({}): they wait", limit);
    }
    to_admit_.clear();
}

// What clients have left, while nobody wants anything. (A device has no pages to release.)
void Bridge::release_pages() {
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(1);
    while (S_ISREG(mode_) && grants_->clean_one() && std::chrono::steady_clock::now() < end) {}
}

void Bridge::publish_heartbeat() {
    region_.beat();
    service_.beat();
}

// Whoever has opened this slot: maps its channel. True once it has said which devices its program sees.
bool Bridge::meet(std::uint32_t slot) {
    if (!clients_[slot]) {
        heard_ = std::chrono::steady_clock::now();
        auto client = std::make_unique<Client>();
        client->opening = observe(region_.slots()[slot].opened);
        client->number = ++met_;
        if (Error e = region_.map_channel(slot, client->channel)) {
            publish(region_.host_slots()[slot].served, client->opening);  // and not again and again
            return log::error("channel {}: {}", slot, e.text), false;
        }
        client->channel.status().opening = client->opening;
        client->bell = Bell(client->channel, doorbell_.guest());
        clients_[slot] = std::move(client);
    }
    return observe(clients_[slot]->channel.client().device_count) != 0;
}

// Its worker is one whose driver shows these devices alone, in this order.
void Bridge::admit(Client& client) {
    const std::uint32_t slot = client.channel.index;
    introduce(client);
    std::vector<int> devices(
        std::min<std::uint32_t>(observe(client.channel.client().device_count), BARCUDA_MAX_DEVICES));
    for (std::size_t i = 0; i < devices.size(); ++i) {
        devices[i] = observe(client.channel.client().devices[i]);
        if (devices[i] >= static_cast<int>(every_.size()) ||
            std::count(devices.begin(), devices.begin() + i, devices[i]))
            return refuse(client, "the client asked for a device that there is not, or for one twice");
    }
    if (!has_a_channel_left())
        return refuse(client, fmt::format("the guest has as many clients as it may have ({})",
                                          options_.limits.guest[Limit::channels])
                                  .c_str());
    client.worker = pool_.take(devices, [&](std::uint64_t bytes) { return may_be_granted(slot, bytes); });
    if (!client.worker)
        return refuse(client, fmt::format("the bridge cannot start a worker: {}", strerror(errno)).c_str());
    const pid_t pid = client.worker->pid();
    client.worker->assign(fmt::format("channel {}: worker {}", slot, pid));
    hand_over(client);
    tell_limits(client);
    const Assignment job{client.channel.offset, slot, client.opening, doorbell_.connected()};
    send(client.worker->link(), &job, sizeof job,
         MSG_NOSIGNAL);  // a worker that has died meanwhile is noticed by its pidfd
    publish(region_.host_slots()[slot].served, client.opening);
    client.known.worker = pid;
    ++came_;
    log::info("channel {}: client admitted, worker {}: {}", slot, pid, client.known.text());
    monitoring_.client(slot, pid);
    // What two clients in a row have wanted is what the next one is awaited with.
    pool_.served(devices);
    keep_warm();
}

void Bridge::refuse(Client& client, const char* why) {
    log::error("channel {}: {}", client.channel.index, why);
    note_end(client, End::refused, why);
    end_session(client.channel.status(), BARCUDA_STATE_REFUSED, CUDA_ERROR_DEVICE_UNAVAILABLE, why);
    client.bell.wake();
    publish(region_.host_slots()[client.channel.index].served, client.opening);
}

void Bridge::worker_ended(Client& client) {
    if (!client.worker->has_gone()) return client.worker->dismiss();  // its wrapper has
    monitoring_.client(client.channel.index, 0);
    client.asked.reset();
    note(client);
    const bool was_told = client.worker->is_leaving() && !client.worker->wrapped();
    const std::string end = client.worker->reap();
    client.worker.reset();
    if (was_told) return client.bell.wake();
    barcuda_status& page = client.channel.status();
    note_end(client, observe(page.state) == BARCUDA_STATE_REFUSED ? End::refused : End::died, "its worker " + end);
    if (observe(page.state) > BARCUDA_STATE_READY) {  // it has said why itself
        if (end.starts_with("was killed"))
            log::error("channel {}: behind the end of its session the worker process {}", client.channel.index, end);
        return client.bell.wake();
    }
    const std::string who = options_.wrapper.empty() ? "process" : "in its wrapper (" + options_.wrapper + ")";
    const std::string why = fmt::format("the worker {} {}", who, end);
    log::error("channel {}: {}", client.channel.index, why);
    end_session(page, BARCUDA_STATE_DEAD, CUDA_ERROR_DEVICE_UNAVAILABLE, why.c_str());
    client.bell.wake();
}

void Bridge::answer_request(Client& client) {
    char message[longest_request];
    File file;
    const ssize_t bytes =
        receive_message(client.worker->link(), message, sizeof message, file, MSG_DONTWAIT | MSG_TRUNC);
    if (bytes <= 0) return;  // the worker has ended
    const auto length = static_cast<std::size_t>(bytes);
    const auto request = length <= sizeof message ? read_request({message, length}) : std::nullopt;
    if (!request) return end_worker(client, "the worker asks for something that no request of this version asks for");
    if (client.worker->mapper().is_expected() && !std::holds_alternative<request::Mapper>(*request))
        return end_worker(client, "the worker does not begin by telling of its mapper");
    std::visit([&](const auto& asked) { serve(client, asked, std::move(file)); }, *request);
}

void Bridge::serve(Client& client, const request::Mapper&, File file) { meet_mapper(client, std::move(file)); }

void Bridge::serve(Client& client, const request::Grant& asked, File) {
    if (client.asked)  // a worker asks one thing after the other
        return answer(client, Answer<request::Grant>{.error = CUDA_ERROR_INVALID_VALUE});
    client.asked.emplace(asked.bytes);
    answer_asked(client);
}

void Bridge::serve(Client& client, const request::Release& asked, File) {
    const bool released = grants_->release(client.channel.index, {asked.offset, asked.bytes});
    answer(client, Answer<request::Release>{.error = released ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE});
}

void Bridge::serve(Client& client, const request::Borrow& asked, File) {
    if (asked.device >= client.worker->devices().size())
        return answer(client, Answer<request::Borrow>{.error = CUDA_ERROR_INVALID_DEVICE});
    const std::uint32_t channel = client.channel.index;
    const int device = client.worker->devices()[asked.device];
    const MemoryLimits limits = memory_limits(client);
    note_memory();
    const bool lent = quotas_.lend(channel, device, asked.bytes, limits);
    answer(client, Answer<request::Borrow>{.error = lent ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY,
                                           .reply = {quotas_.left(channel, device, limits)}});
}

void Bridge::serve(Client& client, const request::Repay& asked, File) {
    if (asked.device >= client.worker->devices().size())
        return answer(client, Answer<request::Repay>{.error = CUDA_ERROR_INVALID_DEVICE});
    quotas_.repay(client.channel.index, client.worker->devices()[asked.device], asked.bytes);
    answer(client, Answer<request::Repay>());
}

void Bridge::serve(Client& client, const request::Share& asked, File file) {
    const std::uint32_t channel = client.channel.index;
    Answer<request::Share> reply{.reply = {asked.handle}};
    if (!shared_->offer(channel, asked.kind, reply.reply.token, std::move(file))) {
        reply.error = CUDA_ERROR_OUT_OF_MEMORY;
        if (!std::exchange(client.told, true))
            log::warn("channel {}: the client shows other processes more than the bridge keeps for one", channel);
    }
    answer(client, reply);
}

void Bridge::serve(Client& client, const request::Find& asked, File) {
    const Shared::Thing* const thing = shared_->find(asked.kind, asked.token);
    if (!thing) return answer(client, Answer<request::Find>{.error = CUDA_ERROR_INVALID_HANDLE});
    answer(client, Answer<request::Find>{.reply = {thing->handle}}, thing->file.fd());
}

void Bridge::serve(Client& client, const request::Withdraw& asked, File) {
    shared_->withdraw(client.channel.index, asked.token);
    answer(client, Answer<request::Withdraw>());
}

void Bridge::send_answer(Client& client, const void* answer, std::size_t bytes, int file) {
    if (send_message(client.worker->link(), answer, bytes, file)) return;
    if (errno != EAGAIN && errno != EWOULDBLOCK) return;  // it has ended
    end_worker(client, "the worker asks the bridge and does not read the answers");
}

// For what only a worker does that somebody has taken over.
void Bridge::end_worker(Client& client, const char* why) {
    log::error("channel {}: {}", client.channel.index, why);
    note_end(client, End::died, why);
    end_session(client.channel.status(), BARCUDA_STATE_DEAD, CUDA_ERROR_DEVICE_UNAVAILABLE, why);
    client.bell.wake();
    client.worker->dismiss();
}

// The client is gone: so is its worker, and all that it held.
void Bridge::reclaim(std::uint32_t slot) {
    std::string who;
    if (auto& client = clients_[slot]) {
        note(*client);
        if (client->worker && !client->worker->release()) return;
        who = farewell(*client);
        monitoring_.client(slot, 0);
        region_.unmap_channel(client->channel);
        client.reset();
    }
    shared_->forget(slot);
    quotas_.repay_all(slot);
    const std::size_t granules = grants_->release_all(slot);
    if (Error e = region_.clean_channel(slot)) return log::error("channel {}: {}", slot, e.text);
    barcuda_slot& s = region_.host_slots()[slot];
    publish(s.map_lock, 0u);  // of the last client: an earlier version's client does not write it
    publish(s.reclaimed, observe(s.closed));
    if (!who.empty() || granules)  // not of those that only ask NVML, nor of those that left before they began
        log::info("channel {}: reclaimed, with {} granules{}{}", slot, granules, who.empty() ? "" : ": ", who);
}

// Makes a part of the region read as zeros: nothing of one client reaches the next.
void Bridge::clear(std::uint64_t offset, std::uint64_t bytes) {
    if (fallocate(region_.fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                  static_cast<off_t>(bytes)) == 0)
        return;
    void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, region_.fd(), static_cast<off_t>(offset));
    if (at == MAP_FAILED) {
        log::critical("cannot clear {} MiB of the region: {}", bytes >> 20, strerror(errno));
        std::abort();  // going on would hand one client's data to another
    }
    std::memset(at, 0, bytes);
    munmap(at, bytes);
}

// Returns when the process has ended, or after a moment: one that a debugger keeps has ended for its pidfd, and not for us.
void Bridge::await_end(const WorkerProcess& worker) const {
    pollfd end{worker.end(), POLLIN, 0};
    if (poll(&end, 1, look_every_ms) > 0 && !worker.has_gone()) poll(nullptr, 0, 1);
}

void Bridge::shut_down() {
    service_.leaving();
    for (auto& client : clients_) {
        if (!client) continue;
        if (end_session(client->channel.status(), BARCUDA_STATE_GONE, CUDA_ERROR_DEVICE_UNAVAILABLE,
                        "the bridge has been stopped"))
            client->bell.wake();
        if (client->worker) client->worker->release();
    }
    pool_.end();
    for (auto& client : clients_)  // a profiler may take long to write what it has seen
        for (; client && client->worker && !client->worker->release(); publish_heartbeat()) await_end(*client->worker);
    log::info("stopped");
}

}  // namespace barcuda
