// SPDX-License-Identifier: Apache-2.0
// move.cc: `barcuda move`: a VM goes on under another bridge, here or on another host (suspended/stream.h). Exactly one
// side goes on, even if a process is killed: a child does the work, and if it is killed, its parent asks the source's
// bridge what was decided, and says it to the destination over a new connection. With --qmp QEMU stops the guest and
// writes it into the same stream; the guest goes on, or its QEMU ends, only when it is known which side goes on.
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/cli/options.h"
#include "base/os/file.h"
#include "host-bridge/between/pause_link.h"
#include "host-bridge/between/suspend_link.h"
#include "host-bridge/cli/ask.h"
#include "host-bridge/cli/commands.h"
#include "host-bridge/cli/moving.h"
#include "host-bridge/cli/qemu.h"
#include "host-bridge/cli/suspending.h"
#include "host-bridge/cli/transport.h"
#include "host-bridge/suspended/frames.h"
#include "host-bridge/suspended/sent_set.h"
#include "host-bridge/suspended/sparse_file.h"
#include "host-bridge/watch/bridges.h"
#include "host-bridge/watch/text.h"
#include "shm-device/layout.h"

namespace barcuda {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int between_looks = 20;  // milliseconds

struct MoveCommand {
    std::string region = "/dev/shm/barcuda", transport{};
    std::string qmp{}, qmp_there{};    // the monitors of both QEMUs
    std::vector<std::string> words{};  // VM, DEST, options of the bridge there
    double within = 10;                // seconds
    bool stop_and_copy = false;
};

// What a guest did before it was stopped.
enum class GuestBefore { untouched, ran, paused };

// What the parent must know of a child that was killed.
struct Progress {
    std::atomic<GuestBefore> guest{GuestBefore::untouched};
    std::atomic<bool> may_be_there{false};  // the destination may have all of it
    std::atomic<bool> has_left{false};      // the source's bridge has ended
};

enum class Side { source, destination };

class Move {
  public:
    // `early`: the region's bytes go while the programs run, and once more those that have changed. `qmp`: the guest
    // goes, too.
    Move(SuspendOrder order, Destination to, MoveOrder offer, bool early, std::string qmp, Progress& progress)
        : order_(std::move(order)),
          to_(std::move(to)),
          offer_(std::move(offer)),
          early_(early),
          qmp_(std::move(qmp)),
          progress_(progress) {}

    // Notes which clients run: these are to run again if they do not move.
    Failure begin() {
        const auto reply = std::make_unique<PauseReply>();
        if (Failure e = tell_bridge(PauseRequest{}, *reply)) return e;
        for (const PauseRow& row : std::span(reply->rows, reply->count))
            if (row.state == Paused::running) running_.insert(row.channel);
        return {};
    }

    // In the child: the whole move.
    int run() {
        SuspendOrder order = order_;
        if (offer_.guest) {
            if (const Failure e = guest_.connect(qmp_)) return complain(e.text());
            if (const Failure e = guest_.check(order_.region)) return complain(e.text());
            order.guest = &guest_;
        }
        Transport transport;
        if (const Failure e = offer(transport)) return complain(e.text());
        SetSender sender(transport.stream(), progress_.may_be_there);
        if (early_)
            if (const Failure e = send_early(sender)) return complain(fmt::format("{}: {}", to_.called, e.text()));
        const auto begun = Clock::now();
        if (offer_.guest) {
            if (const Failure e = guest_.look_at_state()) return complain(e.text());
            progress_.guest = guest_.state() == "running" ? GuestBefore::ran : GuestBefore::paused;
        }
        Suspended what;
        if (const int status = suspend_to(sender, order, what); status != 0) {
            if (progress_.may_be_there && !transport.stream().refused()) return settle(&transport) ? 0 : status;
            let_run();
            let_guest_go_on();
            return status;
        }
        if (!settle(&transport)) return 1;
        const std::chrono::duration<double> still = Clock::now() - begun;
        fmt::print("{}", text_of(what.steps));
        fmt::print("moved to {}: {} client{}, {} of memory and code, {} sent; the programs stood still for {:.2f} s\n",
                   to_.called, what.clients, what.clients == 1 ? "" : "s", watch::size(what.bytes),
                   watch::size(what.written), still.count());
        return 0;
    }

