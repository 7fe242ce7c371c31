// SPDX-License-Identifier: Apache-2.0
// monitoring_test: when the bridge starts its monitor, what the monitor is given, and what guests read in the snapshot
// when it is silent, has died, or finds no NVML. A script is in the monitor's place, and the test writes what a monitor
// writes.
#include "host-bridge/bridge/monitoring.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>

#include "host-bridge/between/device_choice.h"
#include "host-bridge/between/link.h"
#include "shm-device/queue/sync.h"
#include "tests/unit/support/region_fixture.h"

namespace barcuda {
namespace {

using namespace std::chrono_literals;

struct MonitoringTest : RegionTest {
    const std::string program = scratch / "monitor", said = scratch / "said";
    std::optional<Monitoring> monitoring{std::in_place};
    Monitoring::Clock::time_point now{1h};

    void SetUp() override {
        RegionTest::SetUp();
        ASSERT_EQ(mkfifo(said.c_str(), 0600), 0);
        ASSERT_EQ(mkfifo((scratch / "never").c_str(), 0600), 0);
        script("echo \"$*\" > " + said + "\nread x < " + (scratch / "never"));
        start();
    }
    void script(const std::string& text) const {
        std::ofstream(program) << "#!/bin/sh\n" + text + "\n";
        ASSERT_EQ(chmod(program.c_str(), 0700), 0);
    }
    void start() {
        std::vector<barcuda_device> devices(2);
        devices[1].total_memory = 77;
        monitoring->start(host, devices, "/the/libcuda.so.1", program);
    }
    std::string hear() const {
        std::ifstream in(said);
        return {std::istreambuf_iterator<char>(in), {}};
    }
    // The file that the monitor shares with the bridge, once it runs.
    Roster& roster() const {
        const std::string path = "/proc/" + std::to_string(monitoring->pid()) + "/fd/" + std::to_string(roster_fd);
        const File file(open(path.c_str(), O_RDWR | O_CLOEXEC));
        void* const at = mmap(nullptr, sizeof(Roster), PROT_READ | PROT_WRITE, MAP_SHARED, file.fd(), 0);
        EXPECT_NE(at, MAP_FAILED) << path;
        return *static_cast<Roster*>(at);  // mapped until the test's process ends
    }
    void await_end() const {
        siginfo_t its{};
        waitid(P_PID, static_cast<id_t>(monitoring->pid()), &its, WEXITED | WNOWAIT);
    }
    void sweep() { publish(const_cast<barcuda_snapshot*>(host.snapshot())->sequence, ++sweeps_); }
    barcuda_u32 state() const { return observe(host.snapshot()->state); }
    // A client asks each second, for that many seconds.
    void wanted_for(int seconds) {
        for (int i = 0; i < seconds; ++i) {
            now += 1s;
            monitoring->want(now);
            monitoring->look(now);
        }
    }

