// SPDX-License-Identifier: Apache-2.0
// suspend.cc: `barcuda suspend`: writes the state of a bridge and its clients to a folder (suspended/set.h), and the
// bridge ends. With --check: only whether that is possible. Each step is asked of the bridge (between/suspend_link.h);
// whatever fails before the last one, the clients run on as before. With --qmp or --libvirt QEMU stops the guest before
// the first byte is written, writes its own part, and ends last; or the guest goes on, too.
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/caught.h"
#include "base/cli/options.h"
#include "base/os/thread.h"
#include "host-bridge/between/carry.h"
#include "host-bridge/between/conveyor.h"
#include "host-bridge/between/suspend_link.h"
#include "host-bridge/cli/ask.h"
#include "host-bridge/cli/commands.h"
#include "host-bridge/cli/notices.h"
#include "host-bridge/cli/pausing.h"
#include "host-bridge/cli/qemu.h"
#include "host-bridge/cli/suspending.h"
#include "host-bridge/cli/vm_parts.h"
#include "host-bridge/suspended/conveyed.h"
#include "host-bridge/suspended/frames.h"
#include "host-bridge/suspended/set.h"
#include "host-bridge/suspended/sparse_file.h"
#include "host-bridge/watch/bridges.h"
#include "host-bridge/watch/text.h"

namespace barcuda {
namespace {

struct SuspendCommand {
    std::string region = "/dev/shm/barcuda";
    std::vector<std::string> words;  // VM and DIR, or one of them
    std::string vm{}, folder{};
    std::string qmp{}, domain{};
    bool check = false;
    double within = 10;  // seconds
};

using Clock = std::chrono::steady_clock;
constexpr int between_looks = 20;  // milliseconds
// A worker that writes code to a slow disk says nothing of memory; nor does one whose client captures.
constexpr std::chrono::seconds silent_within{600}, silent_ahead{10};
constexpr double answers_within = 60;  // seconds, beyond --within: a worker looks through its client's code
// What a worker writes. A compromised worker could write without end.
constexpr std::uint64_t most_births = std::uint64_t{1} << 30, most_code = std::uint64_t{8} << 30,
                        most_memory = std::uint64_t{1} << 42;

Failure tell_bridge(const std::string& door, const std::string& region, const SuspendRequest& request,
                    SuspendReply& reply, std::vector<File>& files) {
    File to;
    if (Failure e = door.empty() ? connect_to_region(region, to) : connect_to_door(door, to)) return e;
    return ask(to, request, reply, files);
}

class Suspension {
  public:
    // `name`: of the subcommand. `guest`: a machine that stays stopped.
    Suspension(const char* name, const SuspendCommand& command, std::string door, std::string region, SetPlace& set,
               Qemu* guest = nullptr)
        : name_(name),
          command_(command),
          door_(std::move(door)),
          region_(std::move(region)),
          guest_(guest),
          set_(set) {}

    const Suspended& what() const { return what_; }

    int run() {
        if (const Failure e = find_qemu()) return failed(e);
        SuspendReply& reply = *reply_;
        if (const Failure e = tell({.what = SuspendRequest::begin}, reply)) return failed(e);
        const Failure why = caught([&] { return suspend(); });
        if (held_) {  // whatever went wrong behind that
            if (own_) own_.quit();
            return 0;
        }
        const Failure stays = own_ ? own_.go_on() : Failure();
        // Until they run again. A bridge that has gone needs none of that.
        const auto end = Clock::now() + std::chrono::duration<double>(command_.within + answers_within);
        for (Failure gone = tell({.what = SuspendRequest::cancel}, reply); !gone && reply.returning != 0;) {
            poll(nullptr, 0, between_looks);
            if (Clock::now() > end) break;
            gone = tell({}, reply);
        }
        if (stays) complain(name_, fmt::format("the guest is still stopped: {}", stays.text()));
        return why ? failed(why) : hindered_ ? 1 : 0;
    }

