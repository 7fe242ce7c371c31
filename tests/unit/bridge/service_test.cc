// SPDX-License-Identifier: Apache-2.0
// service_test: what systemd hears of the bridge, at a socket as systemd's.
#include "host-bridge/bridge/service.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cstdlib>
#include <string>

#include "base/message.h"
#include "tests/unit/support/scratch.h"

namespace barcuda {
namespace {

using namespace std::chrono_literals;

struct ServiceTest : testing::Test {
    test::Scratch scratch;
    File notices{socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
    Service::Clock::time_point now{1h};

    void SetUp() override {
        TearDown();  // of a service that runs the tests
        const std::string path = scratch / "notify";
        const sockaddr_un address = unix_address(path);
        ASSERT_EQ(bind(notices.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
        setenv("NOTIFY_SOCKET", path.c_str(), 1);
    }
    void TearDown() override {
        for (const char* name : {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"}) unsetenv(name);
    }
    std::string heard() {
        char text[256];
        const ssize_t n = recv(notices.fd(), text, sizeof text, 0);
        return n < 0 ? "" : std::string(text, static_cast<std::size_t>(n));
    }
};

TEST_F(ServiceTest, SaysWhatItServesAndThatItEnds) {
    const Service service;
    service.ready("region r");
    EXPECT_EQ(heard(), "READY=1\nSTATUS=region r");
    service.leaving();
    EXPECT_EQ(heard(), "STOPPING=1");
}
TEST_F(ServiceTest, BeatsFourTimesInTheWatchdogsTimeAndNotOftener) {
    setenv("WATCHDOG_USEC", "8000000", 1);
    setenv("WATCHDOG_PID", "1", 1);  // the keeper's
    Service service;
    service.beat(now);
    EXPECT_EQ(heard(), "WATCHDOG=1");
    service.beat(now + 1999ms);
    EXPECT_EQ(heard(), "");
    service.beat(now + 2s);
    EXPECT_EQ(heard(), "WATCHDOG=1");
    service.beat(now + 3s);
    EXPECT_EQ(heard(), "") << "the time begins again with each beat";
}
TEST_F(ServiceTest, WithoutAWatchdogDoesNotBeat) {
    Service service;
    service.beat(now);
    EXPECT_EQ(heard(), "");
}

}  // namespace
}  // namespace barcuda
