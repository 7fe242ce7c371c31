// SPDX-License-Identifier: Apache-2.0
// receive.cc: `barcuda receive`: the destination's end of `barcuda move`, on standard input and output
// (suspended/stream.h). Each state is in the VM's folder (moved_vm.h), so another process can go on where one was
// killed. With --qmp a QEMU here reads the guest before the source decides, and lets it go on when the bridge serves.
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/cli/installation.h"
#include "base/cli/names.h"
#include "base/os/file.h"
#include "host-bridge/cli/commands.h"
#include "host-bridge/cli/moved_vm.h"
#include "host-bridge/cli/moving.h"
#include "host-bridge/cli/notices.h"
#include "host-bridge/cli/qemu.h"
#include "host-bridge/cli/saved_guest.h"
#include "host-bridge/suspended/description.h"
#include "host-bridge/suspended/sent_set.h"
#include "host-bridge/watch/bridges.h"

namespace barcuda {
namespace {

struct ReceiveCommand {
    std::string region, folder;
    std::string qmp;  // the monitor of the QEMU that gets the guest
    bool go = false, drop = false;
    std::vector<std::string> words;  // NAME, and the bridge's options
};

// Whether a bridge that has come to serve has this region.
bool serves(const std::string& region) {
    const watch::View there = watch::look(false);
    return std::ranges::find(there.bridges, region, &watch::Bridge::region) != there.bridges.end();
}

class Reception {
  public:
    Reception(const ReceiveCommand& command, const std::string& name)
        : command_(command), name_(name), vm_(command.folder, name) {}

    // The VM is in its folder, and the source has decided. Twice is as once.
    Failure go(const std::string& id) {
        const bool went_on = vm_.has_gone_on(id);
        if (went_on && !vm_.waits()) return {};
        if (!vm_.waits()) return name_ + ": no VM of that move waits here";
        if (Failure e = settle_region()) return e;
        WakingBridge bridge;
        if (!went_on && !serves(region_)) {
            if (Failure e = start(bridge, false)) return e;
            if (Failure e = bridge.await_ready()) return e;
        }
        return go_on(id);
    }

    // It goes on at its source, or what is here is of no more use. A guest that runs here is left alone.
    void drop(const std::string& id) {
        vm_.drop();
        if (vm_.has_gone_on(id) || command_.qmp.empty() || (!qemu_ && qemu_.connect(command_.qmp))) return;
        if (qemu_.has_mark(id)) qemu_.quit();
    }

    Failure take() { return vm_.take(); }
    MovedVm& vm() { return vm_; }

    // A whole move. `decided`: the source's decision was heard and carried out.
    Failure accept(Stream& stream, const MoveOrder& order, bool& decided) {
        if (vm_.waits() && vm_.order().source != order.source)
            return fmt::format(
                "a VM with the name {0} has come here by an earlier move and waits for its source's decision: `barcuda "
                "receive --go {0}` if that has ended it, `barcuda receive --drop {0}` if it goes on there",
                name_);
        region_ = region_of(order.name, order.region);
        // Programs without a VM have that file. Then this bridge can have it only when the other one has ended.
        const bool in_place = source_of(region_).text == order.source;
        if (!in_place && is_served(region_)) return region_ + ": a bridge serves this region here already";
        if (Failure e = find_qemu(order)) return e;
        if (Failure e = vm_.begin(order)) return e;
        if (Failure e = stream.send(MoveWord::welcome)) return e;
        SetWriter writer;
        if (Failure e = writer.begin(vm_.set())) return e;
        Description its;
        if (Failure e = receive_set(stream, writer, its)) return e;
        has_clients_ = !its.clients.empty();
        guest_ = its.vm;
        WakingBridge bridge;
        Failure why = order.guest == guest_.empty() ? "what has come is not what was offered" : "";
        if (!in_place && !why) {
            why = start(bridge, true);
            if (!why) why = bridge.await_back();
            if (!why) why = vm_.note_filled(source_of(region_).text);
        }
        if (!why) why = load(order.id);
        if (why) {
            drop(order.id);
            return why;
        }
        if (Failure e = stream.send(MoveWord::have)) return e;
        Stream::Message message;
        if (Failure e = stream.receive(message)) return e;
        if (message.word == MoveWord::drop) {
            decided = true;
            drop(order.id);
            return stream.send(MoveWord::dropped);
        }
        if (message.word != MoveWord::go) return "the other side has decided nothing";
        decided = true;
        if (in_place || !bridge.go() || bridge.await_ready()) {
            if (Failure e = go(order.id)) return e;
        } else if (Failure e = go_on(order.id)) {
            return e;
        }
        return stream.send(MoveWord::awake);
    }

