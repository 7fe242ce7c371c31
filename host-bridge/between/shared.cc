// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/between/shared.h"

#include <sys/random.h>

#include <cstring>

namespace barcuda {

bool Shared::offer(std::uint32_t channel, Kind kind, Handle& handle, File file) {
    Client& client = clients_[channel];
    // and not a handle that comes with a file
    const bool descriptor = kind == Kind::allocation || kind == Kind::pool;
    if (!descriptor)
        if (const auto known = client.tokens.find({kind, handle}); known != client.tokens.end()) {
            handle = known->second;
            return true;
        }
    if (client.tokens.size() >= most || (file && client.files.size() >= most_files_)) return false;
    struct {
        char name[16] = "barcuda shared";  // for tools that list files
        char random[16];
    } secret;
    if (getrandom(secret.random, sizeof secret.random, 0) != sizeof secret.random) return false;
    Handle token{};
    std::memcpy(token.data(), &secret, sizeof secret);
    if (file) client.files.insert(token);
    if (!descriptor) client.tokens[{kind, handle}] = token;
    things_.emplace(token, Thing{channel, kind, handle, std::move(file)});
    handle = token;
    return true;
}

const Shared::Thing* Shared::find(Kind kind, const Handle& token) const {
    const auto found = things_.find(token);
    return found == things_.end() || found->second.kind != kind ? nullptr : &found->second;
}

const Shared::Thing* Shared::open(std::uint32_t channel, Kind kind, const Handle& token) {
    const Thing* const thing = find(kind, token);
    if (thing && thing->channel != channel) opened_.insert({channel, thing->channel});
    return thing;
}

std::int64_t Shared::shares_with(std::uint32_t channel) const {
    for (const auto& [by, whose] : opened_)
        if (by == channel || whose == channel) return by == channel ? whose : by;
    const auto client = clients_.find(channel);
    const bool shows = client != clients_.end() && (!client->second.tokens.empty() || !client->second.files.empty());
    return shows ? std::int64_t{channel} : -1;
}

void Shared::withdraw(std::uint32_t channel, const Handle& token) {
    const auto found = things_.find(token);
    if (found == things_.end()) return;
    Client& client = clients_[channel];
    const Thing& thing = found->second;
    const auto known = client.tokens.find({thing.kind, thing.handle});
    const bool own = known != client.tokens.end() && known->second == token;
    if (own) client.tokens.erase(known);
    if (client.files.erase(token) || own) things_.erase(found);
}

void Shared::forget(std::uint32_t channel) {
    const Client& client = clients_[channel];
    for (const auto& [thing, token] : client.tokens) things_.erase(token);
    for (const Handle& token : client.files) things_.erase(token);
    clients_.erase(channel);
    std::erase_if(opened_, [&](const auto& pair) { return pair.first == channel || pair.second == channel; });
}

}  // namespace barcuda
