// SPDX-License-Identifier: Apache-2.0
// service_test: `barcuda guest serve` in a guest whose region is memory of virtio-pmem: who gets which file, and when
// the host learns that it is free. What a client of any door may rely on is region_test's. Run as root; the stub
// bridge plays the host, and grants two granules to each channel.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/futex.h>
#include <poll.h>
#include <spawn.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "shm-device/doors/service_messages.h"
#include "shm-device/queue/sync.h"
#include "shm-device/region/region.h"
#include "tests/vm/door.h"

namespace barcuda {
namespace {

// Ends the service without a word, and starts another one. Clients that ask meanwhile find no service.
void start_anew() {
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
        const std::string pid = entry.path().filename();
        std::ifstream file(entry.path() / "cmdline");
        std::vector<std::string> words;
        for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
        if (words.size() < 3 || words[1] != "guest" || words[2] != "serve") continue;
        std::vector<char*> argv;
        for (std::string& word : words) argv.push_back(word.data());
        argv.push_back(nullptr);
        const int ended = static_cast<int>(syscall(SYS_pidfd_open, std::stoi(pid), 0));
        ASSERT_GE(ended, 0);
        kill(std::stoi(pid), SIGKILL);
        pollfd end{ended, POLLIN, 0};
        ASSERT_EQ(poll(&end, 1, -1), 1);  // until then it holds its lock
        close(ended);
        pid_t child;
        ASSERT_EQ(posix_spawn(&child, argv[0], nullptr, nullptr, argv.data(), environ), 0);
        vm::wait_until([] {
            Region r;
            return !r.open(door::usual_path);
        });
        return;
    }
    FAIL() << "no service runs";
}

// A client that asks by itself, and keeps what it gets.
class Asker {
  public:
    Asker() : socket_(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
        sockaddr_un address{AF_UNIX, ""};
        std::strcpy(address.sun_path, door::usual_path);
        if (connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address)) std::abort();
    }
    ~Asker() {
        for (const int fd : files) close(fd);
        leave();
    }
    Asker(const Asker&) = delete;
    void leave() {
        if (socket_ >= 0) close(socket_);
        socket_ = -1;
    }
    // The answer's error; ECONNRESET: there was none.
    int ask(const void* request, std::size_t bytes) {
        if (send(socket_, request, bytes, MSG_NOSIGNAL) != static_cast<ssize_t>(bytes)) return errno;
        door::Answer answer;
        alignas(cmsghdr) char control[CMSG_SPACE(door::most_files * sizeof(int))];
        iovec data{&answer, sizeof answer};
        msghdr message{};
        message.msg_iov = &data;
        message.msg_iovlen = 1;
        message.msg_control = control;
        message.msg_controllen = sizeof control;
        if (recvmsg(socket_, &message, MSG_CMSG_CLOEXEC) != sizeof answer) return ECONNRESET;
        if (const cmsghdr* c = CMSG_FIRSTHDR(&message))
            for (std::size_t at = CMSG_LEN(0); at < c->cmsg_len; at += sizeof(int)) {
                int fd;
                std::memcpy(&fd, reinterpret_cast<const char*>(c) + at, sizeof fd);
                files.push_back(fd);
            }
        if (answer.channel != 0) channel = answer.channel;  // 0 in answers about other things, too
        return answer.error;
    }
    int ask(door::What what, std::uint64_t offset = 0, std::uint64_t bytes = 0) {
        const door::Request request{what, 0, offset, bytes};
        return ask(&request, sizeof request);
    }
    std::vector<int> files;
    std::uint32_t channel = 0;

  private:
    int socket_;
};

class Service : public testing::Test {
  protected:
    void SetUp() override {
        const Error e = region.open(door::usual_path);
        ASSERT_FALSE(e) << e.text;
    }
    std::uint64_t granted_to(std::uint32_t channel, unsigned i = 0) const {
        return region.shape().extents_offset + (channel * stub_granules + i) * BARCUDA_GRANULE;
    }
    const barcuda_slot& slot(std::uint32_t i) const { return region.slots()[i]; }
    const barcuda_grant& grant(std::uint32_t channel) const { return region.grants()[channel * stub_granules]; }
    void await_grants(std::uint32_t channel) const {
        vm::wait_until([&] { return observe(slot(channel).served) == observe(slot(channel).opened); });
    }
    Region region;
};

