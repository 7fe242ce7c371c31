// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/bridge/startup.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <set>
#include <stop_token>
#include <string_view>
#include <thread>
#include <utility>

#include "base/caught.h"
#include "base/log.h"
#include "base/os/thread.h"
#include "base/trace.h"
#include "host-bridge/bridge/describing.h"
#include "host-bridge/cage/cgroup.h"
#include "host-bridge/cage/users.h"
#include "host-bridge/suspended/frames.h"
#include "host-bridge/suspended/sparse_file.h"
#include "shm-device/region/client_base.h"
#include "shm-device/rows/listing.h"

namespace barcuda {
namespace {

// Everything that the bridge uses of the region stays there (shm-device/region/host_region.cc), unless its file is
// truncated.
void say_that_memory_is_gone(int) {
    constexpr std::string_view text =
        "barcuda-bridge: the region's memory is gone: its file was cut short, or holes were made in it. All clients "
        "end; remove the file and start the bridge again\n";
    if (write(STDERR_FILENO, text.data(), text.size()) < 0) _exit(2);
    _exit(1);
}

double seconds_since(std::chrono::steady_clock::time_point begun) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
}

// A wrapper is words for a shell. Checks whether there is a program with the name of the first word.
Failure check_wrapper(const std::string& wrapper) {
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

// Verifies a set while something else is done; what refuses the set before that ends it.
class Verification {
  public:
    explicit Verification(SetReader* set) : set_(set) {
        if (!set_) return;
        begun_ = caught([this]() -> Failure {
            const os::SignalsBlocked blocked;
            thread_ = std::jthread([this](const std::stop_token& stop) {
                result_ = caught([&] {
                    return set_->verify([&] { return stop.stop_requested() ? Failure("given up") : Failure(); });
                });
                took_ = seconds_since(since_);
            });
            return {};
        });
    }
    Failure result() {
        if (thread_.joinable()) thread_.join();
        return begun_ ? begun_.text() : result_.text();
    }
    double took() const { return took_; }

  private:
    SetReader* const set_;
    const std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
    Failure begun_, result_;
    double took_ = 0;
    std::jthread thread_;  // ends before what it writes to
};

}  // namespace

WarmOptions Startup::warm(const BridgeOptions& options) {
    return options.wrapper.empty() ? options.warm : WarmOptions{.least = 0};
}

std::size_t Startup::files_of_each(std::size_t clients, unsigned most_warm, std::size_t of_the_store, rlimit& given) {
    // of_a_worker: its process, link, log, errors, record and mapper. The keeper has as many of it, and all that is
    // shared, within the same limit.
    constexpr std::size_t own = 64, of_a_worker = 6, most = keeping::most_shared_of_each;
    getrlimit(RLIMIT_NOFILE, &given);
    rlimit all = given;
    all.rlim_cur = all.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &all) != 0) all = given;
    const std::size_t needed = own + of_a_worker * (clients + most_warm) + of_the_store;
    return all.rlim_cur < needed + clients ? 1 : std::min<std::size_t>(most, (all.rlim_cur - needed) / clients);
}

Failure Startup::check() {
    if (!options_.user.empty())
        if (Failure e = cage::step_down(options_.user, options_.cage.own)) return e;
    if (ground_.kept) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);  // a change of user has ended that
        cage::Groups::move_too(getppid());
    }
    if (!options_.wrapper.empty())
        if (Failure e = check_wrapper(options_.wrapper)) return e;
    signal(SIGBUS, say_that_memory_is_gone);
    if (ground_.kept.take("books")) return {};
    if (Failure e = open_set()) return e;
    if (const char* e = trace::begin_run()) return fmt::format("BARCUDA_TRACE={}: {}", getenv("BARCUDA_TRACE"), e);
    return {};
}

