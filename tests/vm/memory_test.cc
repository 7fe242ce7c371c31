// SPDX-License-Identifier: Apache-2.0
// memory_test: region memory is memory like any other to the kernel: cached, and good for every way of reading and
// writing. Without struct pages (the module's pages=0, or a device without hardware) some ways answer EFAULT: those
// tests are skipped, and say so.
#include <linux/futex.h>
#include <linux/io_uring.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/vm/disk.h"
#include "tests/vm/door.h"

namespace barcuda::vm {
namespace {

// Does process_vm_readv() read region memory? The one question that all of these ways share.
bool has_struct_pages() {
    Client c;
    if (c.map_extents()) return false;
    char byte;
    iovec to{&byte, 1}, from{c.address(), 1};
    return process_vm_readv(getpid(), &to, 1, &from, 1, 0) == 1;
}

class Memory : public testing::Test {
  protected:
    void SetUp() override { ASSERT_EQ(client.map_extents(0, stub_granules), 0); }
    Client client;
    char* const memory = client.address();
};

class PagedMemory : public Memory {
  protected:
    void SetUp() override {
        static const bool paged = has_struct_pages();
        if (!paged) GTEST_SKIP() << "this device's memory has no struct pages";
        Memory::SetUp();
    }
};

// The BAR's first address, from the PCI device of the UIO device; empty: no hardware.
std::string bar_start() {
    const std::string name = std::strrchr(device(), '/') + 1;
    std::ifstream resource("/sys/class/uio/" + name + "/device/resource");
    std::string line, start;
    for (int bar = 0; bar <= 2 && std::getline(resource, line);) ++bar;
    return line.substr(0, line.find(' '));
}

TEST_F(Memory, IsMappedWriteBack) {
    const std::string start = bar_start();
    if (start.empty()) GTEST_SKIP() << "no BAR behind this device";
    mkdir("/run/debug", 0755);
    mount("debugfs", "/run/debug", "debugfs", 0, nullptr);
    std::ifstream list("/run/debug/x86/pat_memtype_list");
    ASSERT_TRUE(list) << "run as root";
    const std::string wanted = "[mem 0x" + std::string(start, 2);
    std::string line, found;
    while (std::getline(list, line))
        if (line.find(wanted) != std::string::npos) found = line;
    EXPECT_NE(found.find("write-back"), std::string::npos) << "the BAR's entry: " << found;
}

// Page faults that writing to each of the pages of a page table costs.
long faults_of_writing(char* memory) {
    rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    for (std::size_t i = 0; i < 512; ++i) memory[i * BARCUDA_PAGE] = 1;
    getrusage(RUSAGE_SELF, &after);
    return after.ru_minflt - before.ru_minflt;
}

TEST_F(Memory, IsMappedAPageTableAFault) { EXPECT_LE(faults_of_writing(memory), 5); }

TEST_F(PagedMemory, IsMadeWritableAPageTableAFault) {
    faults_of_writing(memory);
    ASSERT_EQ(mprotect(memory, BARCUDA_GRANULE, PROT_READ), 0);
    ASSERT_EQ(mprotect(memory, BARCUDA_GRANULE, PROT_READ | PROT_WRITE), 0);
    EXPECT_LE(faults_of_writing(memory), 5);
    EXPECT_EQ(in_child([&] { return memory[0] - 1; }), 0);
    EXPECT_LE(faults_of_writing(memory), 5) << "after a fork";
}

TEST_F(Memory, IsReadAndWrittenBySystemCalls) {
    int fds[2];
    ASSERT_EQ(pipe(fds), 0);
    std::strcpy(memory, "through a pipe");
    ASSERT_EQ(write(fds[1], memory, 15), 15);
    ASSERT_EQ(read(fds[0], memory + 8 * BARCUDA_PAGE - 5, 15), 15) << "into pages that were never touched";
    EXPECT_STREQ(memory + 8 * BARCUDA_PAGE - 5, "through a pipe");
    close(fds[0]);
    close(fds[1]);
}

TEST_F(Memory, IsReadAndWrittenByADebugger) {
    Gate stop;
    const pid_t pid = start_child([&] {
        Client c;
        if (c.map_extents() || c.index() == client.index()) return 1;
        *reinterpret_cast<std::uint64_t*>(c.address()) = 0x1122334455667788;
        ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
        raise(SIGSTOP);
        return *reinterpret_cast<std::uint64_t*>(c.address()) == 0x8877665544332211 ? 0 : 2;
    });
    int how;
    ASSERT_EQ(waitpid(pid, &how, 0), pid);
    ASSERT_TRUE(WIFSTOPPED(how));
    // the next free slot after ours
    char* theirs = nullptr;
    for (unsigned i = 0; i < header()->channel_count && !theirs; ++i)
        if (i != client.index() && observe(header().slot(i).opened) != observe(header().slot(i).closed))
            theirs = header().address(i * stub_granules);
    ASSERT_NE(theirs, nullptr);
    EXPECT_EQ(ptrace(PTRACE_PEEKDATA, pid, theirs, nullptr), 0x1122334455667788);
    EXPECT_EQ(ptrace(PTRACE_POKEDATA, pid, theirs, 0x8877665544332211), 0);
    ptrace(PTRACE_CONT, pid, nullptr, nullptr);
    EXPECT_EQ(status_of(pid), 0);
}

TEST_F(Memory, HoldsPrivateFutexes) {
    auto& word = *reinterpret_cast<std::atomic<int>*>(memory);
    std::thread waker([&] {
        usleep(10000);
        word = 1;
        syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
    });
    while (word == 0) syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, nullptr, nullptr, 0);
    waker.join();
    EXPECT_EQ(word, 1);
}

TEST_F(PagedMemory, HoldsSharedFutexes) {
    auto& word = *reinterpret_cast<std::atomic<int>*>(memory);
    std::atomic<long> woken{-1};
    std::thread waker([&] {
        // Until the waiter sleeps there is no thread to wake.
        while ((woken = syscall(SYS_futex, &word, FUTEX_WAKE, 1, nullptr, nullptr, 0)) == 0) usleep(1000);
    });
    const long waited = syscall(SYS_futex, &word, FUTEX_WAIT, 0, nullptr, nullptr, 0);
    const int error = errno;
    waker.join();
    EXPECT_EQ(waited, 0) << strerror(error);
    EXPECT_EQ(woken, 1);
}

TEST_F(PagedMemory, IsReadAndWrittenByAnotherProcess) {
    std::strcpy(memory, "ours");
    EXPECT_EQ(in_child([&] {
                  char text[5] = "";
                  iovec here{text, 5}, there{memory, 5};
                  if (process_vm_readv(getppid(), &here, 1, &there, 1, 0) != 5 || strcmp(text, "ours")) return 1;
                  std::strcpy(text, "ohne");
                  return process_vm_writev(getppid(), &here, 1, &there, 1, 0) == 5 ? 0 : 2;
              }),
              0);
    EXPECT_STREQ(memory, "ohne");
}

TEST_F(PagedMemory, IsSplicedIntoAPipe) {
    int fds[2];
    ASSERT_EQ(pipe(fds), 0);
    std::strcpy(memory, "spliced");
    iovec from{memory, 8};
    ASSERT_EQ(vmsplice(fds[1], &from, 1, 0), 8);
    char text[8];
    ASSERT_EQ(read(fds[0], text, 8), 8);
    EXPECT_STREQ(text, "spliced");
    close(fds[0]);
    close(fds[1]);
}

TEST_F(PagedMemory, IsWrittenAndReadByDirectIo) {
    const int disk = open_disk();
    if (disk < 0) GTEST_SKIP() << "no RAM disk (BARCUDA_TEST_BRD names the kernel's brd.ko)";
    constexpr std::size_t bytes = 1 << 20;
    for (std::size_t i = 0; i < bytes; ++i) memory[i] = static_cast<char>(i * 7 + (i >> 9));
    ASSERT_EQ(pwrite(disk, memory, bytes, 0), static_cast<ssize_t>(bytes)) << strerror(errno);
    char* copy = memory + BARCUDA_GRANULE;
    ASSERT_EQ(pread(disk, copy, bytes, 0), static_cast<ssize_t>(bytes)) << strerror(errno);
    EXPECT_EQ(std::memcmp(memory, copy, bytes), 0);
    close(disk);
}

// The smallest io_uring: one request at a time. (Its registered buffers must be anonymous memory: 6.1 refuses any
// file's, so also ours, with EOPNOTSUPP.)
class Ring {
  public:
    Ring() {
        fd_ = static_cast<int>(syscall(SYS_io_uring_setup, 4, &p_));
        if (fd_ < 0) return;
        submit_ = ring(p_.sq_off.array + p_.sq_entries * 4, IORING_OFF_SQ_RING);
        done_ = ring(p_.cq_off.cqes + p_.cq_entries * sizeof(io_uring_cqe), IORING_OFF_CQ_RING);
        entries_ = reinterpret_cast<io_uring_sqe*>(ring(p_.sq_entries * sizeof(io_uring_sqe), IORING_OFF_SQES));
    }
    ~Ring() { close(fd_); }
    int fd() const { return fd_; }
    int run(io_uring_sqe request) {
        entries_[0] = request;
        *at<unsigned>(submit_, p_.sq_off.array) = 0;
        publish(*at<unsigned>(submit_, p_.sq_off.tail), *at<unsigned>(submit_, p_.sq_off.tail) + 1);
        if (syscall(SYS_io_uring_enter, fd_, 1, 1, IORING_ENTER_GETEVENTS, nullptr, 0) != 1) return -errno;
        unsigned& head = *at<unsigned>(done_, p_.cq_off.head);
        const unsigned index = head & *at<unsigned>(done_, p_.cq_off.ring_mask);
        const int result = at<io_uring_cqe>(done_, p_.cq_off.cqes)[index].res;
        publish(head, head + 1);
        return result;
    }

