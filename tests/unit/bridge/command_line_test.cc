// SPDX-License-Identifier: Apache-2.0
// command_line_test: what barcuda-bridge makes of its options.
#include "host-bridge/bridge/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "base/cli/exit_status.h"
#include "tests/unit/support/scratch.h"

namespace barcuda {
namespace {

using testing::HasSubstr;

struct CommandLineTest : testing::Test {
    CommandLine line;
    std::string said;

    std::optional<int> read(std::vector<std::string> words) {
        line = {};
        words.insert(words.begin(), "barcuda-bridge");
        std::vector<char*> argv;
        for (std::string& word : words) argv.push_back(word.data());
        testing::internal::CaptureStderr();
        const auto status = line.read(static_cast<int>(argv.size()), argv.data());
        said = testing::internal::GetCapturedStderr();
        return status;
    }
};

TEST_F(CommandLineTest, EachGroupHasItsOptions) {
    EXPECT_FALSE(read({"--region",
                       "/dev/shm/barcuda-vm 7",
                       "--size",
                       "2G",
                       "--mode",
                       "0640",
                       "--device",
                       "soft",
                       "--client-device-memory",
                       "1G",
                       "--warm-idle",
                       "7",
                       "--no-cage",
                       "user",
                       "--turns",
                       "/t",
                       "--cards",
                       "off",
                       "--ready-fd",
                       "5",
                       "--worker",
                       "libcuda.so"}));
    EXPECT_EQ(line.options.size, 2ull << 30);
    EXPECT_EQ(line.options.access.mode, 0640u);
    EXPECT_EQ(line.options.device, "soft");
    EXPECT_EQ(line.options.limits.client[Limit::device_memory], 1u << 30);
    EXPECT_EQ(line.options.warm.idle, std::chrono::seconds(7));
    EXPECT_EQ(line.options.cage.without, "user");
    EXPECT_EQ(line.options.turns, "/t");
    EXPECT_EQ(line.options.cards, "") << "off: no file";
    EXPECT_EQ(line.options.ready_fd, 5);
    EXPECT_EQ(line.worker, "libcuda.so");
    EXPECT_EQ(line.options.name, "vm_7") << "the region's";
}
TEST_F(CommandLineTest, AFileGivesTheNameAndOptionsThatTheCommandLineOverrides) {
    const test::Scratch scratch;
    std::ofstream(scratch / "vm1.conf") << "size = 1G\nwait = 5\n";
    EXPECT_FALSE(read({"--config", scratch / "vm1.conf", "--wait", "6"}));
    EXPECT_EQ(line.options.name, "vm1");
    EXPECT_EQ(line.options.size, 1ull << 30);
    EXPECT_EQ(line.options.wait, 6u);
}
TEST_F(CommandLineTest, APriorityNeedsNoWeight) {
    EXPECT_FALSE(read({"--priority", "high"}));
    EXPECT_EQ(line.options.share.weight, turns::usual_weight);
    EXPECT_EQ(line.options.share.priority, *turns::priority_named("high"));
}
TEST_F(CommandLineTest, AMistakeIsNamed) {
    EXPECT_EQ(read({"--metrics-gpus"}), wrong_usage);
    EXPECT_THAT(said, HasSubstr("need --metrics ADDRESS"));
    EXPECT_EQ(read({"--store", "1G"}), wrong_usage);
    EXPECT_THAT(said, HasSubstr("give --cards on"));
    EXPECT_EQ(read({"--size", "-1"}), wrong_usage);
    EXPECT_THAT(said, HasSubstr("it cannot be negative"));
}

}  // namespace
}  // namespace barcuda
