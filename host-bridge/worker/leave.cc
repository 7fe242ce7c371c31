// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/worker/leave.h"

#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/log.h"
#include "host-bridge/worker/array_bytes.h"
#include "host-bridge/worker/carried_format.h"
#include "host-bridge/worker/client_copies.h"
#include "host-bridge/worker/hold.h"
#include "host-bridge/worker/memory_bytes.h"
#include "host-bridge/worker/session_state.h"
#include "shm-device/queue/sync.h"

namespace barcuda {
namespace {

using carrying::Wanted;
using carrying::Which;

constexpr const char* try_again = "try again";

template <std::size_t N> void put(char (&there)[N], const std::string& text) {
    std::memset(there, 0, N);
    text.copy(there, N - 1);
}

}  // namespace

Failure write_all(const File& to, std::span<const std::byte> bytes, std::string_view what) {
    const int error = write_all(to.fd(), bytes);
    return error == 0 ? Failure() : fmt::format("its {} cannot be written: {}", what, strerror(error));
}

Failure read_all(const File& from, std::span<std::byte> bytes, std::string_view what) {
    const int error = read_all(from.fd(), bytes);
    if (error == ENODATA) return fmt::format("its {} ends too early", what);
    return error == 0 ? Failure() : fmt::format("its {} cannot be read: {}", what, strerror(error));
}

void answer(CarryPlace& place, std::uint32_t order, const Hindrance& hindrance) {
    put(place.what, hindrance.what);
    put(place.cure, hindrance.cure);
    publish(place.able, hindrance.what.empty() ? 1u : 0u);
    publish(place.done, order);
}

void Leave::look() {
    const std::uint32_t order = observe(place_.order);
    ahead_.reset();
    if (order == seen_ || session_.print_search().looks()) return;  // a thread looks through code yet
    seen_ = order;
    if (place_.wanted == Wanted::ahead) {
        BridgeLink::Parts dropped;  // the reader hears that nothing comes
        (void)link_.take_ahead(dropped);
        return answer(place_, order, {"the client is held", ""});
    }
    if (place_.wanted == Wanted::nothing) return answer(place_, order, {"the order was taken back", ""});
    rests_ = true;
    BridgeLink::Parts parts;
    const bool all = link_.take(parts, false);
    Hindrance hindrance;
    try {
        switch (place_.wanted) {
            case Wanted::check: hindrance = check(); break;
            case Wanted::write:
                hindrance = all ? write(parts) : Hindrance{"the bridge has handed over too few descriptors", try_again};
                break;
            default: hindrance = {"its worker does not know this order", ""};
        }
    } catch (const std::bad_alloc&) {  // the limit worker-memory
        hindrance = {"its worker has no memory to write it down", "a larger limit worker-memory"};
    }
    log::debug("carrying: {}", hindrance.what.empty() ? "done" : hindrance.what);
    answer(place_, order, hindrance);
}

void Leave::go_on() {
    rests_ = false;
    link_.go_on(observe(place_.order));
    supply_.begin();
}

Hindrance Leave::check() {
    Hindrance all;
    reader_.flush();
    for (const auto& [what, cure] : hindrances(session_)) {
        all.what += (all.what.empty() ? "" : "; ") + what;
        if (all.cure.find(cure) == std::string::npos) all.cure += (all.cure.empty() ? "" : "; ") + cure;
    }
    return all;
}

Hindrance Leave::write(BridgeLink::Parts& parts) {
    if (Hindrance hindrance = check(); !hindrance.what.empty()) return hindrance;
    const auto state = take_state(reader_, supply_, session_);
    if (!state) return {"a command of it, or a function of the program, is under way", try_again};
    Carried all = carry(session_);
    all.queue = state->queue;
    all.supply = state->supply;
    all.extents = session_.extents().all();
    // A reader may read one part to its end before the next.
    const auto part = [&](Which which) -> File& { return parts[static_cast<std::size_t>(which)]; };
    const auto close = [&](Which which) { part(which) = File(); };
    const auto writer = [&](Which which, std::uint64_t& count) {
        return [&, which](std::span<const std::byte> bytes) {
            Failure failure = write_all(part(which), bytes, carrying::name_of(which));
            publish(count, count + bytes.size());
            return failure;
        };
    };
    for (std::uint64_t* const count : {&place_.births, &place_.code, &place_.memory}) publish(*count, std::uint64_t{0});
    Failure failure = writer(Which::births, place_.births)(written(all));
    close(Which::births);
    const auto write_code = writer(Which::code, place_.code);
    for (const CodeStore::Ref& image : code_of(all)) {
        if (failure) break;
        const auto bytes = image->map();
        failure = bytes ? write_code({bytes.get(), image->bytes}) : Failure("its code cannot be read");
    }
    close(Which::code);
    if (!failure) failure = write_memory(parts);
    return {failure.text(), ""};
}

// ---- ahead

struct Leave::Ahead {
    explicit Ahead(Session& of) : session(of) {}
    Session& session;
    Conveyor conveyor;
    std::optional<CopyRoom> room;
    std::optional<OutFrames> to;
    // What comes next: code, then memory.
    std::vector<CodeStore::Ref> code;
    std::size_t image = 0;
    std::uint64_t of_image = 0;  // bytes that are done
    Contents memory{0, 0};       // the name of the current memory, and its bytes that are done
    bool done = false;

