// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/worker/replay.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include "base/content_hash.h"
#include "host-bridge/worker/execute.h"
#include "host-bridge/worker/memory/layer.h"
#include "host-bridge/worker/memory/residence.h"
#include "shm-device/queue/wait.h"

namespace barcuda {
namespace {

std::string_view name_of(Op op) { return op_names[static_cast<std::size_t>(op)]; }

// The driver knows whether an event was recorded: only then can the time between the event and itself be asked for.
bool was_recorded(Session& session, CUevent event) {
    float milliseconds = 0;
    const Driver& driver = session.driver();
    return driver.cuEventElapsedTime_v2 && driver.cuEventElapsedTime_v2(&milliseconds, event, event) == CUDA_SUCCESS;
}

class Replay {
  public:
    explicit Replay(Session& session) : session_(session), births_(session.births()) {}

    Failure command(const Birth& birth) {
        if (birth.code)
            if (Failure failure = send_code(*birth.code)) return in(birth, failure.text());
        if (birth.op == Op::load_module || birth.op == Op::load_library) unload_all_but(birth.unloaded);
        Writer reply(room_);
        Verdict verdict;
        if (Failure failure = execute(birth, reply, verdict)) return in(birth, failure.text());
        if (verdict.lie) return in(birth, "it is malformed");
        if (!verdict.ok()) return in(birth, "the driver says " + session_.driver().error_name(verdict.result));
        if (Failure failure = compare(birth, std::span(room_).first(reply.used()))) return failure;
        // What is deferred would serve the next allocation, at another address.
        if (rule_of(birth.op).carry == Carry::ends && !births_.captures()) session_.deferred().reap(true);
        return {};
    }

    Failure ids(const Session::State& before) {
        Session::State state = before;
        const Handles::State now = session_.handles().state();
        const auto by_id = [](const Handles::State::Object& o) { return o.id; };
        for (Handles::State::Object& object : state.handles.objects) {
            const auto its = std::ranges::find(now.objects, object.id, by_id);
            if (its == now.objects.end()) return fmt::format("object {:#x} was not made again", object.id);
            object.raw = its->raw;
            if (*its != object) return fmt::format("object {:#x} differs from what it was", object.id);
        }
        for (const Handles::State::Object& object : now.objects)
            if (std::ranges::find(before.handles.objects, object.id, by_id) == before.handles.objects.end())
                return fmt::format("object {:#x} was made, and was not there before", object.id);
        return session_.restore(state) ? Failure() : Failure("the numbers of its objects contradict each other");
    }

    Failure record(std::uint64_t id, std::uint32_t context) {
        const std::array<std::uint64_t, 3> body{id, 0, 0};  // cuEventRecordWithFlags: event, stream, flags
        Writer reply(room_);
        const Verdict verdict = perform(session_, {static_cast<std::uint32_t>(Op::cuEventRecordWithFlags), context},
                                        std::as_bytes(std::span(body)), true, reply);
        return verdict.ok() ? Failure() : Failure(fmt::format("event {:#x} cannot be recorded again", id));
    }

    // A driver loads a function's code at its first launch. Launches outside of captures do not come again, and in a
    // capture NVIDIA's driver does not load: it ends the capture. What no capture launches stays as it was, since
    // loaded code moves the variables of what is loaded later.
    void load_what_is_launched(std::span<const Birth> capture) {
        const std::uint64_t stream = first_of(capture.front());
        for (const Birth& birth : capture) {
            if (birth.op == Op::cuStreamEndCapture && first_of(birth) == stream) return;
            if (birth.op == Op::try_launch) load(birth);
        }
    }

    // Code that was unloaded stays until the driver released it then: between which loads, each of these says.
    void unload_all_but(std::size_t last) {
        session_.deferred().keep_unloaded(last);
        if (!births_.captures()) session_.deferred().reap(true);
        session_.deferred().keep_unloaded(all);
    }

  private:
    static constexpr std::size_t all = ~std::size_t{0};

