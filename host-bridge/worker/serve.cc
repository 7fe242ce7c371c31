// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/worker/serve.h"

#include <fmt/format.h>
#include <sched.h>

#include <optional>
#include <set>
#include <utility>

#include "base/log.h"
#include "base/trace.h"
#include "host-bridge/between/link.h"
#include "host-bridge/worker/channel.h"
#include "host-bridge/worker/execute.h"
#include "host-bridge/worker/hold.h"
#include "host-bridge/worker/leave.h"
#include "host-bridge/worker/memory/residence.h"
#include "host-bridge/worker/supply.h"
#include "shm-device/queue/sync.h"
#include "shm-device/queue/wait.h"
#include "shm-device/region/status.h"

namespace barcuda {
namespace {

// How eagerly the worker looks for the next command. A client that has just sent something, or that waits for the GPU,
// will send more as soon as it can. After some milliseconds without commands the worker sleeps until the client kicks.
// (It still looks twice a second.) While the GPU works it looks for fences, because no other process tells the client
// about them.
Pace pace(bool gpu_works) {
    cpu_set_t cores;
    static const bool few = sched_getaffinity(0, sizeof cores, &cores) != 0 || CPU_COUNT(&cores) <= 2;
    const std::uint32_t spin = few ? 20 : 200;
    if (gpu_works) return {.spin = spin, .yield = 20'000, .nap_min = 50, .nap_max = 100, .ask = 500, .absence = 1'000};
    return {
        .spin = spin, .yield = 2'000, .nap_min = 50, .nap_max = 1'600, .sleep = 500'000, .ask = 500, .absence = 1'000};
}

// The last resort of the idle worker: it sleeps until its client kicks.
struct Kicked : Os {
    ChannelReader* reader;
    Session* session;
    const Hold* hold;
    Residence* residence;
    void sleep(std::uint64_t nanoseconds) const {
        if (!hold->driver_waits()) {
            session->rest();
            if (residence && session->deferred().check_idle()) residence->rest();
        }
        reader->sleep(nanoseconds);
    }
};

struct CommandMark {  // while a command is processed
    CommandMark(Sheet& sheet, std::uint32_t op) : sheet(sheet) { publish(sheet.command, op); }
    ~CommandMark() { publish(sheet.command, Sheet::nothing); }
    Sheet& sheet;
};

// The stages of a worker's loop. A stage that ends the session returns the worker's exit status.
class ServeLoop {
  public:
    ServeLoop(ChannelReader& reader, Session& session, Supply& supply, barcuda_status& status, Sheet& sheet,
              Leave& leave, Residence* residence)
        : reader_(reader),
          session_(session),
          supply_(supply),
          status_(status),
          sheet_(sheet),
          hold_(session, sheet, residence),
          leave_(leave),
          residence_(residence) {}

    // Takes a command, if there is one and the worker may take it now; or the one that lacked memory before.
    std::optional<ChannelReader::Command> take() {
        const bool stopped = is_stopped();
        if (stopped && hold_.state() != Paused::held && residence_ && residence_->state() == Residence::State::away) {
            if (!lacking_) lacking_ = reader_.next();
            if (lacking_) residence_->call_for_return();
        }
        // As when a driver's own queue is full: all threads of the client wait until the GPU has done enough.
        full_ = !stopped && !lacking_ && session_.must_wait();
        if (stopped || full_) return {};
        const bool again = lacking_.has_value();
        const auto command = again ? std::exchange(lacking_, {}) : reader_.next();
        if (!command) return {};
        if (residence_ && !residence_->begin()) {
            lacking_ = command;
            return {};
        }
        if (again && begun_) return command;
        begun_ = true;
        add(sheet_.counts.commands, 1);
        if (++taken_ % 64 == 0) {  // one thread may sleep for a fence while others post
            session_.fences().collect();
            session_.note_given();
            if (goes_ahead()) (void)leave_.look_ahead();
        }
        return command;
    }

    // Executes the command (execute.cc), and answers it.
    std::optional<int> handle(const ChannelReader::Command& command) {
        waiter_.reset();
        // A client may have opened its channel when another bridge served this region.
        if (taken_ == 1 && reader_.rows_hash() != session_.client_rows().hash()) {
            log::error("the client's numbers of commands are those of another bridge");
            end_session(status_, BARCUDA_STATE_REFUSED, CUDA_ERROR_DEVICE_UNAVAILABLE,
                        "the bridge was replaced by one of another version while this program started; start it again");
            return 1;
        }
        const std::uint32_t op = session_.client_rows().ours(command.head.op);
        const trace::Slice slice(op < op_names.size() ? op_names[op] : "unknown");
        const CommandMark entry(sheet_, op);
        Writer reply(reader_.reply_room(command));
        if (supply_.adopt()) [[unlikely]]  // this command may name the new extent
            if (CUresult r = session_.contexts().register_extents(); r != CUDA_SUCCESS)
                session_.fences().post_failure(op, r);
        const Recording::Call call(session_.recording(), command.call);
        const Verdict verdict = ClientRows::lacks(op) ? lack(op, command.wants_reply())
                                                      : barcuda::perform(session_, {op, command.head.context},
                                                                         command.body, command.wants_reply(), reply);
        if (residence_ && !verdict.lie && residence_->end(verdict.result)) {
            lacking_ = command;
            return {};
        }
        begun_ = false;
        if (verdict.lie) {
            const std::string name = op == ClientRows::unknown ? fmt::format("command {}", command.head.op)
                                                               : session_.client_rows().name(op);
            return refuse(" in " + name, "the bridge refused a malformed " + name);
        }
        reader_.answer(command, verdict.result, verdict.ok() ? reply.used() : 0);
        return {};
    }

