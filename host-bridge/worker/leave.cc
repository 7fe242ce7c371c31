// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/worker/leave.h"

#include <fmt/core.h>

#include <cerrno>
#include <cstring>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/log.h"
#include "host-bridge/worker/array_bytes.h"
#include "host-bridge/worker/carried_format.h"
#include "host-bridge/worker/client_copies.h"
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
    if (order == seen_ || session_.print_search().looks()) return;  // a thread looks through code yet
    seen_ = order;
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
    link_.go_on();
    supply_.begin();
}

Hindrance Leave::check() {
    Hindrance all;
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
    if (!failure) {
        const CopyRoom room(session_.driver());
        if (room.all().empty()) return {"its worker has no memory for the copies", try_again};
        ClientCopies copies(session_);
        const auto write_memory = writer(Which::memory, place_.memory);
        failure = save_memory(session_.births().memory(), copies, room.all(), write_memory);
        if (!failure) failure = save_arrays(session_, room.all(), write_memory);
    }
    return {failure.text(), ""};
}

}  // namespace barcuda
