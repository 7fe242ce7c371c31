// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/suspended/conveyed.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

#include "base/os/thread.h"
#include "host-bridge/suspended/crew.h"

namespace barcuda {

static_assert(Conveyor::slot_bytes == frame_bytes);

Failure pack_conveyor(const Conveyor& from, std::uint64_t most, FrameWriter& to) {
    constexpr const char* ended = "its worker has ended, does not answer, or sent less memory than it should";
    constexpr std::uint32_t smallest = 64 << 10;  // what a frame costs in tables, however short it is
    Conveyor::Word word;
    for (std::uint64_t bytes = 0; from.hear(word);) {
        if (word.slot == Conveyor::Word::end) return {};
        if (word.bytes == 0) return ended;
        bytes += std::max(word.bytes, smallest);
        if (bytes > most) return "its worker writes more than a client can have";
        const auto get = [&from, word](std::span<std::byte> room, std::span<const std::byte>& its) -> Failure {
            its = room;
            std::memcpy(room.data(), from.slot(word.slot).data(), word.bytes);
            (void)from.say({word.slot, 0});  // a filler that has said the end may have gone
            return {};
        };
        if (Failure failure = to.add_frame(word.bytes, {.get = get})) return failure;
    }
    return ended;
}

Failure feed_conveyor(const FrameReader& from, const Conveyor& to) {
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<std::size_t> freed(to.slots());  // how often
    bool gone = false;
    const os::SignalsBlocked blocked;
    const std::jthread hears([&] {
        for (Conveyor::Word word; to.hear(word) && word.slot < freed.size() && word.bytes == 0;) {
            const std::lock_guard lock(mutex);
            ++freed[word.slot];
            changed.notify_all();
        }
        const std::lock_guard lock(mutex);
        gone = true;
        changed.notify_all();
    });
    Failure failure = in_threads(from.count(), Crew::threads(), [&](std::size_t frame) -> Failure {
        const std::size_t slot = frame % to.slots();
        {
            std::unique_lock lock(mutex);
            changed.wait(lock, [&] { return gone || freed[slot] >= frame / to.slots(); });
            if (gone) return "its worker has gone";
        }
        if (Failure f = from.read(frame, to.slot(slot).first(from.size(frame)))) return f;
        const bool heard = to.say({static_cast<std::uint32_t>(slot), static_cast<std::uint32_t>(from.size(frame))});
        return heard ? Failure() : Failure("its worker has gone");
    });
    if (!failure) (void)to.say({});
    else to.close();
    return failure;
}

}  // namespace barcuda