  private:
    std::string region_of(const std::string& its_name, const std::string& its_region) const {
        if (!command_.region.empty()) return command_.region;
        return name_ == its_name ? its_region : region_beside(its_region, name_);
    }

    // A bridge of a command that was killed may be about to go on, or to end.
    Failure settle_region() {
        SetReader set;
        if (Failure e = set.open(vm_.set())) return e;
        region_ = region_of(set.description().name, set.description().region);
        has_clients_ = !set.description().clients.empty();
        guest_ = set.description().vm;
        constexpr int looks = 3000, between_looks = 20;  // milliseconds: a minute in all
        for (int i = 0; is_served(region_) && !serves(region_); ++i) {
            if (i == looks) return region_ + ": another process has locked this region";
            poll(nullptr, 0, between_looks);
        }
        return {};
    }

    Failure start(WakingBridge& bridge, bool waits) const {
        const Installation here = installation();
        if (access(here.bridge.c_str(), X_OK) != 0) return bridge_is_missing(here);
        std::vector<std::string> words{here.bridge, "--wake", vm_.set(), "--region", region_, "--name", name_};
        if (has_clients_) words.insert(words.end(), {"--device-memory", "blocks"});
        // Of an attempt that was killed before it went on.
        if (!waits && vm_.has_filled(source_of(region_).text)) words.push_back("--overwrite");
        words.insert(words.end(), command_.words.begin() + 1, command_.words.end());
        return bridge.start(vm_, words, waits);
    }

    // Before anything is sent: whether a QEMU here can take the guest.
    Failure find_qemu(const MoveOrder& order) {
        if (!order.guest && !command_.qmp.empty())
            return "the guest does not come: name its monitor at the source, too (barcuda move --qmp SOCKET)";
        if (!order.guest) return {};
        if (Failure e = connect_qemu()) return e;
        return qemu_.awaits_guest();
    }

    Failure connect_qemu() {
        if (qemu_) return {};
        if (command_.qmp.empty())
            return name_ +
                   ": its guest comes, too: name the monitor of the QEMU here that will run it (barcuda "
                   "receive --qmp SOCKET)";
        if (Failure e = qemu_.connect(command_.qmp)) return e;
        return qemu_.check(region_);
    }