  private:
    // A signal ends this command as any failure does: it leaves no guest stopped.
    Failure find_qemu() {
        if (command_.qmp.empty() && command_.domain.empty()) return {};
        parts::catch_signals();
        if (Failure e = command_.domain.empty() ? own_.connect(command_.qmp) : own_.use_domain(command_.domain))
            return e;
        guest_ = &own_;
        return own_.check(region_);
    }

    static Failure interrupted() { return parts::caught() ? "interrupted" : ""; }

    int failed(const Failure& why) const {
        if (why.text() == said) return 1;
        return complain(name_, why.text());
    }

    Failure tell(const SuspendRequest& request, SuspendReply& reply, std::vector<File>* files = nullptr) const {
        std::vector<File> none;
        return tell_bridge(door_, command_.region, request, reply, files ? *files : none);
    }

    Failure suspend() {
        SuspendReply& reply = *reply_;
        const Heartbeat heartbeat(*this);
        Lap lap;
        if (!hold_all(name_, command_.region, command_.vm, command_.within)) return said;
        if (guest_ && !command_.check)
            if (Failure e = guest_->stop()) return e;
        std::vector<File> files;
        if (Failure e = freeze(files)) return e;
        step("held", lap.seconds());
        clients_.assign(reply.rows, reply.rows + reply.count);
        for (const SuspendRow& row : clients_)
            if (Failure e = check(row.channel)) return e;
        step("looked at", lap.seconds());
        if (command_.check || hindered_) return report();
        if (Failure e = write(files)) return e;
        lap = {};
        if (Failure e = interrupted()) {
            set_.take_back();
            return e;
        }
        reply.error[0] = 0;
        if (Failure e = caught([&] { return tell({.what = SuspendRequest::finish}, reply); }); e && goes_on(reply)) {
            set_.take_back();
            return e;
        }
        held_ = true;
        while (!tell({}, reply) && reply.step == SuspendStep::ended) poll(nullptr, 0, between_looks);
        step("ended", lap.seconds());
        what_.clients = clients_.size();
        return {};
    }

    // The worker of a client that has just ended may need a while for that.
    Failure freeze(std::vector<File>& files) const {
        SuspendReply& reply = *reply_;
        const auto end = Clock::now() + std::chrono::duration<double>(command_.within + answers_within);
        for (;; poll(nullptr, 0, between_looks)) {
            if (Failure e = tell({.what = SuspendRequest::freeze}, reply, &files)) return e;
            if (reply.step != SuspendStep::begun) break;
            if (Clock::now() > end) return "the worker of a client that has ended does not end";
            if (Failure e = interrupted()) return e;
        }
        return files.size() == 3 ? Failure() : Failure("its bridge is of another version");
    }

    // After a vain `finish`: whether the bridge has refused it. Where only the answer was lost, the folder may be all
    // that is left of the VM, and stays.
    bool goes_on(SuspendReply& reply) const {
        if (reply.error[0] != 0) return true;
        for (int looks = 0; looks < 20; ++looks) {  // another bridge may follow one that was killed
            if (!tell({.what = SuspendRequest::cancel}, reply)) return reply.step != SuspendStep::ended;
            poll(nullptr, 0, between_looks);
        }
        return false;
    }

    // Tells the bridge each second that the command still runs.
    class Heartbeat {
      public:
        explicit Heartbeat(const Suspension& of) {
            const os::SignalsBlocked blocked;
            thread_ = std::thread([this, &of] {
                for (unsigned turns = 1; !stop_; ++turns) {
                    constexpr unsigned looks_a_second = 1000 / between_looks;
                    if (turns % looks_a_second == 0) (void)caught([this, &of] { return of.tell({}, *reply_); });
                    poll(nullptr, 0, between_looks);
                }
            });
        }
        ~Heartbeat() {
            stop_ = true;
            thread_.join();
        }
        Heartbeat(const Heartbeat&) = delete;