Failure Startup::find_devices() {
    HostDevices& devices = ground_.host.devices;
    Verification verification(ground_.set.get());  // while the driver starts
    // A program whose list names a part of a GPU that is not here sees no device; the bridge then looks without that
    // list.
    const bool names_a_part = options_.expected.starts_with("MIG-");
    // An existing region is not touched before a driver has been found.
    first_worker_says_ = !ground_.set && WarmPool(warm(options_)).wanted({}) > 0 && options_.gpus.empty() &&
                         !names_a_part && access(options_.region.c_str(), F_OK) != 0;
    choice_ = first_worker_says_ ? likely_device(options_.device, stop_) : choose_device(options_.device, stop_);
    if (!first_worker_says_ && choice_.error.empty()) devices = probe_devices(choice_.library, stop_);
    if (names_a_part && (choice_.software || !choice_.error.empty() || !devices.error.empty())) {
        unsetenv("CUDA_VISIBLE_DEVICES");
        choice_ = choose_device(options_.device, stop_);
        if (choice_.error.empty()) devices = probe_devices(choice_.library, stop_);
    }
    if (!choice_.error.empty()) return choice_.error;
    if (devices.error.empty() && !options_.gpus.empty()) devices.error = choose(devices, options_.gpus).text();
    if (devices.error.empty() && ground_.set)
        if (Failure e = refuse(ground_.set->description(), devices))
            return fmt::format("{}: {}", options_.wake, e.text());
    if (!devices.error.empty() || !ground_.set) return devices.error;
    if (Failure e = verification.result()) return e;
    std::uint64_t bytes = 0;
    for (const Description::Part& part : ground_.set->description().parts) bytes += part.bytes;
    log::info("{}: {} MiB verified in {:.2f} s", options_.wake, bytes >> 20, verification.took());
    return {};
}

// Whether this bridge can be that one is said at once; its bytes are read before anything else is opened.
Failure Startup::open_set() {
    if (options_.wake.empty()) return {};
    auto set = std::make_unique<SetReader>();
    if (Failure e = set->open(options_.wake)) return e;
    if (Failure e = refuse(set->description(), options_)) return fmt::format("{}: {}", options_.wake, e.text());
    ground_.set = std::move(set);
    return {};
}

Failure Startup::open_region() {
    HostRegion& region = ground_.region;
    Format format;
    format.size = options_.size ? options_.size : access(options_.region.c_str(), F_OK) == 0 ? 0 : 4ull << 30;
    format.base = options_.base;
    format.overwrite = options_.overwrite;
    format.build = BARCUDA_VERSION;
    format.rows = published_rows();
    if (Failure e = ground_.set ? wake_region(format) : adopt_region(format)) return e;
    if (!ground_.adopted)
        if (Failure e = make_region(format)) return e;
    if (Failure e = open_books()) return e;
    if (options_.doorbell.empty()) return {};
    if (ground_.doorbell.adopt(options_.doorbell, region.fd(), ground_.kept)) return {};
    if (Failure e = ground_.doorbell.open(options_.doorbell, region.fd(), ground_.kept)) return e;
    return options_.access ? options_.access.give(options_.doorbell) : Failure();
}

// Those that bridges share. The keeper has the open file of the book of cards: this bridge's promises hold until the
// keeper ends.
Failure Startup::open_books() {
    const auto owner = static_cast<std::uint32_t>(ground_.kept ? getppid() : getpid());
    if (options_.share.weight || !options_.turns.empty()) {
        const std::string book =
            options_.turns.empty() ? fmt::format("/dev/shm/barcuda-turns-{}", geteuid()) : options_.turns;
        if (const Failure e = ground_.turns.join(book, options_.share, owner))
            return fmt::format("the file of turns: {}", e.text());
    }
    if (options_.cards.empty()) return {};
    if (options_.cards == "on") options_.cards = fmt::format("/dev/shm/barcuda-cards-{}", geteuid());
    constexpr std::string_view prefix = "cards.";
    cards::Member& cards = ground_.cards;
    for (const std::string& name : ground_.kept.names(std::string(prefix))) {
        const auto number = static_cast<std::uint32_t>(std::atoi(name.c_str() + prefix.size()));
        if (const Failure e = cards.adopt(ground_.kept.take(name), number, owner))
            return fmt::format("the file of cards: {}", e.text());
        return {};
    }
    if (const Failure e = cards.join(options_.cards, owner)) return fmt::format("the file of cards: {}", e.text());
    ground_.kept.keep(fmt::format("{}{}", prefix, cards.number()), cards.fd());
    return {};
}

// An earlier bridge of this keeper was killed. What it served goes on, or else all of it ends, as with a bridge that
// has no keeper. On trial, nothing ends: the bridge of the earlier file will be started again.
Failure Startup::adopt_region(const Format& format) {
    const Kept& kept = ground_.kept;
    File books = kept.take("books");
    const File file = kept.take("region");
    if (!books && !file && options_.trial < 0) return {};
    Failure why = "its books are gone";
    if (books && file) why = ground_.ledger.open(std::move(books));
    if (!why) {
        const Ledger::Head& head = ground_.ledger.head();
        const auto clients = ground_.ledger.clients().records;
        Format as_there = format;
        as_there.size = 0;  // --size is of a new region
        as_there.base = options_.base;
        const Predecessor before{file.fd(), head.layout, head.packets, head.shape, [clients](std::uint32_t slot) {
                                     return clients[slot].get().state != KeptClient::none;
                                 }};
        if (Error e = ground_.region.adopt(options_.region.c_str(), as_there, before)) why = e.text;
    }
    ground_.adopted = !why;
    if (ground_.adopted) return {};
    if (options_.trial >= 0) return why;
    log::error("the clients of the earlier bridge end: {}", why.text());
    ground_.ledger = Ledger();
    for (const pid_t worker : WorkerProcess::left(kept)) WorkerProcess::end_left(worker, kept);
    kept.drop_all("");
    return {};
}

