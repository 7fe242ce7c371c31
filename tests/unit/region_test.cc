// region_test: a region is created, opened, mapped, taken over, and refused. docs/region.md names these tests beside
// its sentences.
#include "shm-device/region.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "shm-device/sync.h"
#include "tests/unit/support/scratch.h"

namespace barcuda {

struct RegionProbe {
    static void pretend(Region& region, Region::Kind kind) { region.kind_ = kind; }
};

namespace {

using test::exit_status;
using test::fork_child;
using test::in_child;
using test::Scratch;

constexpr std::uint64_t kMine = 0x1234567890abcdef;  // a fingerprint
constexpr std::uint64_t kSize = BARCUDA_MIN_SIZE;
// ThreadSanitizer lets programs have memory in few places only; this is one of them.
constexpr std::uint64_t kBase = 0x7e8000000000;

class RegionTest : public ::testing::Test {
  protected:
    Scratch scratch;
    std::string path = scratch / "region";
    Region host;
    Region guest;

    void SetUp() override {
        const Error e = host.create(path.c_str(), {.size = kSize, .base = kBase, .build = "test build"}, kMine);
        ASSERT_FALSE(e) << e.text;
        host.announce();
    }
    Error open_guest() { return guest.open(path.c_str(), kMine); }
};

std::string says(const Error& e) { return e.text; }
bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// ---- creating -------------------------------------------------------------------------------------------------------
TEST_F(RegionTest, ANewRegionOpens) {
    const Error e = open_guest();
    EXPECT_FALSE(e) << e.text;
    EXPECT_EQ(guest.kind(), Region::Kind::file);
    EXPECT_EQ(guest.header().size, kSize);
    EXPECT_EQ(guest.header().base, kBase);
    EXPECT_EQ(guest.header().epoch, 1u);
    EXPECT_STREQ(guest.header().build, "test build");
    EXPECT_EQ(guest.header().bridge_pid, static_cast<barcuda_u32>(::getpid()));
    EXPECT_NE(guest.header().bridge_start, 0u);
}
TEST_F(RegionTest, NobodyOpensItBeforeItIsAnnounced) {
    Region other;
    const std::string fresh = scratch / "fresh";
    ASSERT_FALSE(other.create(fresh.c_str(), {.size = kSize, .base = kBase}, kMine));
    EXPECT_EQ(guest.open(fresh.c_str(), kMine).kind, Error::not_ready);
    other.announce();
    EXPECT_FALSE(guest.open(fresh.c_str(), kMine));
}
TEST_F(RegionTest, ASizeThatNoBarCanHaveIsRefusedAndLeavesNoFile) {
    for (std::uint64_t size :
         std::vector<std::uint64_t>{0, kSize / 2, kSize + 4096, kSize * 3 / 2, 2 * BARCUDA_MAX_SIZE}) {
        Region r;
        const std::string odd = scratch / "odd";
        EXPECT_EQ(r.create(odd.c_str(), {.size = size}, kMine).kind, Error::bad_size) << size;
        EXPECT_NE(::access(odd.c_str(), F_OK), 0);
    }
}
TEST_F(RegionTest, ABaseThatNoProcessCanMapIsRefused) {
    for (std::uint64_t base :
         std::vector<std::uint64_t>{4096, (1ull << 47) - BARCUDA_GRANULE, 1ull << 47, ~0ull - 4095}) {
        Region r;
        EXPECT_EQ(r.create((scratch / "odd").c_str(), {.size = kSize, .base = base}, kMine).kind, Error::bad_base)
            << base;
    }
}
TEST_F(RegionTest, EverySizeIsDividedIntoPartsThatAValidatorAccepts) {
    for (std::uint64_t size = BARCUDA_MIN_SIZE; size <= BARCUDA_MAX_SIZE; size *= 2) {
        barcuda_header h{};
        h.magic = BARCUDA_MAGIC;
        h.layout = BARCUDA_LAYOUT;
        h.header_bytes = BARCUDA_CHANNELS_OFFSET;
        h.base = BARCUDA_DEFAULT_BASE;
        divide(h, size);
        const Error e = validate(h, size, 0, "it");
        EXPECT_FALSE(e) << size << ": " << e.text;
        EXPECT_GE(h.channel_count, 8u);
        EXPECT_EQ(h.extents_offset + h.granule_count * h.granule, size);
    }
}
TEST_F(RegionTest, ThereIsAChannelForEach64MiB) {
    const std::pair<std::uint64_t, unsigned> cases[] = {{128 << 20, 8},   {512 << 20, 8},     {1ull << 30, 16},
                                                        {4ull << 30, 64}, {16ull << 30, 256}, {256ull << 30, 256}};
    for (const auto& [size, channels] : cases) {
        barcuda_header h{};
        divide(h, size);
        EXPECT_EQ(h.channel_count, channels) << size;
    }
}
TEST_F(RegionTest, ANewRegionIsZeroWhereNothingIsSaid) {
    const int fd = ::open(path.c_str(), O_RDONLY);
    std::vector<char> text(host.header().extents_offset);
    ASSERT_EQ(::read(fd, text.data(), text.size()), static_cast<ssize_t>(text.size()));
    ::close(fd);
    std::memset(text.data(), 0, sizeof(barcuda_header));
    for (std::uint32_t i = 0; i < host.header().channel_count; ++i)
        std::memset(&text[BARCUDA_CHANNELS_OFFSET + i * BARCUDA_CHANNEL_SIZE + offsetof(barcuda_status, channel)], 0,
                    4);
    for (std::size_t i = 0; i < text.size(); ++i) ASSERT_EQ(text[i], 0) << i;
}
TEST_F(RegionTest, AFileThatIsNoRegionIsNotOverwrittenUnlessTold) {
    const std::string diary = scratch / "diary";
    const int fd = ::open(diary.c_str(), O_RDWR | O_CREAT, 0600);
    ASSERT_EQ(::write(fd, "dear diary", 10), 10);
    Region r;
    const Error e = r.create(diary.c_str(), {.size = kSize, .base = kBase}, kMine);
    EXPECT_EQ(e.kind, Error::exists);
    char text[10];
    EXPECT_EQ(::pread(fd, text, 10, 0), 10);
    EXPECT_EQ(std::memcmp(text, "dear diary", 10), 0);
    EXPECT_FALSE(r.create(diary.c_str(), {.size = kSize, .base = kBase, .overwrite = true}, kMine));
    ::close(fd);
}
TEST_F(RegionTest, AnUntouchedFileOfTheRightSizeIsFormatted) {  // as QEMU's memory-backend-file leaves it
    const std::string fresh = scratch / "fresh";
    const int fd = ::open(fresh.c_str(), O_RDWR | O_CREAT, 0600);
    ASSERT_EQ(::ftruncate(fd, kSize), 0);
    ::close(fd);
    Region r;
    const Error e = r.create(fresh.c_str(), {.base = kBase}, kMine);
    EXPECT_FALSE(e) << e.text;
    EXPECT_EQ(r.header().size, kSize);
}
TEST_F(RegionTest, ASecondBridgeIsRefusedWhileTheFirstLives) {
    Region second;
    EXPECT_EQ(second.create(path.c_str(), {}, kMine).kind, Error::in_use);
    host.close();
    EXPECT_FALSE(second.create(path.c_str(), {}, kMine));
}
TEST_F(RegionTest, AnExistingRegionKeepsItsSize) {
    host.close();
    EXPECT_EQ(host.create(path.c_str(), {.size = 2 * kSize}, kMine).kind, Error::bad_size);
    EXPECT_FALSE(host.create(path.c_str(), {.size = 2 * kSize, .overwrite = true}, kMine));
    EXPECT_EQ(host.header().size, 2 * kSize);
}

// ---- taking over ----------------------------------------------------------------------------------------------------
TEST_F(RegionTest, ATakeoverRaisesTheEpochAndKeepsSlotsAndGrants) {
    ASSERT_FALSE(open_guest());
    Channel channel;
    ASSERT_FALSE(guest.open_channel(channel));
    host.host_grants()[1].owner = channel.index + 1;
    host.close();
    ASSERT_FALSE(host.create(path.c_str(), {}, kMine + 1));
    EXPECT_EQ(host.header().epoch, 2u);
    EXPECT_EQ(host.header().base, kBase);
    EXPECT_EQ(host.slots()[channel.index].opened, 1u);
    EXPECT_EQ(host.slots()[channel.index].closed, 0u);
    EXPECT_EQ(host.grants()[1].owner, channel.index + 1);
}
TEST_F(RegionTest, ATakeoverLeavesTheMemoryOfOpenChannelsAlone) {
    ASSERT_FALSE(open_guest());
    Channel channel;
    ASSERT_FALSE(guest.open_channel(channel));
    channel.fences()[7] = 42;
    host.close();
    ASSERT_FALSE(host.create(path.c_str(), {}, kMine));
    EXPECT_EQ(channel.fences()[7], 42u);
}
TEST_F(RegionTest, ATakeoverCleansWhatIsFree) {
    Channel c;
    ASSERT_FALSE(host.map_channel(3, c));
    std::memset(c.memory, 0xff, BARCUDA_CHANNEL_SIZE);
    host.close();
    ASSERT_FALSE(host.create(path.c_str(), {}, kMine));
    EXPECT_EQ(c.status().channel, 3u);
    EXPECT_EQ(c.fences()[0], 0u);
}
TEST_F(RegionTest, ATakeoverTellsTheClientsOfTheLastBridge) {
    ASSERT_FALSE(open_guest());
    Channel served, waiting;
    ASSERT_FALSE(guest.open_channel(served));
    ASSERT_FALSE(guest.open_channel(waiting));  // no worker has looked at its queue: the next bridge may serve it
    host.host_slots()[served.index].served = served.opening;
    served.status().state = BARCUDA_STATE_READY;
    host.close();
    ASSERT_FALSE(host.create(path.c_str(), {}, kMine));
    EXPECT_EQ(served.status().state, BARCUDA_STATE_GONE);
    EXPECT_TRUE(contains(served.status().message, "restarted"));
    EXPECT_EQ(waiting.status().state, BARCUDA_STATE_NEW);
}
TEST_F(RegionTest, ATakeoverAfterADeathInTheMidstOfFormattingSucceeds) {
    host.host_header().magic = 0;
    host.close();
    ASSERT_FALSE(host.create(path.c_str(), {}, kMine));
    EXPECT_EQ(host.header().epoch, 2u);
}
TEST_F(RegionTest, ABridgeThatEndsSaysSo) {
    ASSERT_FALSE(open_guest());
    EXPECT_TRUE(guest.served());
    host.close();
    EXPECT_FALSE(guest.served());
    EXPECT_EQ(guest.header().bridge_pid, 0u);
}
TEST_F(RegionTest, ABridgeThatIsKilledIsNoticed) {
    host.close();
    const pid_t bridge = fork_child([&] {
        if (host.create(path.c_str(), {}, kMine)) return 1;
        host.announce();
        ::pause();
        return 0;
    });
    while (open_guest() || !guest.served()) ::usleep(1000);
    EXPECT_TRUE(guest.served());
    ::kill(bridge, SIGKILL);
    exit_status(bridge);
    EXPECT_NE(guest.header().bridge_pid, 0u);
    EXPECT_FALSE(guest.served());
}
TEST_F(RegionTest, AForkedWorkerDoesNotSayGoodbyeForItsBridge) {
    EXPECT_EQ(in_child([&] { return host.close(), 0; }), 0);
    ASSERT_FALSE(open_guest());
    EXPECT_TRUE(guest.served());
}

// ---- refusing -------------------------------------------------------------------------------------------------------
TEST_F(RegionTest, AMissingRegionIsRefused) {
    const Error e = guest.open((scratch / "nothing").c_str(), kMine);
    EXPECT_EQ(e.kind, Error::not_found);
    EXPECT_TRUE(contains(says(e), "barcuda-bridge"));
}
TEST_F(RegionTest, AFileThatIsNoRegionIsRefused) {
    host.host_header().magic = 0x464c457f;
    EXPECT_EQ(open_guest().kind, Error::not_a_region);
    const std::string small = scratch / "small";
    ::close(::open(small.c_str(), O_RDWR | O_CREAT, 0600));
    EXPECT_EQ(guest.open(small.c_str(), kMine).kind, Error::not_a_region);
    EXPECT_EQ(guest.open("/dev/null", kMine).kind, Error::not_a_region);
}
TEST_F(RegionTest, AnotherBuildIsRefusedAndNamed) {
    const Error e = guest.open(path.c_str(), kMine + 1);
    EXPECT_EQ(e.kind, Error::other_build);
    EXPECT_TRUE(contains(says(e), "test build")) << e.text;
    EXPECT_TRUE(contains(says(e), "1234567890abcdef")) << e.text;
}
TEST_F(RegionTest, AnotherLayoutIsRefused) {
    host.host_header().layout = BARCUDA_LAYOUT + 1;
    EXPECT_EQ(open_guest().kind, Error::other_layout);
}
TEST_F(RegionTest, AFileShorterThanItsHeaderSaysIsRefused) {
    host.host_header().size = 2 * kSize;
    EXPECT_EQ(open_guest().kind, Error::bad_size);
    ASSERT_EQ(::truncate(path.c_str(), 4096), 0);
    EXPECT_EQ(open_guest().kind, Error::not_a_region);
}
TEST_F(RegionTest, WhoIsNotInTheGroupIsToldSo) {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root, to become nobody";
    ASSERT_EQ(::chmod(path.c_str(), 0600), 0);
    ASSERT_EQ(::seteuid(65534), 0);
    const Error e = open_guest();
    ASSERT_EQ(::seteuid(0), 0);
    EXPECT_EQ(e.kind, Error::permission);
    EXPECT_TRUE(contains(says(e), "'barcuda'")) << e.text;
}
TEST_F(RegionTest, AHeaderThatContradictsItselfIsRefused) {
    const barcuda_header good = host.header();
    struct Case {
        const char* what;
        void (*spoil)(barcuda_header&);
        Error::Kind kind;
    };
    const Case cases[] = {
        {"size no power of two", [](barcuda_header& h) { h.size += 4096; }, Error::bad_size},
        {"size zero", [](barcuda_header& h) { h.size = 0; }, Error::bad_size},
        {"base zero", [](barcuda_header& h) { h.base = 0; }, Error::bad_base},
        {"base unaligned", [](barcuda_header& h) { h.base += 4096; }, Error::bad_base},
        {"base in the GPU's memory", [](barcuda_header& h) { h.base = BARCUDA_DEVICE_MAPPED; }, Error::bad_base},
        {"end in the GPU's memory", [](barcuda_header& h) { h.base = BARCUDA_DEVICE_MAPPED - BARCUDA_GRANULE; },
         Error::bad_base},
        {"base beyond user space", [](barcuda_header& h) { h.base = 1ull << 47; }, Error::bad_base},
        {"header_bytes", [](barcuda_header& h) { h.header_bytes /= 2; }, Error::malformed},
        {"channel_size", [](barcuda_header& h) { h.channel_size *= 2; }, Error::malformed},
        {"granule", [](barcuda_header& h) { h.granule = 4096; }, Error::malformed},
        {"no channels", [](barcuda_header& h) { h.channel_count = 0; }, Error::malformed},
        {"too many channels", [](barcuda_header& h) { h.channel_count = BARCUDA_MAX_CHANNELS + 1; }, Error::malformed},
        {"channels reach into extents", [](barcuda_header& h) { h.channel_count = 64; }, Error::malformed},
        {"too many devices", [](barcuda_header& h) { h.device_count = BARCUDA_MAX_DEVICES + 1; }, Error::malformed},
        {"no granules", [](barcuda_header& h) { h.granule_count = 0; }, Error::malformed},
        {"one granule too many", [](barcuda_header& h) { h.granule_count += 1; }, Error::malformed},
        {"granules overflow", [](barcuda_header& h) { h.granule_count = ~0u; }, Error::malformed},
        {"extents unaligned", [](barcuda_header& h) { h.extents_offset -= 4096, h.granule_count -= 1; },
         Error::malformed},
        {"extents over the header", [](barcuda_header& h) { h.extents_offset = 0, h.granule_count = 1; },
         Error::malformed},
        {"extents overflow", [](barcuda_header& h) { h.extents_offset = 0 - BARCUDA_GRANULE; }, Error::malformed},
        {"extents outside", [](barcuda_header& h) { h.extents_offset = h.size; }, Error::malformed},
    };
    for (const Case& c : cases) {
        barcuda_header h = good;
        c.spoil(h);
        EXPECT_EQ(validate(h, kSize, kMine, "it").kind, c.kind) << c.what;
    }
    EXPECT_FALSE(validate(good, kSize, kMine, "it"));
}
TEST_F(RegionTest, AnErrorNamesThePathAndIsASentence) {
    const Error e = guest.open(path.c_str(), 0);
    EXPECT_EQ(says(e).rfind(path + ": ", 0), 0u) << e.text;
    EXPECT_LT(says(e).size(), sizeof e.text - 1);
}

// ---- finding --------------------------------------------------------------------------------------------------------
TEST_F(RegionTest, TheEnvironmentNamesTheRegion) {
    ::setenv("BARCUDA_REGION", path.c_str(), 1);
    EXPECT_FALSE(guest.open(nullptr, kMine));
    EXPECT_STREQ(guest.path(), path.c_str());
    ::unsetenv("BARCUDA_REGION");
}
TEST_F(RegionTest, WithoutOneTheFirstUioDeviceOfOurModuleIsTaken) {
    const std::string sys = scratch / "uio";
    for (const auto& [n, name] : {std::pair{0, "uio_pci_generic"}, {3, "barcuda"}, {4, "barcuda"}}) {
        const std::string folder = sys + "/uio" + std::to_string(n);
        ASSERT_EQ(std::system(("mkdir -p " + folder + " && echo " + name + " > " + folder + "/name").c_str()), 0);
    }
    char found[64];
    ::unsetenv("BARCUDA_REGION");
    EXPECT_FALSE(find_region(found, sizeof found, sys.c_str()));
    EXPECT_STREQ(found, "/dev/uio3");
    EXPECT_EQ(find_region(found, sizeof found, "/nonexistent").kind, Error::not_found);
}

// ---- extents --------------------------------------------------------------------------------------------------------
TEST_F(RegionTest, AnExtentLiesAtBasePlusOffset) {
    ASSERT_FALSE(open_guest());
    const std::uint64_t offset = guest.header().extents_offset + BARCUDA_GRANULE;
    void* p = nullptr;
    const Error e = guest.map_extent(offset, BARCUDA_GRANULE, &p);
    ASSERT_FALSE(e) << e.text;
    EXPECT_EQ(reinterpret_cast<std::uint64_t>(p), kBase + offset);
    EXPECT_EQ(guest.at(offset), p);
    EXPECT_EQ(guest.offset_of(p), offset);
    guest.unmap_extent(offset, BARCUDA_GRANULE);
}
TEST_F(RegionTest, TwoProcessesSeeTheSameExtentAtTheSameAddress) {
    ASSERT_FALSE(open_guest());
    const std::uint64_t offset = guest.header().extents_offset;
    ASSERT_EQ(in_child([&] {
                  if (host.map_extent(offset, BARCUDA_GRANULE)) return 1;
                  std::strcpy(static_cast<char*>(host.at(offset)), "hello");
                  return 0;
              }),
              0);
    ASSERT_FALSE(guest.map_extent(offset, BARCUDA_GRANULE));
    EXPECT_STREQ(static_cast<char*>(guest.at(offset)), "hello");
    guest.unmap_extent(offset, BARCUDA_GRANULE);
}
TEST_F(RegionTest, ATakenAddressIsRefusedAndTheTakerNamed) {
    ASSERT_FALSE(open_guest());
    const std::uint64_t offset = guest.header().extents_offset;
    const std::string squatter = scratch / "squatter";
    const int fd = ::open(squatter.c_str(), O_RDWR | O_CREAT, 0600);
    ASSERT_EQ(::ftruncate(fd, 4096), 0);
    void* there = static_cast<char*>(guest.at(offset)) + 0x10000;
    ASSERT_EQ(::mmap(there, 4096, PROT_READ, MAP_SHARED | MAP_FIXED_NOREPLACE, fd, 0), there);
    const Error e = guest.map_extent(offset, BARCUDA_GRANULE);
    EXPECT_EQ(e.kind, Error::address_taken);
    EXPECT_TRUE(contains(says(e), squatter)) << e.text;
    EXPECT_EQ(guest.map_extent(offset + BARCUDA_GRANULE, BARCUDA_GRANULE).kind, Error::none);
    guest.unmap_extent(offset + BARCUDA_GRANULE, BARCUDA_GRANULE);
    ::munmap(there, 4096);
    ::close(fd);
}
TEST_F(RegionTest, WhatIsNoExtentIsNotMapped) {
    ASSERT_FALSE(open_guest());
    const std::uint64_t first = guest.header().extents_offset;
    const std::pair<std::uint64_t, std::uint64_t> cases[] = {
        {0, BARCUDA_GRANULE},             // the header
        {first + 4096, BARCUDA_GRANULE},  // unaligned
        {first, 4096},
        {first, 0},
        {kSize, BARCUDA_GRANULE},
        {first, kSize},
        {first, 0 - BARCUDA_GRANULE},
        {0 - BARCUDA_GRANULE, 2 * BARCUDA_GRANULE},
    };
    for (const auto& [offset, bytes] : cases)
        EXPECT_EQ(guest.map_extent(offset, bytes).kind, Error::bad_range) << offset;
}
TEST_F(RegionTest, ContainsIsTrueForTheRegionsAddressesOnly) {
    EXPECT_FALSE(guest.contains(nullptr));  // not opened: nothing
    ASSERT_FALSE(open_guest());
    EXPECT_TRUE(guest.contains(guest.at(0)));
    EXPECT_TRUE(guest.contains(guest.at(kSize - 1)));
    EXPECT_FALSE(guest.contains(guest.at(kSize)));
    EXPECT_FALSE(guest.contains(reinterpret_cast<void*>(kBase - 1)));
    EXPECT_FALSE(guest.contains(&guest));
}
TEST_F(RegionTest, ADescriptorThatTheProgramReusedIsNeverMapped) {
    ASSERT_FALSE(open_guest());
    const int other = ::memfd_create("other", 0);
    ASSERT_EQ(::ftruncate(other, kSize), 0);
    ASSERT_EQ(::dup2(other, guest.fd()), guest.fd());
    Channel channel;
    EXPECT_EQ(guest.map_extent(guest.header().extents_offset, BARCUDA_GRANULE).kind, Error::lost);
    EXPECT_EQ(guest.open_channel(channel).kind, Error::lost);
    const int stays = guest.fd();
    guest.close();
    EXPECT_NE(::fcntl(stays, F_GETFD), -1);  // not ours to close any more
    ::close(stays);
    ::close(other);
}
TEST_F(RegionTest, OurDescriptorStaysOutOfTheProgramsWay) {
    const int before = ::dup(0);
    ::close(before);
    ASSERT_FALSE(open_guest());
    const int after = ::dup(0);
    ::close(after);
    EXPECT_EQ(before, after);
    EXPECT_TRUE(::fcntl(guest.fd(), F_GETFD) & FD_CLOEXEC);
}

// ---- channels -------------------------------------------------------------------------------------------------------
TEST_F(RegionTest, AFreshChannelIsZeroButForItsNumber) {
    ASSERT_FALSE(open_guest());
    Channel c;
    ASSERT_FALSE(guest.open_channel(c));
    EXPECT_EQ(c.status().channel, c.index);
    c.status().channel = 0;
    for (std::uint64_t i = 0; i < BARCUDA_CHANNEL_SIZE; ++i) ASSERT_EQ(c.memory[i], 0) << i;
}
TEST_F(RegionTest, AnOpenSlotNamesItsProcess) {
    ASSERT_FALSE(open_guest());
    Channel c;
    ASSERT_FALSE(guest.open_channel(c));
    const barcuda_slot& s = host.slots()[c.index];
    EXPECT_EQ(s.opened, 1u);
    EXPECT_EQ(c.opening, 1u);
    EXPECT_EQ(s.closed, 0u);
    EXPECT_EQ(s.pid, static_cast<barcuda_u32>(::getpid()));
    EXPECT_EQ(s.start_time, start_time_of(::getpid()));
    EXPECT_NE(s.start_time, 0u);
    EXPECT_FALSE(host.owner_gone(c.index));
}
TEST_F(RegionTest, BothSidesMapTheSameChannel) {
    ASSERT_FALSE(open_guest());
    Channel c, h;
    ASSERT_FALSE(guest.open_channel(c));
    ASSERT_FALSE(host.map_channel(c.index, h));
    c.fences()[1] = 17;
    EXPECT_EQ(h.fences()[1], 17u);
    EXPECT_EQ(h.offset, c.offset);
    host.unmap_channel(h);
}
TEST_F(RegionTest, EachClientGetsItsOwnUntilNoneIsLeft) {
    ASSERT_FALSE(open_guest());
    const std::uint32_t count = guest.header().channel_count;
    Channel c;
    for (std::uint32_t i = 0; i < count; ++i) {
        ASSERT_FALSE(guest.open_channel(c));
        EXPECT_EQ(c.index, i);
    }
    const Error e = guest.open_channel(c);
    EXPECT_EQ(e.kind, Error::no_channel);
    EXPECT_TRUE(contains(says(e), "all 8 channels")) << e.text;
}
TEST_F(RegionTest, AClientWaitsForASlotThatTheHostIsAboutToFree) {
    ASSERT_FALSE(open_guest());
    std::vector<Channel> channels(guest.header().channel_count);
    for (Channel& c : channels) ASSERT_FALSE(guest.open_channel(c));
    guest.close_channel(channels[5]);
    std::thread bridge([&] {
        ::usleep(
            20'000);  // long enough for the client to find nothing at first; shorter, and it finds the slot at once
        publish(host.host_slots()[5].reclaimed, 1);
    });
    Channel c;
    const Error e = guest.open_channel(c);
    EXPECT_FALSE(e) << e.text;
    EXPECT_EQ(c.index, 5u);
    bridge.join();
}
TEST_F(RegionTest, NobodyWaitsForASlotWhenNoBridgeIsThere) {
    ASSERT_FALSE(open_guest());
    std::vector<Channel> channels(guest.header().channel_count);
    for (Channel& c : channels) ASSERT_FALSE(guest.open_channel(c));
    guest.close_channel(channels[5]);
    host.close();
    Channel c;
    EXPECT_EQ(guest.open_channel(c).kind, Error::no_channel);
}
TEST_F(RegionTest, AClosedSlotIsFreeOnlyOnceTheHostHasReclaimedIt) {
    ASSERT_FALSE(open_guest());
    Channel c;
    ASSERT_FALSE(guest.open_channel(c));
    guest.close_channel(c);
    barcuda_slot& s = host.host_slots()[0];
    EXPECT_EQ(s.closed, 1u);
    ASSERT_FALSE(guest.open_channel(c));
    EXPECT_EQ(c.index, 1u);
    ASSERT_FALSE(host.clean_channel(0));
    publish(s.reclaimed, 1);
    ASSERT_FALSE(guest.open_channel(c));
    EXPECT_EQ(c.index, 0u);
    EXPECT_EQ(c.opening, 2u);
}
TEST_F(RegionTest, ACleanedChannelHoldsNothingOfItsLastClient) {
    ASSERT_FALSE(open_guest());
    Channel c;
    ASSERT_FALSE(guest.open_channel(c));
    std::memset(c.memory, 0xff, BARCUDA_CHANNEL_SIZE);
    ASSERT_FALSE(host.clean_channel(c.index));
    EXPECT_EQ(c.status().channel, c.index);
    c.status().channel = 0;
    for (std::uint64_t i = 0; i < BARCUDA_CHANNEL_SIZE; ++i) ASSERT_EQ(c.memory[i], 0) << i;
}
TEST_F(RegionTest, AChannelIsCleanedWhereNoHolesCanBePunched) {
    Channel c;
    ASSERT_FALSE(host.map_channel(2, c));
    std::memset(c.memory, 0xff, BARCUDA_CHANNEL_SIZE);
    RegionProbe::pretend(host, Region::Kind::dax);
    ASSERT_FALSE(host.clean_channel(2));
    EXPECT_EQ(c.status().channel, 2u);
    c.status().channel = 0;
    for (std::uint64_t i = 0; i < BARCUDA_CHANNEL_SIZE; ++i) ASSERT_EQ(c.memory[i], 0) << i;
}
TEST_F(RegionTest, AKilledClientIsNoticed) {
    const pid_t client = fork_child([&] {
        Channel c;
        if (open_guest() || guest.open_channel(c)) return 1;
        ::pause();
        return 0;
    });
    while (observe(host.slots()[0].opened) == 0) ::usleep(1000);
    EXPECT_FALSE(host.owner_gone(0));
    ::kill(client, SIGKILL);
    siginfo_t info;
    ::waitid(P_PID, client, &info, WEXITED | WNOWAIT);  // a zombie now: dead, but still in /proc
    EXPECT_TRUE(host.owner_gone(0));
    exit_status(client);
    EXPECT_TRUE(host.owner_gone(0));
}
TEST_F(RegionTest, AClientThatDiedBetweenItsStepsHoldsNothing) {
    ASSERT_EQ(in_child([&] { return open_guest() ? 1 : 0; }), 0);
    barcuda_slot& s = host.host_slots()[0];
    s.pid = 1;  // the name was written, then the client died: `opened` is as it was
    s.start_time = 1;
    ASSERT_FALSE(open_guest());
    Channel c;
    ASSERT_FALSE(guest.open_channel(c));
    EXPECT_EQ(c.index, 0u);
    EXPECT_EQ(s.pid, static_cast<barcuda_u32>(::getpid()));
}
TEST_F(RegionTest, AReusedPidIsNotTheOwner) {
    ASSERT_FALSE(open_guest());
    Channel c;
    ASSERT_FALSE(guest.open_channel(c));
    guest.close();  // drops the lock, as a program does that closes all descriptors
    EXPECT_FALSE(host.owner_gone(c.index));
    host.host_slots()[c.index].start_time -= 1;
    EXPECT_TRUE(host.owner_gone(c.index));
}
TEST_F(RegionTest, AClientOfAnotherPidNamespaceIsKnownByItsLock) {
    int ready[2], go[2];
    ASSERT_EQ(::pipe(ready) + ::pipe(go), 0);
    const pid_t client = fork_child([&] {
        Channel c;
        if (open_guest() || guest.open_channel(c)) return 1;
        char byte = 0;
        return ::write(ready[1], &byte, 1) == 1 && ::read(go[0], &byte, 1) == 1 ? 0 : 1;
    });
    char byte = 0;
    ASSERT_EQ(::read(ready[0], &byte, 1), 1);
    host.host_slots()[0].pid = 0x3fffffff;  // no such process here
    EXPECT_FALSE(host.owner_gone(0));
    ASSERT_EQ(::write(go[1], &byte, 1), 1);
    EXPECT_EQ(exit_status(client), 0);
    EXPECT_TRUE(host.owner_gone(0));
    for (int fd : {ready[0], ready[1], go[0], go[1]}) ::close(fd);
}
TEST_F(RegionTest, ProcessesThatClaimAtOnceGetDifferentSlots) {
    const std::uint32_t count = host.header().channel_count;
    int hold[2];
    ASSERT_EQ(::pipe(hold), 0);
    std::vector<pid_t> clients;
    for (std::uint32_t i = 0; i < count + 4; ++i)
        clients.push_back(fork_child([&] {
            ::close(hold[1]);
            Channel c;
            if (open_guest()) return 1;
            const Error e = guest.open_channel(c);
            char byte;
            if (!e && ::read(hold[0], &byte, 1) != 0) return 1;  // stays until all have tried
            return e.kind == Error::none ? 0 : e.kind == Error::no_channel ? 2 : 1;
        }));
    for (std::uint32_t open = 0; open < count;) {
        open = 0;
        for (std::uint32_t i = 0; i < count; ++i) open += observe(host.slots()[i].opened);
        ::usleep(1000);
    }
    int refused = 0, served = 0;
    for (std::size_t i = 0; i < clients.size() && refused < 4; ++i) {
        int status = 0;
        ::waitpid(-1, &status, 0);
        refused += WIFEXITED(status) && WEXITSTATUS(status) == 2;
    }
    ::close(hold[1]);
    for (std::uint32_t i = 0; i < count; ++i) {
        int status = 0;
        ::waitpid(-1, &status, 0);
        served += WIFEXITED(status) && WEXITSTATUS(status) == 0;
    }
    EXPECT_EQ(refused, 4);
    EXPECT_EQ(served, static_cast<int>(count));
    ::close(hold[0]);
}

TEST_F(RegionTest, ThreadsThatClaimAtOnceGetDifferentSlots) {  // record locks do not tell them apart
    const std::uint32_t count = host.header().channel_count;
    for (int round = 0; round < 20; ++round) {
        std::vector<Region> regions(count);
        std::vector<Channel> channels(count);
        for (Region& r : regions) ASSERT_FALSE(r.open(path.c_str(), kMine));
        std::vector<std::thread> threads;
        for (std::uint32_t i = 0; i < count; ++i)
            threads.emplace_back([&, i] { EXPECT_FALSE(regions[i].open_channel(channels[i])); });
        for (auto& t : threads) t.join();
        std::set<std::uint32_t> indices;
        for (std::uint32_t i = 0; i < count; ++i) {
            indices.insert(channels[i].index);
            regions[i].close_channel(channels[i]);
        }
        EXPECT_EQ(indices.size(), count);
        for (std::uint32_t i = 0; i < count; ++i) publish(host.host_slots()[i].reclaimed, host.slots()[i].closed);
    }
}

// ---- other kinds of memory ------------------------------------------------------------------------------------------
void everything_works_on(int fd) {
    ASSERT_EQ(::ftruncate(fd, kSize), 0);
    const std::string path = "/proc/self/fd/" + std::to_string(fd);
    Region host, guest;
    Error e = host.create(path.c_str(), {.base = kBase, .overwrite = true}, kMine);
    ASSERT_FALSE(e) << e.text;
    host.announce();
    ASSERT_FALSE(e = guest.open(path.c_str(), kMine)) << e.text;
    Channel c, h;
    ASSERT_FALSE(e = guest.open_channel(c)) << e.text;
    ASSERT_FALSE(e = host.map_channel(c.index, h)) << e.text;
    c.fences()[3] = 9;
    EXPECT_EQ(h.fences()[3], 9u);
    EXPECT_EQ(h.status().channel, c.index);
    EXPECT_FALSE(host.owner_gone(c.index));
    const std::uint64_t offset = guest.header().extents_offset;
    ASSERT_FALSE(e = guest.map_extent(offset, BARCUDA_GRANULE)) << e.text;
    *static_cast<int*>(guest.at(offset)) = 5;
    guest.unmap_extent(offset, BARCUDA_GRANULE);
    ASSERT_FALSE(e = host.map_extent(offset, BARCUDA_GRANULE)) << e.text;
    EXPECT_EQ(*static_cast<int*>(host.at(offset)), 5);
    host.unmap_extent(offset, BARCUDA_GRANULE);
    host.unmap_channel(h);
    guest.close_channel(c);
}
TEST(RegionKinds, AMemfdIsARegionToo) {
    const int fd = ::memfd_create("region", MFD_CLOEXEC);
    everything_works_on(fd);
    ::close(fd);
}
TEST(RegionKinds, HugePagesAreARegionToo) {
    // 21: the logarithm of 2 MiB
    const int fd = ::memfd_create("region", MFD_CLOEXEC | MFD_HUGETLB | 21u << 26);
    void* p = MAP_FAILED;
    if (fd >= 0 && ::ftruncate(fd, kSize) == 0) p = ::mmap(nullptr, kSize, PROT_READ, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED) {
        if (fd >= 0) ::close(fd);
        GTEST_SKIP() << "needs 64 huge pages of 2 MiB (sysctl vm.nr_hugepages=64)";
    }
    ::munmap(p, kSize);
    everything_works_on(fd);
    ::close(fd);
}

// ---- a BAR mapped whole: its host sees no pid and no lock -----------------------------------------------------------
class SlotsTest : public RegionTest {
  protected:
    void SetUp() override {
        RegionTest::SetUp();
        ASSERT_FALSE(open_guest());
        RegionProbe::pretend(guest, Region::Kind::pci);
    }
};
TEST_F(SlotsTest, WhereTheHostSeesNobodyPidIsZeroAndItDoesNotGuess) {
    Channel c;
    ASSERT_FALSE(guest.open_channel(c));
    EXPECT_EQ(host.slots()[c.index].pid, 0u);
    EXPECT_FALSE(host.owner_gone(c.index));
}
TEST_F(SlotsTest, WhereTheHostSeesNobodyTheNextClientClosesForTheDead) {
    ASSERT_EQ(in_child([&] {
                  Region client;
                  if (client.open(path.c_str(), kMine)) return 1;
                  RegionProbe::pretend(client, Region::Kind::pci);
                  Channel c;
                  return client.open_channel(c) ? 1 : 0;
              }),
              0);
    const barcuda_slot& s = host.slots()[0];
    EXPECT_EQ(s.opened, 1u);
    EXPECT_EQ(s.closed, 0u);
    Channel c;
    ASSERT_FALSE(guest.open_channel(c));
    EXPECT_EQ(s.closed, 1u);
    EXPECT_EQ(c.index, 1u);  // the host has yet to reclaim the first
    publish(host.host_slots()[0].reclaimed, 1);
    Region other;
    ASSERT_FALSE(other.open(path.c_str(), kMine));
    RegionProbe::pretend(other, Region::Kind::pci);
    ASSERT_FALSE(other.open_channel(c));
    EXPECT_EQ(c.index, 0u);
}
TEST_F(SlotsTest, TheLivingAreLeftAlone) {
    Region other;
    ASSERT_FALSE(other.open(path.c_str(), kMine));
    RegionProbe::pretend(other, Region::Kind::pci);
    Channel mine, theirs;
    ASSERT_FALSE(other.open_channel(theirs));
    ASSERT_FALSE(guest.open_channel(mine));
    EXPECT_EQ(host.slots()[theirs.index].closed, 0u);
    EXPECT_NE(mine.index, theirs.index);
}

}  // namespace
}  // namespace barcuda