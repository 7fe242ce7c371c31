// SPDX-License-Identifier: Apache-2.0
// region_doc_test: docs/region.md is a specification only as long as it is true. Its tables are compared with layout.h,
// its sentences with the tests that they name.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "shm-device/layout.h"
#include "shm-device/queue/virtqueue.h"

namespace barcuda {
namespace {

std::vector<std::string> lines_of(const std::filesystem::path& path) {
    std::ifstream in(path);
    std::vector<std::string> lines;
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    return lines;
}
std::vector<std::string> document() {
    const auto lines = lines_of("docs/region.md");
    EXPECT_FALSE(lines.empty()) << "run the tests from the top of the source tree";
    return lines;
}
std::vector<std::string> cells(const std::string& row) {
    std::vector<std::string> out;
    for (std::size_t at = 1, end; (end = row.find('|', at)) != std::string::npos; at = end + 1) {
        std::string cell = row.substr(at, end - at);
        cell.erase(0, cell.find_first_not_of(' '));
        cell.erase(cell.find_last_not_of(' ') + 1);
        out.push_back(cell);
    }
    return out;
}

struct Field {
    std::uint64_t offset, width;
    bool operator==(const Field&) const = default;
};
using Fields = std::map<std::string, Field>;

#define FIELD(type, name)                                   \
    {                                                       \
#name, { offsetof(type, name), sizeof(type::name) } \
    }
const std::map<std::string, std::pair<std::uint64_t, Fields>> known_structs = {
    {"barcuda_header",
     {sizeof(barcuda_header),
      {FIELD(barcuda_header, magic),
       FIELD(barcuda_header, layout),
       FIELD(barcuda_header, header_bytes),
       FIELD(barcuda_header, packets),
       FIELD(barcuda_header, row_count),
       FIELD(barcuda_header, base),
       FIELD(barcuda_header, size),
       FIELD(barcuda_header, channel_size),
       FIELD(barcuda_header, granule),
       FIELD(barcuda_header, extents_offset),
       FIELD(barcuda_header, channel_count),
       FIELD(barcuda_header, granule_count),
       FIELD(barcuda_header, device_count),
       FIELD(barcuda_header, epoch),
       FIELD(barcuda_header, bridge_pid),
       FIELD(barcuda_header, driver_version),
       FIELD(barcuda_header, bridge_start),
       FIELD(barcuda_header, build),
       FIELD(barcuda_header, heartbeat),
       FIELD(barcuda_header, rows_offset),
       FIELD(barcuda_header, snapshot_offset),
       FIELD(barcuda_header, windows_epoch),
       FIELD(barcuda_header, reserved),
       FIELD(barcuda_header, device_base),
       FIELD(barcuda_header, device_pools_end),
       FIELD(barcuda_header, device_mapped),
       FIELD(barcuda_header, device_end)}}},
    {"barcuda_slot",
     {sizeof(barcuda_slot),
      {FIELD(barcuda_slot, opened), FIELD(barcuda_slot, closed), FIELD(barcuda_slot, pid),
       FIELD(barcuda_slot, map_lock), FIELD(barcuda_slot, start_time), FIELD(barcuda_slot, reserved1),
       FIELD(barcuda_slot, reclaimed), FIELD(barcuda_slot, served), FIELD(barcuda_slot, reserved2)}}},
    {"barcuda_grant", {sizeof(barcuda_grant), {FIELD(barcuda_grant, owner), FIELD(barcuda_grant, mapped)}}},
    {"barcuda_device",
     {sizeof(barcuda_device),
      {FIELD(barcuda_device, name), FIELD(barcuda_device, uuid), FIELD(barcuda_device, pci_bus_id),
       FIELD(barcuda_device, total_memory), FIELD(barcuda_device, attribute_count), FIELD(barcuda_device, reserved),
       FIELD(barcuda_device, attributes)}}},
    {"barcuda_snapshot",
     {sizeof(barcuda_snapshot),
      {FIELD(barcuda_snapshot, sequence), FIELD(barcuda_snapshot, state), FIELD(barcuda_snapshot, answer_count),
       FIELD(barcuda_snapshot, process_count), FIELD(barcuda_snapshot, processes_offset),
       FIELD(barcuda_snapshot, taken), FIELD(barcuda_snapshot, reserved)}}},
    {"barcuda_answers",
     {sizeof(barcuda_answers),
      {FIELD(barcuda_answers, identity), FIELD(barcuda_answers, offset), FIELD(barcuda_answers, bytes)}}},
    {"barcuda_process",
     {sizeof(barcuda_process),
      {FIELD(barcuda_process, pid), FIELD(barcuda_process, device), FIELD(barcuda_process, used_memory),
       FIELD(barcuda_process, sampled), FIELD(barcuda_process, sm), FIELD(barcuda_process, memory),
       FIELD(barcuda_process, encoder), FIELD(barcuda_process, decoder)}}},
    {"barcuda_status",
     {sizeof(barcuda_status),
      {FIELD(barcuda_status, state), FIELD(barcuda_status, channel), FIELD(barcuda_status, opening),
       FIELD(barcuda_status, worker_pid), FIELD(barcuda_status, posted_error), FIELD(barcuda_status, posted_op),
       FIELD(barcuda_status, posted_count), FIELD(barcuda_status, fatal_error), FIELD(barcuda_status, context_error),
       FIELD(barcuda_status, message), FIELD(barcuda_status, prints), FIELD(barcuda_status, paused)}}},
    {"barcuda_client",
     {sizeof(barcuda_client),
      {FIELD(barcuda_client, pid), FIELD(barcuda_client, bell), FIELD(barcuda_client, program),
       FIELD(barcuda_client, rows_hash), FIELD(barcuda_client, devices), FIELD(barcuda_client, device_count),
       FIELD(barcuda_client, watching), FIELD(barcuda_client, user), FIELD(barcuda_client, base)}}},
    {"barcuda_calls",
     {sizeof(barcuda_calls),
      {FIELD(barcuda_calls, asked), FIELD(barcuda_calls, function), FIELD(barcuda_calls, status),
       FIELD(barcuda_calls, reserved0), FIELD(barcuda_calls, reserved1), FIELD(barcuda_calls, done),
       FIELD(barcuda_calls, reserved2)}}},
    {"barcuda_supply",
     {sizeof(barcuda_supply),
      {FIELD(barcuda_supply, asked), FIELD(barcuda_supply, bytes), FIELD(barcuda_supply, reserved0),
       FIELD(barcuda_supply, answered), FIELD(barcuda_supply, offset), FIELD(barcuda_supply, granted),
       FIELD(barcuda_supply, error), FIELD(barcuda_supply, reserved1), FIELD(barcuda_supply, reserved2)}}},
    {"pvirtq_desc",
     {sizeof(virtqueue::Descriptor<>),
      {{"addr", {offsetof(virtqueue::Descriptor<>, addr), 8}},
       {"len",
        {offsetof(virtqueue::Descriptor<>, tail) + offsetof(virtqueue::Tail, len), sizeof(virtqueue::Tail::len)}},
       {"id", {offsetof(virtqueue::Descriptor<>, tail) + offsetof(virtqueue::Tail, id), sizeof(virtqueue::Tail::id)}},
       {"flags",
        {offsetof(virtqueue::Descriptor<>, tail) + offsetof(virtqueue::Tail, flags),
         sizeof(virtqueue::Tail::flags)}}}}},
};
#undef FIELD

std::map<std::string, Fields> documented_structs() {
    std::map<std::string, Fields> structs;
    std::string current;
    const std::regex heading("`struct (\\w+)`.*");
    std::smatch match;
    for (const std::string& line : document()) {
        if (std::regex_match(line, match, heading)) current = match[1];
        else if (structs.contains(current) && (line.empty() || line[0] != '|')) current.clear();  // its table has ended
        if (current.empty() || line.empty() || line[0] != '|') continue;
        const auto c = cells(line);
        if (c.size() < 3 || c[0].find_first_not_of("0123456789") != std::string::npos) continue;
        structs[current][c[2]] = {std::stoull(c[0]), std::stoull(c[1])};
    }
    return structs;
}

TEST(RegionDoc, TablesMatchTheLayout) {
    const auto documented = documented_structs();
    for (const auto& [name, layout] : known_structs) {
        ASSERT_TRUE(documented.contains(name)) << name;
        for (const auto& [field, place] : layout.second) {
            ASSERT_TRUE(documented.at(name).contains(field)) << name << "." << field;
            EXPECT_EQ(documented.at(name).at(field), place) << name << "." << field;
        }
        EXPECT_EQ(documented.at(name).size(), layout.second.size()) << name << " has fields that do not exist";
    }
    EXPECT_EQ(documented.size(), known_structs.size());
}
TEST(RegionDoc, NumbersAreThoseOfTheLayout) {
    const auto hex = [](std::uint64_t n) {
        char text[24];
        std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(n));
        return std::string(text);
    };
    std::string text;
    for (const std::string& line : document()) text += line + "\n";
    for (const std::string& part :
         {"number of this layout: " + std::to_string(BARCUDA_LAYOUT) + " |",
          "lie in a command: " + std::to_string(BARCUDA_PACKETS) + " |",
          "| 0 to " + std::to_string(BARCUDA_MAX_DEVICES) + " |", "| 1 to " + std::to_string(BARCUDA_MAX_ROWS) + ":",
          "| " + hex(BARCUDA_ROWS_OFFSET) + ": ", "| " + hex(BARCUDA_SNAPSHOT_OFFSET) + ": ",
          "0 to " + std::to_string(BARCUDA_MAX_PROCESSES) + " |", "| " + hex(BARCUDA_MAGIC) + ", the bytes",
          "| " + hex(BARCUDA_CHANNEL_SIZE) + " |", "| " + hex(BARCUDA_GRANULE) + " |",
          "below " + hex(BARCUDA_DEVICE_POOLS_END) + ",",
          "from " + hex(BARCUDA_DEVICE_MAPPED) + " to " + hex(BARCUDA_DEVICE_END)})
        EXPECT_NE(text.find(part), std::string::npos) << part;
}
TEST(RegionDoc, TablesLeaveNoGaps) {  // a field that was added to layout.h alone would be one
    for (const auto& [name, layout] : known_structs) {
        std::map<std::uint64_t, std::uint64_t> ends;
        for (const auto& [field, place] : layout.second) ends[place.offset] = place.offset + place.width;
        std::uint64_t at = 0;
        for (const auto& [begin, end] : ends) {
            EXPECT_EQ(begin, at) << name;
            at = end;
        }
        EXPECT_EQ(at, layout.first) << name;
    }
    EXPECT_EQ(known_structs.at("barcuda_header").first, sizeof(barcuda_header));
}
TEST(RegionDoc, PartsLieWhereTheTablesSay) {
    const std::map<std::string, std::pair<std::uint64_t, std::uint64_t>> parts = {
        {"header", {0, BARCUDA_SLOTS_OFFSET}},
        {"slots", {BARCUDA_SLOTS_OFFSET, BARCUDA_GRANTS_OFFSET - BARCUDA_SLOTS_OFFSET}},
        {"grants", {BARCUDA_GRANTS_OFFSET, BARCUDA_DEVICES_OFFSET - BARCUDA_GRANTS_OFFSET}},
        {"devices", {BARCUDA_DEVICES_OFFSET, BARCUDA_ROWS_OFFSET - BARCUDA_DEVICES_OFFSET}},
        {"rows", {BARCUDA_ROWS_OFFSET, BARCUDA_SNAPSHOT_OFFSET - BARCUDA_ROWS_OFFSET}},
        {"snapshot", {BARCUDA_SNAPSHOT_OFFSET, BARCUDA_SNAPSHOT_SIZE}},
        {"status", {BARCUDA_STATUS_OFFSET, BARCUDA_PAGE}},
        {"client", {BARCUDA_CLIENT_OFFSET, BARCUDA_PAGE}},
        {"fences", {BARCUDA_FENCES_OFFSET, BARCUDA_FENCES * 8}},
        {"ring", {BARCUDA_RING_OFFSET, BARCUDA_QUEUE_SIZE * 16}},
        {"driver event suppression", {BARCUDA_DRIVER_EVENT_OFFSET, 4}},
        {"kicks", {BARCUDA_KICKS_OFFSET, 4}},
        {"wakes", {BARCUDA_WAKES_OFFSET, 4}},
        {"device event suppression", {BARCUDA_DEVICE_EVENT_OFFSET, 4}},
        {"calls", {BARCUDA_CALLS_OFFSET, sizeof(barcuda_calls)}},
        {"supply", {BARCUDA_SUPPLY_OFFSET, sizeof(barcuda_supply)}},
        {"commands", {BARCUDA_COMMANDS_OFFSET, BARCUDA_COMMANDS_SIZE}},
    };
    std::set<std::string> seen;
    for (const std::string& line : document()) {
        if (line.rfind("| 0x", 0) != 0) continue;
        const auto c = cells(line);
        const std::string name = c[2].substr(0, c[2].find(':'));
        if (!parts.contains(name)) continue;
        EXPECT_EQ(std::stoull(c[0], nullptr, 16), parts.at(name).first) << name;
        EXPECT_EQ(std::stoull(c[1]), parts.at(name).second) << name;
        seen.insert(name);
    }
    EXPECT_EQ(seen.size(), parts.size());
}
// Every test there is, as "Suite.Name".
std::set<std::string> all_tests() {
    std::set<std::string> tests;
    const std::regex declaration("TEST(_F|_P)?\\((\\w+), (\\w+)\\).*");
    std::smatch match;
    std::vector<std::filesystem::path> folders = {"tests/vm"};
    for (const auto& room : std::filesystem::directory_iterator("tests/unit"))
        if (room.is_directory()) folders.push_back(room.path());
    for (const auto& folder : folders)
        for (const auto& file : std::filesystem::directory_iterator(folder)) {
            if (file.path().extension() != ".cc" && file.path().extension() != ".h") continue;
            for (const std::string& line : lines_of(file.path()))
                if (std::regex_match(line, match, declaration)) tests.insert(match[2].str() + "." + match[3].str());
        }
    return tests;
}

TEST(RegionDoc, SentencesAreNumberedAndNameTestsThatExist) {
    const std::set<std::string> tests = all_tests();
    std::smatch match;
    const std::regex sentence("- \\*\\*R(\\d+)\\*\\* (.*)"), name("`(\\w+\\.\\w+)`");
    unsigned number = 0;
    for (const std::string& line : document()) {
        if (!std::regex_match(line, match, sentence)) continue;
        EXPECT_EQ(std::stoul(match[1]), ++number);
        const std::string text = match[2];
        unsigned named = 0;
        for (std::sregex_iterator i(text.begin(), text.end(), name), end; i != end; ++i) {
            const std::string test = (*i)[1];
            if (std::isupper(static_cast<unsigned char>(test[0])) == 0) continue;  // `status.channel` is a field
            EXPECT_TRUE(tests.contains(test)) << "R" << number << " names " << test;
            ++named;
        }
        EXPECT_GE(named, 1u) << "R" << number << " names no test";
    }
    EXPECT_GT(number, 0u);
}

TEST(VirtqueueClauses, EachThatTheCodeCitesHasATest) {
    std::string tests;
    for (const std::string& t : all_tests()) tests += t + "\n";
    const std::regex clause("\\b2(\\.\\d+){2,}");
    std::set<std::string> cited;
    for (const std::string& line : lines_of("shm-device/queue/virtqueue.h"))
        for (std::sregex_iterator i(line.begin(), line.end(), clause), end; i != end; ++i) cited.insert(i->str());
    EXPECT_GE(cited.size(), 10u);
    for (std::string c : cited) {
        std::replace(c.begin(), c.end(), '.', '_');
        EXPECT_TRUE(std::regex_search(tests, std::regex("Clause_" + c + "[._][A-Z]"))) << c;
    }
}

}  // namespace
}  // namespace barcuda
