// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/bridge/shared.h"

#include <sys/random.h>

#include <cstring>

namespace barcuda {

bool Shared::offer(std::uint32_t channel, Kind kind, Handle& handle, File file) {
    Client& client = clients_[channel];
    if (!file)
        if (const auto known = client.tokens.find({kind, handle}); known != client.tokens.end())
            return handle = known->second, true;
    if (file ? client.files.size() >= most_files_ : client.tokens.size() >= most) return false;
    struct {
        char name[16] = "barcuda shared";  // as tools show it
        char random[16];
    } secret;
    if (getrandom(secret.random, sizeof secret.random, 0) != sizeof secret.random) return false;
    Handle token{};
    std::memcpy(token.data(), &secret, sizeof secret);
    if (file) client.files.insert(token);
    else client.tokens[{kind, handle}] = token;
    things_.emplace(token, Thing{kind, handle, std::move(file)});
    handle = token;
    return true;
}

const Shared::Thing* Shared::find(Kind kind, const Handle& token) const {
    const auto found = things_.find(token);
    return found == things_.end() || found->second.kind != kind ? nullptr : &found->second;
}

void Shared::withdraw(std::uint32_t channel, const Handle& token) {
    const auto found = things_.find(token);
    if (found == things_.end()) return;
    Client& client = clients_[channel];
    const Thing& thing = found->second;
    const auto known = client.tokens.find({thing.kind, thing.handle});
    if (client.files.erase(token)) things_.erase(found);
    else if (known != client.tokens.end() && known->second == token) client.tokens.erase(known), things_.erase(found);
}

void Shared::forget(std::uint32_t channel) {
    const Client& client = clients_[channel];
    for (const auto& [thing, token] : client.tokens) things_.erase(token);
    for (const Handle& token : client.files) things_.erase(token);
    clients_.erase(channel);
}

}  // namespace barcuda
