// SPDX-License-Identifier: Apache-2.0
// module_test: what the guest module promises (guest-uio/main.c), seen by a process of the guest: maps, slots and
// grants. What a forked child sees is in fork_test.cc, what the kernel can do with region memory in memory_test.cc.
#include "tests/vm/door.h"

#include <grp.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include <cstring>
#include <memory>
#include <vector>

namespace barcuda::vm {
namespace {

constexpr std::uint32_t pages_of_granule = BARCUDA_GRANULE / BARCUDA_PAGE;

// ---- the node

TEST(Node, IsClosedToUsersOutsideItsGroup) {
    EXPECT_EQ(in_child([] {
                  if (setgroups(0, nullptr) || setgid(4321) || setuid(4321)) return 1;
                  return open(device(), O_RDWR) < 0 && errno == EACCES ? 0 : 2;
              }),
              0);
}

TEST(Node, IsOpenToAnUnprivilegedMemberOfItsGroup) {
    struct stat st;
    ASSERT_EQ(stat(device(), &st), 0);
    EXPECT_EQ(in_child([&] {
                  if (setgroups(1, &st.st_gid) || setgid(4321) || setuid(4321)) return 1;
                  Client c;
                  if (c.error() || c.map_extents()) return 2;
                  *c.address() = 1;
                  return 0;
              }),
              0);
}

// As a container's is.
TEST(Node, MayLieOnAFileSystemThatIsUnmountedAfterwards) {
    struct stat st;
    ASSERT_EQ(stat(device(), &st), 0);
    mkdir("/run/container", 0755);
    ASSERT_EQ(mount("dev", "/run/container", "tmpfs", 0, nullptr), 0);
    ASSERT_EQ(mknod("/run/container/uio", S_IFCHR | 0600, st.st_rdev), 0);
    EXPECT_EQ(in_child([] {
                  header();  // through the other node
                  setenv("BARCUDA_TEST_DEVICE", "/run/container/uio", 1);
                  Client c;
                  return c.error() || c.map_extents() ? 1 : *c.address();
              }),
              0);
    EXPECT_EQ(in_child([] { return umount("/run/container") ? errno : 0; }), 0);  // a kernel's BUG ends its process
}

TEST(Module, CannotBeRemovedWhileAProcessUsesIt) {
    Client c;
    EXPECT_EQ(syscall(SYS_delete_module, "uio_barcuda", O_NONBLOCK), -1);
}

// ---- map 0

TEST(HeaderMap, ShowsTheRegion) {
    EXPECT_EQ(header()->magic, BARCUDA_MAGIC);
    EXPECT_EQ(header()->base, BARCUDA_DEFAULT_BASE);
}

TEST(HeaderMap, IsRefusedWhenWritable) {
    const int fd = open(device(), O_RDWR);
    for (int flags : {MAP_SHARED, MAP_PRIVATE})
        EXPECT_EQ(map(fd, map_header, nullptr, BARCUDA_PAGE, PROT_READ | PROT_WRITE, flags), EACCES);
    close(fd);
}

TEST(HeaderMap, CannotBeMadeWritableLater) {
    const int fd = open(device(), O_RDWR);
    for (int flags : {MAP_SHARED, MAP_PRIVATE}) {
        char* p;
        ASSERT_EQ(map(fd, map_header, nullptr, BARCUDA_PAGE, PROT_READ, flags, &p), 0);
        EXPECT_EQ(mprotect(p, BARCUDA_PAGE, PROT_READ | PROT_WRITE), -1);
        EXPECT_EQ(errno, EACCES);
        munmap(p, BARCUDA_PAGE);
    }
    close(fd);
}

TEST(HeaderMap, CannotBeWrittenAsADebuggerWrites) {
    const int mem = open("/proc/self/mem", O_RDWR);
    ASSERT_GE(mem, 0);
    EXPECT_EQ(pwrite(mem, "x", 1, reinterpret_cast<off_t>(header().memory())), -1);
    EXPECT_EQ(header()->magic, BARCUDA_MAGIC);
    close(mem);
}

TEST(HeaderMap, EndsWhereTheChannelsBegin) {
    const int fd = open(device(), O_RDWR);
    EXPECT_EQ(map(fd, map_header, nullptr, BARCUDA_CHANNELS_OFFSET + BARCUDA_PAGE, PROT_READ, MAP_SHARED), EINVAL);
    char* p;
    ASSERT_EQ(map(fd, map_header, nullptr, BARCUDA_CHANNELS_OFFSET, PROT_READ, MAP_SHARED, &p), 0);
    EXPECT_EQ(mremap(p, BARCUDA_CHANNELS_OFFSET, 2 * BARCUDA_CHANNELS_OFFSET, MREMAP_MAYMOVE), MAP_FAILED);
    munmap(p, BARCUDA_CHANNELS_OFFSET);
    close(fd);
}

// ---- map 1

TEST(Channel, IsOpenInItsSlotAndClean) {
    Client c;
    ASSERT_EQ(c.error(), 0);
    EXPECT_EQ(observe(c.slot().opened), observe(c.slot().closed) + 1);
    for (std::size_t i = sizeof(barcuda_status); i < BARCUDA_CHANNEL_SIZE; ++i) ASSERT_EQ(c.channel()[i], 0) << i;
}

TEST(Channel, IsOneAnOpenFile) {
    Client c;
    EXPECT_EQ(map(c.fd(), map_channel, nullptr, BARCUDA_CHANNEL_SIZE, PROT_READ, MAP_SHARED), EBUSY);
}

TEST(Channel, IsAnotherForAnotherOpenFile) {
    Client a, b;
    EXPECT_NE(a.index(), b.index());
}

TEST(Channel, IsRefusedPrivateOrPartialOrReadOnly) {
    const int fd = open(device(), O_RDWR), read_only = open(device(), O_RDONLY);
    EXPECT_EQ(map(fd, map_channel, nullptr, BARCUDA_CHANNEL_SIZE, PROT_READ, MAP_PRIVATE), EACCES);
    EXPECT_EQ(map(fd, map_channel, nullptr, BARCUDA_PAGE, PROT_READ, MAP_SHARED), EINVAL);
    EXPECT_EQ(map(read_only, map_channel, nullptr, BARCUDA_CHANNEL_SIZE, PROT_READ, MAP_SHARED), EACCES);
    close(fd);
    close(read_only);
}

TEST(Channel, CannotBeHeldByAPipeThatOutlivesIt) {
    Client c;
    int fds[2];
    ASSERT_EQ(pipe(fds), 0);
    for (char* p : {c.channel(), header().memory()}) {
        EXPECT_NE(*reinterpret_cast<volatile char*>(p), 1) << "touched: its page is mapped";
        iovec from{p, 1};
        EXPECT_EQ(vmsplice(fds[1], &from, 1, SPLICE_F_NONBLOCK), -1);
        EXPECT_EQ(errno, EFAULT);
    }
    close(fds[0]);
    close(fds[1]);
}

TEST(Channel, IsClosedByItsLastUnmapAndThenReclaimed) {
    unsigned index, opening;
    {
        Client c;
        index = c.index();
        opening = c.opening();
        munmap(c.channel(), BARCUDA_CHANNEL_SIZE - BARCUDA_PAGE);
        EXPECT_EQ(observe(c.slot().closed), opening - 1) << "a page of it is still mapped";
    }
    EXPECT_EQ(observe(header().slot(index).closed), opening);
    wait_until([&] { return observe(header().slot(index).reclaimed) == opening; });
}

TEST(Channel, StaysOpenAsLongAsAnExtentIsMapped) {
    auto c = std::make_unique<Client>();
    const barcuda_slot& slot = c->slot();
    const unsigned opening = c->opening();
    ASSERT_EQ(c->map_extents(), 0);
    munmap(c->channel(), BARCUDA_CHANNEL_SIZE);
    EXPECT_EQ(observe(slot.closed), opening - 1);
    munmap(c->address(), BARCUDA_GRANULE);
    EXPECT_EQ(observe(slot.closed), opening);
}

TEST(Channel, IsClosedAfterKill) {
    int told[2];
    ASSERT_EQ(pipe(told), 0);
    const pid_t pid = start_child([&] {
        Client c;
        const unsigned index = c.index();
        if (c.map_extents(0, stub_granules) || write(told[1], &index, sizeof index) != sizeof index) return 1;
        for (;;) ++*c.address();
    });
    close(told[1]);
    unsigned index;
    ASSERT_EQ(read(told[0], &index, sizeof index), static_cast<ssize_t>(sizeof index));
    const unsigned opening = observe(header().slot(index).opened);
    EXPECT_EQ(observe(header().slot(index).closed), opening - 1);
    kill(pid, SIGKILL);
    EXPECT_EQ(status_of(pid), 128 + SIGKILL);
    EXPECT_EQ(observe(header().slot(index).closed), opening);
    EXPECT_EQ(observe(header().grant(index * stub_granules).mapped), 0u);
    wait_until([&] { return observe(header().slot(index).reclaimed) == opening; });
    close(told[0]);
}

TEST(Channel, IsClosedByExec) {
    wait_until([] { return observe(header().slot(0).opened) == observe(header().slot(0).reclaimed); });
    const unsigned before = observe(header().slot(0).opened);
    EXPECT_EQ(in_child([] {
                  Client c;
                  if (c.index() != 0) return 1;
                  execl("/bin/true", "true", nullptr);
                  return 2;
              }),
              0);
    EXPECT_EQ(observe(header().slot(0).opened), before + 1);
    EXPECT_EQ(observe(header().slot(0).closed), before + 1);
}

TEST(Channel, IsRefusedWhenAllAreTaken) {
    std::vector<std::unique_ptr<Client>> all;
    int error = 0;
    while (!error) {
        all.push_back(std::make_unique<Client>(false));
        error = all.back()->error();
        if (error == EAGAIN) {  // an earlier test's, not yet reclaimed
            all.pop_back();
            error = 0;
        }
    }
    EXPECT_EQ(error, ENOSPC);
    EXPECT_EQ(all.size(), header()->channel_count + 1);
}

TEST(Channel, ThatAnEarlierBootLeftOpenIsClosed) {
    const barcuda_slot& slot = header().slot(stub_left_open);
    EXPECT_GE(observe(slot.closed), 1u);
    wait_until([&] { return observe(slot.reclaimed) == observe(slot.closed); });
    EXPECT_EQ(observe(header().grant(stub_left_open).mapped), 0u);
}

// ---- map 2

TEST(Extents, AreReadAndWritten) {
    Client c;
    ASSERT_EQ(c.map_extents(0, stub_granules), 0);
    char* p = c.address();
    for (std::size_t i = 0; i < stub_granules * BARCUDA_GRANULE; i += BARCUDA_PAGE) ASSERT_EQ(p[i], 0);
    for (std::size_t i = 0; i < stub_granules * BARCUDA_GRANULE; i += BARCUDA_PAGE) p[i] = static_cast<char>(i >> 12);
    for (std::size_t i = 0; i < stub_granules * BARCUDA_GRANULE; i += BARCUDA_PAGE)
        ASSERT_EQ(p[i], static_cast<char>(i >> 12));
}

TEST(Extents, OfAnotherProcessAreRefused) {
    Client mine;
    ASSERT_EQ(mine.map_extents(), 0);
    std::strcpy(mine.address(), "secret");
    EXPECT_EQ(in_child([&] {
                  munmap(mine.address(), BARCUDA_GRANULE);  // the snapshot that fork left
                  Client other;
                  if (other.error() || other.map_extents()) return 1;
                  const int e = other.map_at(mine.address(), BARCUDA_GRANULE);
                  return e == EPERM ? 0 : 2;
              }),
              0);
}

TEST(Extents, AreRefusedToAChildThatInheritedTheFile) {
    Client mine;
    EXPECT_EQ(in_child([&] { return mine.map_extents() == EPERM ? 0 : 1; }), 0);
}

TEST(Extents, AreRefusedWithoutAChannel) {
    const int fd = open(device(), O_RDWR);
    EXPECT_EQ(map(fd, map_extents, header().address(0), BARCUDA_GRANULE, PROT_READ, MAP_SHARED | MAP_FIXED_NOREPLACE),
              EPERM);
    close(fd);
}

TEST(Extents, AreRefusedIfOneGranuleOfThemIsNotGranted) {
    Client c;
    EXPECT_EQ(c.map_extents(stub_granules, 1), EPERM);
    EXPECT_EQ(c.map_extents(stub_granules - 1, 2), EPERM);
    EXPECT_EQ(c.map_at(c.address(stub_granules - 1) + BARCUDA_PAGE, BARCUDA_GRANULE), EPERM);
    EXPECT_EQ(observe(c.grant(stub_granules - 1).mapped), 0u) << "a refusal leaves nothing counted";
    EXPECT_EQ(observe(c.grant(stub_granules).mapped), 0u);
}

TEST(Extents, AreRefusedOutsideTheHeap) {
    Client c;
    char *begin = header().address(0), *end = header().address(header()->granule_count);
    EXPECT_EQ(c.map_at(begin - BARCUDA_GRANULE, BARCUDA_GRANULE), EINVAL);
    EXPECT_EQ(c.map_at(begin - BARCUDA_PAGE, 2 * BARCUDA_PAGE), EINVAL);
    EXPECT_EQ(c.map_at(end, BARCUDA_GRANULE), EINVAL);
    EXPECT_EQ(c.map_at(end - BARCUDA_PAGE, 2 * BARCUDA_PAGE), EINVAL);
    EXPECT_EQ(c.map_at(nullptr, BARCUDA_GRANULE, MAP_SHARED), EINVAL) << "an address says which extent";
}

TEST(Extents, AreRefusedPrivate) {
    Client c;
    EXPECT_EQ(c.map_at(c.address(), BARCUDA_GRANULE, MAP_PRIVATE | MAP_FIXED_NOREPLACE), EACCES);
}

TEST(Extents, AreCountedByPageInTheirGrants) {
    Client c;
    ASSERT_EQ(c.map_extents(0, 2), 0);
    EXPECT_EQ(observe(c.grant(0).mapped), pages_of_granule);
    EXPECT_EQ(observe(c.grant(1).mapped), pages_of_granule);
    munmap(c.address(0) + BARCUDA_PAGE, 3 * BARCUDA_PAGE);
    EXPECT_EQ(observe(c.grant(0).mapped), pages_of_granule - 3);
    mprotect(c.address(0) + 100 * BARCUDA_PAGE, BARCUDA_PAGE, PROT_READ);
    EXPECT_EQ(observe(c.grant(0).mapped), pages_of_granule - 3) << "a split maps nothing new";
    munmap(c.address(0) + 50 * BARCUDA_PAGE, BARCUDA_GRANULE);
    EXPECT_EQ(observe(c.grant(0).mapped), 47u);
    EXPECT_EQ(observe(c.grant(1).mapped), pages_of_granule - 50);
    ASSERT_EQ(c.map_at(c.address(0), BARCUDA_GRANULE, MAP_SHARED | MAP_FIXED), 0);
    EXPECT_EQ(observe(c.grant(0).mapped), pages_of_granule) << "mapped over itself";
    munmap(c.address(0), 2 * BARCUDA_GRANULE);
    EXPECT_EQ(observe(c.grant(0).mapped), 0u);
    EXPECT_EQ(observe(c.grant(1).mapped), 0u);
}

TEST(Extents, CannotBeGrownOrDoubled) {
    Client c;
    ASSERT_EQ(c.map_extents(0, 2), 0);
    std::strcpy(c.address(), "here");
    EXPECT_EQ(mremap(c.address(1), BARCUDA_GRANULE, 2 * BARCUDA_GRANULE, MREMAP_MAYMOVE), MAP_FAILED);
    EXPECT_EQ(mremap(c.address(), 0, BARCUDA_GRANULE, MREMAP_MAYMOVE), MAP_FAILED) << "no second mapping";
    EXPECT_STREQ(c.address(), "here");
    EXPECT_EQ(observe(c.grant(0).mapped), pages_of_granule);
    EXPECT_EQ(observe(c.grant(1).mapped), pages_of_granule);
}

// What the library lends to memory elsewhere (Region::map_again).
TEST(Extents, MayBeMovedAndMappedAnewAndBothAreTheSameMemory) {
    Client c;
    ASSERT_EQ(c.map_extents(), 0);
    constexpr std::size_t part = 5 * BARCUDA_PAGE;
    char* const own = c.address() + 3 * BARCUDA_PAGE;
    std::strcpy(own + BARCUDA_PAGE, "here");
    char* elsewhere = static_cast<char*>(mmap(nullptr, part, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ASSERT_EQ(mremap(own, part, part, MREMAP_MAYMOVE | MREMAP_FIXED, elsewhere), elsewhere);
    EXPECT_STREQ(elsewhere + BARCUDA_PAGE, "here");
    EXPECT_EQ(observe(c.grant().mapped), pages_of_granule) << "a move maps nothing new";
    ASSERT_EQ(c.map_at(own, part), 0);
    EXPECT_EQ(observe(c.grant().mapped), pages_of_granule + 5) << "two mappings are counted twice";
    EXPECT_STREQ(own + BARCUDA_PAGE, "here");
    std::strcpy(own + 4 * BARCUDA_PAGE, "from one side");
    EXPECT_STREQ(elsewhere + 4 * BARCUDA_PAGE, "from one side");
    std::strcpy(elsewhere, "from the other");
    EXPECT_STREQ(own, "from the other");
    munmap(elsewhere + 2 * BARCUDA_PAGE, BARCUDA_PAGE);
    EXPECT_EQ(observe(c.grant().mapped), pages_of_granule + 4);
    munmap(c.address(), BARCUDA_GRANULE);
    EXPECT_EQ(observe(c.grant().mapped), 4u) << "what was moved is held, wherever it lies";
    EXPECT_STREQ(elsewhere, "from the other");
    munmap(elsewhere, part);
    EXPECT_EQ(observe(c.grant().mapped), 0u);
}

TEST(Extents, MoveWithAllTheirPiecesOrNotAtAll) {
    Client c;
    ASSERT_EQ(c.map_extents(), 0);
    char* elsewhere = static_cast<char*>(mmap(nullptr, BARCUDA_GRANULE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ASSERT_EQ(c.map_at(c.address() + BARCUDA_PAGE, BARCUDA_PAGE, MAP_SHARED | MAP_FIXED), 0);
    for (std::size_t at : {0ull, BARCUDA_PAGE, 2 * BARCUDA_PAGE}) std::strcpy(c.address() + at, "here");
    // Since 6.17 the kernel moves several mappings at once.
    const bool moved =
        mremap(c.address(), BARCUDA_GRANULE, BARCUDA_GRANULE, MREMAP_MAYMOVE | MREMAP_FIXED, elsewhere) != MAP_FAILED;
    for (std::size_t at : {0ull, BARCUDA_PAGE, 2 * BARCUDA_PAGE})
        EXPECT_STREQ((moved ? elsewhere : c.address()) + at, "here");
    EXPECT_EQ(observe(c.grant().mapped), pages_of_granule);
    munmap(elsewhere, BARCUDA_GRANULE);
    EXPECT_EQ(observe(c.grant().mapped), moved ? 0u : pages_of_granule);
}

TEST(Extents, MayBeProtectedInParts) {
    Client c;
    ASSERT_EQ(c.map_extents(), 0);
    *c.address() = 1;
    ASSERT_EQ(mprotect(c.address(), BARCUDA_PAGE, PROT_READ), 0);
    EXPECT_EQ(in_child([&] {
                  *c.address() = 2;
                  return 0;
              }),
              128 + SIGSEGV);
    ASSERT_EQ(mprotect(c.address(), BARCUDA_PAGE, PROT_READ | PROT_WRITE), 0);
    *c.address() = 3;
    EXPECT_EQ(*c.address(), 3);
}

TEST(Extents, ServeManyProcessesAtOnce) {
    std::vector<pid_t> children;
    for (int i = 0; i < 7; ++i)
        children.push_back(start_child([&] {
            for (int round = 0; round < 5; ++round) {
                Client c;
                if (c.error() == EAGAIN || c.granule(stub_granules) > header()->granule_count) continue;
                if (c.error() || c.map_extents(0, stub_granules)) return 1;
                const std::size_t step = 8 * BARCUDA_PAGE, end = stub_granules * BARCUDA_GRANULE;
                for (std::size_t at = 0; at < end; at += step) {
                    auto& word = *reinterpret_cast<std::uint64_t*>(c.address() + at);
                    if (word != 0) return 2;  // another process's
                    word = at ^ static_cast<std::uint64_t>(getpid());
                }
                for (std::size_t at = 0; at < end; at += step)
                    if (*reinterpret_cast<std::uint64_t*>(c.address() + at) !=
                        (at ^ static_cast<std::uint64_t>(getpid())))
                        return 3;
            }
            return 0;
        }));
    for (pid_t pid : children) EXPECT_EQ(status_of(pid), 0);
}

}  // namespace
}  // namespace barcuda::vm
