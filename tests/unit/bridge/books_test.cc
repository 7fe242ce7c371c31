// SPDX-License-Identifier: Apache-2.0
// books_test: what the bridge writes down of a client comes back as it was; what counts; and what the log says at its
// end.
#include "host-bridge/bridge/books.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string>

#include "base/field.h"

namespace barcuda {
namespace {

using testing::HasSubstr;

ClientRecord a_record() {
    ClientRecord record;
    record.pid = 4711;
    record.program = "train";
    record.user = "alice";
    record.worker = 99;
    record.since = std::chrono::system_clock::time_point(std::chrono::microseconds(1'700'000'000'123'456));
    record.counts = {
        .commands = 1, .launches = 2, .graph_launches = 3, .waits = 4, .copies = {5, 6, 7}, .copied = {8, 9, 10}};
    record.most_device_memory = 11 << 20;
    record.most_region_memory = 12 << 20;
    return record;
}
std::string bytes_of(const Counts& counts) { return {reinterpret_cast<const char*>(&counts), sizeof counts}; }

TEST(ClientRecords, AreOfAClientThatHadAWorkerOrAnEnd) {
    ClientRecord record;
    EXPECT_FALSE(record.is_a_client()) << "it has only asked NVML";
    record.worker = 1;
    EXPECT_TRUE(record.is_a_client());
    record = {};
    record.note_end(End::refused, "no such device");
    EXPECT_TRUE(record.is_a_client());
}
TEST(ClientRecords, KeepTheFirstReasonOfAnEnd) {
    ClientRecord record;
    record.note_end(End::died, "first");
    record.note_end(End::left, "second");
    EXPECT_EQ(record.end, End::died);
    EXPECT_EQ(record.how, "first");
}
TEST(ClientRecords, LetNoNameLeaveItsQuotes) {
    ClientRecord record = a_record();
    record.program = "a\" , user \"root";
    record.user = "caf\xc3\xa9";
    EXPECT_EQ(record.text(), "pid 4711, user \"caf??\", program \"a? , user ?root\"");
}

TEST(KeptClients, ComeBackAsTheyWereTaken) {
    for (const std::optional<End> end :
         {std::optional<End>(), std::optional(End::left), std::optional(End::refused), std::optional(End::died)}) {
        ClientRecord before = a_record();
        if (end) before.note_end(*end, "that is why");
        KeptClient kept{};
        kept.take(before);
        const ClientRecord after = kept.record();
        EXPECT_EQ(after.text(), before.text());
        EXPECT_EQ(after.worker, before.worker);
        EXPECT_EQ(after.since, before.since);
        EXPECT_EQ(bytes_of(after.counts), bytes_of(before.counts));
        EXPECT_EQ(after.most_device_memory, before.most_device_memory);
        EXPECT_EQ(after.most_region_memory, before.most_region_memory);
        EXPECT_EQ(after.end, end);
        EXPECT_EQ(after.how, before.how);
    }
}
TEST(KeptClients, HaveTextsOfTheirFieldsLengthAndNothingOfAnEarlierOne) {
    ClientRecord record = a_record();
    record.program = std::string(1000, 'x');
    record.how = std::string(5000, 'y');
    KeptClient kept{};
    kept.take(record);
    EXPECT_EQ(kept.record().program, std::string(sizeof kept.program - 1, 'x'));
    EXPECT_EQ(kept.record().how, std::string(sizeof kept.how - 1, 'y'));
    kept.take(a_record());
    EXPECT_EQ(std::count(std::begin(kept.program), std::end(kept.program), 'x'), 0);
    std::memset(kept.user, 'z', sizeof kept.user);  // no zero
    EXPECT_EQ(kept.record().user, std::string(sizeof kept.user, 'z'));
}
TEST(KeptClients, TellALimitOfZeroFromNone) {
    OwnLimits before{};
    before[0] = 0;
    before[limit_count - 1] = 5;
    KeptClient kept{};
    std::ranges::fill(kept.own, 77u);
    kept.take(before);
    EXPECT_EQ(kept.limits(), before);
    kept.take(OwnLimits{});
    EXPECT_EQ(kept.limits(), OwnLimits{});
}

TEST(Totals, CountEachClientAtItsEndOnce) {
    Totals totals;
    ClientRecord left = a_record(), died = a_record(), watcher;
    died.note_end(End::died, "it was killed");
    totals.close(left);
    totals.close(died);
    EXPECT_EQ(totals.close(watcher), "");
    EXPECT_EQ(totals.went[static_cast<unsigned>(End::left)], 1u);
    EXPECT_EQ(totals.went[static_cast<unsigned>(End::died)], 1u);
    EXPECT_EQ(totals.went[static_cast<unsigned>(End::refused)], 0u);
    EXPECT_EQ(left.how, "it left");
    const Counts one = a_record().counts;
    Counts both = one;
    add(both, one);
    EXPECT_EQ(bytes_of(totals.counts), bytes_of(both));
    EXPECT_EQ(both.copied[Counts::on_device], 20u);
    EXPECT_EQ(both.waits, 8u);
}
TEST(Totals, SayWhoWentAndHow) {
    Totals totals;
    ClientRecord record = a_record();
    record.note_end(End::died, "its worker was killed");
    const std::string line = totals.close(record);
    EXPECT_THAT(line, HasSubstr(R"(pid 4711, user "alice", program "train", worker 99; )"));
    EXPECT_THAT(line, HasSubstr("at most 11M of device memory and 12M of the region; its worker was killed"));
}

}  // namespace
}  // namespace barcuda