    // Each copy is waited for before its frame is passed on.
    static CopyBatches no_batches() {
        const auto nothing = [] { return CUDA_SUCCESS; };
        return {nothing, nothing};
    }
    Failure some_code() {
        std::uint64_t left = 0;
        for (std::size_t i = image; i < code.size(); ++i) left += code[i]->bytes;
        left = std::min<std::uint64_t>(left - of_image, Conveyor::slot_bytes);
        std::byte* at = nullptr;
        if (Failure failure = to->place(left, at)) return failure;
        while (left != 0) {
            const auto bytes = code[image]->map();
            if (!bytes) return "its code cannot be read";
            const auto here = std::min<std::uint64_t>(left, code[image]->bytes - of_image);
            std::memcpy(at, bytes.get() + of_image, here);
            at += here;
            left -= here;
            of_image += here;
            if (of_image < code[image]->bytes) break;
            ++image;
            of_image = 0;
        }
        return to->end_frame();
    }
    // What has ended since is no longer in the list.
    Failure some_memory() {
        constexpr std::size_t at_once = 8;  // frames
        const std::vector<Contents> all = contents_of_memory(session);
        ClientCopies copies(session);
        std::size_t frames = 0;
        for (auto its = std::ranges::lower_bound(all, memory.name, {}, &Contents::name); its != all.end(); ++its) {
            if (its->name != memory.name) memory = {its->name, 0};
            for (; memory.bytes < its->bytes; ++frames) {
                if (frames == at_once || !to->has_room()) return finished(copies);
                const auto bytes = std::min<std::uint64_t>(Conveyor::slot_bytes, its->bytes - memory.bytes);
                std::byte* at = nullptr;
                if (Failure failure = to->place(bytes, at)) return failure;
                // What cannot be copied is no loss here: it is copied when the client is held.
                (void)copies.to_host(at, memory.name + memory.bytes, bytes);
                if (Failure failure = finished(copies)) return failure;
                memory.bytes += bytes;
            }
        }
        done = true;
        if (Failure failure = finished(copies)) return failure;
        return to->finish();
    }
    static Failure finished(ClientCopies& copies) {
        const CUresult r = copies.finish();
        return r == CUDA_SUCCESS ? Failure()
                                 : fmt::format("the driver does not copy memory (error {})", static_cast<int>(r));
    }
};

Leave::Leave(Session& session, ChannelReader& reader, Supply& supply, BridgeLink& link, CarryPlace& place)
    : session_(session),
      reader_(reader),
      supply_(supply),
      link_(link),
      place_(place),
      seen_(observe(place_.order)) {}  // the one to come here, if there was one

Leave::~Leave() = default;

Failure Leave::begin_ahead() {
    BridgeLink::Parts parts;
    if (!link_.take_ahead(parts)) return "the bridge has handed over too few descriptors";
    if (!session_.births().on() || session_.births().lost()) return "its births are not written down";
    ahead_ = std::make_unique<Ahead>(session_);
    const auto part = [&](Which which) -> File& { return parts[static_cast<std::size_t>(which)]; };
    if (Failure failure = ahead_->conveyor.open(std::move(part(Which::memory)), part(Which::room))) return failure;
    ahead_->room.emplace(session_.driver(), ahead_->conveyor.room());
    ahead_->to.emplace(ahead_->conveyor, Ahead::no_batches());
    Carried carried;
    carried.births = session_.births().needed();
    ahead_->code = barcuda::code_of(carried);
    return {};
}

bool Leave::pass_ahead() {
    const std::uint32_t order = observe(place_.order);
    if (order != seen_) {
        if (place_.wanted != Wanted::ahead || captures(session_) || session_.print_search().looks()) return false;
        seen_ = order;
        ahead_.reset();
        if (const Failure failure = begin_ahead()) {
            ahead_.reset();
            answer(place_, order, {failure.text(), ""});
            return false;
        }
    }
    Ahead& its = *ahead_;
    if (captures(session_)) return false;
    if (!its.to->has_room()) {
        if (!its.to->ended()) return true;
        ahead_.reset();
        answer(place_, order, {"the reader has gone", ""});
        return false;
    }
    const Failure failure = its.image < its.code.size() ? its.some_code() : its.some_memory();
    if (!failure && !its.done) return true;
    ahead_.reset();
    answer(place_, order, {failure.text(), ""});
    return false;
}

Failure Leave::write_memory(BridgeLink::Parts& parts) {
    const auto part = [&](Which which) { return std::exchange(parts[static_cast<std::size_t>(which)], {}); };
    Conveyor conveyor;
    if (Failure failure = conveyor.open(part(Which::memory), part(Which::room))) return failure;
    const CopyRoom room(session_.driver(), conveyor.room());
    ClientCopies copies(session_);
    OutFrames to(conveyor, {[&] { return copies.end_batch(); }, [&] { return copies.finish(); }});
    const std::vector<Contents> memory = contents_of_memory(session_);
    Failure failure = save_list(memory, to);
    if (!failure) failure = save_list(contents_of_arrays(session_), to);
    if (!failure) failure = save_memory(memory, copies, to);
    if (!failure) failure = save_arrays(session_, to);
    if (!failure) failure = to.finish();
    publish(place_.memory, to.bytes());
    return failure;
}

}  // namespace barcuda