      private:
        const std::unique_ptr<SuspendReply> reply_ = std::make_unique<SuspendReply>();
        std::atomic<bool> stop_{false};
        std::thread thread_;
    };

    // Waits until the worker of that channel has done what it was told.
    Failure await(std::uint32_t channel, SuspendRow& its) const {
        SuspendReply& reply = *reply_;
        const auto end = Clock::now() + std::chrono::duration<double>(command_.within + answers_within);
        for (;; poll(nullptr, 0, between_looks)) {
            const auto rows = std::span(reply.rows, reply.count);
            const auto row = std::ranges::find(rows, channel, &SuspendRow::channel);
            if (row == rows.end()) return fmt::format("the client of channel {} has ended meanwhile", channel);
            its = *row;
            its.text[sizeof its.text - 1] = its.cure[sizeof its.cure - 1] = its.program[sizeof its.program - 1] = 0;
            if (its.state != SuspendRow::busy) return {};
            if (Clock::now() > end) return fmt::format("the worker of channel {} does not answer", channel);
            if (Failure e = interrupted()) return e;
            if (Failure e = tell({}, reply)) return e;
        }
    }

    Failure check(std::uint32_t channel) {
        if (Failure e = tell({.what = SuspendRequest::check, .channel = channel}, *reply_)) return e;
        const auto its = std::ranges::find(clients_, channel, &SuspendRow::channel);
        if (Failure e = await(channel, *its)) return e;
        hindered_ = hindered_ || its->state != SuspendRow::able;
        return {};
    }

    Failure report() const {
        std::vector<std::vector<std::string>> rows{
            {">CHANNEL", ">PID", "PROGRAM", "CARRIED", "WHAT STANDS IN THE WAY"}};
        for (const SuspendRow& row : clients_) {
            const bool able = row.state == SuspendRow::able;
            std::string why = watch::printable(row.text);
            if (*row.cure) why += ": " + watch::printable(row.cure);
            rows.push_back({std::to_string(row.channel), std::to_string(row.pid), watch::printable(row.program),
                            able ? "yes" : "no", able ? "" : why});
        }
        for (const std::string& line : watch::columns(rows)) fmt::print("{}\n", line);
        if (!hindered_ || command_.check) return {};
        return "not every client can be carried; nothing was changed";
    }

    Failure write(const std::vector<File>& files) {
        Description description;
        std::string text(1 << 20, 0);
        const ssize_t n = pread(files[0].fd(), text.data(), text.size(), 0);
        text.resize(n < 0 ? 0 : static_cast<std::size_t>(n));
        if (Failure e = parse(text, description, true)) return "its bridge's description: " + e.text();
        for (const SuspendRow& row : clients_) description.clients.push_back(row.channel);
        // The region beside what the clients have on their GPUs: the crew's threads take what comes first.
        Failure region;
        {
            const os::SignalsBlocked blocked;
            const std::jthread beside(
                [&, size = description.size] { region = caught([&] { return write_region(files, size); }); });
            for (const SuspendRow& row : clients_)
                if (Failure e = caught([&] { return carry(row.channel); })) {
                    gives_up_ = true;  // the region's writer, too
                    return fmt::format("the client of channel {} (pid {}): {}", row.channel, row.pid, e.text());
                }
        }
        if (region) return region;
        if (guest_) {
            description.vm = guest_->state();
            if (Failure e = frames(part_of_vm, [this](FrameWriter& to) { return save_vm(to); })) return e;
        }
        description.domain = command_.domain;
        if (!command_.domain.empty())
            if (Failure e = describe_domain()) return e;
        Lap lap;
        Failure failure = set_.commit(description);
        step("committed", lap.seconds());
        return failure;
    }