    // There is no command, or the worker must not take one.
    std::optional<int> idle() {
        const bool driver_waits = hold_.driver_waits();
        if (!driver_waits) session_.launches().flush();
        reader_.flush();
        if (residence_ && residence_->state() == Residence::State::lost) return lose(residence_->loss());
        if (const std::string& lie = reader_.lie(); !lie.empty())
            return refuse(": " + lie, "the bridge refused a malformed command: " + lie);
        if (dismissed) {
            if (!driver_waits) session_.deferred().reap();
            return 0;
        }
        if (supply_.asked() && !leave_.rests()) {
            if (!driver_waits) session_.deferred().reap();  // after everything that was released before
            supply_.serve();
            waiter_.reset();
            return {};
        }
        if (driver_waits) expect(false);
        else rest();
        if (goes_ahead() && leave_.look_ahead()) Os::nap(50'000);
        else waiter_->turn();
        return {};
    }

  private:
    // Whether something of a client that runs may be passed on ahead now: its memory is on the GPU.
    bool goes_ahead() const {
        return hold_.state() == Paused::running && (!residence_ || residence_->state() == Residence::State::resident);
    }
    bool is_stopped() {
        if (!hold_.stops()) {
            if (std::exchange(was_held_, false)) [[unlikely]]
                leave_.go_on();
            return residence_ && residence_->stops();
        }
        if (residence_ && hold_.state() != Paused::running && hold_.state() != Paused::holding)
            residence_->ask_nothing();
        was_held_ = was_held_ || hold_.state() == Paused::held;
        if (hold_.state() == Paused::held) {
            if (lacking_) {
                reader_.put_back(*std::exchange(lacking_, {}));
                begun_ = false;
            }
            leave_.look();
        }
        if (residence_ && hold_.state() == Paused::held && !leave_.rests()) residence_->obey();
        return true;
    }
    void rest() {
        // Where clients take turns, it counts when the GPU had done their work.
        const bool spins = (!waiter_ || waiter_->is_spinning()) && !session_.turns();
        const bool fenced = spins ? session_.fences().collect_for_somebody() : session_.fences().collect();
        session_.note_given();
        const bool gpu_works = fenced || session_.deferred().pending() || full_ || hold_.waits_for_work() ||
                               (residence_ && residence_->waits());
        expect(gpu_works);
        const bool asks = (gpu_works || session_.turns()) && waiter_->should_ask();
        if (gpu_works && asks) {
            session_.fences().watch();
            session_.deferred().reap();
        }
        if (session_.turns()) session_.turns()->rest(asks);
    }
    // Sets how soon the next look comes.
    void expect(bool gpu_works) {
        if (!waiter_ || gpu_works != gpu_worked_)
            waiter_.emplace(pace(gpu_works), Kicked{{}, &reader_, &session_, &hold_, residence_});
        gpu_worked_ = gpu_works;
    }
    // The client's memory has not come back from the store, so no command can run.
    int lose(CUresult why) {
        const std::string reason =
            fmt::format("the GPU does not take back the memory that it gave to others while this program was idle: {}",
                        session_.driver().error_name(why));
        log::error("{}", reason);
        end_session(status_, BARCUDA_STATE_DEAD, why, (reason + "; start the program again").c_str());
        return 1;
    }
    // A row of the build to which the client has connected, and which it had not used when another build woke it.
    Verdict lack(std::uint32_t op, bool answered) {
        if (told_.insert(op).second)
            log::error("the program calls {}, which barcuda {} does not have", session_.client_rows().name(op),
                       BARCUDA_VERSION);
        if (!answered) session_.fences().post_failure(op, CUDA_ERROR_NOT_SUPPORTED);
        return not_supported;
    }
    int refuse(const std::string& what, const std::string& told) {
        log::error("the client broke the protocol{}", what);
        end_session(status_, BARCUDA_STATE_REFUSED, CUDA_ERROR_DEVICE_UNAVAILABLE, told.c_str());
        return 1;
    }

    ChannelReader& reader_;
    Session& session_;
    Supply& supply_;
    barcuda_status& status_;
    Sheet& sheet_;
    Hold hold_;
    Leave& leave_;
    Residence* const residence_;  // null: the client shares no cards
    // Was taken, and waits for memory or for the client's return. A client that is held has none.
    std::optional<ChannelReader::Command> lacking_;
    bool was_held_ = false;  // the bridge may have ordered it to leave
    bool begun_ = false;     // that one has been performed, in vain
    bool full_ = false, gpu_worked_ = false;
    std::uint64_t taken_ = 0;       // commands
    std::set<std::uint32_t> told_;  // rows that this build lacks
    std::optional<Waiter<Kicked>> waiter_;
};

}  // namespace

int serve(ChannelReader& reader, Session& session, Supply& supply, barcuda_status& status, Sheet& sheet, Leave& leave,
          Residence* residence) {
    for (ServeLoop loop(reader, session, supply, status, sheet, leave, residence);;) {
        const auto command = loop.take();
        if (const std::optional<int> ended = command ? loop.handle(*command) : loop.idle()) return *ended;
    }
}

}  // namespace barcuda
