// SPDX-License-Identifier: Apache-2.0
// fork_test: a forked child sees its parent's extents as they were at the fork, and neither sees what the other writes
// afterwards; whichever ends first, however often they fork.
#include <sys/resource.h>
#include <sys/syscall.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/vm/door.h"

extern char** environ;

namespace barcuda::vm {
namespace {

class Fork : public testing::Test {
  protected:
    void SetUp() override {
        ASSERT_EQ(client->error(), 0);
        ASSERT_EQ(client->map_extents(0, stub_granules), 0);
    }
    // The first word of a page; atomic, for threads and the compiler's sake.
    std::atomic_ref<std::uint64_t> word(std::size_t page) const {
        return std::atomic_ref(*reinterpret_cast<std::uint64_t*>(memory + page * BARCUDA_PAGE));
    }
    static constexpr std::size_t pages = stub_granules * BARCUDA_GRANULE / BARCUDA_PAGE;

    std::unique_ptr<Client> client = std::make_unique<Client>();
    char* const memory = client->address();
};

TEST_F(Fork, AChildSeesWhatItsParentWroteBefore) {
    for (std::size_t i = 0; i < 100; ++i) word(i * 7) = i + 1;
    EXPECT_EQ(in_child([&] {
                  for (std::size_t i = 0; i < 100; ++i)
                      if (word(i * 7) != i + 1) return 1;
                  return 0;
              }),
              0);
}

TEST_F(Fork, AChildDoesNotSeeWhatItsParentWritesAfterwards) {
    word(0) = word(1) = word(2) = 1;
    Gate written;
    const pid_t pid = start_child([&] {
        if (word(2) != 1) return 1;  // maps the region's page before the parent writes it
        written.wait();
        return word(0) == 1 && word(1) == 1 && word(2) == 1 ? 0 : 2;
    });
    usleep(20000);
    word(0) = word(2) = 2;
    written.open_for();
    EXPECT_EQ(status_of(pid), 0);
    EXPECT_EQ(word(0), 2u);
}

TEST_F(Fork, AParentDoesNotSeeWhatItsChildWrites) {
    word(0) = word(1) = 1;
    EXPECT_EQ(in_child([&] {
                  word(0) = 2;  // never read
                  if (word(1) != 1) return 1;
                  word(1) = 2;   // read before
                  word(2) += 5;  // never touched
                  return word(0) == 2 && word(1) == 2 && word(2) == 5 ? 0 : 2;
              }),
              0);
    EXPECT_EQ(word(0), 1u);
    EXPECT_EQ(word(1), 1u);
    EXPECT_EQ(word(2), 0u);
}

TEST_F(Fork, AGrandchildSeesItsParentsMemoryNotItsGrandparents) {
    word(0) = word(1) = word(2) = 1;
    Gate written;
    const pid_t pid = start_child([&] {
        word(0) = 2;
        const pid_t grandchild = start_child([&] {
            written.wait();
            return word(0) == 2 && word(1) == 1 && word(2) == 1 ? 0 : 1;
        });
        word(0) = word(1) = 3;
        return status_of(grandchild);
    });
    usleep(20000);
    word(0) = word(1) = word(2) = 4;
    written.open_for();
    EXPECT_EQ(status_of(pid), 0);
}

TEST_F(Fork, TwoChildrenOfDifferentTimesEachSeeTheirOwn) {
    Gate look;
    std::vector<pid_t> children;
    for (std::uint64_t i = 0; i < 5; ++i) {
        word(0) = i;
        if (i % 2) word(1) = i;
        children.push_back(start_child([&, i] {
            look.wait();
            return word(0) == i && word(1) == (i ? i - 1 + i % 2 : 0) ? 0 : 1;
        }));
    }
    word(0) = word(1) = 99;
    look.open_for(5);
    for (pid_t pid : children) EXPECT_EQ(status_of(pid), 0);
}

TEST_F(Fork, WhatWasMovedIsPartOfTheSnapshotAtBothAddresses) {
    constexpr std::size_t part = 4 * BARCUDA_PAGE;
    char* const elsewhere = static_cast<char*>(mmap(nullptr, part, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    const auto moved = [&](std::size_t page) {
        return std::atomic_ref(*reinterpret_cast<std::uint64_t*>(elsewhere + page * BARCUDA_PAGE));
    };
    ASSERT_EQ(mremap(memory, part, part, MREMAP_MAYMOVE | MREMAP_FIXED, elsewhere), elsewhere);
    ASSERT_EQ(client->map_at(memory, part), 0);
    for (std::size_t i = 0; i < 4; ++i) word(i) = 1;
    Gate written, done;
    const pid_t pid = start_child([&] {
        moved(3) = 5;
        done.open_for();
        written.wait();
        return moved(0) == 1 && word(0) == 1 && moved(1) == 1 && word(1) == 1 && moved(3) == 5 ? 0 : 1;
    });
    done.wait();
    moved(0) = 2;  // either side of it
    word(1) = 2;
    EXPECT_EQ(moved(3), 1u) << "the child's write is its own";
    written.open_for();
    EXPECT_EQ(status_of(pid), 0);
    EXPECT_EQ(word(0), 2u);
    EXPECT_EQ(moved(1), 2u);
    munmap(elsewhere, part);
}

TEST_F(Fork, AnOwnerMayExitBeforeItsChildren) {
    Gate owner_gone;
    int results[2];
    ASSERT_EQ(pipe(results), 0);
    const int owner = in_child([&] {
        Client c;
        const unsigned index = c.index();
        if (c.error() || c.map_extents(0, 2) || write(results[1], &index, sizeof index) != sizeof index) return 1;
        for (std::size_t i = 0; i < 2 * BARCUDA_GRANULE; i += BARCUDA_PAGE)
            *reinterpret_cast<std::uint64_t*>(c.address() + i) = i + 1;
        start_child([&] {
            char bad = 0;
            owner_gone.wait();
            for (std::size_t i = 0; i < 2 * BARCUDA_GRANULE; i += BARCUDA_PAGE)
                bad |= *reinterpret_cast<std::uint64_t*>(c.address() + i) != i + 1;
            return write(results[1], &bad, 1) == 1 ? 0 : 1;
        });
        _exit(0);
    });
    ASSERT_EQ(owner, 0);
    unsigned index = 0;
    ASSERT_EQ(read(results[0], &index, sizeof index), static_cast<ssize_t>(sizeof index));
    const barcuda_slot& slot = header().slot(index);
    const barcuda_grant& grant = header().grant(index * stub_granules);
    EXPECT_EQ(observe(slot.closed), observe(slot.opened)) << "its channel is the host's again";
    EXPECT_EQ(observe(grant.mapped), BARCUDA_GRANULE / BARCUDA_PAGE) << "its memory is not";
    owner_gone.open_for();
    char bad = 1;
    ASSERT_EQ(read(results[0], &bad, 1), 1);
    EXPECT_EQ(bad, 0);
    wait_until([&] { return observe(grant.mapped) == 0; });
    close(results[0]);
    close(results[1]);
}

TEST_F(Fork, WhatTheParentUnmappedStaysUnmapped) {
    munmap(memory + BARCUDA_GRANULE, BARCUDA_GRANULE);
    munmap(memory + 2 * BARCUDA_PAGE, BARCUDA_PAGE);
    word(3) = 3;
    EXPECT_EQ(in_child([&] { return static_cast<int>(word(BARCUDA_GRANULE / BARCUDA_PAGE)); }), 128 + SIGSEGV);
    EXPECT_EQ(in_child([&] { return static_cast<int>(word(2)); }), 128 + SIGSEGV);
    EXPECT_EQ(in_child([&] { return word(3) == 3 ? 0 : 1; }), 0);
}

TEST_F(Fork, AChildDoesNotHaveTheChannel) {
    EXPECT_EQ(in_child([&] { return client->channel()[0]; }), 128 + SIGSEGV);
}

TEST_F(Fork, AChildsMemoryIsCountedUntilItEnds) {
    Gate go;
    const std::uint32_t granule = BARCUDA_GRANULE / BARCUDA_PAGE;
    const pid_t pid = start_child([&] {
        const pid_t grandchild = start_child([&] {
            go.wait();
            return 0;
        });
        go.wait();
        return status_of(grandchild);
    });
    wait_until([&] { return observe(client->grant().mapped) == 3 * granule; });
    go.open_for(2);
    EXPECT_EQ(status_of(pid), 0);
    EXPECT_EQ(observe(client->grant().mapped), granule);
}

// 2^32 pages, where the grant has 32 bits: the host must not take them for none.
TEST_F(Fork, NoNumberOfMappingsLooksLikeNone) {
    if (std::getenv("BARCUDA_TEST_COPIES")) GTEST_SKIP() << "takes long, and is the same without struct pages";
    constexpr std::size_t copies = 1024, families = 512;
    static_assert(copies * families * (BARCUDA_GRANULE / BARCUDA_PAGE) == std::size_t{1} << 32);
    char* const far = static_cast<char*>(
        mmap(nullptr, copies * BARCUDA_GRANULE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    for (std::size_t i = 1; i < copies; ++i) {
        char* const to = far + i * BARCUDA_GRANULE;
        ASSERT_EQ(mremap(memory, BARCUDA_GRANULE, BARCUDA_GRANULE, MREMAP_MAYMOVE | MREMAP_FIXED, to), to);
        ASSERT_EQ(client->map_at(memory, BARCUDA_GRANULE), 0);
    }
    Gate all, end;
    const pid_t child = start_child([&] {
        std::vector<pid_t> grandchildren;
        for (std::size_t i = 2; i < families; ++i)
            grandchildren.push_back(start_child([&] {
                end.wait();
                return 0;
            }));
        all.open_for();
        end.wait();
        int bad = 0;
        for (pid_t pid : grandchildren) bad |= pid < 0 || status_of(pid) != 0;
        return bad;
    });
    all.wait();
    EXPECT_EQ(observe(client->grant().mapped), ~0u);
    end.open_for(families);
    EXPECT_EQ(status_of(child), 0);
    EXPECT_EQ(observe(client->grant().mapped), copies * (BARCUDA_GRANULE / BARCUDA_PAGE));
    munmap(far, copies * BARCUDA_GRANULE);
}

TEST_F(Fork, AChildMayBeAClientOfItsOwn) {
    word(0) = word(1) = 1;
    Gate written;
    const pid_t pid = start_child([&] {
        Client own;
        if (own.error() || own.index() == client->index() || own.map_extents(0, stub_granules)) return 1;
        const std::atomic_ref mine(*reinterpret_cast<std::uint64_t*>(own.address()));
        mine = 5;
        written.wait();
        if (word(0) != 1 || mine != 5) return 2;
        word(1) = 3;
        Gate changed;
        const pid_t grandchild = start_child([&] {
            changed.wait();
            return mine == 5 && word(0) == 1 && word(1) == 3 ? 0 : 3;
        });
        mine = 6;
        word(1) = 4;
        changed.open_for();
        return status_of(grandchild);
    });
    word(0) = 2;
    written.open_for();
    EXPECT_EQ(status_of(pid), 0);
    EXPECT_EQ(word(1), 1u);
}

TEST_F(Fork, AChildMayUnmapItAndMapOtherMemory) {
    EXPECT_EQ(in_child([&] {
                  munmap(memory, stub_granules * BARCUDA_GRANULE);
                  rlimit limit{std::size_t{1} << 30, std::size_t{1} << 30};
                  setrlimit(RLIMIT_DATA, &limit);
                  void* p = mmap(nullptr, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
                  return p == MAP_FAILED ? 1 : 0;  // data_vm below zero would look like more than any limit
              }),
              0);
}

TEST_F(Fork, AChildsMemoryCannotBeMovedAndStays) {
    word(0) = 7;
    EXPECT_EQ(in_child([&] {
                  if (mremap(memory, BARCUDA_GRANULE, 2 * BARCUDA_GRANULE, MREMAP_MAYMOVE) != MAP_FAILED) return 1;
                  return word(0) == 7 ? 0 : 2;
              }),
              0);
    EXPECT_EQ(observe(client->grant().mapped), BARCUDA_GRANULE / BARCUDA_PAGE);
}

TEST_F(Fork, ChildrenMayProtectAndWriteParts) {
    word(0) = word(1) = 1;
    EXPECT_EQ(in_child([&] {
                  if (mprotect(memory, BARCUDA_PAGE, PROT_READ) || word(0) != 1) return 1;
                  word(1) = 2;
                  if (mprotect(memory, BARCUDA_PAGE, PROT_READ | PROT_WRITE)) return 2;
                  word(0) = 2;
                  return 0;
              }),
              0);
    EXPECT_EQ(word(0) + word(1), 2u);
}

TEST_F(Fork, SystemCallsReadAndWriteAChildsMemory) {
    std::strcpy(memory, "parent");
    EXPECT_EQ(in_child([&] {
                  int fds[2];
                  if (pipe(fds) || write(fds[1], memory, 7) != 7) return 1;
                  if (read(fds[0], memory + BARCUDA_PAGE, 7) != 7 || std::strcmp(memory + BARCUDA_PAGE, "parent"))
                      return 2;
                  return 0;
              }),
              0);
    EXPECT_EQ(memory[BARCUDA_PAGE], 0);
}

TEST_F(Fork, CostsNoMemoryUntilSomebodyWrites) {
    const auto available = [] {
        std::ifstream file("/proc/meminfo");
        for (std::string line; std::getline(file, line);)
            if (line.rfind("MemAvailable:", 0) == 0) return std::stol(line.substr(13));
        return 0L;
    };
    for (std::size_t i = 0; i < pages; ++i) word(i) = i;
    Gate forked, go;
    const long before = available();
    const pid_t pid = start_child([&] {
        std::uint64_t sum = 0;
        for (std::size_t i = 0; i < pages; ++i) sum += word(i);
        forked.open_for();
        go.wait();
        return sum == pages * (pages - 1) / 2 ? 0 : 1;
    });
    forked.wait();
    const long after = available();
    go.open_for();
    EXPECT_EQ(status_of(pid), 0);
    const bool copies =
        std::getenv("BARCUDA_TEST_COPIES") != nullptr;  // without struct pages a child copies what it reads
    EXPECT_TRUE(copies || before - after < static_cast<long>(stub_granules * BARCUDA_GRANULE / 4096)) << before - after;
}

TEST_F(Fork, ThreadsMayWriteMeanwhileAndTheSnapshotStandsStill) {
    std::atomic<bool> stop{false};
    std::vector<std::thread> writers;
    for (std::size_t t = 0; t < 3; ++t)
        writers.emplace_back([&, t] {
            for (std::uint64_t n = 1; !stop; ++n)
                for (std::size_t i = t; i < 600; i += 3) word(i) = n;
        });
    for (int round = 0; round < 15; ++round)
        EXPECT_EQ(in_child([&] {
                      std::vector<std::uint64_t> first(600);
                      for (std::size_t i = 0; i < 600; ++i) first[i] = word(599 - i);
                      for (int again = 0; again < 5; ++again)
                          for (std::size_t i = 0; i < 600; ++i)
                              if (word(599 - i) != first[i]) return 1;
                      // One thread writes its pages in order: later ones are never ahead, and lag by one at most.
                      for (std::size_t i = 0; i + 3 < 600; ++i)
                          if (first[599 - i] - first[599 - i - 3] > 1) return 2;
                      return 0;
                  }),
                  0);
    stop = true;
    for (auto& w : writers) w.join();
}

TEST_F(Fork, VforkAndSpawnLeaveItAlone) {
    word(0) = 1;
    const pid_t pid = vfork();
    if (pid == 0) {
        word(0) = 2;
        _exit(0);
    }
    EXPECT_EQ(status_of(pid), 0);
    EXPECT_EQ(word(0), 2u) << "vfork shares, as it always does";
    EXPECT_EQ(std::system("exit 3") >> 8, 3);
    EXPECT_EQ(word(0), 2u);
}

// Every process writes random pages and keeps its own record of what must stand in each.
class RandomProcess {
  public:
    RandomProcess(char* memory, unsigned seed) : memory_(memory), random_(seed), record_(pages_used) {
        for (std::size_t i = 0; i < pages_used; ++i) put(i);
    }
    // Answers how many pages were ever wrong, here and in all descendants.
    int work(int depth) {
        std::vector<pid_t> children;
        int wrong = 0;
        for (int step = 0; step < 4; ++step) {
            for (int i = 0; i < 40; ++i) put(next() % pages_used);
            if (depth < 3) {
                const pid_t pid = fork();
                if (pid == 0) {
                    random_ ^= static_cast<unsigned>(getpid()) * 2654435761u;
                    const int bad = work(depth + 1);
                    // Some end while their children still run.
                    _exit(bad ? 1 : 0);
                }
                children.push_back(pid);
                if (next() % 2)
                    for (int i = 0; i < 40; ++i) put(next() % pages_used);
                if (next() % 4 == 0) wrong += finish(children);
            }
            wrong += check();
        }
        if (depth == 0 || next() % 4) wrong += finish(children);
        return wrong + check();
    }

  private:
    static constexpr std::size_t pages_used = 300;
    unsigned next() { return (random_ = random_ * 1103515245u + 12345u) >> 8; }
    std::atomic_ref<std::uint64_t> word(std::size_t i) {
        return std::atomic_ref(*reinterpret_cast<std::uint64_t*>(memory_ + i * BARCUDA_PAGE + i % 500 * 8));
    }
    void put(std::size_t i) { word(i) = record_[i] = static_cast<std::uint64_t>(getpid()) << 32 | next(); }
    int check() {
        int wrong = 0;
        for (std::size_t i = 0; i < pages_used; ++i) wrong += word(i) != record_[i];
        return wrong;
    }
    static int finish(std::vector<pid_t>& children) {
        int wrong = 0;
        for (pid_t pid : children) wrong += status_of(pid) != 0;
        children.clear();
        return wrong;
    }
    char* memory_;
    unsigned random_;
    std::vector<std::uint64_t> record_;
};

TEST_F(Fork, RandomFamiliesNeverSeeEachOther) {
    for (unsigned seed = 1; seed <= 3; ++seed) EXPECT_EQ(RandomProcess(memory, seed).work(0), 0) << "seed " << seed;
}

}  // namespace
}  // namespace barcuda::vm