    Failure write_region(const std::vector<File>& files, std::uint64_t size) {
        if (Failure e = frames("region.zst", [&](FrameWriter& to) {
                return pack_file(files[1].fd(), size, to,
                                 [this] { return gives_up_ ? Failure("given up") : interrupted(); });
            }))
            return e;
        struct stat st {};
        if (fstat(files[2].fd(), &st) != 0) return strerror(errno);
        const auto books = static_cast<std::uint64_t>(st.st_size);
        return frames("books.zst", [&](FrameWriter& to) { return pack_file(files[2].fd(), books, to); });
    }

    struct Lap {
        Clock::time_point begun = Clock::now();
        double seconds() {
            const std::chrono::duration<double> took = Clock::now() - begun;
            begun = Clock::now();
            return took.count();
        }
    };
    // Any thread may say what it has done.
    void step(const std::string& name, double seconds, std::uint64_t bytes = 0, const FrameTimes& busy = {}) {
        const std::lock_guard lock(mutex_);
        (void)caught([&]() -> Failure {  // without memory the table lacks a line
            what_.steps.push_back({name, seconds, bytes, busy});
            return {};
        });
    }
    void count(std::uint64_t bytes, std::uint64_t written) {
        const std::lock_guard lock(mutex_);
        what_.bytes += bytes;
        what_.written += written;
    }

    Failure describe_domain() {
        std::string text;
        if (Failure e = guest_->describe(text)) return e;
        SetPlace::Sink sink;
        if (Failure e = set_.make(part_of_domain, sink)) return e;
        const auto bytes = std::as_bytes(std::span(text));
        if (Failure e = sink(bytes)) return e;
        Digest digest;
        digest.add(bytes);
        return set_.finish(part_of_domain, text.size(), digest);
    }

    Failure save_vm(FrameWriter& to) {
        return guest_->save([&to](std::span<const std::byte> piece) -> Failure {
            if (Failure e = interrupted()) return e;
            return to.add(piece);
        });
    }

    Failure frames(const std::string& name, const std::function<Failure(FrameWriter&)>& fill) {
        SetPlace::Sink sink;
        if (Failure e = set_.make(name, sink)) return e;
        Lap lap;
        std::optional<FrameWriter> to;
        const Failure why = caught([&] {
            to.emplace(std::move(sink), set_.known(name), set_.sink_at(name), crew_);
            Failure none = fill(*to);
            return none ? std::move(none) : to->finish();
        });
        if (why) return fmt::format("{}: {}", name, why.text());
        count(to->bytes(), to->written());
        step(name, lap.seconds(), to->bytes(), to->times());
        Failure failure = set_.finish(name, to->written(), to->digest());
        step(name + " synced", lap.seconds());
        return failure;
    }

    // A part that is written as it comes.
    struct Plain {
        std::string name;
        std::uint64_t most;
        SetPlace::Sink sink{};
        Digest digest{};
        std::uint64_t bytes = 0;
        Failure failure{};

        void take(const File& from) {
            const auto add = [this](std::span<const std::byte> piece) -> Failure {
                digest.add(piece);
                bytes += piece.size();
                return sink(piece);
            };
            if (Failure e = caught([&] { return drain(from, most, silent_within, add); }))
                failure = fmt::format("{}: {}", name, e.text());
        }
    };

