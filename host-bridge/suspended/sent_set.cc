// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/suspended/sent_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "shm-device/layout.h"

namespace barcuda {
namespace {

// Whether a set can have a part of that name.
bool is_part(const std::string& name) {
    Description any;
    unsigned channel = 0;
    if (std::sscanf(name.c_str(), "client-%u/", &channel) == 1 && channel < BARCUDA_MAX_CHANNELS)
        any.clients.push_back(channel);
    return std::ranges::count(any.names(), name) == 1;
}

struct Coming {
    std::string name;
    SetPlace::Sink sink;
    Digest digest;
    std::uint64_t bytes = 0;
};

}  // namespace

Failure SetSender::make(const std::string& name, Sink& sink) {
    const auto number = static_cast<std::uint32_t>(numbers_.size());
    numbers_[name] = number;
    sink = [this, number](std::span<const std::byte> bytes) { return to_.send(MoveWord::bytes, bytes, number); };
    return to_.send(MoveWord::part, name, number);
}

Failure SetSender::finish(const std::string& name, std::uint64_t bytes, const Digest& digest) {
    parts_.push_back({name, bytes, digest.text()});
    return to_.send(MoveWord::part_end, digest.text(), numbers_.at(name));
}

Failure SetSender::commit(Description description) {
    description.parts = parts_;
    const std::string text = text_of(description);
    if (Description same; Failure failure = parse(text, same)) return failure;  // as its reader will
    may_be_there_ = true;
    if (Failure failure = to_.send(MoveWord::description, text)) return failure;
    return to_.expect(MoveWord::have);
}

Failure receive_set(Stream& from, SetPlace& to, Description& description) {
    std::map<std::uint32_t, Coming> coming;
    std::vector<Description::Part> parts;
    std::string text;
    for (Stream::Message message;;) {
        if (Failure failure = from.receive(message)) return failure;
        const auto its = coming.find(message.part);
        const bool known = its != coming.end();
        if (message.word == MoveWord::part && !known) {
            Coming part{.name = message.text(), .sink = {}, .digest = {}};
            if (!is_part(part.name)) return fmt::format("'{}' is no part of a set", part.name.substr(0, 60));
            if (Failure failure = to.make(part.name, part.sink)) return failure;
            coming.emplace(message.part, std::move(part));
        } else if (message.word == MoveWord::bytes && known) {
            its->second.digest.add(message.bytes);
            its->second.bytes += message.bytes.size();
            if (Failure failure = its->second.sink(message.bytes)) return failure;
        } else if (message.word == MoveWord::part_end && known) {
            Coming& part = its->second;
            if (message.text() != part.digest.text())
                return fmt::format("{} was damaged on its way: its bytes do not fit its hash", part.name);
            if (Failure failure = to.finish(part.name, part.bytes, part.digest)) return failure;
            parts.push_back({part.name, part.bytes, part.digest.text()});
            coming.erase(its);
        } else if (message.word == MoveWord::description) {
            text = message.text();
            break;
        } else {
            return "the other side's messages come in an order that has no meaning";
        }
    }
    if (!coming.empty()) return fmt::format("{} has no end", coming.begin()->second.name);
    if (Failure failure = parse(text, description)) return failure;
    const auto by_name = [](std::vector<Description::Part> all) {
        std::ranges::sort(all, {}, &Description::Part::name);
        return all;
    };
    if (by_name(parts) != by_name(description.parts)) return "what has come is not what the set consists of";
    return to.commit(description);
}

}  // namespace barcuda
