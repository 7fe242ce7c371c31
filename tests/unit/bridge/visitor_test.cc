// SPDX-License-Identifier: Apache-2.0
// visitor_test: the process at the other end of a socket: whether it lives, and whether a bridge has started it.
#include "host-bridge/bridge/visitor.h"

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <string>

namespace barcuda {
namespace {

// A socket without a file; a process connects to it and says so.
struct Door {
    File listener{socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    sockaddr_un address{};
    socklen_t size = sizeof(sa_family_t);
    Door() {
        address.sun_family = AF_UNIX;
        bind(listener.fd(), reinterpret_cast<sockaddr*>(&address), size);  // the kernel gives it a name
        socklen_t length = sizeof address;
        getsockname(listener.fd(), reinterpret_cast<sockaddr*>(&address), &length);
        size = length;
        listen(listener.fd(), 4);
    }
    File knock() const {
        File to(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
        EXPECT_EQ(connect(to.fd(), reinterpret_cast<const sockaddr*>(&address), size), 0);
        return to;
    }
    File accept() const { return File(accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC)); }
};

TEST(Visitor, IsTheProcessThatConnected) {
    const Door door;
    const File knocked = door.knock(), here = door.accept();
    const Visitor visitor = visitor_at(here.fd());
    EXPECT_EQ(visitor.pid, getpid());
    EXPECT_EQ(visitor.user, geteuid());
    EXPECT_TRUE(visitor.process);
    EXPECT_FALSE(is_a_bridges(visitor));
}

// Its number may belong to another process by now, and so may its connection.
TEST(Visitor, ThatHasEndedIsNobody) {
    const Door door;
    const pid_t child = fork();
    if (child == 0) {
        door.knock().release();
        _exit(0);
    }
    waitpid(child, nullptr, 0);
    const File here = door.accept();
    EXPECT_TRUE(here);
    EXPECT_FALSE(visitor_at(here.fd()).process);
    EXPECT_FALSE(visitor_at(-1).process);
}

// This process has a bridge's name; its child is a worker of another bridge than the one that asks.
TEST(Visitor, ThatABridgeHasStartedIsKnownWhateverItCallsItself) {
    const Door door;
    char name[16];
    prctl(PR_GET_NAME, name);
    prctl(PR_SET_NAME, "barcuda-bridge");
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
        close(ends[1]);
        prctl(PR_SET_NAME, "qemu) S 1 (");
        const File to = door.knock();
        char nothing;
        _exit(read(ends[0], &nothing, 1) < 0);
    }
    const File here = door.accept();
    const Visitor visitor = visitor_at(here.fd());
    EXPECT_EQ(visitor.pid, child);
    EXPECT_TRUE(is_a_bridges(visitor));
    prctl(PR_SET_NAME, name);
    EXPECT_FALSE(is_a_bridges(visitor)) << "its parent is no bridge";
    close(ends[1]);
    waitpid(child, nullptr, 0);
    EXPECT_FALSE(is_a_bridges(visitor));
}

}  // namespace
}  // namespace barcuda