// What stands in the books of a disk is looked at before it is used.
Failure Startup::refuse_client(const KeptClient& client, const Shape& shape, std::size_t gpus) {
    if (client.state > KeptClient::ended || client.end > all_ends) return "its state is none";
    if (client.state != KeptClient::assigned) return {};
    const auto count = std::min<std::size_t>(client.device_count, std::size(client.devices));
    if (std::any_of(client.devices, client.devices + count, [gpus](std::size_t device) { return device >= gpus; }))
        return "it has a GPU that the VM does not have";
    if (client.base == 0) return {};
    const Error e = check_client_base(client.base, shape.size, "its region", shape.windows);
    return e ? Failure(e.text) : Failure();
}

// What a new bridge keeps, it keeps when it is awake (Bridge::run): before that, the set on the disk is all there is.
Failure Startup::wake_region(const Format& format) {
    const SetReader& set = *ground_.set;
    const Description& its = set.description();
    FrameReader bytes;
    if (Failure e = bytes.open(set.part("region.zst").fd())) return e;
    FrameReader packed_books;
    if (Failure e = packed_books.open(set.part("books.zst").fd())) return e;
    const File books(memfd_create("barcuda-books", MFD_CLOEXEC));
    constexpr std::uint64_t most_books = 1 << 30;
    if (packed_books.bytes() > most_books || !books ||
        ftruncate(books.fd(), static_cast<off_t>(packed_books.bytes())) != 0)
        return fmt::format("{}: its books cannot be read: {}", options_.wake, strerror(errno));
    if (Failure e = unpack_file(packed_books, books.fd())) return e;
    if (Failure e = ground_.ledger.wake(books.fd())) return e;
    const Shape& shape = ground_.ledger.head().shape;
    if (bytes.bytes() != shape.size || its.size != shape.size || its.base != shape.base)
        return fmt::format("{}: its region, its books and its description have different sizes", options_.wake);
    const auto clients = ground_.ledger.clients().records;
    std::set<std::uint32_t> assigned;
    for (std::uint32_t slot = 0; slot < shape.channel_count; ++slot)
        if (clients[slot].get().state == KeptClient::assigned && !clients[slot].get().end) assigned.insert(slot);
    if (assigned != std::set<std::uint32_t>(its.clients.begin(), its.clients.end()))
        return fmt::format("{}: its books and its description name different clients", options_.wake);
    for (std::uint32_t slot = 0; slot < shape.channel_count; ++slot)
        if (Failure e = refuse_client(clients[slot].get(), shape, its.gpus.size()))
            return fmt::format("{}: the client of channel {} in its books: {}", options_.wake, slot, e.text());
    Format as_there = format;
    as_there.size = 0;
    const Predecessor before{-1, its.layout, its.packets, shape,
                             [clients](std::uint32_t slot) { return clients[slot].get().state != KeptClient::none; }};
    const auto begun = std::chrono::steady_clock::now();
    const Asleep asleep{its.boot == this_boot(), its.device, its.inode, its.epoch, [&](int file) {
                            const Failure e = unpack_file(bytes, file);
                            return e ? error(Error::system, EIO, "%s: %s", options_.region.c_str(), e.text().c_str())
                                     : Error();
                        }};
    if (Error e = ground_.region.wake(options_.region.c_str(), as_there, before, asleep)) return e.text;
    log::info("{}: written in {:.2f} s", options_.region, seconds_since(begun));
    if (Failure e = options_.access.give(ground_.region.fd(), options_.region)) return e;
    ground_.adopted = true;
    return {};
}

