// SPDX-License-Identifier: Apache-2.0
// exporting_test: the bridge's exporter gets its socket, is started again when it has died, and ends with the bridge. A
// script is in its place.
#include "host-bridge/bridge/exporting.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>

#include "tests/unit/support/keeper_thread.h"
#include "tests/unit/support/scratch.h"

namespace barcuda {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

struct ExportingTest : testing::Test {
    test::Scratch scratch;
    MetricsOptions options{.address = scratch / "socket", .clients = true, .gpus = false};
    const std::string program = scratch / "exporter", said = scratch / "said";
    std::optional<Exporting> exporting{std::in_place};
    Exporting::Clock::time_point now{1h};

    void SetUp() override {
        ASSERT_EQ(mkfifo(said.c_str(), 0600), 0);
        ASSERT_EQ(mkfifo((scratch / "never").c_str(), 0600), 0);
        // Says what it was given, and stays until it is killed.
        std::ofstream(program) << "#!/bin/sh\n{ echo \"$*\"; test -S /proc/$$/fd/3 && echo socket; } > " + said +
                                      "\nread x < " + (scratch / "never") + "\n";
        ASSERT_EQ(chmod(program.c_str(), 0700), 0);
    }
    std::string open(const Kept& kept = {}) { return exporting->open(options, "/the/region", kept, program).text(); }
    std::string hear() const {
        std::ifstream in(said);
        return {std::istreambuf_iterator<char>(in), {}};
    }
    void end(int signal) const {
        siginfo_t its{};
        if (signal) kill(exporting->pid(), signal);
        waitid(P_PID, static_cast<id_t>(exporting->pid()), &its, WEXITED | WNOWAIT);
    }
    ino_t socket_file() const {
        struct stat st {};
        return stat(options.address.c_str(), &st) == 0 ? st.st_ino : 0;
    }
};

TEST_F(ExportingTest, WithoutAnAddressThereIsNone) {
    options.address.clear();
    EXPECT_EQ(open(), "");
    exporting->look(now);
    EXPECT_EQ(exporting->pid(), -1);
}
TEST_F(ExportingTest, AnAddressThatCannotBeTakenIsAnErrorAtOnce) {
    options.address = scratch / "no/folder";
    EXPECT_THAT(open(), HasSubstr("--metrics " + options.address + ": cannot listen there"));
    exporting->look(now);
    EXPECT_EQ(exporting->pid(), -1);
}
TEST_F(ExportingTest, GetsItsSocketItsBridgeAndWhatItMayShow) {
    ASSERT_EQ(open(), "");
    EXPECT_EQ(exporting->pid(), -1) << "not before the bridge serves";
    exporting->look(now);
    EXPECT_EQ(hear(), "--bridge " + std::to_string(getpid()) +
                          " --listener 3 --region /the/region --clients --gpus=false\nsocket\n");
}
TEST_F(ExportingTest, OneThatHasDiedIsReplacedAfterAPause) {
    ASSERT_EQ(open(), "");
    exporting->look(now);
    hear();
    const pid_t first = exporting->pid();
    exporting->look(now + 6s);
    EXPECT_EQ(exporting->pid(), first) << "it lives";
    end(SIGKILL);
    exporting->look(now + 5s);
    EXPECT_EQ(exporting->pid(), -1);
    exporting->look(now + 5s);
    EXPECT_EQ(exporting->pid(), -1) << "not at once";
    exporting->look(now + 5001ms);
    EXPECT_GT(exporting->pid(), 0);
    EXPECT_NE(exporting->pid(), first);
}
TEST_F(ExportingTest, OneThatDoesNotStartIsTriedAgain) {
    unlink(program.c_str());
    ASSERT_EQ(open(), "");
    for (int tries = 0; tries < 2; ++tries, now += 6s) {
        exporting->look(now);
        ASSERT_GT(exporting->pid(), 0);
        end(0);
        exporting->look(now);
        EXPECT_EQ(exporting->pid(), -1);
    }
}
TEST_F(ExportingTest, EndsWithTheBridgeAndSoDoesItsSocket) {
    ASSERT_EQ(open(), "");
    exporting->look(now);
    const pid_t its = exporting->pid();
    ASSERT_NE(socket_file(), 0u);
    exporting.reset();
    EXPECT_EQ(kill(its, 0), -1);
    EXPECT_EQ(socket_file(), 0u);
}
TEST_F(ExportingTest, ABridgeThatFollowsHasTheSameSocket) {
    test::KeeperThread keeper;
    {
        const Kept kept(std::move(keeper.link));
        ASSERT_EQ(open(kept), "");
        const ino_t before = socket_file();
        Exporting next;
        ASSERT_EQ(next.open(options, "/the/region", kept, program).text(), "");
        EXPECT_EQ(socket_file(), before) << "scrapers that wait there are answered";
    }
}

}  // namespace
}  // namespace barcuda
