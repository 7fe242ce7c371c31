// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/worker/serve.h"

#include <sched.h>

#include <optional>

#include "base/log.h"
#include "base/trace.h"
#include "host-bridge/between/link.h"
#include "host-bridge/worker/channel.h"
#include "host-bridge/worker/execute.h"
#include "host-bridge/worker/supply.h"
#include "shm-device/queue/sync.h"
#include "shm-device/queue/wait.h"
#include "shm-device/region/status.h"
#include "shm-device/rows/identity.h"

namespace barcuda {
namespace {

// How eagerly the worker looks for the next command. A client that has just sent something, or that waits for the GPU,
// will send more as soon as it can; for one that has been silent for some milliseconds it sleeps, until the client
// kicks. (Twice a second it looks all the same.) While the GPU works it looks for fences, which nobody else tells the
// client of.
Pace pace(bool gpu_works) {
    cpu_set_t cores;
    static const bool few = sched_getaffinity(0, sizeof cores, &cores) != 0 || CPU_COUNT(&cores) <= 2;
    if (gpu_works) return {.spin = few ? 20u : 200u, .yield = 20'000, .nap_min = 50, .nap_max = 100, .ask = 500};
    return {.spin = few ? 20u : 200u, .yield = 2'000, .nap_min = 50, .nap_max = 1'600, .sleep = 500'000, .ask = 500};
}

// The idle worker's last resort: its client kicks it.
struct Kicked : Os {
    ChannelReader* reader;
    Session* session;
    void sleep(std::uint64_t nanoseconds) const { session->rest(), reader->sleep(nanoseconds); }
};

struct Entry {  // while a command is done
    Entry(Sheet& sheet, std::uint32_t op) : sheet(sheet) { publish(sheet.command, op); }
    ~Entry() { publish(sheet.command, Sheet::nothing); }
    Sheet& sheet;
};

}  // namespace

int serve(ChannelReader& reader, Session& session, Supply& supply, barcuda_status& status, Sheet& sheet) {
    bool gpu_worked = false;
    std::uint64_t taken = 0;  // commands
    for (std::optional<Waiter<Kicked>> waiter;;) {
        // As where a driver's own queue is full, other threads of the client are served when the GPU has done enough.
        const bool full = session.must_wait();
        const auto command = full ? std::nullopt : reader.next();
        if (command) add(sheet.counts.commands, 1);
        if (command && ++taken % 64 == 0)  // one thread may sleep for a fence while others post
            session.fences().collect(), session.note_given();

        if (!command) {
            session.launches().flush();
            reader.flush();
            if (!reader.lie().empty()) {
                log::error("the client broke the protocol: {}", reader.lie());
                end_session(status, BARCUDA_STATE_REFUSED, CUDA_ERROR_DEVICE_UNAVAILABLE,
                            ("the bridge refused a malformed command: " + reader.lie()).c_str());
                return 1;
            }
            if (dismissed) return session.deferred().reap(), 0;
            if (supply.asked()) {  // behind all that was released before
                session.deferred().reap();
                supply.serve();
                waiter.reset();
                continue;
            }
            const bool fenced = session.fences().collect();
            session.note_given();
            const bool gpu_works = fenced || session.deferred().pending() || full;
            if (!waiter || gpu_works != gpu_worked) waiter.emplace(pace(gpu_works), Kicked{{}, &reader, &session});
            gpu_worked = gpu_works;
            const bool asks = (gpu_works || session.turns()) && waiter->should_ask();
            if (gpu_works && asks) session.fences().watch(), session.deferred().reap();
            if (session.turns()) session.turns()->rest(asks);
            waiter->turn();
            continue;
        }
        waiter.reset();
        // A client may have opened its channel before this bridge took the region over from another one.
        if (taken == 1 && reader.rows_hash() != rows_hash(identities)) {
            log::error("the client numbers its commands as another bridge does");
            end_session(status, BARCUDA_STATE_REFUSED, CUDA_ERROR_DEVICE_UNAVAILABLE,
                        "the bridge was replaced by one of another version while this program started; start it again");
            return 1;
        }
        const std::uint32_t op = command->head.op;
        const trace::Slice slice(op < op_names.size() ? op_names[op] : "unknown");
        const Entry entry(sheet, op);
        Writer reply(reader.reply_room(*command));
        if (supply.adopt()) [[unlikely]]  // this command may name the new extent
            if (CUresult r = session.contexts().register_extents(); r != CUDA_SUCCESS)
                session.fences().post_failure(op, r);
        const Verdict verdict = perform(session, command->head, command->body, command->wants_reply(), reply);
        if (verdict.lie) {
            const std::string what = command->head.op < op_names.size() ? std::string(op_names[command->head.op])
                                                                        : "command " + std::to_string(command->head.op);
            log::error("the client broke the protocol in {}", what);
            end_session(status, BARCUDA_STATE_REFUSED, CUDA_ERROR_DEVICE_UNAVAILABLE,
                        ("the bridge refused a malformed " + what).c_str());
            return 1;
        }
        reader.answer(*command, verdict.result, verdict.ok() ? reply.used() : 0);
    }
}

}  // namespace barcuda
