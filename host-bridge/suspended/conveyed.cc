// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/suspended/conveyed.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

#include "base/caught.h"
#include "base/os/thread.h"
#include "host-bridge/suspended/crew.h"

namespace barcuda {

namespace {
constexpr const char* too_much = "its worker writes more than a client can have";
}  // namespace

static_assert(Conveyor::slot_bytes == frame_bytes);

Failure pack_conveyor(const Conveyor& from, std::uint64_t most, FrameWriter& to) {
    constexpr const char* ended = "its worker has ended, does not answer, or sent less memory than it should";
    constexpr std::uint32_t smallest = 64 << 10;  // what a frame costs in tables, however short it is
    Conveyor::Word word;
    for (std::uint64_t bytes = 0; from.hear(word);) {
        if (word.slot == Conveyor::Word::end) return {};
        if (word.bytes == 0) return ended;
        bytes += std::max(word.bytes, smallest);
        if (bytes > most) return too_much;
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
    const auto fill = [&](std::size_t frame) -> Failure {
        const std::size_t slot = frame % to.slots();
        {
            std::unique_lock lock(mutex);
            changed.wait(lock, [&] { return gone || freed[slot] >= frame / to.slots(); });
            if (gone) return "its worker has gone";
        }
        if (Failure f = from.read(frame, to.slot(slot).first(from.size(frame)))) return f;
        const bool heard = to.say({static_cast<std::uint32_t>(slot), static_cast<std::uint32_t>(from.size(frame))});
        return heard ? Failure() : Failure("its worker has gone");
    };
    Failure failure = caught([&] { return in_threads(from.count(), Crew::threads(), fill); });
    if (!failure) (void)to.say({});
    else to.close();
    return failure;
}

Failure drain(const File& from, std::uint64_t most, std::chrono::milliseconds within,
              const std::function<Failure(std::span<const std::byte>)>& to) {
    std::vector<std::byte> buffer(1 << 20);
    for (std::uint64_t bytes = 0;;) {
        pollfd p{from.fd(), POLLIN, 0};
        if (poll(&p, 1, static_cast<int>(within.count())) == 0) return "its worker does not answer";
        const ssize_t n = read(from.fd(), buffer.data(), buffer.size());
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return strerror(errno);
        if (n == 0) return {};
        bytes += static_cast<std::uint64_t>(n);
        if (bytes > most) return too_much;
        if (Failure failure = to(std::span(buffer).first(static_cast<std::size_t>(n)))) return failure;
    }
}

}  // namespace barcuda