    // Finds out which side goes on, and says so to the destination. True: the destination does.
    bool settle(Transport* transport) {
        Side side = Side::destination;
        if (!progress_.has_left)
            if (const Failure e = decide(side)) {
                complain(e.text());
                return false;
            }
        if (side == Side::destination) {
            progress_.has_left = true;
            const bool awake = tell(transport, MoveWord::go, MoveWord::awake, 600);
            if (awake) end_guest();
            else if (offer_.guest) complain("the guest is stopped here: end its QEMU when it goes on there");
            return awake;
        }
        let_run();
        let_guest_go_on();
        if (progress_.may_be_there) tell(transport, MoveWord::drop, MoveWord::dropped, 5);
        return false;
    }

  private:
    static int complain(const std::string& what) { return barcuda::complain("move", what); }

    Failure send_early(SetSender& sender) const {
        const File region(open(order_.region.c_str(), O_RDONLY | O_CLOEXEC));
        struct stat st {};
        if (!region || fstat(region.fd(), &st) != 0) return fmt::format("{}: {}", order_.region, strerror(errno));
        // What changes during the first round is less in the second one, which takes less time.
        for (int round = 0; round < 2; ++round) {
            Failure e = sender.send_early(
                [&](FrameWriter& to) { return pack_file(region.fd(), static_cast<std::uint64_t>(st.st_size), to); });
            if (!e) e = send_ahead(order_, [&](const auto& fill) { return sender.send_early(fill); });
            if (e) return e;
        }
        return {};
    }

    Failure offer(Transport& transport) const {
        if (Failure e = transport.start(to_)) return e;
        transport.stream().beat();
        if (Failure e = transport.stream().send(MoveWord::offer, offer_.text())) return to_.called + ": " + e.text();
        if (Failure e = transport.stream().expect(MoveWord::welcome)) return to_.called + ": " + e.text();
        return {};
    }

    template <class Request, class Reply> Failure tell_bridge(const Request& request, Reply& reply) const {
        File to;
        if (Failure e = connect_to_region(order_.region, to)) return e;
        return ask(to, request, reply);
    }

    // A bridge that is killed while its clients are held leaves them so to the next one.
    void let_run() const {
        constexpr std::chrono::seconds patience{30};
        const auto suspends = std::make_unique<SuspendReply>();
        const auto reply = std::make_unique<PauseReply>();
        for (const auto end = Clock::now() + patience; Clock::now() < end; poll(nullptr, 0, between_looks)) {
            if (tell_bridge(SuspendRequest{}, *suspends)) {
                if (is_served(order_.region)) continue;
                return;
            }
            if (suspends->step != SuspendStep::none) return;  // another command's
            if (suspends->returning != 0 || tell_bridge(PauseRequest{}, *reply)) continue;
            bool all_run = true;
            for (const PauseRow& row : std::span(reply->rows, reply->count)) {
                if (row.state == Paused::running || !running_.contains(row.channel)) continue;
                all_run = false;
                const auto answer = std::make_unique<PauseReply>();
                (void)!tell_bridge(
                    PauseRequest{.what = PauseRequest::resume, .by = PauseRequest::channel, .client = row.channel},
                    *answer);
            }
            if (all_run) return;
        }
    }

    // A child that was killed has left the guest to this process. Empty: there is one, or it was not touched.
    Failure find_guest() {
        const GuestBefore before = progress_.guest;
        if (guest_ || before == GuestBefore::untouched) return {};
        if (Failure e = guest_.connect(qmp_)) return e;
        guest_.take_over(before == GuestBefore::ran ? "running" : "paused");
        return {};
    }

    void let_guest_go_on() {
        Failure e = find_guest();
        if (!e && guest_) e = guest_.go_on();
        if (e) complain(fmt::format("the guest is still stopped (`cont` by its monitor lets it go on): {}", e.text()));
    }

    // It goes on at the destination. Until that was known, the stopped guest here might have been the last copy.
    void end_guest() {
        const Failure e = find_guest();
        if (!e && guest_) guest_.quit();
        if (e)
            complain(fmt::format("the guest goes on at the destination; end its QEMU here, in which it is stopped: {}",
                                 e.text()));
    }

