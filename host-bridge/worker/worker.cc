// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/worker/worker.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <malloc.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <system_error>
#include <thread>
#include <utility>

#include "base/log.h"
#include "base/message.h"
#include "base/trace.h"
#include "host-bridge/between/link.h"
#include "host-bridge/between/probe.h"
#include "host-bridge/cage/cage.h"
#include "host-bridge/cage/mapper.h"
#include "host-bridge/worker/bridge_link.h"
#include "host-bridge/worker/channel.h"
#include "host-bridge/worker/hold.h"
#include "host-bridge/worker/layers.h"
#include "host-bridge/worker/leave.h"
#include "host-bridge/worker/memory/layer.h"
#include "host-bridge/worker/quota/quota.h"
#include "host-bridge/worker/rehearsal.h"
#include "host-bridge/worker/serve.h"
#include "host-bridge/worker/session/libraries.h"
#include "host-bridge/worker/session/recording.h"
#include "host-bridge/worker/session/session.h"
#include "host-bridge/worker/supply.h"
#include "host-bridge/worker/wake.h"
#include "shm-device/queue/sync.h"
#include "shm-device/region/status.h"

namespace barcuda {
namespace {

// What is known of the GPU's work, for taking turns.
struct ClientsWork : TurnTaking::Work {
    explicit ClientsWork(Session& session) : session(session) {}
    bool idle() override {
        session.launches().flush();
        return session.deferred().check_idle();
    }
    Session& session;
};

// And for unmapping memory.
struct SessionsWork : GpuWork {
    explicit SessionsWork(Session& session) : session(session) {}
    bool idle() override { return session.deferred().check_idle(); }
    bool may_capture() override { return session.streams().has_captured(); }
    bool quiet() override { return session.quiet(); }
    bool captures() override { return barcuda::captures(session); }
    Session& session;
};

// Measures where the time of a start goes.
class Steps {
  public:
    void done(const char* step) {
        const auto now = std::chrono::steady_clock::now();
        text_ += fmt::format("{}{} {:.1f} ms", text_.empty() ? "" : ", ", step,
                             std::chrono::duration<double, std::milli>(now - std::exchange(last_, now)).count());
    }
    const std::string& text() const { return text_; }

