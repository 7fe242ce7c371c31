// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/between/shared.h"

#include <sys/mman.h>
#include <sys/random.h>

#include <cstring>

namespace barcuda {
namespace {

constexpr char prefix[] = "share-";  // of the names of descriptors that are kept

// As programs see it.
struct TokenText {
    char name[16] = "barcuda shared";  // as tools show it
    char random[16];
};
Shared::Handle handle_of(const TokenText& text) {
    Shared::Handle token{};
    std::memcpy(token.data(), &text, sizeof text);
    return token;
}
const char* random_part(const Shared::Handle& token) { return token.data() + offsetof(TokenText, random); }

bool is_descriptor(Shared::Kind kind) {  // and not a handle that a file comes with
    return kind == Shared::Kind::allocation || kind == Shared::Kind::pool;
}

}  // namespace

std::string Shared::name_of(std::uint32_t channel, std::uint32_t place) {
    return prefix + std::to_string(channel) + "-" + std::to_string(place);
}

bool Shared::offer(std::uint32_t channel, Kind kind, Handle& handle, File file) {
    if (is_descriptor(kind) && !file) return false;
    Client& client = clients_[channel];
    if (!is_descriptor(kind))
        if (const auto known = client.tokens.find({kind, handle}); known != client.tokens.end()) {
            handle = known->second;
            return true;
        }
    if (client.tokens.size() >= most || (file && client.files.size() >= most_files_)) return false;
    TokenText secret;
    if (getrandom(secret.random, sizeof secret.random, 0) != sizeof secret.random) return false;
    const Handle token = handle_of(secret);
    Thing thing{channel, kind, handle, std::move(file), client.free.empty() ? client.used : client.free.back()};
    if (!write_down(token, thing)) return false;
    if (client.free.empty()) ++client.used;
    else client.free.pop_back();
    add(token, std::move(thing));
    handle = token;
    return true;
}

void Shared::add(const Handle& token, Thing thing) {
    Client& client = clients_[thing.channel];
    if (thing.file) client.files.insert(token);
    if (!is_descriptor(thing.kind)) client.tokens[{thing.kind, thing.handle}] = token;
    things_.emplace(token, std::move(thing));
}

// False: its descriptor cannot be kept.
bool Shared::write_down(const Handle& token, const Thing& thing) {
    if (books_.empty()) return true;
    Shown& its = books_[thing.channel];
    if (thing.place >= std::size(its.tokens)) return false;
    if (thing.file && keep_.keep && !keep_.keep(name_of(thing.channel, thing.place), thing.file.fd())) return false;
    Token& record = its.tokens[thing.place];
    record.state = Token::free;  // one of an earlier client may have been here
    records::step();
    record.kind = thing.kind;
    record.has_file = static_cast<bool>(thing.file);
    std::memcpy(record.random, random_part(token), sizeof record.random);
    record.handle = thing.handle;
    record.state = Token::unanswered;
    if (thing.place >= its.used) its.used = thing.place + 1;
    return true;
}

void Shared::confirm(const Handle& token) {
    const auto found = things_.find(token);
    if (found == things_.end() || books_.empty()) return;
    Token& record = books_[found->second.channel].tokens[found->second.place];
    if (record.state != Token::offered) record.state = Token::offered;
}

void Shared::restore(const std::function<bool(std::uint32_t)>& lives) {
    std::set<std::string> kept;
    for (std::uint32_t channel = 0; channel < books_.size(); ++channel) {
        Shown& its = books_[channel];
        if (!lives(channel)) {
            empty(its);
            continue;
        }
        Client& client = clients_[channel];
        client.used = its.used;
        for (std::uint32_t place = 0; place < client.used; ++place) {
            Token& record = its.tokens[place];
            File file;
            const std::string name = name_of(channel, place);
            if (record.state != Token::free && record.has_file && keep_.take) file = keep_.take(name);
            if (record.state != Token::free && record.has_file && !file) record.state = Token::free;
            if (record.state == Token::free) {
                client.free.push_back(place);
                continue;
            }
            if (file) kept.insert(name);
            TokenText text;
            std::memcpy(text.random, record.random, sizeof text.random);
            add(handle_of(text), {channel, record.kind, record.handle, std::move(file), place});
        }
        for (std::uint32_t whose = 0; whose < books_.size(); ++whose)
            if (its.opened[whose / 64] >> whose % 64 & 1 && lives(whose)) opened_.insert({channel, whose});
    }
    if (!keep_.names) return;
    for (const std::string& name : keep_.names(prefix))
        if (!kept.contains(name)) keep_.drop(name);
}

void Shared::settle(std::uint32_t channel, bool answered) {
    if (books_.empty()) return;
    std::vector<Handle> vain;
    for (const auto& [token, thing] : things_) {
        if (thing.channel != channel) continue;
        Token& record = books_[channel].tokens[thing.place];
        if (record.state != Token::unanswered) continue;
        if (answered) record.state = Token::offered;
        else vain.push_back(token);
    }
    for (const Handle& token : vain) withdraw(channel, token);
}

const Shared::Thing* Shared::find(Kind kind, const Handle& token) const {
    const auto found = things_.find(token);
    return found == things_.end() || found->second.kind != kind ? nullptr : &found->second;
}

const Shared::Thing* Shared::open(std::uint32_t channel, Kind kind, const Handle& token) {
    const Thing* const thing = find(kind, token);
    if (thing && thing->channel != channel && opened_.insert({channel, thing->channel}).second && !books_.empty()) {
        Word<std::uint64_t>& bits = books_[channel].opened[thing->channel / 64];
        bits = bits | std::uint64_t{1} << thing->channel % 64;
    }
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
    if (!client.files.erase(token) && !own) return;
    client.free.push_back(thing.place);
    if (!books_.empty()) books_[channel].tokens[thing.place].state = Token::free;
    drop(thing);
    things_.erase(found);
}

void Shared::drop(const Thing& thing) {
    if (thing.file && keep_.drop && !books_.empty()) keep_.drop(name_of(thing.channel, thing.place));
}

// All tokens are gone with one store. Pages that many have taken go back to the host.
void Shared::empty(Shown& its) const {
    constexpr std::uint32_t many = 256;
    const std::uint32_t used = its.used;
    if (used != 0) its.used = 0;
    for (Word<std::uint64_t>& bits : its.opened)
        if (bits != 0) bits = 0;
    if (used < many) return;
    const auto up = [](const void* at) {
        return (reinterpret_cast<std::uintptr_t>(at) + BARCUDA_PAGE - 1) / BARCUDA_PAGE * BARCUDA_PAGE;
    };
    const std::uintptr_t from = up(its.tokens), to = up(its.tokens + used) - BARCUDA_PAGE;
    if (to > from) madvise(reinterpret_cast<void*>(from), to - from, MADV_REMOVE);
}

void Shared::forget(std::uint32_t channel) {
    if (!books_.empty()) {
        empty(books_[channel]);
        for (const auto& [by, whose] : opened_)
            if (whose == channel) {
                Word<std::uint64_t>& bits = books_[by].opened[channel / 64];
                bits = bits & ~(std::uint64_t{1} << channel % 64);
            }
    }
    const auto release = [&](const Handle& token) {
        const auto found = things_.find(token);
        if (found == things_.end()) return;  // a handle with a file is in both
        drop(found->second);
        things_.erase(found);
    };
    const Client& client = clients_[channel];
    for (const auto& [thing, token] : client.tokens) release(token);
    for (const Handle& token : client.files) release(token);
    clients_.erase(channel);
    std::erase_if(opened_, [&](const auto& pair) { return pair.first == channel || pair.second == channel; });
}

}  // namespace barcuda