    // The source's bridge decides: it has ended for good, or it goes on.
    Failure decide(Side& side) const {
        constexpr std::chrono::seconds patience{60};
        const auto reply = std::make_unique<SuspendReply>();
        for (const auto end = Clock::now() + patience; Clock::now() < end; poll(nullptr, 0, between_looks)) {
            if (tell_bridge(SuspendRequest{}, *reply)) {
                if (is_served(order_.region)) continue;  // it ends, or another one follows it
                // Where the destination cannot have all of it, another user has ended the bridge.
                side = progress_.may_be_there ? Side::destination : Side::source;
                return {};
            }
            if (reply->step == SuspendStep::ended) continue;
            if (reply->step != SuspendStep::none)
                (void)!tell_bridge(SuspendRequest{.what = SuspendRequest::cancel}, *reply);
            if (reply->step != SuspendStep::none || reply->returning != 0) continue;
            side = Side::source;
            return {};
        }
        return fmt::format(
            "{}: its bridge neither answers nor ends, so nothing is decided{}: end it, and then at {} "
            "`barcuda receive --go`, or `--drop`",
            order_.region, offer_.guest ? ", and the guest is stopped" : "", to_.called);
    }

    // Until it is answered, or for this many seconds. Repeating it is harmless.
    bool tell(Transport* transport, MoveWord what, MoveWord answer, unsigned seconds) const {
        const auto end = Clock::now() + std::chrono::seconds(seconds);
        std::string why;
        for (int nap = 100;; nap = std::min(2 * nap, 5000)) {  // milliseconds
            std::optional<Transport> again;
            Failure e;
            if (!transport) {
                e = again.emplace().start(to_);
                if (!e) again->stream().beat();
            }
            Stream* const stream = transport ? &transport->stream() : e ? nullptr : &again->stream();
            if (stream) {
                e = stream->send(what, offer_.text());
                if (!e) e = stream->expect(answer);
                if (!e) return true;
                if (stream->refused()) {
                    complain(fmt::format("{} says: {}", to_.called, e.text()));
                    break;
                }
            }
            transport = nullptr;
            if (why.empty() && what == MoveWord::go)
                complain(
                    fmt::format("{}: {}. The VM has left this host, and the destination is told so until it answers",
                                to_.called, e.text()));
            why = e.text();
            if (Clock::now() > end) {
                complain(fmt::format("{}: {}", to_.called, why));
                break;
            }
            poll(nullptr, 0, nap);
        }
        complain(what == MoveWord::go
                     ? "the VM is not lost: it lies whole at the destination. There, `barcuda receive --go "
                       "NAME` lets it go on"
                     : "the VM goes on here. At the destination, `barcuda receive --drop NAME` removes what "
                       "waits there");
        return false;
    }

    const SuspendOrder order_;
    const Destination to_;
    const MoveOrder offer_;
    const bool early_;
    const std::string qmp_;
    Progress& progress_;
    Qemu guest_;
    std::set<std::uint32_t> running_;
};

// ---- the parent
volatile sig_atomic_t worker = 0;
void pass_to_child(int) {
    if (worker > 0) kill(worker, SIGTERM);
}

int supervise(Move& move, const Progress& progress) {
    fflush(nullptr);
    const pid_t child = fork();
    if (child < 0) return complain("move", strerror(errno));
    if (child == 0) {
        const int status = move.run();
        fflush(nullptr);
        _exit(status);
    }
    worker = child;
    for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
        struct sigaction action {};
        action.sa_handler = pass_to_child;
        sigaction(number, &action, nullptr);
    }
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
    worker = 0;
    if (WIFEXITED(status)) return WEXITSTATUS(status);
    complain("move", fmt::format("its process was ended ({}); this one finds out what was decided",
                                 strsignal(WTERMSIG(status))));
    const bool gone = move.settle(nullptr);
    if (!gone && !progress.has_left) complain("move", "the VM goes on here");
    if (gone) fmt::print("moved\n");
    return gone ? 0 : 1;
}

