// SPDX-License-Identifier: Apache-2.0
// launcher_test: what a worker is started with, and the first message that it gets. A wrapper in the worker's place
// writes down what it sees.
#include "host-bridge/bridge/launcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "host-bridge/between/link.h"
#include "shm-device/queue/wire.h"
#include "tests/unit/support/region_fixture.h"
#include "tests/unit/support/shell_worker.h"

namespace barcuda {
namespace {

using testing::HasSubstr;
using State = WorkerProcess::State;

struct LauncherTest : RegionTest {
    BridgeOptions options;
    Doorbell doorbell;
    turns::Member turns;
    cage::Plan cage;
    Host gpus;
    rlimit files{};
    Kept kept;
    std::uint64_t asked_for = 0, in_region = 4 * wire::first_extent;
    std::unique_ptr<Launcher> launcher;

    void SetUp() override {
        RegionTest::SetUp();
        const std::string wrapper = scratch / "wrapper";
        std::ofstream(wrapper) << "#!/bin/sh\n"
                                  "echo \"$*\" > " +
                                      (scratch / "command") +
                                      "\n"
                                      "echo \"$CUDA_VISIBLE_DEVICES\" > " +
                                      (scratch / "devices") +
                                      "\n"
                                      "ulimit -n > " +
                                      (scratch / "files") +
                                      "\n"
                                      "exec cat <&" +
                                      std::to_string(link_fd) + " > " + (scratch / "message") + "\n";
        ASSERT_EQ(chmod(wrapper.c_str(), 0700), 0);
        options.wrapper = wrapper;
        options.device_memory = "blocks";
        gpus.library = "/the/libcuda.so.1";
        gpus.devices.all.resize(3);
        for (std::size_t i = 0; i < 3; ++i) std::memset(gpus.devices.all[i].uuid, static_cast<int>(i + 1), 16);
        gpus.every = {0, 1, 2};
        files = {100, 100};
        launcher = std::make_unique<Launcher>(options, host, doorbell, turns, cage, gpus, files, kept,
                                              [this](std::uint64_t bytes) -> Grants::Run {
                                                  asked_for += bytes;
                                                  if (in_region < bytes) return {};
                                                  in_region -= bytes;
                                                  return {in_region, bytes};
                                              });
    }
    std::string text(const std::string& name) const {
        std::ifstream in(scratch / name, std::ios::binary);
        return {std::istreambuf_iterator<char>(in), {}};
    }
    // What the worker was told. It ends then.
    Preparation told(WorkerProcess& worker) const {
        worker.dismiss();
        test::await_end(worker);
        const std::string bytes = text("message");
        Preparation message{};
        EXPECT_EQ(bytes.size(), sizeof message);
        std::memcpy(&message, bytes.data(), std::min(bytes.size(), sizeof message));
        return message;
    }
};

TEST_F(LauncherTest, AWorkerGetsItsDriverItsDevicesAndMemoryForAClient) {
    const auto worker = launcher->start({2, 0});
    ASSERT_TRUE(worker);
    EXPECT_EQ(worker->devices(), (std::vector<int>{2, 0}));
    EXPECT_EQ(worker->state(), State::starting);
    EXPECT_TRUE(worker->wrapped());
    const Preparation message = told(*worker);
    EXPECT_THAT(text("command"), HasSubstr("--worker /the/libcuda.so.1 --device-memory blocks"));
    EXPECT_EQ(text("devices"), visible_list(gpus.devices, {2, 0}) + "\n");
    EXPECT_EQ(text("files"), "100\n");
    EXPECT_EQ(message.base, host.shape().base);
    EXPECT_EQ(message.bridge, getpid());
    EXPECT_EQ(message.devices, 2u);
    EXPECT_FALSE(message.says_devices);
    EXPECT_TRUE(message.wrapped);
    EXPECT_FALSE(message.takes_turns);
    EXPECT_FALSE(message.shares_cards);
    ASSERT_EQ(worker->reserved.size(), 2u);
    for (std::size_t i = 0; i < 2; ++i) {
        EXPECT_EQ(message.extents[i].offset, worker->reserved[i].offset);
        EXPECT_EQ(message.extents[i].bytes, wire::first_extent);
    }
}
TEST_F(LauncherTest, WhereTheRegionIsFullAWorkerHasLess) {
    in_region = wire::first_extent;
    const auto worker = launcher->start({0, 1, 2});
    ASSERT_TRUE(worker);
    EXPECT_EQ(worker->reserved.size(), 1u);
    EXPECT_EQ(told(*worker).extents[1].bytes, 0u);
}
TEST_F(LauncherTest, TheFirstWorkerReportsTheDevices) {
    const auto worker = launcher->start_first();
    ASSERT_TRUE(worker);
    EXPECT_TRUE(told(*worker).says_devices);
}
TEST_F(LauncherTest, AClientThatWasOnADiskGoesOnWithANewWorkerThatPreparesNothing) {
    KeptClient its{};
    its.device_count = 2;
    its.devices[0] = 1;
    its.devices[1] = 2;
    const auto worker = launcher->for_client(7, its, true);
    ASSERT_TRUE(worker);
    EXPECT_EQ(worker->state(), State::assigned);
    EXPECT_EQ(worker->devices(), (std::vector<int>{1, 2}));
    EXPECT_EQ(told(*worker).extents[0].bytes, 0u);
    EXPECT_EQ(asked_for, 0u);
    EXPECT_TRUE(worker->reserved.empty());
}
TEST_F(LauncherTest, AClientWhoseWorkerHasGoneGetsNone) {
    KeptClient its{};
    its.worker = getpid();
    EXPECT_FALSE(launcher->for_client(7, its, false)) << "no keeper has it";
}

}  // namespace
}  // namespace barcuda