    // Behind it a QEMU here has the guest, which is stopped; or the set has none. That QEMU may have read it for an
    // earlier process.
    Failure load(const std::string& id) {
        if (guest_.empty()) return {};
        if (Failure e = connect_qemu()) return e;
        if (qemu_.has_mark(id)) return qemu_.loaded();
        if (vm_.has_gone_on(id))
            return "the QEMU in which the guest went on has ended, so what is here is older than its disks: `barcuda "
                   "receive --drop` removes it";
        const std::string path = vm_.set() + "/" + part_of_vm;
        const File part(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
        if (!part) return fmt::format("{}: {}", path, strerror(errno));
        if (Failure e = qemu_.awaits_guest()) return e;
        if (Failure e = qemu_.mark(id)) return e;
        return load_guest(part, qemu_);
    }

    // The bridge serves. What is noted before the guest runs: no other QEMU gets it from now on.
    Failure go_on(const std::string& id) {
        if (Failure e = load(id)) return e;
        if (Failure e = vm_.note_awake(id)) return e;
        if (!guest_.empty())
            if (Failure e = qemu_.run(guest_)) return "QEMU has the guest, and does not say that it runs: " + e.text();
        vm_.drop();
        return {};
    }

    const ReceiveCommand& command_;
    const std::string name_;
    MovedVm vm_;
    std::string region_;
    bool has_clients_ = false;
    std::string guest_;  // what it did: running or paused; empty: the set has none
    Qemu qemu_;
};

int said(const Failure& failure) { return failure ? complain("receive", failure.text()) : 0; }

// What an operator decides, if the source cannot say it any more.
int decide(const ReceiveCommand& command, const std::string& name) {
    if (const Failure e = check_name(name)) return complain("receive", e.text(), wrong_usage);
    Reception reception(command, name);
    if (const Failure e = reception.take()) return said(e);
    if (!reception.vm().waits()) return complain("receive", name + ": no VM of that name waits here");
    if (command.go) return said(reception.go(reception.vm().order().id));
    reception.drop(reception.vm().order().id);
    return 0;
}

int run(const ReceiveCommand& command) {
    if (command.words.empty()) return complain("receive", "name the VM, or - for the name that it has", wrong_usage);
    std::string name = command.words.front();
    if (command.go || command.drop) return decide(command, name);
    if (isatty(STDIN_FILENO))
        return complain("receive", "this is the other end of `barcuda move`, which starts it by ssh", wrong_usage);
    signal(SIGPIPE, SIG_IGN);
    Stream stream(File(fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0)), File(fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0)));
    stream.beat();
    const auto refuse = [&](const Failure& why) {
        return stream.send(MoveWord::failed, why.text()) ? said(why) : 1;  // the source says it, if it hears it
    };
    Stream::Message message;
    MoveOrder order;
    if (const Failure e = stream.receive(message)) return said(e);
    if (message.word != MoveWord::offer && message.word != MoveWord::go && message.word != MoveWord::drop)
        return refuse("this is not the stream of `barcuda move`");
    if (const Failure e = MoveOrder::parse(message.text(), order)) return refuse(e);
    if (name == "-") name = order.name;
    if (const Failure e = check_name(name)) return refuse(e);
    Reception reception(command, name);
    if (const Failure e = reception.take()) return refuse(e);
    if (message.word == MoveWord::offer) {
        bool decided = false;
        const Failure e = reception.accept(stream, order, decided);
        if (!e) return 0;
        if (!decided && reception.vm().waits())
            return complain("receive",
                            fmt::format("{}: the VM {} waits here for its source's decision", e.text(), name));
        return refuse(e);
    }
    const bool its = reception.vm().waits() && reception.vm().order().id == order.id;
    if (message.word == MoveWord::drop && !reception.vm().has_gone_on(order.id)) {
        if (its) reception.drop(order.id);
        return said(stream.send(MoveWord::dropped));
    }
    if (!its && !reception.vm().has_gone_on(order.id)) return refuse(name + ": no VM of that move waits here");
    if (const Failure e = reception.go(order.id)) return refuse(e);
    return said(stream.send(MoveWord::awake));
}

}  // namespace

void add_receive(App& app) {
    const auto options = std::make_shared<ReceiveCommand>();
    const Command command =
        app.add("receive", "on a host: take a VM that another host moves here; `barcuda move` starts it by ssh",
                [options] { return run(*options); });
    command.add_option("--region", options->region,
                       "the region's file here (default: as on the other host, with the name in place of the VM's)");
    command.add_option("--folder", options->folder,
                       "where the VM lies until it goes on (default: ~/.local/share/barcuda/moved)");
    command.add_option("--qmp", options->qmp,
                       "the socket of the monitor of the QEMU here that gets the guest, which `barcuda move --qmp` "
                       "sends, too: it was started with -incoming defer, and with the region's file");
    const Option go = command.add_flag("--go", options->go,
                                       "a VM that waits here goes on: its source has ended it, and cannot say so");
    command.add_flag("--drop", options->drop, "a VM that waits here is removed: it goes on at its source").excludes(go);
    command.add_option("NAME", options->words,
                       "the VM's name here (-: the one that it has), then more options of barcuda-bridge");
    command.positionals_at_end();
}

}  // namespace barcuda
