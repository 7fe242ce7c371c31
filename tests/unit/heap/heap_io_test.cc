// SPDX-License-Identifier: Apache-2.0
// Memory of the region is memory: what the kernel does with a program's buffers, it does with these.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>

#include "tests/heap/support/unit_region.h"

using namespace barcuda::heap;
using namespace barcuda::heap::test;

namespace {

struct Io : testing::Test {
    void SetUp() override {
        ASSERT_TRUE(activate());
        a = static_cast<unsigned char*>(region_alloc(1 * MiB, 16, false));
        b = static_cast<unsigned char*>(pinned_alloc(1 * MiB, 0));
        for (std::size_t i = 0; i < 1 * MiB; ++i) a[i] = static_cast<unsigned char>(i * 7 >> 3);
        memset(b, 0, 1 * MiB);
    }
    void TearDown() override {
        region_free(a);
        pinned_free(b);
    }
    // A file on a disk where there is one: tmpfs takes no O_DIRECT.
    static int file(int flags) {
        for (const char* where : {"/var/tmp", "/tmp", "."})
            if (const int fd = open(where, O_TMPFILE | O_RDWR | O_CLOEXEC | flags, 0600); fd >= 0) return fd;
        return -1;
    }
    unsigned char *a, *b;
};

TEST_F(Io, ReadAndWrite) {
    const int fd = file(0);
    ASSERT_EQ(pwrite(fd, a, 1 * MiB, 0), static_cast<ssize_t>(1 * MiB));
    ASSERT_EQ(pread(fd, b, 1 * MiB, 0), static_cast<ssize_t>(1 * MiB));
    EXPECT_EQ(memcmp(a, b, 1 * MiB), 0);
    close(fd);
}

TEST_F(Io, DirectIo) {
    const int fd = file(O_DIRECT);
    if (fd < 0 || pwrite(fd, a, 1 * MiB, 0) < 0) GTEST_SKIP() << "no file system with O_DIRECT here";
    ASSERT_EQ(pread(fd, b, 1 * MiB, 0), static_cast<ssize_t>(1 * MiB));
    EXPECT_EQ(memcmp(a, b, 1 * MiB), 0);
    close(fd);
}

TEST_F(Io, SendfileIntoASocketAndReceiveFromIt) {
    int pair[2];
    const int fd = file(0);
    ASSERT_EQ(pwrite(fd, a, 1 * MiB, 0), static_cast<ssize_t>(1 * MiB));
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    std::thread sender([&] {
        off_t at = 0;
        while (at < static_cast<off_t>(1 * MiB) && sendfile(pair[0], fd, &at, 1 * MiB) > 0) {}
    });
    for (std::size_t at = 0; at < 1 * MiB;) {
        const ssize_t n = recv(pair[1], b + at, 1 * MiB - at, 0);
        if (n <= 0) break;
        at += static_cast<std::size_t>(n);
    }
    sender.join();
    EXPECT_EQ(memcmp(a, b, 1 * MiB), 0);
    close(fd);
    close(pair[0]);
    close(pair[1]);
}

TEST_F(Io, VmspliceThroughAPipe) {
    int pipe_[2];
    ASSERT_EQ(pipe(pipe_), 0);
    iovec piece{a, 16 * KiB};
    ASSERT_EQ(vmsplice(pipe_[1], &piece, 1, 0), static_cast<ssize_t>(16 * KiB));
    ASSERT_EQ(read(pipe_[0], b, 16 * KiB), static_cast<ssize_t>(16 * KiB));
    EXPECT_EQ(memcmp(a, b, 16 * KiB), 0);
    close(pipe_[0]);
    close(pipe_[1]);
}

TEST_F(Io, AnotherProcessReadsItWithProcessVmReadv) {
    std::string there(1 * MiB, 0);
    iovec local{there.data(), 1 * MiB}, remote{a, 1 * MiB};
    ASSERT_EQ(process_vm_readv(getpid(), &local, 1, &remote, 1, 0), static_cast<ssize_t>(1 * MiB));
    EXPECT_EQ(memcmp(a, there.data(), 1 * MiB), 0);
}

TEST_F(Io, FutexesPrivateAndShared) {
    for (const int flag : {FUTEX_PRIVATE_FLAG, 0}) {
        auto* word = reinterpret_cast<std::atomic<int>*>(b);
        *word = 0;
        std::thread waiter([&] {
            while (*word == 0) syscall(SYS_futex, word, FUTEX_WAIT | flag, 0, nullptr, nullptr, 0);
        });
        *word = 1;
        syscall(SYS_futex, word, FUTEX_WAKE | flag, 1, nullptr, nullptr, 0);
        waiter.join();
    }
}

TEST_F(Io, ItCanBeLockedProtectedAndAdvised) {
    EXPECT_EQ(mlock(b, 64 * KiB), 0);
    EXPECT_EQ(munlock(b, 64 * KiB), 0);
    EXPECT_EQ(mprotect(b, 4096, PROT_READ), 0);
    EXPECT_EQ(mprotect(b, 4096, PROT_READ | PROT_WRITE), 0);
    EXPECT_EQ(madvise(a, 64 * KiB, MADV_WILLNEED), 0);
    EXPECT_EQ(a[64 * KiB], static_cast<unsigned char>(64 * KiB * 7 >> 3));
}

}  // namespace