  private:
    decltype(barcuda_snapshot::sequence) sweeps_ = 0;
};

TEST_F(MonitoringTest, StartsWhenAClientFirstAsks) {
    monitoring->look(now);
    EXPECT_EQ(monitoring->pid(), -1);
    monitoring->want(now);
    EXPECT_GT(monitoring->pid(), 0);
    EXPECT_EQ(hear(), "--monitor " + nvml_of("/the/libcuda.so.1") + "\n");
}
TEST_F(MonitoringTest, IsToldOfTheDevicesTheWorkersAndTheLimits) {
    monitoring->client(3, 4711);
    monitoring->client(4, 4712);
    monitoring->client(4, 0);
    monitoring->client(BARCUDA_MAX_CHANNELS, 1);  // there is no such channel
    monitoring->show_memory(1 << 20);
    monitoring->want(now);
    hear();
    const Roster& its = roster();
    EXPECT_EQ(its.bridge, getpid());
    EXPECT_EQ(its.device_count, 2u);
    EXPECT_EQ(its.devices[1].total_memory, 77u);
    EXPECT_EQ(its.channel_count, host.shape().channel_count);
    EXPECT_EQ(its.workers[3], 4711u);
    EXPECT_EQ(its.workers[4], 0u);
    EXPECT_EQ(its.memory, 1u << 20);
    EXPECT_EQ(its.held[1], Busy::not_known);
    monitoring->show_held(1, 5);
    EXPECT_EQ(its.held[1], 5u);
    EXPECT_EQ(its.wanted, 1u);
    monitoring->want(now);
    EXPECT_EQ(its.wanted, 2u);
}
TEST_F(MonitoringTest, IsToldOfWorkersThatWereThereBeforeIt) {
    monitoring.emplace();
    monitoring->client(3, 4711);
    monitoring->client(4, 4712);
    monitoring->client(4, 0);
    start();
    monitoring->want(now);
    hear();
    EXPECT_EQ(roster().workers[3], 4711u);
    EXPECT_EQ(roster().workers[4], 0u);
}
TEST_F(MonitoringTest, OneThatHasDiedIsReplacedWhenAClientAsksAfterAPause) {
    monitoring->want(now);
    hear();
    const pid_t first = monitoring->pid();
    kill(first, SIGKILL);
    await_end();
    monitoring->look(now);
    EXPECT_EQ(monitoring->pid(), -1);
    monitoring->want(now + 5s);
    EXPECT_EQ(monitoring->pid(), -1) << "each start costs a start of NVML";
    monitoring->look(now + 6s);
    EXPECT_EQ(monitoring->pid(), -1) << "no client asks";
    monitoring->want(now + 6s);
    EXPECT_GT(monitoring->pid(), 0);
    EXPECT_TRUE(monitoring->asks());
}
TEST_F(MonitoringTest, WithoutAnNvmlGuestsAreToldAndNoneIsStartedAgain) {
    script("exit " + std::to_string(no_nvml));
    monitoring->want(now);
    EXPECT_TRUE(monitoring->asks()) << "as far as known";
    await_end();
    monitoring->look(now);
    EXPECT_EQ(state(), static_cast<barcuda_u32>(BARCUDA_SNAPSHOT_NONE));
    EXPECT_FALSE(monitoring->asks());
    EXPECT_FALSE(monitoring->busy({}));
    now += 1min;
    monitoring->want(now);
    monitoring->look(now);
    monitoring->client(0, 1);
    EXPECT_EQ(monitoring->pid(), -1);
    EXPECT_EQ(state(), static_cast<barcuda_u32>(BARCUDA_SNAPSHOT_NONE));
}
TEST_F(MonitoringTest, IsSilentAtFirstAfterHalfAMinuteAndLaterAfterFiveSeconds) {
    monitoring->want(now);
    wanted_for(30);
    EXPECT_EQ(state(), static_cast<barcuda_u32>(BARCUDA_SNAPSHOT_TAKEN)) << "a driver may start for that long";
    wanted_for(1);
    EXPECT_EQ(state(), static_cast<barcuda_u32>(BARCUDA_SNAPSHOT_SILENT));
    sweep();
    wanted_for(6);
    EXPECT_EQ(state(), static_cast<barcuda_u32>(BARCUDA_SNAPSHOT_TAKEN));
    wanted_for(1);
    EXPECT_EQ(state(), static_cast<barcuda_u32>(BARCUDA_SNAPSHOT_SILENT));
    sweep();
    monitoring->look(now);
    EXPECT_EQ(state(), static_cast<barcuda_u32>(BARCUDA_SNAPSHOT_TAKEN));
}
TEST_F(MonitoringTest, MayBeSilentWhileNoClientAsks) {
    monitoring->want(now);
    sweep();
    monitoring->look(now);
    now += 10min;
    monitoring->look(now);
    EXPECT_EQ(state(), static_cast<barcuda_u32>(BARCUDA_SNAPSHOT_TAKEN));
    monitoring->want(now);
    monitoring->look(now + 1s);
    EXPECT_EQ(state(), static_cast<barcuda_u32>(BARCUDA_SNAPSHOT_TAKEN)) << "an answer is due from now on";
}
TEST_F(MonitoringTest, SaysHowBusyTheGpusAreOnlyIfThatIsRecent) {
    const std::chrono::system_clock::time_point wall{1'000'000s};
    EXPECT_FALSE(monitoring->busy(wall)) << "never asked";
    monitoring->want(now);
    hear();
    Roster& its = roster();
    its.busy.gpus[1] = 55;
    publish(its.busy.taken, std::uint64_t{1'000'000'000'000});
    ASSERT_TRUE(monitoring->busy(wall + 2s));
    EXPECT_EQ(monitoring->busy(wall + 2s)->gpus[1], 55);
    EXPECT_FALSE(monitoring->busy(wall + 3s));
}
TEST_F(MonitoringTest, EndsWithTheBridge) {
    monitoring->want(now);
    hear();
    const pid_t its = monitoring->pid();
    monitoring.reset();
    waitpid(its, nullptr, 0);
    EXPECT_EQ(kill(its, 0), -1);
}

}  // namespace
}  // namespace barcuda