TEST_F(Service, LetsNobodyWriteToTheTables) {
    Asker a;
    ASSERT_EQ(a.ask(door::What::header), 0);
    ASSERT_EQ(a.files.size(), 1u);
    EXPECT_EQ(vm::map(a.files[0], 0, nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED), EACCES);
    char* p = nullptr;
    ASSERT_EQ(vm::map(a.files[0], 0, nullptr, 4096, PROT_READ, MAP_SHARED, &p), 0);
    EXPECT_EQ(reinterpret_cast<barcuda_header*>(p)->magic, BARCUDA_MAGIC);
    EXPECT_NE(mprotect(p, 4096, PROT_READ | PROT_WRITE), 0);
    munmap(p, 4096);
    EXPECT_NE(ftruncate(a.files[0], 0), 0);
}
TEST_F(Service, FreesWhatWasGivenBeforeTheGuestWasReset) {
    vm::wait_until([&] { return observe(region.grants()[stub_left_open].mapped) == 0; });
}
TEST_F(Service, GivesOneChannelToAConnection) {
    Asker a, b;
    ASSERT_EQ(a.ask(door::What::channel), 0);
    EXPECT_EQ(a.ask(door::What::channel), EBUSY);
    ASSERT_EQ(b.ask(door::What::channel), 0);
    EXPECT_NE(a.channel, b.channel);
}
TEST_F(Service, GivesNothingOfOthers) {
    Asker a, b;
    ASSERT_EQ(a.ask(door::What::channel), 0);
    ASSERT_EQ(b.ask(door::What::channel), 0);
    await_grants(a.channel);
    await_grants(b.channel);
    EXPECT_EQ(a.ask(door::What::extent, granted_to(b.channel), BARCUDA_GRANULE), EACCES);
    EXPECT_EQ(a.ask(door::What::extent, granted_to(a.channel, 1), 2 * BARCUDA_GRANULE), EACCES);
    EXPECT_EQ(a.files.size(), 1u);
    EXPECT_EQ(a.ask(door::What::extent, granted_to(a.channel), 2 * BARCUDA_GRANULE), 0);
    EXPECT_EQ(a.files.size(), 3u);
    Asker without;
    EXPECT_EQ(without.ask(door::What::extent, granted_to(a.channel), BARCUDA_GRANULE), EINVAL);
}
TEST_F(Service, LetsNobodyChangeWhichBlocksAFileHas) {
    Asker a;
    ASSERT_EQ(a.ask(door::What::channel), 0);
    await_grants(a.channel);
    ASSERT_EQ(a.ask(door::What::extent, granted_to(a.channel), 2 * BARCUDA_GRANULE), 0);
    ASSERT_EQ(a.files.size(), 3u);
    for (const int file : a.files) {
        EXPECT_TRUE(ftruncate(file, 4096) != 0 && errno == EPERM);
        EXPECT_TRUE(ftruncate(file, 2 * BARCUDA_GRANULE) != 0 && errno == EPERM);
        for (const int how :
             {0, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, FALLOC_FL_COLLAPSE_RANGE, FALLOC_FL_ZERO_RANGE})
            EXPECT_TRUE(fallocate(file, how, 0, 4096) != 0 && errno == EPERM) << how;
        EXPECT_TRUE(pwrite(file, "", 1, BARCUDA_GRANULE) != 1 && errno == EPERM);
    }
    constexpr unsigned long move_extents = _IOWR('f', 15, std::uint64_t[5]);  // EXT4_IOC_MOVE_EXT
    struct {
        std::uint32_t reserved, donor;
        std::uint64_t from, to, blocks, moved;
    } what{0, static_cast<std::uint32_t>(a.files[2]), 0, 0, 16, 0};
    EXPECT_NE(ioctl(a.files[1], move_extents, &what), 0);
    EXPECT_EQ(what.moved, 0u);
}
TEST_F(Service, GivesAGranuleOnce) {
    Asker a;
    ASSERT_EQ(a.ask(door::What::channel), 0);
    await_grants(a.channel);
    ASSERT_EQ(a.ask(door::What::extent, granted_to(a.channel), BARCUDA_GRANULE), 0);
    EXPECT_EQ(a.ask(door::What::extent, granted_to(a.channel), BARCUDA_GRANULE), EBUSY);
    EXPECT_EQ(a.ask(door::What::extent, granted_to(a.channel, 1), BARCUDA_GRANULE), 0);
}
TEST_F(Service, RefusesWhatIsNoExtent) {
    Asker a;
    ASSERT_EQ(a.ask(door::What::channel), 0);
    await_grants(a.channel);
    const std::uint64_t mine = granted_to(a.channel), size = region.shape().size;
    const std::uint64_t wrong[][2] = {{0, BARCUDA_GRANULE},
                                      {BARCUDA_CHANNELS_OFFSET, BARCUDA_GRANULE},
                                      {mine + 4096, BARCUDA_GRANULE},
                                      {mine, 4096},
                                      {mine, 0},
                                      {mine, (door::most_files + 1) * BARCUDA_GRANULE},
                                      {size, BARCUDA_GRANULE},
                                      {size - BARCUDA_GRANULE, 2 * BARCUDA_GRANULE},
                                      {~0ull << 25, BARCUDA_GRANULE}};
    for (const auto& [offset, bytes] : wrong) EXPECT_EQ(a.ask(door::What::extent, offset, bytes), EINVAL) << offset;
}
TEST_F(Service, SendsAwayWhoSaysWhatNoClientSays) {
    const door::Request unknown{static_cast<door::What>(99)};
    const std::uint64_t longer[64] = {};
    EXPECT_EQ(Asker().ask(&unknown, sizeof unknown), ECONNRESET);
    EXPECT_EQ(Asker().ask(longer, sizeof longer), ECONNRESET);
    EXPECT_EQ(Asker().ask(longer, 3), ECONNRESET);
    EXPECT_EQ(Asker().ask(door::What::header), 0);
}
TEST_F(Service, CountsAGranuleAsMappedAsLongAsAnybodyHasItsFile) {
    std::uint32_t channel;
    int kept;
    char* mapped;
    {
        Asker a;
        ASSERT_EQ(a.ask(door::What::channel), 0);
        await_grants(channel = a.channel);
        EXPECT_EQ(observe(grant(channel).mapped), 0u);
        ASSERT_EQ(a.ask(door::What::extent, granted_to(channel), BARCUDA_GRANULE), 0);
        EXPECT_NE(observe(grant(channel).mapped), 0u);
        kept = dup(a.files[1]);
        ASSERT_EQ(vm::map(a.files[1], 0, nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, &mapped), 0);
    }
    // Its client has gone and the host has taken all back, but this process still has the file...
    vm::wait_until([&] { return observe(slot(channel).closed) == observe(slot(channel).opened); });
    vm::wait_until([&] { return observe(grant(channel).owner) == 0; });
    usleep(300'000);
    EXPECT_NE(observe(grant(channel).mapped), 0u);
    close(kept);
    usleep(300'000);
    EXPECT_NE(observe(grant(channel).mapped), 0u);  // ... or a mapping of it
    munmap(mapped, 4096);
    vm::wait_until([&] { return observe(grant(channel).mapped) == 0; });
}
TEST_F(Service, CountsAsMappedWhatAPipeHoldsAPageOf) {
    int pipes[2][2];
    ASSERT_EQ(pipe(pipes[0]) | pipe(pipes[1]), 0);
    std::uint32_t channel;
    {
        Asker a;
        ASSERT_EQ(a.ask(door::What::channel), 0);
        await_grants(channel = a.channel);
        ASSERT_EQ(a.ask(door::What::extent, granted_to(channel), BARCUDA_GRANULE), 0);
        for (const int i : {0, 1}) {
            char* mapped;
            ASSERT_EQ(vm::map(a.files[i], 0, nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, &mapped), 0);
            const iovec page{mapped, 4096};
            ASSERT_EQ(vmsplice(pipes[i][1], &page, 1, 0), 4096) << strerror(errno);
            munmap(mapped, 4096);
        }
    }
    char page[4096];
    usleep(300'000);
    EXPECT_NE(observe(slot(channel).opened), observe(slot(channel).closed));
    ASSERT_EQ(read(pipes[0][0], page, sizeof page), 4096);
    vm::wait_until([&] { return observe(slot(channel).closed) == observe(slot(channel).opened); });
    usleep(300'000);
    EXPECT_NE(observe(grant(channel).mapped), 0u);
    ASSERT_EQ(read(pipes[1][0], page, sizeof page), 4096);
    vm::wait_until([&] { return observe(grant(channel).mapped) == 0; });
    for (const auto& p : pipes) {
        close(p[0]);
        close(p[1]);
    }
}
TEST_F(Service, ClosesTheSlotOfAClientThatWasKilled) {
    int tell[2];
    ASSERT_EQ(pipe(tell), 0);
    const pid_t child = fork();
    if (child == 0) {
        Region r;
        Channel c;
        if (r.open(door::usual_path) || r.open_channel(c)) _exit(1);
        if (write(tell[1], &c.index, sizeof c.index) != sizeof c.index) _exit(2);
        pause();
    }
    std::uint32_t channel;
    ASSERT_EQ(read(tell[0], &channel, sizeof channel), static_cast<ssize_t>(sizeof channel));
    EXPECT_NE(observe(slot(channel).opened), observe(slot(channel).closed));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    vm::wait_until([&] { return observe(slot(channel).closed) == observe(slot(channel).opened); });
    close(tell[0]);
    close(tell[1]);
}
TEST_F(Service, ClosesTheSlotThoughAForkedChildLivesOn) {
    std::uint32_t channel;
    pid_t child;
    {
        Region r;
        Channel c;
        ASSERT_FALSE(r.open(door::usual_path));
        ASSERT_FALSE(r.open_channel(c));
        channel = c.index;
        child = fork();
        if (child == 0) pause();
        r.close_channel(c);
    }
    vm::wait_until([&] { return observe(slot(channel).closed) == observe(slot(channel).opened); });
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
}
TEST_F(Service, StartedAnewFindsAllAsItIs) {
    Channel c;
    ASSERT_FALSE(region.open_channel(c));
    await_grants(c.index);
    void* at = nullptr;
    ASSERT_FALSE(region.map_extent(granted_to(c.index), BARCUDA_GRANULE, &at));
    auto* const word = static_cast<volatile std::uint32_t*>(at);
    *word = 77;
    start_anew();
    EXPECT_EQ(*word, 77u);
    usleep(300'000);
    EXPECT_NE(observe(slot(c.index).opened), observe(slot(c.index).closed));
    EXPECT_NE(observe(grant(c.index).mapped), 0u);
    Asker other;
    ASSERT_EQ(other.ask(door::What::channel), 0);
    EXPECT_NE(other.channel, c.index);
    EXPECT_TRUE(region.map_extent(granted_to(c.index, 1), BARCUDA_GRANULE));  // it does not know whose channel that is
    const std::uint32_t index = c.index;
    region.unmap_extent(granted_to(index), BARCUDA_GRANULE);
    region.close_channel(c);
    vm::wait_until([&] { return observe(slot(index).opened) == observe(slot(index).closed); });
    vm::wait_until([&] { return observe(grant(index).mapped) == 0; });
}
TEST_F(Service, GivesMemoryThatTheKernelUsesAsAnyOther) {
    Channel c;
    ASSERT_FALSE(region.open_channel(c));
    await_grants(c.index);
    const std::uint64_t offset = granted_to(c.index);
    void* at = nullptr;
    ASSERT_FALSE(region.map_extent(offset, 2 * BARCUDA_GRANULE, &at));
    auto* const word = static_cast<std::uint32_t*>(at);
    *word = 7;
    // A futex of processes, which needs to know whose page it is.
    EXPECT_EQ(syscall(SYS_futex, word, FUTEX_WAKE, 1, nullptr, nullptr, 0), 0);
    iovec here{at, 4096}, there{static_cast<char*>(at) + 8192, 4096};
    EXPECT_EQ(process_vm_readv(getpid(), &there, 1, &here, 1, 0), 4096) << strerror(errno);
    EXPECT_EQ(*word, 7u);
    // By 2 MiB, for which a fault each is enough.
    rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    for (std::uint64_t i = 0; i < BARCUDA_GRANULE; i += 4096) static_cast<volatile char*>(at)[BARCUDA_GRANULE + i] = 1;
    getrusage(RUSAGE_SELF, &after);
    EXPECT_LE(after.ru_minflt - before.ru_minflt, static_cast<long>(BARCUDA_GRANULE >> 21) + 8);
    // Twice in this process, as registered memory is, across the edge of two granules.
    void* again = nullptr;
    const std::uint64_t edge = offset + BARCUDA_GRANULE - 4096;
    const Error e = region.map_again(edge, 8192, &again);
    ASSERT_FALSE(e) << e.text;
    for (const int page : {0, 1}) {
        static_cast<char*>(region.at(edge))[page * 4096] = static_cast<char>(40 + page);
        EXPECT_EQ(static_cast<char*>(again)[page * 4096], 40 + page);
    }
    munmap(again, 8192);
    region.unmap_extent(offset, 2 * BARCUDA_GRANULE);
    region.close_channel(c);
}

}  // namespace
}  // namespace barcuda