int run(const MoveCommand& command) {
    std::vector<std::string> words = command.words;
    const auto url = std::ranges::find_if(words, [](const std::string& word) { return word.starts_with("ssh://"); });
    const std::size_t before = static_cast<std::size_t>(url - words.begin());
    if (command.transport.empty() ? url == words.end() || before > 1 : words.size() > 1)
        return complain("move",
                        "name the VM and its destination: barcuda move VM ssh://HOST/NAME, or barcuda move --command "
                        "'ssh HOST barcuda receive NAME' VM",
                        wrong_usage);
    Destination to = Destination::of_command(command.transport);
    if (command.transport.empty())
        if (const Failure e = Destination::of_url(*url, command.qmp_there.empty() ? command.qmp : command.qmp_there,
                                                  {url + 1, words.end()}, to))
            return complain("move", e.text(), wrong_usage);
    if (!command.qmp_there.empty() && (command.qmp.empty() || !command.transport.empty()))
        return complain("move",
                        "--to is the monitor of the QEMU at ssh://HOST/NAME, and needs --qmp; with --command name it "
                        "there: barcuda receive --qmp SOCKET",
                        wrong_usage);
    SuspendOrder order{.command = "move", .region = command.region, .within = command.within};
    MoveOrder offer;
    const watch::View there = watch::look(false);
    const bool named = before > 0 && !words.empty();
    const auto its = named ? std::ranges::find(there.bridges, words[0], &watch::Bridge::name)
                           : std::ranges::find(there.bridges, command.region, &watch::Bridge::region);
    if (its == there.bridges.end())
        return complain("move",
                        named ? fmt::format("there is no VM with the name {}; `barcuda ps` shows the VMs", words[0])
                              : fmt::format("{}: no bridge of yours serves this region", command.region));
    if (named) {
        order.vm = its->name;
        order.door = its->door;
        order.region = its->region;
    }
    if (const Failure e = may_leave(its->region)) return complain("move", e.text());
    offer.name = its->name;
    offer.region = order.region;
    offer.guest = !command.qmp.empty();
    offer.source = source_of(order.region).text;
    if (offer.source.empty()) return complain("move", order.region + ": this region cannot be opened here");
    unsigned char id[16];
    if (getrandom(id, sizeof id, 0) != sizeof id) return complain("move", strerror(errno));
    for (const unsigned char byte : id) offer.id += fmt::format("{:02x}", byte);
    signal(SIGPIPE, SIG_IGN);
    void* const shared = mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) return complain("move", strerror(errno));
    Progress& progress = *new (shared) Progress;
    Move move(order, to, offer, !command.stop_and_copy, command.qmp, progress);
    if (const Failure e = move.begin()) return complain("move", e.text());
    return supervise(move, progress);
}

}  // namespace

MoveSource source_of(const std::string& region) {
    const File file(open(region.c_str(), O_RDONLY | O_CLOEXEC));
    struct stat st {};
    barcuda_header header{};
    if (!file || fstat(file.fd(), &st) != 0 ||
        pread(file.fd(), &header, sizeof header, 0) != static_cast<ssize_t>(sizeof header))
        return {};
    return {fmt::format("{} {} {} {}", this_boot(), st.st_dev, st.st_ino, header.epoch)};
}

bool is_served(const std::string& region) {
    const File file(open(region.c_str(), O_RDWR | O_CLOEXEC));
    return file && os::probe_byte(file.fd(), 0) != 0;
}

void add_move(App& app) {
    const auto options = std::make_shared<MoveCommand>();
    const Command command =
        app.add("move", "on a host: a VM's clients go on under a bridge of another host; for root and its user",
                [options] { return run(*options); });
    command.add_option("--region", options->region, "the bridge's, if no VM is named")
        .envname("BARCUDA_REGION")
        .capture_default_str();
    command.add_option("--command", options->transport,
                       "a command whose input and output lead to `barcuda receive`, in place of ssh and DEST");
    command.add_option("--qmp", options->qmp,
                       "also the guest itself: the socket of its QEMU's monitor (-qmp "
                       "unix:SOCKET,server=on,wait=off); QEMU ends when the guest goes on there");
    command.add_option("--to", options->qmp_there,
                       "the socket of the monitor of the QEMU there, which was started with -incoming defer (default: "
                       "the path of --qmp)");
    command.add_flag("--stop-and-copy", options->stop_and_copy,
                     "send nothing while the programs run: less is sent, and they stand still for longer");
    command.add_option("--within", options->within, "how long the GPU's work may take to end")
        .as_seconds()
        .default_str("10s");
    command.add_option("VM DEST", options->words,
                       "the VM's name, as `barcuda ps` shows it (default: the VM of --region), and its destination: "
                       "ssh://[USER@]HOST[:PORT]/NAME, then more options of the bridge there");
    command.positionals_at_end();
}

}  // namespace barcuda
