// SPDX-License-Identifier: Apache-2.0
// extents.cc: which parts of the region a client gets, and which its worker may map: its channel and its extents. The
// kernel asks here before each mapping (cage/mapper.h). The bridge's own records (grants.h) say what was granted.
#include <cuda.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "base/log.h"
#include "host-bridge/bridge/bridge.h"
#include "host-bridge/cage/mapper.h"

namespace barcuda {

// A region is sparse: memory is there when somebody touches it, and where there is none left he is killed. So what the file
// system has no room for is refused, as if the region were full. (Others may be quicker; but a GPU's driver, which pins
// extents, takes them at once.)
Grants::Run Bridge::grant(std::uint32_t channel, std::uint64_t bytes) {
    const Grants::Run run = grants_->grant(channel, bytes, room_of(channel), [this] { return has_time(); });
    if (run.bytes == 0 || has_room(run.bytes)) return run;
    grants_->release(channel, run);
    return {};
}

// The extents that a client asks for first. They are taken only where there is plenty.
Grants::Run Bridge::reserve(std::uint64_t bytes) {
    constexpr std::uint64_t plenty = 8;
    if (!may_reserve(Preparation::most * bytes) || grants_->free() / plenty < bytes) return {};
    const Grants::Run run = grants_->reserve(bytes, [this] { return has_time(); });
    if (run.bytes == 0 || has_room(plenty * run.bytes)) return run;
    grants_->release(run);
    return {};
}

// For emptying what others have left. The first in a turn of the loop may have as long as it takes.
bool Bridge::has_time() {
    if (!short_of_time_) short_of_time_ = std::chrono::steady_clock::now() > time_ends_;
    return !short_of_time_;
}

// Clients whose memory must be emptied first, or is still held by workers that are leaving: by turns, so that none waits for all that
// another wants.
void Bridge::answer_asked() {
    const std::size_t count = clients_.size();
    for (std::size_t i = 0, from = next_asked_; i < count && !short_of_time_; ++i) {
        auto& client = clients_[(from + i) % count];
        if (!client || !client->asked) continue;
        next_asked_ = (from + i + 1) % count;
        answer_asked(*client);
    }
}

void Bridge::answer_asked(Client& client) {
    const std::uint32_t channel = client.channel.index;
    const std::uint64_t bytes = client.asked->bytes();
    const Grants::Run run = grant(channel, bytes);
    if (run.bytes == 0) {
        const Asked::Facts facts{grants_->fits_without_reserves(channel, bytes, room_of(channel)), short_of_time_,
                                 pool_.reserves(), pool_.leaving_reserves()};
        switch (client.asked->next(facts, std::chrono::steady_clock::now())) {
            case Asked::Step::wait: return;
            case Asked::Step::end_reserves: return pool_.drop_reserves();
            case Asked::Step::refuse: break;
        }
    }
    client.asked.reset();
    answer(client, Answer<request::Grant>{.error = run.bytes ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY,
                                          .reply = {run.offset, run.bytes}});
}

bool Bridge::has_room(std::uint64_t bytes) const {
    struct statvfs there;  // of no blocks at all: a file system without a limit
    return !S_ISREG(mode_) || fstatvfs(region_.fd(), &there) != 0 || there.f_blocks == 0 ||
           bytes <= std::uint64_t{there.f_bavail} * there.f_frsize;
}

// What its worker has prepared is its client's, and mapped already.
void Bridge::hand_over(Client& client) {
    const std::uint32_t channel = client.channel.index;
    for (const Grants::Run& run : std::exchange(client.worker->reserved, {})) {
        grants_->hand_over(run, channel);
        if (cage_.order.has(cage::Measure::extents)) grants_->let_map(channel, run);
    }
}

void Bridge::meet_mapper(Client& client, File listener) {
    std::vector<int> others;
    for (const auto& other : clients_)
        if (other && other.get() != &client && other->worker && other->worker->mapper().fd() >= 0)
            others.push_back(other->worker->mapper().fd());
    if (const char* why = client.worker->mapper().meet(std::move(listener), others)) end_worker(client, why);
}

void Bridge::answer_mapper(Client& client, short events) {
    const Channel& channel = client.channel;
    const auto may = [&](std::uint64_t offset, std::uint64_t bytes) {
        if ((offset == channel.offset && bytes == BARCUDA_CHANNEL_SIZE) ||
            grants_->let_map(channel.index, {offset, bytes}))
            return true;
        if (!std::exchange(client.refused, true))
            log::error("channel {}: its worker asks for what is not its client's: {:#x} bytes of the region at {:#x}",
                       channel.index, bytes, offset);
        return false;
    };
    client.worker->mapper().answer(events, region_.shape().base, may);
}

// A worker gets no part of the region by any other door, and no say in limits. That holds for another bridge's, too.
bool Bridge::is_worker(const Visitor& visitor) const {
    if (visitor.pid == exporting_.pid()) return false;
    bool ours = false;
    each_worker([&](const WorkerProcess& w) { ours |= w.pid() == visitor.pid; });
    return ours || (cage_.order.has(cage::Measure::user) && visitor.user == cage_.order.user) || is_a_bridges(visitor);
}

}  // namespace barcuda
