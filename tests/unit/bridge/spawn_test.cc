// SPDX-License-Identifier: Apache-2.0
// spawn_test: what a child of the bridge finds when its program begins, and what its exit status says if it does not
// begin. (A worker's descriptors: worker_process_test. Its cage: tests/unit/cage.)
#include "host-bridge/bridge/spawn.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <string>

#include "base/message.h"
#include "tests/unit/support/scratch.h"

namespace barcuda {
namespace {

// A script that prints one field of its shell's status.
std::string status_of(const std::string& line, const std::string& what) {
    return "while read name bits; do case $name in " + line + ":) echo " + what + " >&3;; esac; done < /proc/$$/status";
}

struct SpawnTest : testing::Test {
    Spawn what;
    File read_end, write_end;

    void SetUp() override {
        int ends[2];
        ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
        read_end = File(ends[0]);
        write_end = File(ends[1]);
        what.program = "/bin/sh";
        what.files = {{write_end.fd(), 3}};
    }
    int run() {
        std::fflush(nullptr);
        const pid_t child = spawn(what);
        write_end = File();
        return test::exit_status(child);
    }
    // What that script writes to descriptor 3.
    std::string says(const std::string& script) {
        what.command = {"sh", "-c", script};
        EXPECT_EQ(run(), 0);
        std::string all;
        char text[4096];
        for (ssize_t n; (n = read(read_end.fd(), text, sizeof text)) > 0;)
            all.append(text, static_cast<std::size_t>(n));
        return all;
    }
};

TEST_F(SpawnTest, PlacesMayBeOtherFilesNumbers) {
    test::Scratch scratch;
    const auto file = [&](const char* name) { return File(open((scratch / name).c_str(), O_RDWR | O_CREAT, 0600)); };
    File one = file("one"), two = file("two");
    // Each takes the number that the other has here.
    what.files = {{one.fd(), two.fd()}, {two.fd(), one.fd()}, {write_end.fd(), 3}};
    if (one.fd() <= 3 || two.fd() <= 3) GTEST_SKIP() << "the numbers are the pipe's";
    const std::string all =
        says("readlink /proc/$$/fd/" + std::to_string(one.fd()) + " /proc/$$/fd/" + std::to_string(two.fd()) + " >&3");
    EXPECT_EQ(all, scratch / "two" + "\n" + (scratch / "one") + "\n");
}
TEST_F(SpawnTest, HandsOnNoDescriptorBehindTheLastPlaceAndNoneAtAPlaceThatIsEmpty) {
    const File at_a_place(open("/dev/null", O_RDONLY));  // each without close-on-exec
    const File behind(fcntl(at_a_place.fd(), F_DUPFD, at_a_place.fd() + 1));
    const std::string look = "for n in " + std::to_string(at_a_place.fd()) + " " + std::to_string(behind.fd()) +
                             "; do test -e /proc/$$/fd/$n && echo $n >&3; done; true";
    what.files.push_back({-1, at_a_place.fd()});
    EXPECT_EQ(says(look), "");
}
TEST_F(SpawnTest, AChildHearsSignalsThatTheBridgeBlocks) {
    sigset_t blocked, before;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGTERM);
    sigprocmask(SIG_BLOCK, &blocked, &before);
    EXPECT_EQ(says(status_of("SigBlk", "$bits")), "0000000000000000\n");
    sigprocmask(SIG_SETMASK, &before, nullptr);
}
TEST_F(SpawnTest, HasTheEnvironmentButForTheDevicesThatItIsGiven) {
    setenv("CUDA_VISIBLE_DEVICES", "here", 1);
    setenv("SPAWN_TEST", "kept", 1);
    EXPECT_EQ(says("echo $CUDA_VISIBLE_DEVICES $SPAWN_TEST >&3"), "here kept\n");
    SetUp();
    what.devices = "";
    EXPECT_EQ(says("echo \"<$CUDA_VISIBLE_DEVICES>\" $SPAWN_TEST >&3"), "<> kept\n") << "no device is not any device";
    unsetenv("CUDA_VISIBLE_DEVICES");
    unsetenv("SPAWN_TEST");
}
TEST_F(SpawnTest, HasTheLimitOfOpenFilesThatItIsGiven) {
    what.open_files = rlimit{64, 64};
    EXPECT_EQ(says("ulimit -n >&3"), "64\n");
}
TEST_F(SpawnTest, HasItsMemoryWhereItIsTold) {
    using Addresses = Spawn::Addresses;
    constexpr const char* personality = "read bits < /proc/$$/personality; echo $bits >&3";  // its own: any may read it
    const std::string here = says(personality);
    for (const auto& [where, bits] :
         {std::pair(Addresses::as_here, std::stoul(here, nullptr, 16)), std::pair(Addresses::apart, 0x200000ul),
          std::pair(Addresses::fixed, 0x240000ul)}) {
        SetUp();
        what.addresses = where;
        EXPECT_EQ(std::stoul(says(personality), nullptr, 16), bits);
    }
}
TEST_F(SpawnTest, AWrappedOneIsInterruptedThoughTheBridgeIgnoresThat) {
    const auto before = signal(SIGINT, SIG_IGN);
    const std::string ignored = status_of("SigIgn", "$((0x$bits & 2))");
    EXPECT_EQ(says(ignored), "2\n");
    SetUp();
    what.wrapped = true;
    EXPECT_EQ(says(ignored), "0\n");
    signal(SIGINT, before);
}
TEST_F(SpawnTest, SaysThatItsProgramDoesNotStart) {
    what.program = "/no/program";
    what.command = {"program"};
    EXPECT_EQ(run(), no_command);
}
TEST_F(SpawnTest, SaysThatADescriptorCannotBePlaced) {
    rlimit before{};
    getrlimit(RLIMIT_NOFILE, &before);
    what.files.push_back({write_end.fd(), static_cast<int>(before.rlim_cur)});
    what.command = {"sh", "-c", ":"};
    EXPECT_EQ(run(), no_descriptors);
}

}  // namespace
}  // namespace barcuda
