// SPDX-License-Identifier: Apache-2.0
#include "base/visitors.h"

#include <algorithm>
#include <tuple>

namespace barcuda {

void Visitors::came(Who who, int fd, std::string address, Clock::time_point now) {
    all_[who] = {fd, std::move(address), now};
}

void Visitors::answered(Who who, Clock::time_point now) {
    const auto found = all_.find(who);
    if (found != all_.end()) {
        found->second.since = now;
        found->second.served = true;
    }
}

bool Visitors::too_many() const {
    return static_cast<std::size_t>(std::ranges::count_if(all_, [](const auto& v) { return !v.second.closing; })) >
           most_;
}

// Of the address with most connections: one that has not sent a request yet before one that has, and the oldest of
// those. Null: there are not too many connections, or all of them are new.
Visitors::Visitor* Visitors::superfluous(Clock::time_point now) {
    if (!too_many()) return nullptr;
    std::map<std::string, std::size_t> of;
    for (const auto& [_, v] : all_)
        if (!v.closing) ++of[v.address];
    Visitor* worst = nullptr;
    const auto rank = [&](const Visitor& v) { return std::tuple(of[v.address], !v.served, now - v.since); };
    for (auto& [_, v] : all_)
        if (!v.closing && now - v.since >= grace_ && (!worst || rank(v) > rank(*worst))) worst = &v;
    return worst;
}

std::vector<int> Visitors::overdue(Clock::time_point now) {
    std::vector<int> fds;
    const auto close = [&](Visitor& v) {
        v.closing = true;
        fds.push_back(v.fd);
    };
    for (auto& [_, v] : all_)
        if (!v.closing && now - v.since >= patience_) close(v);
    while (Visitor* const v = superfluous(now)) close(*v);
    return fds;
}

std::optional<Visitors::Clock::time_point> Visitors::next() const {
    const Clock::duration time = too_many() ? grace_ : patience_;
    std::optional<Clock::time_point> first;
    for (const auto& [_, v] : all_)
        if (!v.closing && (!first || v.since + time < *first)) first = v.since + time;
    return first;
}

}  // namespace barcuda
