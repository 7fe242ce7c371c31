// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/bridge/books.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/field.h"

namespace barcuda {
namespace {

// In the log a name stands between quotes, so it must contain none; journald would hide a line that is not UTF-8.
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

void KeptClient::take(const ClientRecord& from) {
    using namespace std::chrono;
    pid = from.pid;
    worker = from.worker;
    put(program, from.program);
    put(user, from.user);
    put(how, from.how);
    since = duration_cast<microseconds>(from.since.time_since_epoch()).count();
    counts = from.counts;
    most_device_memory = from.most_device_memory;
    most_region_memory = from.most_region_memory;
    end = from.end ? static_cast<std::uint32_t>(*from.end) + 1 : 0;
}

ClientRecord KeptClient::record() const {
    ClientRecord record;
    record.pid = pid;
    record.worker = worker;
    record.program = text_of(program);
    record.user = text_of(user);
    record.how = text_of(how);
    record.since = std::chrono::system_clock::time_point(std::chrono::microseconds(since));
    record.counts = counts;
    record.most_device_memory = most_device_memory;
    record.most_region_memory = most_region_memory;
    if (end != 0) record.end = static_cast<End>(end - 1);
    return record;
}

void KeptClient::take(const OwnLimits& from) {
    own_given = 0;
    for (unsigned i = 0; i < limit_count; ++i) {
        own[i] = from[i].value_or(0);
        own_given |= static_cast<std::uint32_t>(from[i].has_value()) << i;
    }
}

OwnLimits KeptClient::limits() const {
    OwnLimits limits;
    for (unsigned i = 0; i < limit_count; ++i)
        if (own_given >> i & 1) limits[i] = own[i];
    return limits;
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
