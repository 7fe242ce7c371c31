// SPDX-License-Identifier: Apache-2.0
// What the bridge makes of what a worker writes into its log's pipe.
#include "host-bridge/bridge/worker_log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>
#include <utility>
#include <vector>

namespace barcuda {
namespace {

using namespace std::chrono_literals;
using log::Level;

struct WorkerLogTest : testing::Test {
    using Lines = std::vector<std::pair<Level, std::string>>;
    WorkerLog::Time now{100s};
    WorkerLog::Limits limits;
    File into;
    WorkerLog log = piped();
    Lines lines;

    WorkerLog piped() {
        int ends[2] = {-1, -1};
        EXPECT_EQ(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
        into = File(ends[1]);
        return WorkerLog(File(ends[0]));
    }
    WorkerLog::Say say() {
        return [this](Level level, std::string_view text) { lines.emplace_back(level, text); };
    }
    void write(std::string_view text) {
        ASSERT_EQ(::write(into.fd(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
    }
    Lines read(std::string_view text) {
        write(text);
        log.read_on(limits, now, say());
        return std::exchange(lines, {});
    }
    Lines end() {
        log.end(limits, now, say());
        return std::exchange(lines, {});
    }
};

TEST_F(WorkerLogTest, SaysEachLineWithItsLevel) {
    EXPECT_EQ(
        read("<6>one\n<3>two\n<7>three\nthe driver's\n"),
        (Lines{{Level::info, "one"}, {Level::error, "two"}, {Level::debug, "three"}, {Level::warn, "the driver's"}}));
}
TEST_F(WorkerLogTest, LetsNoWorkerBeCritical) {
    EXPECT_EQ(read("<0>all is lost\n"), (Lines{{Level::error, "all is lost"}}));
}
TEST_F(WorkerLogTest, WaitsForTheEndOfALine) {
    EXPECT_EQ(read("<6>a li"), Lines{});
    EXPECT_EQ(read("ne\n<6>anoth"), (Lines{{Level::info, "a line"}}));
    EXPECT_EQ(end(), (Lines{{Level::info, "anoth"}})) << "its last one, when the worker has ended";
}
TEST_F(WorkerLogTest, SaysWhatIsLeftInThePipeWhenTheWorkerEnds) {
    write("one\ntwo");
    EXPECT_EQ(end(), (Lines{{Level::warn, "one"}, {Level::warn, "two"}}));
    EXPECT_EQ(log.fd(now), -1);
}
TEST_F(WorkerLogTest, CutsALongLine) {
    const Lines all = read(std::string(5000, 'x') + "\nshort\n");
    ASSERT_EQ(all.size(), 2u);
    EXPECT_EQ(all[0].second, std::string(WorkerLog::longest_line, 'x') + "...");
    EXPECT_EQ(all[1].second, "short");
}
TEST_F(WorkerLogTest, SaysNothingThatJournaldWouldHide) {
    EXPECT_EQ(read("\xc3\x28\xff\n"), (Lines{{Level::warn, "?(?"}}));
}
TEST_F(WorkerLogTest, LeavesOutWhatIsTooMuchAndSaysSo) {
    limits.own = 10;  // a second, so a hundred at once
    const std::string line = "123456789\n";
    std::string much;
    for (int i = 0; i < 13; ++i) much += line;
    EXPECT_EQ(read(much).size(), 10u);
    EXPECT_EQ(log.fd(now), -1) << "it is left alone for a while";
    now += 2s;
    EXPECT_GE(log.fd(now), 0);
    EXPECT_EQ(read(line), (Lines{{Level::warn, "3 lines were left out (log-text)"}, {Level::warn, "123456789"}}));
}
TEST_F(WorkerLogTest, SaysHowMuchWasLeftOutWhenTheWorkerEnds) {
    limits.own = 1;
    EXPECT_EQ(read("12345\n12345\n"), (Lines{{Level::warn, "12345"}}));
    EXPECT_EQ(end(), (Lines{{Level::warn, "1 lines were left out (log-text)"}}));
}
TEST_F(WorkerLogTest, SharesWhatAllWorkersMaySay) {
    Bucket shared;
    limits.all = 1;
    limits.shared = &shared;
    WorkerLog another;
    another.add("12345\n", limits, now, say());
    EXPECT_EQ(std::exchange(lines, {}).size(), 1u);
    EXPECT_EQ(read("12345\n").size(), 0u);
}
TEST_F(WorkerLogTest, ReadsAPipesWorthAtATime) {
    fcntl(into.fd(), F_SETPIPE_SZ, 1 << 20);
    const std::string line(99, 'x');
    std::string much;
    for (int i = 0; i < 2000; ++i) much += line + "\n";
    write(much);
    log.read_on(limits, now, say());
    EXPECT_LT(lines.size(), 700u);
    EXPECT_GT(lines.size(), 600u);
}

}  // namespace
}  // namespace barcuda
