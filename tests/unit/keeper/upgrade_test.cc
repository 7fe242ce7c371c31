// SPDX-License-Identifier: Apache-2.0
// upgrade_test: which file a keeper runs, what it makes of its answer, and the steps of an upgrade. (Whole bridges:
// tests/e2e/lives/test_upgrade.py.)
#include "host-bridge/keeper/upgrade.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <string>
#include <utility>

namespace barcuda {
namespace {

using testing::HasSubstr;
using Step = Upgrade::Step;
using namespace std::chrono_literals;

File opened(const char* path) { return File(open(path, O_PATH | O_CLOEXEC)); }

TEST(ProgramTest, OfRootMayBeRun) { EXPECT_EQ(check_program(opened("/bin/sh").fd()).text(), ""); }
TEST(ProgramTest, ThatOthersMayHaveMadeIsRefused) {
    File own(memfd_create("program", MFD_CLOEXEC));
    const auto with_mode = [&](mode_t mode) {
        fchmod(own.fd(), mode);
        return check_program(own.fd()).text();
    };
    EXPECT_EQ(with_mode(0755), "");
    EXPECT_EQ(with_mode(0500), "");
    EXPECT_THAT(with_mode(0775), HasSubstr("may write to it"));
    EXPECT_THAT(with_mode(0757), HasSubstr("may write to it"));
    EXPECT_THAT(with_mode(0644), HasSubstr("cannot be executed"));
    EXPECT_THAT(check_program(opened("/").fd()).text(), HasSubstr("not a regular file"));
    EXPECT_TRUE(check_program(-1));
    if (geteuid() != 0) GTEST_SKIP() << "only root can give a file to another user";
    ASSERT_EQ(fchown(own.fd(), 65534, 65534), 0);
    EXPECT_THAT(with_mode(0755), HasSubstr("belongs to user 65534"));
}

TEST(UpgradeSteps, AreThoseOfTheDiagram) {
    EXPECT_TRUE(Upgrade::permits(Step::none, Step::checking));
    EXPECT_TRUE(Upgrade::permits(Step::checking, Step::replacing));
    EXPECT_TRUE(Upgrade::permits(Step::failed, Step::checking));
    EXPECT_FALSE(Upgrade::permits(Step::none, Step::trying)) << "a bridge is replaced only after a check";
    EXPECT_FALSE(Upgrade::permits(Step::checking, Step::replaced));
    EXPECT_FALSE(Upgrade::permits(Step::trying, Step::checking));
    EXPECT_FALSE(Upgrade::permits(Step::refused, Step::replacing));
}

// The file is a shell, and the keeper's command its script, which sees what the keeper adds.
struct UpgradeTest : testing::Test {
    static Upgrade of(std::string script) { return Upgrade({"sh", "-c", std::move(script), "sh"}); }
    static int begin(Upgrade& upgrade, bool only_check = false, std::chrono::milliseconds within = 60s) {
        return upgrade.begin({only_check, "layout7", within}, opened("/bin/sh"));
    }
    static bool await_check(Upgrade& upgrade) {
        bool replaces = false;
        while (upgrade.step() == Step::checking) replaces = upgrade.look();
        return replaces;
    }
};

TEST_F(UpgradeTest, GivesTheFileTheNumbersOfTheBridgeAndItsOwn) {
    Upgrade upgrade = of("echo \"$*\"; exit 87");
    EXPECT_EQ(begin(upgrade, true), 0);
    EXPECT_FALSE(await_check(upgrade));
    EXPECT_EQ(upgrade.step(), Step::fits);
    EXPECT_EQ(upgrade.said(), "--could-follow layout7.keeper1");
    EXPECT_EQ(upgrade.attempt(), 1u);
    EXPECT_EQ(upgrade.program(), -1) << "a check keeps no file";
}
TEST_F(UpgradeTest, RefusesAFileThatSaysNoOrNothing) {
    for (const char* script : {"echo no; exit 1", "exit 0", "kill -9 $$"}) {
        Upgrade upgrade = of(script);
        EXPECT_EQ(begin(upgrade), 0);
        EXPECT_FALSE(await_check(upgrade)) << script;
        EXPECT_EQ(upgrade.step(), Step::refused) << script;
        EXPECT_NE(upgrade.said(), "") << script;
    }
}
TEST_F(UpgradeTest, RefusesAFileThatDoesNotAnswerInTime) {
    Upgrade upgrade = of("exec sleep 600");
    EXPECT_EQ(begin(upgrade, false, 1ms), 0);
    EXPECT_FALSE(await_check(upgrade));
    EXPECT_EQ(upgrade.step(), Step::refused);
    EXPECT_THAT(upgrade.said(), HasSubstr("did not answer the check within 0.001 s"));
}
TEST_F(UpgradeTest, RefusesWhatIsNoProgram) {
    Upgrade upgrade = of("");
    EXPECT_EQ(upgrade.begin({false, "layout7", 1s}, opened("/etc/passwd")), 0);
    EXPECT_EQ(upgrade.step(), Step::refused);
    EXPECT_THAT(upgrade.said(), HasSubstr("cannot be executed"));
    EXPECT_EQ(upgrade.begin({false, "layout7", 1s}, File()), EBADF);
}
TEST_F(UpgradeTest, BoundsWhatAFileMaySay) {
    Upgrade upgrade = of("yes; exit 87");
    EXPECT_EQ(begin(upgrade), 0);
    EXPECT_FALSE(await_check(upgrade));
    struct stat st {};
    ASSERT_EQ(fstat(upgrade.text(), &st), 0);
    EXPECT_LE(st.st_size, 64 << 10);
}
TEST_F(UpgradeTest, ReplacesOnceAndTakesOneOrderAtATime) {
    Upgrade upgrade = of("exit 87");
    EXPECT_EQ(begin(upgrade), 0);
    EXPECT_EQ(begin(upgrade), EBUSY);
    EXPECT_TRUE(await_check(upgrade));
    EXPECT_FALSE(upgrade.look());
    EXPECT_EQ(begin(upgrade), EBUSY);
    upgrade.old_one_ended();
    EXPECT_EQ(upgrade.step(), Step::trying);
    EXPECT_GE(upgrade.program(), 0);
    upgrade.ready();
    EXPECT_EQ(upgrade.step(), Step::replaced);
    EXPECT_TRUE(upgrade.take_program());
    EXPECT_EQ(begin(upgrade), 0) << "the next one";
    EXPECT_EQ(upgrade.attempt(), 2u);
    await_check(upgrade);
}
TEST_F(UpgradeTest, SaysHowANewBridgeEndedThatSaidNothing) {
    Upgrade upgrade = of("exit 87");
    EXPECT_EQ(begin(upgrade, false, 600s), 0);
    ASSERT_TRUE(await_check(upgrade));
    upgrade.old_one_ended();
    EXPECT_FALSE(upgrade.is_late(Upgrade::Clock::now()));
    upgrade.ended(SIGSEGV);
    EXPECT_EQ(upgrade.step(), Step::failed);
    EXPECT_THAT(upgrade.said(), HasSubstr("was killed by signal 11"));
    EXPECT_EQ(upgrade.program(), -1);
}
TEST_F(UpgradeTest, SaysThatANewBridgeWasLate) {
    Upgrade upgrade = of("exit 87");
    EXPECT_EQ(begin(upgrade, false, 600s), 0);
    ASSERT_TRUE(await_check(upgrade));
    upgrade.old_one_ended();
    EXPECT_TRUE(upgrade.is_late(upgrade.deadline()));
    EXPECT_FALSE(upgrade.is_late(upgrade.deadline())) << "once";
    upgrade.ended(SIGKILL);
    EXPECT_THAT(upgrade.said(), HasSubstr("did not serve within 600 s"));
}

}  // namespace
}  // namespace barcuda
