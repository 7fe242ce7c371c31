// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/bridge/books.h"

#include <fmt/format.h>

#include <algorithm>

namespace barcuda {
namespace {

// In the log a name stands between quotes, and ends there; journald would hide a line that is no UTF-8.
std::string quoted(std::string name) {
    std::ranges::replace_if(
        name, [](char c) { return c == '"' || static_cast<unsigned char>(c) >= 0x80; }, '?');
    return fmt::format("\"{}\"", name);
}

}  // namespace

void add(Counts& sum, const Counts& more) {
    sum.commands += more.commands;
    sum.launches += more.launches;
    sum.graph_launches += more.graph_launches;
    sum.waits += more.waits;
    for (unsigned way = 0; way < Counts::ways; ++way) {
        sum.copies[way] += more.copies[way];
        sum.copied[way] += more.copied[way];
    }
}

std::string ClientRecord::text() const {
    return fmt::format("pid {}, user {}, program {}", pid, quoted(user), quoted(program));
}

void ClientRecord::note_end(End how_it_ended, const std::string& text) {
    if (end) return;
    end = how_it_ended;
    how = text;
}

std::string Totals::close(ClientRecord& record) {
    if (!record.is_a_client()) return {};
    record.note_end(End::left, "it left");
    ++went[static_cast<unsigned>(*record.end)];
    add(counts, record.counts);
    const std::chrono::duration<double> took = std::chrono::system_clock::now() - record.since;
    const auto size = [](std::uint64_t bytes) { return about(Limit::device_memory).text(bytes); };
    return fmt::format("{}, worker {}; {:.1f} s, at most {} of device memory and {} of the region; {}", record.text(),
                       record.worker, took.count(), size(record.most_device_memory), size(record.most_region_memory),
                       record.how);
}

}  // namespace barcuda