  private:
    template <class T> static T* at(char* base, unsigned offset) { return reinterpret_cast<T*>(base + offset); }
    char* ring(std::size_t bytes, off_t which) {
        return static_cast<char*>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd_, which));
    }
    int fd_ = -1;
    io_uring_params p_{};
    char *submit_ = nullptr, *done_ = nullptr;
    io_uring_sqe* entries_ = nullptr;
};

TEST_F(PagedMemory, IsReadAndWrittenThroughIoUring) {
    Ring ring;
    if (ring.fd() < 0) GTEST_SKIP() << "no io_uring in this kernel";
    const int file = open("/dev/shm/ring", O_RDWR | O_CREAT | O_TRUNC, 0600);
    for (unsigned i = 0; i < 64 * BARCUDA_PAGE; ++i) memory[i] = static_cast<char>(i % 251);
    io_uring_sqe request{};
    request.opcode = IORING_OP_WRITE;
    request.fd = file;
    request.addr = reinterpret_cast<std::uintptr_t>(memory);
    request.len = 32 * BARCUDA_PAGE;
    ASSERT_EQ(ring.run(request), static_cast<int>(request.len));
    request.opcode = IORING_OP_READ;
    request.addr += 32 * BARCUDA_PAGE;
    std::memset(memory + 32 * BARCUDA_PAGE, 0, 32 * BARCUDA_PAGE);
    ASSERT_EQ(ring.run(request), static_cast<int>(request.len));
    EXPECT_EQ(std::memcmp(memory, memory + 32 * BARCUDA_PAGE, 32 * BARCUDA_PAGE), 0);
    close(file);
    unlink("/dev/shm/ring");
}

