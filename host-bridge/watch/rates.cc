// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/watch/rates.h"

namespace barcuda::watch {

Since::Since(const View& before, Clock::time_point then) : then_(then) {
    for (const Bridge& bridge : before.bridges) {
        before_[{bridge.pid, -1, -1}] = bridge.counts;
        for (const Client& c : bridge.rows) before_[{bridge.pid, static_cast<int>(c.channel), c.worker}] = c.counts;
    }
}

Rates Since::rates(const Counts& before, const Counts& now) const {
    const auto a_second = [this](std::uint64_t from, std::uint64_t to) {
        return to > from && seconds_ > 0 ? static_cast<double>(to - from) / seconds_ : 0;
    };
    Rates r;
    r.commands = a_second(before.commands, now.commands);
    r.waits = a_second(before.waits, now.waits);
    r.launches = a_second(before.launches, now.launches) + a_second(before.graph_launches, now.graph_launches);
    for (unsigned way = 0; way < Counts::ways; ++way) {
        r.copies += a_second(before.copies[way], now.copies[way]);
        r.copied[way] = a_second(before.copied[way], now.copied[way]);
    }
    return r;
}

Rates Since::of(const Bridge& bridge) const {
    const auto before = before_.find({bridge.pid, -1, -1});
    return before == before_.end() ? Rates{} : rates(before->second, bridge.counts);
}

Rates Since::of(const Bridge& bridge, const Client& client) const {
    const auto before = before_.find({bridge.pid, static_cast<int>(client.channel), client.worker});
    return before == before_.end() ? Rates{} : rates(before->second, client.counts);
}

}  // namespace barcuda::watch
