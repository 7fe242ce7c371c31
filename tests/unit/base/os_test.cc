// SPDX-License-Identifier: Apache-2.0
// os_test: the lowest layer does what its headers say (base/os).
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "base/os/clock.h"
#include "base/os/file.h"
#include "base/os/map.h"
#include "base/os/maps.h"
#include "base/os/output.h"
#include "base/os/process.h"
#include "tests/unit/support/scratch.h"

namespace barcuda::os {
namespace {

constexpr std::size_t page = 4096;

class OsTest : public ::testing::Test {
  protected:
    test::Scratch scratch;
    std::string path = scratch / "file";
    int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);

    void SetUp() override { ASSERT_EQ(::ftruncate(file, 16 * page), 0); }
    void TearDown() override { ::close(file); }
    static bool is_mapped(const void* p) {
        unsigned char there;
        return ::mincore(const_cast<void*>(p), page, &there) == 0;
    }
};

// ---- mappings -------------------------------------------------------------------------------------------------------
TEST_F(OsTest, AMappingReplacesOthersOnlyWhenTold) {
    void* there = nullptr;
    ASSERT_EQ(map_memory(page, Access::write, &there), 0);
    *static_cast<char*>(there) = 9;
    EXPECT_EQ(map_file_at(file, 0, there, page, Over::nothing), EEXIST);
    EXPECT_EQ(*static_cast<char*>(there), 9);
    EXPECT_EQ(map_file_at(file, 0, there, page, Over::any_mapping), 0);
    EXPECT_EQ(*static_cast<char*>(there), 0);
    unmap(there, page);
    EXPECT_FALSE(is_mapped(there));
    EXPECT_EQ(map_file_at(file, 0, there, page, Over::nothing), 0);
    unmap(there, page);
}
TEST_F(OsTest, WhatCannotBeMappedLeavesTheAddressAlone) {
    void* p = this;
    EXPECT_EQ(map_file(-1, 0, page, Access::read, &p), EBADF);
    EXPECT_EQ(p, this);
}
TEST_F(OsTest, AMovedMappingIsGoneAndACopiedOneStays) {
    void *from = nullptr, *to = nullptr;
    ASSERT_EQ(map_file(file, 0, 2 * page, Access::write, &from), 0);
    ASSERT_EQ(map_memory(2 * page, Access::none, &to), 0);
    static_cast<char*>(from)[page] = 5;
    ASSERT_EQ(copy_mapping(from, 2 * page, to), 0);
    static_cast<char*>(to)[page] += 1;
    EXPECT_EQ(static_cast<char*>(from)[page], 6);
    ASSERT_EQ(move_mapping(from, 2 * page, to), 0);
    EXPECT_FALSE(is_mapped(from));
    EXPECT_EQ(static_cast<char*>(to)[page], 6);
    unmap(to, 2 * page);
}
TEST_F(OsTest, MemoryGrowsWithWhatItHolds) {
    void* p = nullptr;
    ASSERT_EQ(map_memory(page, Access::write, &p), 0);
    static_cast<char*>(p)[1] = 7;
    ASSERT_EQ(grow_memory(page, 64 * page, &p), 0);
    EXPECT_EQ(static_cast<char*>(p)[1], 7);
    EXPECT_EQ(static_cast<char*>(p)[63 * page], 0);
    forget(p, page);
    EXPECT_EQ(static_cast<char*>(p)[1], 0);
    unmap(p, 64 * page);
}
TEST_F(OsTest, ReservedAddressesAreNoLongerFree) {
    void* p = nullptr;
    ASSERT_EQ(map_memory(4 * page, Access::none, &p), 0);
    unmap(p, 4 * page);
    const auto begin = reinterpret_cast<std::uintptr_t>(p);
    EXPECT_TRUE(reserve(begin, begin + 4 * page));
    EXPECT_FALSE(reserve(begin + page, begin + 2 * page));
    EXPECT_TRUE(reserve(begin, begin)) << "nothing to keep";
    unmap(p, 4 * page);
}
TEST_F(OsTest, WhatTheProgramMayNotTouchIsToldApart) {
    void* p = nullptr;
    ASSERT_EQ(map_memory(3 * page, Access::write, &p), 0);
    auto* const at = static_cast<char*>(p);
    ASSERT_EQ(allow(at + page, page, Access::read), 0);
    ASSERT_EQ(allow(at + 2 * page, page, Access::none), 0);
    if (!touch_to_write(at, page)) GTEST_SKIP() << "skipped: this kernel cannot tell";
    EXPECT_TRUE(may_touch(at + page - 1, true));
    EXPECT_TRUE(may_touch(at + page, false));
    EXPECT_FALSE(may_touch(at + page, true));
    EXPECT_FALSE(may_touch(at + 2 * page, false));
    unmap(at, 3 * page);
    EXPECT_GT(memory_bytes(), std::size_t{1} << 20);
    EXPECT_LT(memory_bytes(), std::size_t{1} << 46);
}
TEST_F(OsTest, ARangeWithAHoleIsNotMapped) {
    void* p = nullptr;
    ASSERT_EQ(map_memory(3 * page, Access::write, &p), 0);
    auto* const at = static_cast<char*>(p);
    EXPECT_TRUE(os::is_mapped(at, 3 * page));
    EXPECT_TRUE(os::is_mapped(at + page - 1, 2));
    unmap(at + page, page);
    EXPECT_FALSE(os::is_mapped(at, 3 * page));
    EXPECT_FALSE(os::is_mapped(at + page - 1, 2));
    EXPECT_TRUE(os::is_mapped(at, page));
    EXPECT_FALSE(os::is_mapped(at, SIZE_MAX)) << "past the end of the address space";
    unmap(at, page);
    unmap(at + 2 * page, page);
}
TEST_F(OsTest, AMappingIsNamedByRangeAndFile) {
    void* p = nullptr;
    ASSERT_EQ(map_file(file, 0, page, Access::read, &p), 0);
    const auto begin = reinterpret_cast<std::uintptr_t>(p);
    char text[300];
    name_mapping(begin, begin + page, text, sizeof text);
    EXPECT_NE(std::strstr(text, path.c_str()), nullptr) << text;
    Mapping m;
    ASSERT_TRUE(Maps().find(p, m));
    EXPECT_EQ(m.begin, begin);
    EXPECT_TRUE(m.shared && m.readable && !m.writable);
    unmap(p, page);
}
TEST_F(OsTest, AChildDoesNotGetWhatIsKeptFromIt) {
    void *ours = nullptr, *both = nullptr;
    ASSERT_EQ(map_file(file, 0, page, Access::write, &ours), 0);
    ASSERT_EQ(map_file(file, 0, page, Access::write, &both), 0);
    keep_from_children(ours, page);
    EXPECT_EQ(test::in_child([&] { return is_mapped(ours) ? 1 : is_mapped(both) ? 0 : 2; }), 0);
    unmap(ours, page);
    unmap(both, page);
}

// ---- files ----------------------------------------------------------------------------------------------------------
TEST_F(OsTest, AKeptFileKnowsWhenItsNumberIsAnotherFiles) {
    KeptFile kept;
    ASSERT_EQ(kept.keep(::open(path.c_str(), O_RDWR | O_CLOEXEC)), 0);
    EXPECT_GT(kept.fd(), 100) << "where no program looks for it";
    EXPECT_TRUE(kept.is_ours());
    const int number = kept.fd(), other = ::memfd_create("other", MFD_CLOEXEC);
    ASSERT_EQ(::dup2(other, number), number);
    EXPECT_FALSE(kept.is_ours());
    EXPECT_TRUE(kept.open_again(path.c_str()));
    EXPECT_TRUE(kept.is_ours());
    EXPECT_NE(::fcntl(number, F_GETFD), -1) << "the program's, not ours to close";
    EXPECT_FALSE(kept.open_again("/dev/null"));
    ::close(number);
    ::close(other);
}
TEST_F(OsTest, AKeptFileThatIsTheProgramsIsNotClosed) {
    int number;
    {
        KeptFile kept;
        ASSERT_EQ(kept.keep(::open(path.c_str(), O_RDWR | O_CLOEXEC)), 0);
        number = kept.fd();
        const int other = ::memfd_create("other", MFD_CLOEXEC);
        ASSERT_EQ(::dup2(other, number), number);
        ::close(other);
    }
    EXPECT_NE(::fcntl(number, F_GETFD), -1);
    ::close(number);
}
TEST_F(OsTest, ALockOfAnOpenFileIsSeenByAnotherOpenFile) {
    const int second = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    EXPECT_EQ(probe_byte(second, 3), 0);
    EXPECT_EQ(lock_byte(file, 3, Lock::exclusive, Holder::open_file), 0);
    EXPECT_EQ(probe_byte(file, 3), 0) << "its own";
    EXPECT_EQ(probe_byte(second, 3), EAGAIN);
    EXPECT_EQ(probe_byte(second, 4), 0);
    EXPECT_EQ(lock_byte(second, 3, Lock::exclusive, Holder::open_file), EAGAIN);
    EXPECT_EQ(lock_byte(file, 3, Lock::none, Holder::open_file), 0);
    EXPECT_EQ(probe_byte(second, 3), 0);
    ::close(second);
}
TEST_F(OsTest, AProcesssLockEndsWithTheProcess) {
    EXPECT_EQ(test::in_child([&] { return lock_byte(file, 0, Lock::exclusive, Holder::process); }), 0);
    EXPECT_EQ(probe_byte(file, 0), 0);
}
TEST_F(OsTest, FactsAreThoseOfTheFile) {
    FileFacts facts;
    ASSERT_EQ(::fchmod(file, 0642), 0);
    ASSERT_EQ(facts_of(file, facts), 0);
    EXPECT_EQ(facts.type, FileFacts::Type::regular);
    EXPECT_EQ(facts.size, 16 * page);
    EXPECT_EQ(facts.mode, 0642u);
    EXPECT_TRUE(facts.all_may_write);
    EXPECT_EQ(facts.names, 1u);
    EXPECT_EQ(facts.owner, this_user());
    EXPECT_EQ(facts_of(-1, facts), EBADF);
    EXPECT_TRUE(is_named(file, path.c_str()));
    EXPECT_FALSE(is_named(file, "/dev/null"));
    EXPECT_TRUE(names_a_descriptor("/proc/self/fd/0"));
    EXPECT_FALSE(names_a_descriptor(path.c_str()));
}

// ---- processes and time ---------------------------------------------------------------------------------------------
TEST(OsProcess, LivesUntilItEnds) {
    int pipe[2];
    ASSERT_EQ(::pipe(pipe), 0);
    const pid_t child = test::fork_child([&] {
        char byte;
        ::close(pipe[1]);
        return ::read(pipe[0], &byte, 1) == 0 ? 0 : 1;
    });
    const auto pid = static_cast<std::uint32_t>(child);
    const std::uint64_t start = start_time_of(pid);
    EXPECT_TRUE(lives(pid, start));
    EXPECT_FALSE(lives(pid, start + 1)) << "another process with a number that is used again";
    ::close(pipe[1]);
    siginfo_t info;
    ::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT);
    EXPECT_FALSE(lives(pid, start)) << "its parent has not read its status";
    EXPECT_EQ(test::exit_status(child), 0);
    EXPECT_FALSE(lives(pid, start));
    ::close(pipe[0]);
}
TEST(OsProcess, HasProcessorsAndANumber) {
    EXPECT_GE(processors(), 1);
    EXPECT_EQ(this_process(), static_cast<std::uint32_t>(::getpid()));
    EXPECT_EQ(start_time_of(0), start_time_of(this_process()));
}
TEST(OsClock, NeverGoesBack) {
    const std::uint64_t before = now();
    nap(1'000);
    yield();
    EXPECT_GT(now(), before);
    EXPECT_LE(coarse_seconds(), now() / 1'000'000'000);
}
TEST(OsOutput, LeavesErrnoAlone) {
    EXPECT_EQ(test::in_child([] {
                  ::close(STDERR_FILENO);
                  errno = ERANGE;
                  write_error("lost", 4);
                  return errno == ERANGE ? 0 : 1;
              }),
              0);
}

}  // namespace
}  // namespace barcuda::os