// A granule is granted to another when no process maps it; what the pipe holds would then be the other's.
TEST_F(PagedMemory, CountsAsMappedAsLongAsAPipeHoldsAPageOfIt) {
    int fds[2];
    ASSERT_EQ(pipe(fds), 0);
    char* const last = memory + BARCUDA_GRANULE - BARCUDA_PAGE;
    std::strcpy(last, "ours");
    iovec from{last, 5};
    ASSERT_EQ(vmsplice(fds[1], &from, 1, 0), 5);
    munmap(memory, stub_granules * BARCUDA_GRANULE);
    EXPECT_EQ(observe(client.grant(0).mapped), 1u);
    EXPECT_EQ(observe(client.grant(1).mapped), 0u) << "the pipe holds nothing of this one";
    usleep(100000);
    EXPECT_EQ(observe(client.grant(0).mapped), 1u);
    char text[5] = "";
    EXPECT_EQ(read(fds[0], text, 5), 5);
    EXPECT_STREQ(text, "ours");
    wait_until([&] { return observe(client.grant(0).mapped) == 0; });
    close(fds[0]);
    close(fds[1]);
}

TEST_F(PagedMemory, IsPopulatedAndLocked) {
    const int populated = madvise(memory, BARCUDA_GRANULE, MADV_POPULATE_WRITE) ? errno : 0;
    const bool unknown = madvise(memory, 0, MADV_POPULATE_WRITE) != 0;  // before 5.14
    EXPECT_EQ(populated, unknown ? EINVAL : 0) << strerror(populated);
    EXPECT_EQ(mlock(memory, BARCUDA_GRANULE), 0);
}

TEST_F(PagedMemory, KeepsItsContentsUnderDontneed) {
    std::strcpy(memory, "kept");
    ASSERT_EQ(madvise(memory, BARCUDA_GRANULE, MADV_DONTNEED), 0);
    EXPECT_STREQ(memory, "kept");
}

}  // namespace
}  // namespace barcuda::vm