    // The packet's first parameter: a function, or a stream.
    static std::uint64_t first_of(const Birth& birth) {
        std::uint64_t first = 0;
        if (birth.body.size() >= sizeof first) std::memcpy(&first, birth.body.data(), sizeof first);
        return first;
    }
    // In the context of the launch: a kernel's function is another one in each.
    void load(const Birth& launch) {
        if (!session_.enter(launch.context, false).ok()) return;
        const std::uint64_t id = first_of(launch);
        const Driver& driver = session_.driver();
        CUfunction function = nullptr;
        CUkernel kernel = nullptr;
        if (session_.handles().find(id, kernel)) {
            if (!driver.cuKernelGetFunction || driver.cuKernelGetFunction(&function, kernel) != CUDA_SUCCESS) return;
        } else if (!session_.handles().find(id, function)) {
            return;
        }
        if (driver.cuFuncLoad) driver.cuFuncLoad(function);
    }
    static Failure in(const Birth& birth, std::string_view what) {
        std::string made;
        if (!birth.made.empty()) made = ", which made " + text_of(birth.made.front().thing);
        return fmt::format("{}{}, cannot be repeated: {}", name_of(birth.op), made, what);
    }
    // A client that shares cards may have to wait for its memory, as any command does (serve.cc).
    Failure execute(const Birth& birth, Writer& reply, Verdict& verdict) {
        const bool allocates = birth.op == Op::cuMemAlloc_v2 || birth.op == Op::cuMemAllocPitch_v2;
        const Writer empty = reply;
        for (;;) {
            if (Failure failure = wait_for_memory(session_.driver())) return failure;
            births_.expect(birth.names);
            if (allocates && !birth.made.empty()) place_next(birth.made.front().thing.name);
            reply = empty;
            verdict = perform(session_, {static_cast<std::uint32_t>(birth.op), birth.context}, birth.body, true, reply);
            place_next(0);
            if (verdict.lie || !residence() || !residence()->end(verdict.result)) return {};
        }
    }
    Failure send_code(const CodeStore::Image& image) {
        const auto bytes = image.map();
        if (!bytes) return "its code cannot be read";
        if (content_hash({bytes.get(), image.bytes}) != image.hash) return "its code is not what it was";
        return session_.code().add_part(0, bytes.get(), image.bytes) ? Failure()
                                                                     : Failure("there is no memory for its code");
    }
    Failure compare(const Birth& birth, std::span<const std::byte> answer) const {
        const Birth* const now = births_.last();
        if (birth.made.empty() && rule_of(birth.op).carry == Carry::nothing) return {};
        if (!now || now->op != birth.op) return in(birth, "it changes nothing this time");
        for (std::size_t i = 0; i < birth.made.size(); ++i) {
            if (i == now->made.size()) return in(birth, "it makes fewer objects than before");
            if (now->made[i] == birth.made[i]) continue;
            return in(birth,
                      fmt::format("it makes {} ({} bytes) in place of {} ({} bytes)", text_of(now->made[i].thing),
                                  now->made[i].bytes, text_of(birth.made[i].thing), birth.made[i].bytes));
        }
        if (now->names != birth.names) return in(birth, "its objects get other ids");
        if (birth.answer != 0 && birth.answer != content_hash(answer)) return in(birth, "its answer differs");
        return {};
    }

    Session& session_;
    Births& births_;
    std::vector<std::byte> room_ = std::vector<std::byte>(1 << 20);  // of a reply, as in a channel
};

}  // namespace

Carried carry(Session& session) {
    session.forget_ended_objects();
    Carried all;
    all.rows = session.client_rows().state();
    all.births = session.births().needed();
    all.state = session.state();
    const Contexts::Visit visit(session.contexts());
    for (const Handles::State::Object& object : all.state.handles.objects) {
        CUevent event = nullptr;
        CUcontext context = nullptr;
        if (!session.handles().find(object.id, event)) continue;
        if (session.handles().find(object.context, context)) session.contexts().switch_to(context);
        if (was_recorded(session, event)) all.recorded_events.push_back(object.id);
    }
    return all;
}

Failure wait_for_memory(const Driver& driver) {
    Residence* const cards = residence();
    while (cards && (cards->stops() || !cards->begin())) {
        if (cards->state() == Residence::State::lost)
            return "the GPU does not take back the memory that it gave to others meanwhile: " +
                   driver.error_name(cards->loss());
        Os::nap(200'000);
    }
    return {};
}

Failure replay(Session& session, const Carried& carried) {
    Replay replay(session);
    session.client_rows().restore(carried.rows);
    session.deferred().keep_unloaded(~std::size_t{0});
    for (std::size_t i = 0; i < carried.births.size(); ++i) {
        const Birth& birth = carried.births[i];
        if (birth.op == Op::cuStreamBeginCapture_v2 || birth.op == Op::cuStreamBeginCaptureToGraph)
            replay.load_what_is_launched(std::span(carried.births).subspan(i));
        if (Failure failure = replay.command(birth)) return failure;
    }
    session.births().replayed();
    for (const std::uint64_t event : carried.recorded_events) {
        const auto its = std::ranges::find(carried.state.handles.objects, event,
                                           [](const Handles::State::Object& o) { return o.id; });
        const std::uint64_t context = its == carried.state.handles.objects.end() ? 0 : its->context;
        if (Failure failure = replay.record(event, static_cast<std::uint32_t>(context))) return failure;
    }
    session.deferred().keep_unloaded(0);
    session.deferred().reap(true);
    return replay.ids(carried.state);
}

}  // namespace barcuda
