// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/bridge/shared.h"

#include <sys/random.h>

#include <cstring>

namespace barcuda {

bool Shared::offer(std::uint32_t channel, Kind kind, Handle& handle) {
    auto& its = tokens_[channel];
    const Thing thing{kind, handle};
    if (const auto known = its.find(thing); known != its.end()) return handle = known->second, true;
    struct {
        char name[16] = "barcuda shared";  // as tools show it
        char random[16];
    } secret;
    if (its.size() >= most || getrandom(secret.random, sizeof secret.random, 0) != sizeof secret.random) return false;
    Handle token{};
    std::memcpy(token.data(), &secret, sizeof secret);
    handles_[token] = thing;
    its[thing] = handle = token;
    return true;
}

bool Shared::find(Kind kind, Handle& handle) const {
    const auto found = handles_.find(handle);
    if (found == handles_.end() || found->second.first != kind) return false;
    handle = found->second.second;
    return true;
}

void Shared::forget(std::uint32_t channel) {
    for (const auto& [thing, token] : tokens_[channel]) handles_.erase(token);
    tokens_.erase(channel);
}

}  // namespace barcuda