Failure Startup::make_region(const Format& format) {
    HostRegion& region = ground_.region;
    if (Error e = region.create(options_.region.c_str(), format)) return e.text;
    if (Failure e = ground_.ledger.make(region.shape())) return e;
    if (Failure e = options_.access.give(region.fd(), options_.region)) return e;
    for (const auto& [name, file] : {std::pair("region", region.fd()), std::pair("books", ground_.ledger.fd())})
        if (const int e = ground_.kept.keep(name, file))
            return fmt::format("the keeper does not keep the {}: {}", name, strerror(e));
    return {};
}

Failure Startup::start_driver(Launcher& launcher, Pool& pool) {
    Failure error = first_worker_says_ ? start_first(launcher, pool) : plan_cage();
    if (error && ground_.cage.error.empty() && !choice_.tried) {  // a GPU whose driver does not start
        pool.end();                                               // by the plan that they were started with
        choice_ = choose_device(options_.device, stop_);
        error = choice_.error.empty() ? start_first(launcher, pool) : Failure(choice_.error);
    }
    return error;
}

// The cage of that driver's workers. `meanwhile` runs while it is tried, with the planned cage in `ground_`.
Failure Startup::plan_cage(const std::function<void()>& meanwhile) {
    Host& host = ground_.host;
    host.library = choice_.library;
    host.software = choice_.software;
    options_.cage.wrapped = !options_.wrapper.empty();
    options_.cage.software = host.software;
    ground_.cage = cage::plan(options_.cage, host.library, ground_.region.fd(), [&](const cage::Plan& draft) {
        if (!meanwhile) return;
        ground_.cage = draft;
        meanwhile();
    });
    return ground_.cage.error;
}

// The driver starts once, not twice, before the first client: the first worker reports the devices, and then waits for
// that client. It starts while a child tries its cage; if that finds something missing, another one starts without it.
Failure Startup::start_first(Launcher& launcher, Pool& pool) {
    std::unique_ptr<WorkerProcess> first;
    unsigned tried = 0;  // the measures with which it was started
    const auto start = [&] {
        tried = ground_.cage.order.on;
        first = launcher.start_first();
        return first != nullptr;
    };
    const Failure error = plan_cage(start);
    if (first && (error || tried != ground_.cage.order.on)) {
        log::info("the first worker is started again, without the measures that its cage lacks");
        pool.dismiss(std::move(first));
    }
    if (error) return error;
    if (!first && !start()) return fmt::format("cannot start a worker: {}", strerror(errno));
    HostDevices& devices = ground_.host.devices;
    devices = receive_devices(first->link(), ground_.host.library, stop_);
    if (devices.error.empty()) {
        first->set_devices(devices_seen(devices, nullptr));
        pool.add(std::move(first));
        return {};
    }
    constexpr int patience = 1000;  // milliseconds, for one that ends by itself, and has reported why or died
    pollfd ended[] = {{first->end(), POLLIN, 0}, {stop_, POLLIN, 0}};
    poll(ended, std::size(ended), patience);
    if (ended[0].revents == 0) first->dismiss();
    while (!first->has_gone()) poll(nullptr, 0, 1);
    const std::string end = first->reap();
    pool.discard(std::move(first));
    return devices.answered ? devices.error : fmt::format("{}: its first worker {}", devices.error, end);
}

Failure Startup::open_to_tools() {
    cage::report(ground_.cage);
    cage::enter_bridge(ground_.cage);
    if (const Failure e = ground_.control.open(ground_.region.fd()))
        log::warn("no `barcuda limit`, no `barcuda ps`: {}", e.text());
    if (Failure e = ground_.exporting.open(options_.metrics, options_.region, ground_.kept)) return e;
    if (Failure e = cage::close_bridge(ground_.cage)) return e;
    log::limit(options_.limits.guest[Limit::log_text]);
    return {};
}

Failure Startup::publish_devices() {
    Host& host = ground_.host;
    if (host.devices.all.size() > BARCUDA_MAX_DEVICES)
        return fmt::format("this host has {} GPUs and a region shows at most {}: name those that it gets with --gpus",
                           host.devices.all.size(), BARCUDA_MAX_DEVICES);
    barcuda::publish_devices(ground_.region, host.devices);
    host.every = devices_seen(host.devices, nullptr);
    // Copies between devices do not always come after the work of both.
    if (options_.device_memory == "blocks" && host.every.size() > 1)
        return fmt::format("--device-memory blocks serves VMs of one GPU, and this one gets {}: name one with --gpus",
                           host.every.size());
    // The driver itself keeps workers, whatever their clients send, away from devices that are not this VM's.
    if (host.devices.chosen) setenv("CUDA_VISIBLE_DEVICES", visible_list(host.devices, host.every).c_str(), 1);
    return {};
}

}  // namespace barcuda
