// SPDX-License-Identifier: Apache-2.0
// message_test: descriptors between bridge and worker, of which neither keeps one too many.
#include "base/message.h"

#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <cstring>

namespace barcuda {
namespace {

struct MessageTest : testing::Test {
    File here, there;
    MessageTest() {
        int ends[2];
        EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
        here = File(ends[0]);
        there = File(ends[1]);
    }
    static long open_files() {
        long count = 0;
        DIR* all = opendir("/proc/self/fd");
        while (readdir(all)) ++count;
        closedir(all);
        return count;
    }
    static ino_t inode(int fd) {
        struct stat st {};
        fstat(fd, &st);
        return st.st_ino;
    }
};

TEST_F(MessageTest, ADescriptorArrivesAsTheSameFile) {
    const File sent(open("/dev/null", O_RDONLY | O_CLOEXEC));
    ASSERT_TRUE(send_message(here.fd(), "abc", 3, sent.fd()));
    char text[8];
    File got;
    EXPECT_EQ(receive_message(there.fd(), text, sizeof text, got), 3);
    ASSERT_TRUE(got);
    EXPECT_NE(got.fd(), sent.fd());
    EXPECT_EQ(inode(got.fd()), inode(sent.fd()));
    EXPECT_TRUE(fcntl(got.fd(), F_GETFD) & FD_CLOEXEC);
}

TEST_F(MessageTest, AMessageWithoutOneLeavesNone) {
    ASSERT_TRUE(send_message(here.fd(), "abc", 3));
    char text[8];
    File got(open("/dev/null", O_RDONLY | O_CLOEXEC));
    const int before = got.fd();
    EXPECT_EQ(receive_message(there.fd(), text, sizeof text, got), 3);
    EXPECT_FALSE(got);
    EXPECT_EQ(fcntl(before, F_GETFD), -1);
}

TEST_F(MessageTest, WithoutAMessageThereIsNothing) {
    char text[8];
    File got;
    EXPECT_EQ(receive_message(there.fd(), text, sizeof text, got, MSG_DONTWAIT), -1);
    EXPECT_FALSE(got);
}

TEST_F(MessageTest, OfSeveralDescriptorsOneIsTaken) {
    const int both[2] = {here.fd(), there.fd()};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof both)] = {};
    char byte = 'x';
    iovec data{&byte, 1};
    msghdr header{};
    header.msg_iov = &data;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof control;
    cmsghdr* c = CMSG_FIRSTHDR(&header);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof both);
    std::memcpy(CMSG_DATA(c), both, sizeof both);
    ASSERT_EQ(sendmsg(here.fd(), &header, 0), 1);
    const long before = open_files();
    {
        File got;
        EXPECT_EQ(receive_message(there.fd(), &byte, 1, got), 1);
        EXPECT_EQ(open_files(), before + 1);
    }
    EXPECT_EQ(open_files(), before);
}

}  // namespace
}  // namespace barcuda