  private:
    std::string text_;
    std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

// The numbers of the bridge's descriptors (link.h) belong to nothing else, whether the bridge gives one or the worker
// needs it no more: what may be done with a descriptor goes by its number (cage/filter.cc). Drivers get higher ones.
File open_nothing() {
    const File low(open("/dev/null", O_RDONLY | O_CLOEXEC));
    return File(fcntl(low.fd(), F_DUPFD_CLOEXEC, soft_card_fd + 1));
}
void vacate(int number) {  // before the cage is closed
    static const File nothing = open_nothing();
    dup3(nothing.fd(), number, O_CLOEXEC);
}
void vacate_what_was_not_given() {
    for (int number = link_fd; number <= soft_card_fd; ++number)
        if (fcntl(number, F_GETFD) < 0) vacate(number);
}

const std::string no_start = "the host's CUDA driver does not start: ";

// Prepares the GPU of this process for a client: cuInit and the first device's primary context take most of the time.
Failure open_driver(Driver& driver, const std::string& library, const Preparation& prepared, bool warm,
                    CUcontext& context, Steps& steps) {
    if (const Failure failure = driver.open(library)) return no_start + failure.text();
    steps.done("library");
    if (prepared.has_soft_card) {
        const bool shares = !driver.share_card || driver.share_card(soft_card_fd);
        vacate(soft_card_fd);  // it is mapped
        if (!shares) return no_start + "it cannot use the file of BARCUDA_SOFT_CARD";
    }
    if (CUresult r = driver.cuInit(0); r != CUDA_SUCCESS) return no_start + "cuInit: " + driver.error_name(r);
    steps.done("cuInit");
    int count = 0;
    if (prepared.says_devices) {
        if (!report_devices(driver, link_fd)) return no_start + "it does not describe its devices";
    } else if (driver.cuDeviceGetCount(&count) != CUDA_SUCCESS || count != static_cast<int>(prepared.devices)) {
        return no_start + fmt::format("it shows {} GPUs, but {} were expected", count, prepared.devices);
    }
    steps.done("devices");
    if (!warm) return {};
    CUdevice device = 0;
    if (driver.cuDeviceGet(&device, 0) == CUDA_SUCCESS &&
        driver.cuDevicePrimaryCtxRetain(&context, device) == CUDA_SUCCESS)
        driver.cuCtxSetCurrent(context);
    else context = nullptr;
    steps.done("context");
    return {};
}

// The client's first extents, mapped. A thread touches their pages meanwhile, because the driver takes as long to
// start.
std::jthread take_pages(Extents& extents, const Preparation& prepared) {
    for (const auto& [offset, bytes] : prepared.extents)
        if (bytes != 0 && extents.map(offset, bytes)) break;
    return std::jthread([&extents, &prepared](const std::stop_token& stop) {
        constexpr std::uint64_t piece = 2 << 20;
        for (const auto& [offset, bytes] : prepared.extents)
            for (std::uint64_t at = 0; at < bytes && extents.holds(offset, bytes) && !stop.stop_requested();
                 at += piece)
                madvise(extents.locate(offset + at, 1), std::min(piece, bytes - at), MADV_POPULATE_WRITE);
    });
}

// Sends device printf into a pipe instead of the bridge's output (output.cc). Returns the end to read from; -1: none.
int catch_output() {
    int pipe[2];
    if (pipe2(pipe, O_CLOEXEC) != 0) return -1;
    const int from = fcntl(pipe[0], F_DUPFD_CLOEXEC, soft_card_fd + 1);
    dup2(pipe[1], STDOUT_FILENO);
    close(pipe[0]);
    close(pipe[1]);
    fcntl(from, F_SETFL, O_NONBLOCK);
    return from;
}

// The bytes that count against RLIMIT_DATA, read from a file that was opened before the cage.
std::uint64_t own_data(const File& statm) {
    char text[256]{};
    unsigned long long data = 0;
    if (pread(statm.fd(), text, sizeof text - 1, 0) <= 0) return 0;
    std::sscanf(text, "%*u %*u %*u %*u %*u %llu", &data);
    return data * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

// Where this worker writes what it is doing. It also works without one.
Sheet& open_sheet() {
    static Sheet unread;
    void* at = mmap(nullptr, sizeof(Sheet), PROT_READ | PROT_WRITE, MAP_SHARED, sheet_fd, 0);
    vacate(sheet_fd);
    return at == MAP_FAILED ? unread : *static_cast<Sheet*>(at);
}

// Closes the cage, before the first byte of a client is read.
Failure shut(const cage::Order& order, Sheet& sheet, Extents& extents, cage::CodePlace code) {
    static cage::Mapper mapper;
    const bool alone = order.has(cage::Measure::extents);
    bool taken = !alone || mapper.take();
    if (taken)
        if (Failure failure = cage::close(order, &sheet.denied, code)) return failure;
    if (taken && alone) {
        taken = mapper.confine();
        extents.map_by(mapper);
    }
    if (taken) return {};
    return fmt::format("the cage's measure '{}' failed: {}", about(cage::Measure::extents).name, strerror(errno));
}

// The end of a wrapped worker. Its wrapper must see a return from main(), not a signal: so the worker waits until the
// bridge has closed the link (or has ended).
void await_dismissal() {
    std::thread([] {
        // seconds, for a worker inside a driver's call, or with a client that floods it
        constexpr unsigned patience = 10;
        pollfd bridge{link_fd, POLLRDHUP, 0};
        while (poll(&bridge, 1, -1) < 0) {}
        dismissed = true;
        sleep(patience);
        _exit(1);
    }).detach();
}

int refuse_to_wake(Sheet& sheet, const Failure& why) {
    log::error("the client does not go on here: {}", why.text());
    answer(sheet.carry, observe(sheet.carry.order), {why.text(), ""});
    return 1;
}

}  // namespace

int run_worker(const std::string& library, bool warm, bool blocks) {
    signal(SIGINT, SIG_IGN);              // the bridge decides when a worker ends
    signal(SIGPIPE, SIG_IGN);             // a wrapped worker may outlive its bridge, which reads its log
    if (blocks) mallopt(M_ARENA_MAX, 1);  // arenas would move what the driver maps, by how its threads run: decision 80
    constexpr unsigned long unchanged = 0xffffffff;
    const bool has_fixed_addresses = personality(unchanged) & ADDR_NO_RANDOMIZE;
    vacate_what_was_not_given();
    const int text = catch_output();
    Preparation prepared;
    if (const ssize_t n = recv(link_fd, &prepared, sizeof prepared, 0); n != sizeof prepared) {
        if (n == 0) return 0;  // the bridge has ended
        log::critical("descriptors {} to {} are not the bridge's: the wrapper must leave them open", region_fd,
                      doorbell_fd);
        return 1;
    }
    File statm(open("/proc/self/statm", O_RDONLY | O_CLOEXEC));
    Failure failure = cage::enter(prepared.cage, library);
    // The region has no use for a worker without a bridge, which may have ended already. (With a wrapper the parent's
    // thread may end earlier.)
    if (prepared.wrapped) await_dismissal();
    else if (prctl(PR_SET_PDEATHSIG, SIGKILL); getppid() != prepared.bridge) return 0;
    // Threads of the driver run until the process ends: they use the client's memory, and ask the session to call the
    // client's functions. So none of that is destroyed before.
    static Driver& driver = *new Driver;
    CUcontext context = nullptr;  // of a warm worker
    static Extents& extents = *new Extents(region_fd, prepared.base);
    Steps steps;
    if (!failure) {
        const std::jthread pages = take_pages(extents, prepared);
        failure = open_driver(driver, library, prepared, warm, context, steps);
    }
    steps.done("pages");
    if (failure && prepared.says_devices) {  // the bridge reports it
        report_devices(driver, link_fd, failure.text());
        return 1;
    }
    extents.lend(Bounce::memory());
    if (!failure) extents.register_all(driver);  // otherwise it is done when the client uses them
    steps.done("extents");
    if (!failure && context) rehearse(driver);
    std::unique_ptr<IdleThread> searcher;
    try {
        searcher = std::make_unique<IdleThread>();
    } catch (const std::system_error&) {}  // perhaps there is one when code comes
    steps.done("rehearsal");
    if (prepared.cage.has(cage::Measure::syscalls) && prepared.cage.software) {
        Libraries::open_all(library);
        Recording::open(library);
    }
    cage::CodePlace code;
    if (driver.code) code.size = driver.code(&code.base);
    Sheet& sheet = open_sheet();
    publish(sheet.bare, own_data(statm));
    statm = File();
    turns::Book* const book = prepared.takes_turns ? turns::map(turns_fd) : nullptr;
    vacate(turns_fd);
    if (!failure) failure = shut(prepared.cage, sheet, extents, code);
    steps.done("cage");
    log::debug("a worker has started: {}", steps.text());

    Assignment job;
    if (recv(link_fd, &job, sizeof job, 0) != sizeof job) return 0;  // the bridge ended before a client came
    Failure unmapped = extents.move_to(driver, job.base);
    if (!unmapped) unmapped = extents.map_channel(job.channel_offset, BARCUDA_CHANNEL_SIZE);
    if (unmapped) {
        log::error("{}", unmapped.text());
        return 1;
    }
    Channel channel;
    channel.memory = reinterpret_cast<char*>(extents.locate(job.channel_offset, BARCUDA_CHANNEL_SIZE));
    channel.index = job.channel;
    channel.opening = job.opening;
    channel.offset = job.channel_offset;
    barcuda_status& status = channel.status();
    // A client of another worker goes on here. If it cannot, it is told nothing: it is not lost.
    const bool wakes = observe(sheet.carry.order) != 0 && sheet.carry.wanted == carrying::Wanted::read;
    if (failure && wakes) return refuse_to_wake(sheet, failure);
    if (failure) {
        log::error("{}", failure.text());
        end_session(status, BARCUDA_STATE_DEAD, CUDA_ERROR_NOT_INITIALIZED, failure.text().c_str());
        return 1;
    }
    static BridgeLink& granter = *new BridgeLink(link_fd);
    const Bell bell(channel, job.doorbell ? doorbell_fd : -1);
    static Session& session = *new Session(driver, extents, granter, status, &channel.calls(), bell, &sheet);
    Layers layers(driver);
    static SessionsWork& gpu = *new SessionsWork(session);
    std::span<CardPlace> cards;
    int devices = 0;  // a bridge's first worker finds out
    if (prepared.shares_cards && driver.cuDeviceGetCount(&devices) == CUDA_SUCCESS)
        cards = std::span(sheet.cards).first(std::min(static_cast<unsigned>(devices), Sheet::most_cards));
    if (blocks) layers.put(Layer::memory, [&](Driver& table) { allocate_in_blocks(table, granter, gpu, cards); });
    // Where addresses come again, what was at them can, too.
    // NVIDIA's driver maps variables of code where the process has room, so code comes again only where the process has
    // its own memory at the same addresses. (The software GPU's variables lie where their names lead.)
    const bool keeps_code = prepared.cage.software || has_fixed_addresses;
    static CodeStore* const code_store = blocks ? new CodeStore(keeps_code ? CodeStore::most_bytes : 0) : nullptr;
    if (code_store) session.record_births(*code_store);
    layers.put(Layer::quota, [&](Driver& table) {
        enforce_quota(table, granter, session.allowance(), own_memory(table, prepared.cage.software));
    });
    session.print_search().take(std::move(searcher));
    if (text >= 0) session.output().take_text_from(text, session.allowance());
    session.contexts().set_home(context, 0);
    session.output().take_errors_from(errors_fd, log_fd);
    SessionScope scope(session);
    std::optional<TurnTaking> turns;
    ClientsWork work(session);
    if (book) session.take_turns(&turns.emplace(driver, *book, prepared.group, work, sheet));
    Carried carried;
    if (wakes) {
        BridgeLink::Parts parts;
        Failure lack = granter.take(parts, true) ? Failure() : Failure("the bridge has ended");
        granter.go_on(observe(sheet.carry.order));
        if (!lack && !code_store) lack = "its memory needs --device-memory blocks";
        if (!lack) lack = wake(session, *code_store, parts, sheet.carry, carried);
        if (lack) return refuse_to_wake(sheet, lack);
        answer(sheet.carry, observe(sheet.carry.order), {});
    }
    std::optional<Supply> supply;
    if (wakes) supply.emplace(channel.supply(), bell, granter, extents, carried.supply);
    else supply.emplace(channel.supply(), bell, granter, extents, prepared);
    supply->begin();
    ChannelReader reader(channel, bell, carried.queue);
    Leave leave(session, reader, *supply, granter, sheet.carry);
    trace::serves(reader.pid());
    status.worker_pid = static_cast<std::uint32_t>(getpid());
    publish(status.state, static_cast<std::uint32_t>(BARCUDA_STATE_READY));
    return serve(reader, session, *supply, status, sheet, leave, residence());
}

}  // namespace barcuda