    // The worker closes its pipes when it likes, so all are read at once.
    Failure carry(std::uint32_t channel) {
        std::vector<File> files;
        if (Failure e = tell({.what = SuspendRequest::carry, .channel = channel}, *reply_, &files)) return e;
        if (files.size() != carrying::parts) return "its bridge is of another version";
        Conveyor conveyor;
        if (Failure e = conveyor.open(std::move(files[2]), files[3], silent_within)) return e;
        Plain births{births_of(channel), most_births};
        if (Failure e = set_.make(births.name, births.sink)) return e;
        Failure code;
        std::vector<std::jthread> readers;
        const Failure begun = caught([&]() -> Failure {
            const os::SignalsBlocked blocked;
            readers.emplace_back([&births, from = std::move(files[0])] { births.take(from); });
            readers.emplace_back([&, from = std::move(files[1])] {
                code = caught([&] {
                    return frames(code_of(channel), [&](FrameWriter& to) {
                        return drain(from, most_code, silent_within, [&](auto piece) { return to.add(piece); });
                    });
                });
            });
            return {};
        });
        Failure failure = begun ? begun.text() : caught([&] {
            return frames(memory_of(channel),
                          [&](FrameWriter& to) { return pack_conveyor(conveyor, most_memory, to); });
        });
        conveyor.close();  // a worker that still writes ends that
        files.clear();
        readers.clear();
        SuspendRow row{};
        const Failure silent = await(channel, row);
        Failure first;
        for (const Failure& one : {std::cref(failure), std::cref(births.failure), std::cref(code), std::cref(silent)})
            if (!first) first = one;
        // The worker gives the cause, unless it says only that its pipe has no reader.
        if (!silent && row.state != SuspendRow::able) {
            const std::string its = watch::printable(row.text);
            return first ? fmt::format("{} ({})", its, first.text()) : its;
        }
        if (first) return first;
        count(births.bytes, births.bytes);
        return set_.finish(births.name, births.bytes, births.digest);
    }

    static constexpr const char* said = "(said)";  // by another command that this one uses
    const char* const name_;
    const SuspendCommand& command_;
    const std::string door_, region_;
    Qemu own_;     // which goes on or ends with this suspension
    Qemu* guest_;  // own_, or the caller's, or none
    const std::unique_ptr<SuspendReply> reply_ = std::make_unique<SuspendReply>();
    SetPlace& set_;
    const std::shared_ptr<Crew> crew_ = std::make_shared<Crew>();
    std::vector<SuspendRow> clients_;
    bool hindered_ = false, held_ = false;
    std::atomic<bool> gives_up_{false};
    std::mutex mutex_;
    Suspended what_;
};

}  // namespace

std::string text_of(const std::vector<Suspended::Step>& steps) {
    std::vector<std::vector<std::string>> rows{
        {"STEP", ">SECONDS", ">BYTES", ">READ", ">PACKED", ">HASHED", ">WRITTEN"}};
    const auto busy = [](double seconds) { return fmt::format("{:.2f}", seconds); };
    for (const Suspended::Step& s : steps) {
        std::vector<std::string> row{s.name, busy(s.seconds), "", "", "", "", ""};
        if (s.bytes != 0)
            row = {s.name,
                   busy(s.seconds),
                   watch::size(s.bytes),
                   busy(s.busy.read),
                   busy(s.busy.packed),
                   busy(s.busy.hashed),
                   busy(s.busy.written)};
        rows.push_back(std::move(row));
    }
    std::string text;
    for (const std::string& line : watch::columns(rows)) text += line + "\n";
    return text;
}

Failure may_leave(const std::string& region) {
    if (!parts::is_of_a_vm(region)) return {};
    return "its VM is one of `barcuda vm`, whose guest can be neither saved nor moved (QEMU has no monitor there): "
           "`barcuda vm stop` ends one that has a name, and its disk stays";
}

namespace {

int run(SuspendCommand& command) {
    const std::size_t most = command.check ? 1 : 2;
    if (command.words.size() > most || (!command.check && command.words.empty()))
        return complain("suspend", command.check ? "--check has one name, of a VM" : "name a VM, and a new folder",
                        wrong_usage);
    const watch::View there = watch::look(false);
    const auto named = [&](const std::string& name) {
        return std::ranges::find(there.bridges, name, &watch::Bridge::name);
    };
    if (!command.check && command.words.size() == 1 && named(command.words[0]) != there.bridges.end())
        return complain("suspend",
                        fmt::format("{0} is a VM: name the folder, too: barcuda suspend {0} DIR", command.words[0]),
                        wrong_usage);
    if (!command.check) {
        command.folder = command.words.back();
        command.words.pop_back();
    }
    std::string door, region = command.region;
    if (!command.words.empty()) {
        command.vm = command.words.front();
        if (const auto its = named(command.vm); its != there.bridges.end()) {
            door = its->door;
            region = its->region;
        }
        if (door.empty())
            return complain("suspend",
                            fmt::format("there is no VM with the name {}; `barcuda ps` shows the VMs", command.vm));
    }
    SetWriter set;
    if (!command.check)
        if (const Failure e = may_leave(region)) return complain("suspend", e.text());
    if (!command.check)
        if (const Failure e = set.begin(command.folder)) return complain("suspend", e.text());
    Suspension suspension("suspend", command, door, region, set);
    const int status = suspension.run();
    if (const Suspended& what = suspension.what(); status == 0 && !command.check) {
        fmt::print("{}", text_of(what.steps));
        fmt::print("suspended to {}: {} client{}, {} of memory and code, {} on the disk\n", command.folder,
                   what.clients, what.clients == 1 ? "" : "s", watch::size(what.bytes), watch::size(what.written));
    }
    return status;
}

}  // namespace

Failure send_ahead(const SuspendOrder& order,
                   const std::function<Failure(const std::function<Failure(FrameWriter&)>&)>& send) {
    const auto reply = std::make_unique<SuspendReply>();
    std::vector<File> files;
    if (Failure e = tell_bridge(order.door, order.region, {}, *reply, files)) return e;
    std::vector<std::uint32_t> channels;
    for (const SuspendRow& row : std::span(reply->rows, reply->count)) channels.push_back(row.channel);
    for (const std::uint32_t channel : channels) {
        files.clear();
        // One that ends, is paused, captures or has no births goes when all stand still.
        if (tell_bridge(order.door, order.region, {.what = SuspendRequest::ahead, .channel = channel}, *reply, files) ||
            files.size() != 2)
            continue;
        Conveyor conveyor;
        if (conveyor.open(std::move(files[0]), files[1], silent_ahead)) continue;
        Failure of_the_worker;
        const auto fill = [&](FrameWriter& to) -> Failure {
            of_the_worker = pack_conveyor(conveyor, most_memory, to);
            return {};
        };
        if (Failure e = send(fill)) return e;
    }
    return {};
}

int suspend_to(SetPlace& place, const SuspendOrder& order, Suspended& what) {
    SuspendCommand command;
    command.region = order.region;
    command.vm = order.vm;
    command.within = order.within;
    Suspension suspension(order.command, command, order.door, order.region, place, order.guest);
    const int status = suspension.run();
    what = suspension.what();
    return status;
}

void add_suspend(App& app) {
    const auto options = std::make_shared<SuspendCommand>();
    const Command command =
        app.add("suspend", "on a host: write a VM's clients to a folder and end its bridge; for root and its user",
                [options] { return run(*options); });
    command.add_option("--region", options->region, "the bridge's, if no VM is named")
        .envname("BARCUDA_REGION")
        .capture_default_str();
    const Option qmp = command.add_option("--qmp", options->qmp,
                                          "also the guest itself: the socket of its QEMU's monitor (-qmp "
                                          "unix:SOCKET,server=on,wait=off); QEMU ends, too");
    command.add_option("--libvirt", options->domain, "the same for a domain of libvirt's").excludes(qmp);
    command.add_flag("--check", options->check, "only say which clients can be carried; they are paused for a moment");
    command.add_option("--within", options->within, "how long the GPU's work may take to end")
        .as_seconds()
        .default_str("10s");
    command.add_option("VM DIR", options->words,
                       "the VM's name, as `barcuda ps` shows it (default: the VM of --region), and the folder, which "
                       "must not be there yet");
}

}  // namespace barcuda
