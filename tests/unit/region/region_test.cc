// SPDX-License-Identifier: Apache-2.0
// region_test: a region is opened, refused, found and mapped. docs/region.md names these tests beside its sentences.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "shm-device/queue/sync.h"
#include "shm-device/region/client_base.h"
#include "shm-device/region/region.h"
#include "tests/unit/support/region_fixture.h"

namespace barcuda {
namespace {

using test::exit_status;
using test::fork_child;
using test::in_child;

// ---- refusing -------------------------------------------------------------------------------------------------------
TEST_F(RegionTest, AMissingRegionIsRefused) {
    const Error e = guest.open((scratch / "nothing").c_str());
    EXPECT_EQ(e.kind, Error::not_found);
    EXPECT_TRUE(contains(says(e), "barcuda-bridge"));
}
TEST_F(RegionTest, AFileThatIsNoRegionIsRefused) {
    RegionProbe::header(host).magic = 0x464c457f;
    EXPECT_EQ(open_guest().kind, Error::not_a_region);
    const std::string small = scratch / "small";
    ::close(::open(small.c_str(), O_RDWR | O_CREAT, 0600));
    EXPECT_EQ(guest.open(small.c_str()).kind, Error::not_a_region);
    EXPECT_EQ(guest.open("/dev/null").kind, Error::not_a_region);
}
// Both versions are named, and who is to be upgraded.
void is_told(const Error& e, Error::Kind kind, const char* what, unsigned its, unsigned ours) {
    EXPECT_EQ(e.kind, kind);
    const std::string host = std::string("(Barcuda test build) speaks ") + what + " version " + std::to_string(its);
    EXPECT_TRUE(contains(says(e), host + ",")) << e.text;
    EXPECT_TRUE(contains(says(e), "version " + std::to_string(ours) + ": upgrade ")) << e.text;
    EXPECT_EQ(contains(says(e), "upgrade barcuda-bridge on the host"), its < ours) << e.text;
    EXPECT_EQ(contains(says(e), "upgrade Barcuda in this guest"), its > ours) << e.text;
}
TEST_F(RegionTest, AnotherLayoutIsRefusedAndTheOlderSideNamed) {
    for (unsigned its : {BARCUDA_LAYOUT - 1, BARCUDA_LAYOUT + 1}) {
        RegionProbe::header(host).layout = its;
        is_told(open_guest(), Error::other_layout, "layout", its, BARCUDA_LAYOUT);
    }
}
TEST_F(RegionTest, OtherPacketsAreRefusedAndTheOlderSideNamed) {
    for (unsigned its : {BARCUDA_PACKETS - 1, BARCUDA_PACKETS + 1}) {
        RegionProbe::header(host).packets = its;
        is_told(open_guest(), Error::other_packets, "packet", its, BARCUDA_PACKETS);
    }
}
TEST_F(RegionTest, ADamagedHeaderIsCalledDamagedAndNotForeign) {
    RegionProbe::header(host).packets = BARCUDA_PACKETS + 1;
    RegionProbe::header(host).granule = 0;
    EXPECT_EQ(open_guest().kind, Error::malformed);
}
TEST_F(RegionTest, ShowsTheRowsOfItsHost) {
    ASSERT_FALSE(open_guest());
    EXPECT_TRUE(std::ranges::equal(guest.rows(), region_rows));
    guest.close();
    EXPECT_TRUE(guest.rows().empty());
}
TEST_F(RegionTest, AFileShorterThanItsHeaderSaysIsRefused) {
    RegionProbe::header(host).size = 2 * region_size;
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
TEST_F(RegionTest, AnotherUsersIsRefusedAndRootsIsNot) {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root, to become nobody";
    ASSERT_EQ(::chmod((scratch / ".").c_str(), 0711), 0);
    ASSERT_EQ(::chmod(path.c_str(), 0660), 0);
    const auto opened_by = [&](uid_t user) {
        EXPECT_EQ(::setegid(65534), 0);
        EXPECT_EQ(::seteuid(user), 0);
        const Error e = open_guest();
        EXPECT_EQ(::seteuid(0), 0);
        EXPECT_EQ(::setegid(0), 0);
        return e;
    };
    ASSERT_EQ(::chown(path.c_str(), 0, 65534), 0);
    Error e = opened_by(65534);
    EXPECT_FALSE(e) << e.text;
    ASSERT_EQ(::chown(path.c_str(), 65533, 65534), 0);
    e = opened_by(65534);
    EXPECT_EQ(e.kind, Error::foreign);
    EXPECT_TRUE(contains(says(e), "belongs to user 65533")) << e.text;
    EXPECT_EQ(opened_by(0).kind, Error::foreign);
    EXPECT_FALSE(e = opened_by(65533)) << e.text;
}
TEST_F(RegionTest, OneThatEverybodyMayWriteIsRefused) {
    ASSERT_EQ(::chmod(path.c_str(), 0666), 0);
    const Error e = open_guest();
    EXPECT_EQ(e.kind, Error::foreign);
    EXPECT_TRUE(contains(says(e), "mode 0666")) << e.text;
}
TEST_F(RegionTest, AHeaderThatContradictsItselfIsRefused) {
    const barcuda_header good = RegionProbe::header(host);
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
        {"windows of no addresses", [](barcuda_header& h) { h.device_base = 0; }, Error::malformed},
        {"windows in the wrong order", [](barcuda_header& h) { h.device_pools_end = h.device_base; }, Error::malformed},
        {"windows that overlap", [](barcuda_header& h) { h.device_mapped = h.device_pools_end - BARCUDA_PAGE; },
         Error::malformed},
        {"windows that end before they begin", [](barcuda_header& h) { h.device_end = h.device_mapped; },
         Error::malformed},
        {"windows beyond user space", [](barcuda_header& h) { h.device_end = (1ull << 47) + BARCUDA_PAGE; },
         Error::malformed},
        {"windows unaligned", [](barcuda_header& h) { h.device_mapped += 8; }, Error::malformed},
        {"base in its own windows", [](barcuda_header& h) { h.device_end = h.base + BARCUDA_PAGE; }, Error::bad_base},
        {"base among its own pools",
         [](barcuda_header& h) {
             h.device_pools_end = h.device_mapped = h.base + BARCUDA_PAGE;
             h.device_end = 1ull << 47;
         },
         Error::bad_base},
        {"header_bytes", [](barcuda_header& h) { h.header_bytes /= 2; }, Error::malformed},
        {"channel_size", [](barcuda_header& h) { h.channel_size *= 2; }, Error::malformed},
        {"granule", [](barcuda_header& h) { h.granule = 4096; }, Error::malformed},
        {"no channels", [](barcuda_header& h) { h.channel_count = 0; }, Error::malformed},
        {"too many channels", [](barcuda_header& h) { h.channel_count = BARCUDA_MAX_CHANNELS + 1; }, Error::malformed},
        {"channels reach into extents", [](barcuda_header& h) { h.channel_count = 64; }, Error::malformed},
        {"too many devices", [](barcuda_header& h) { h.device_count = BARCUDA_MAX_DEVICES + 1; }, Error::malformed},
        {"no rows", [](barcuda_header& h) { h.row_count = 0; }, Error::malformed},
        {"too many rows", [](barcuda_header& h) { h.row_count = BARCUDA_MAX_ROWS + 1; }, Error::malformed},
        {"rows overflow", [](barcuda_header& h) { h.row_count = ~0u; }, Error::malformed},
        {"snapshot unaligned", [](barcuda_header& h) { h.snapshot_offset += 8; }, Error::malformed},
        {"snapshot over the rows", [](barcuda_header& h) { h.snapshot_offset = h.rows_offset; }, Error::malformed},
        {"snapshot over the slots", [](barcuda_header& h) { h.snapshot_offset = BARCUDA_SLOTS_OFFSET; },
         Error::malformed},
        {"snapshot where no guest reads",
         [](barcuda_header& h) { h.snapshot_offset = h.extents_offset - BARCUDA_PAGE * 256; }, Error::malformed},
        {"snapshot outside", [](barcuda_header& h) { h.snapshot_offset = 0 - BARCUDA_PAGE; }, Error::malformed},
        {"rows unaligned", [](barcuda_header& h) { h.rows_offset += 4; }, Error::malformed},
        {"rows behind the slots", [](barcuda_header& h) { h.rows_offset = BARCUDA_GRANTS_OFFSET - BARCUDA_PAGE; },
         Error::malformed},
        {"rows over the devices", [](barcuda_header& h) { h.rows_offset = BARCUDA_DEVICES_OFFSET; }, Error::malformed},
        {"rows reach into the channels",
         [](barcuda_header& h) {
             h.rows_offset = BARCUDA_CHANNELS_OFFSET - 8;
             h.row_count = 2;
         },
         Error::malformed},
        {"rows behind the channels", [](barcuda_header& h) { h.rows_offset = h.extents_offset - BARCUDA_CHANNEL_SIZE; },
         Error::malformed},
        {"rows outside", [](barcuda_header& h) { h.rows_offset = h.size; }, Error::malformed},
        {"rows beyond all numbers", [](barcuda_header& h) { h.rows_offset = 0 - 8ull; }, Error::malformed},
        {"no granules", [](barcuda_header& h) { h.granule_count = 0; }, Error::malformed},
        {"one granule too many", [](barcuda_header& h) { h.granule_count += 1; }, Error::malformed},
        {"granules overflow", [](barcuda_header& h) { h.granule_count = ~0u; }, Error::malformed},
        {"extents unaligned",
         [](barcuda_header& h) {
             h.extents_offset -= 4096;
             h.granule_count -= 1;
         },
         Error::malformed},
        {"extents over the header",
         [](barcuda_header& h) {
             h.extents_offset = 0;
             h.granule_count = 1;
         },
         Error::malformed},
        {"extents overflow", [](barcuda_header& h) { h.extents_offset = 0 - BARCUDA_GRANULE; }, Error::malformed},
        {"extents outside", [](barcuda_header& h) { h.extents_offset = h.size; }, Error::malformed},
    };
    for (const Case& c : cases) {
        barcuda_header h = good;
        c.spoil(h);
        EXPECT_EQ(validate(h, region_size, "it").kind, c.kind) << c.what;
    }
    EXPECT_FALSE(validate(good, region_size, "it"));
}
TEST_F(RegionTest, ABridgeThatTakesNoSnapshotIsAccepted) {  // of the day before there were any
    EXPECT_EQ(open_guest().kind, Error::none);
    EXPECT_NE(guest.snapshot(), nullptr);
    RegionProbe::header(host).snapshot_offset = 0;
    EXPECT_EQ(open_guest().kind, Error::none);
    EXPECT_EQ(guest.snapshot(), nullptr);
}
TEST_F(RegionTest, AHeaderWithoutWindowsHasThoseOfBefore) {  // also where an older bridge has left a newer one's
    ASSERT_FALSE(open_guest());
    EXPECT_EQ(guest.shape().windows, Windows());
    barcuda_header& header = RegionProbe::header(host);
    header.device_base = header.device_pools_end = header.device_mapped = header.device_end = 0;
    EXPECT_EQ(open_guest().kind, Error::malformed);
    for (const std::uint32_t epoch : {0u, header.epoch - 1}) {
        header.windows_epoch = epoch;
        ASSERT_FALSE(open_guest());
        EXPECT_EQ(guest.shape().windows, Windows());
    }
}
TEST_F(RegionTest, TheWindowsAreThoseThatItsHeaderNames) {
    const Windows others{0x100000000, 0x8000000000, 0x500000000000, 0x600000000000};
    barcuda_header& header = RegionProbe::header(host);
    header.device_base = others.begin;
    header.device_pools_end = others.pools_end;
    header.device_mapped = others.mapped;
    header.device_end = others.end;
    ASSERT_FALSE(open_guest());
    EXPECT_EQ(guest.shape().windows, others);
    for (const std::uint64_t in : {others.begin, others.pools_end, others.end - 1}) EXPECT_TRUE(others.contains(in));
    for (const std::uint64_t out : {others.begin - 1, others.end}) EXPECT_FALSE(others.contains(out));
    header.base = 0x300000000000;  // the driver's, where a header names no windows
    EXPECT_FALSE(open_guest());
    header.windows_epoch = 0;
    EXPECT_EQ(open_guest().kind, Error::bad_base);
}
TEST_F(RegionTest, ADoorMayHaveTheRegionAtABaseOfItsOwn) {
    constexpr std::uint64_t own = region_base - 4 * region_size + client_base_unit;
    barcuda_header header = RegionProbe::header(host);
    ASSERT_FALSE(open_guest());
    EXPECT_FALSE(RegionProbe::choose_base(guest, own, header));
    EXPECT_EQ(header.base, own);
    EXPECT_EQ(RegionProbe::choose_base(guest, own + BARCUDA_PAGE, header = RegionProbe::header(host)).kind,
              Error::bad_base);
    const Error e = RegionProbe::choose_base(guest, BARCUDA_DEVICE_MAPPED, header = RegionProbe::header(host));
    EXPECT_EQ(e.kind, Error::bad_base);
    EXPECT_FALSE(RegionProbe::choose_base(guest, 0, header = RegionProbe::header(host)));
    EXPECT_EQ(header.base, region_base);
}
TEST_F(RegionTest, ADoorWithABaseOfItsOwnNeedsABridgeThatKnowsOfThem) {
    barcuda_header header = RegionProbe::header(host);
    ASSERT_FALSE(open_guest());
    header.windows_epoch = 0;
    EXPECT_FALSE(RegionProbe::choose_base(guest, region_base, header));
    const Error e = RegionProbe::choose_base(guest, region_base - region_size, header);
    EXPECT_EQ(e.kind, Error::bad_base);
    EXPECT_TRUE(contains(says(e), "upgrade barcuda-bridge")) << e.text;
}
TEST_F(RegionTest, AnErrorNamesThePathAndIsASentence) {
    RegionProbe::header(host).packets = 0;
    const Error e = open_guest();
    EXPECT_EQ(says(e).rfind(path + ": ", 0), 0u) << e.text;
    EXPECT_LT(says(e).size(), sizeof e.text - 1);
}

// ---- finding --------------------------------------------------------------------------------------------------------
TEST_F(RegionTest, TheEnvironmentNamesTheRegion) {
    ::setenv("BARCUDA_REGION", path.c_str(), 1);
    EXPECT_FALSE(guest.open(nullptr));
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
    const std::string door = scratch / "guest.sock";
    EXPECT_EQ(find_region(found, sizeof found, "/nonexistent", door.c_str()).kind, Error::not_found);
    ASSERT_EQ(std::system(("touch " + door).c_str()), 0);
    EXPECT_FALSE(find_region(found, sizeof found, "/nonexistent", door.c_str()));
    EXPECT_STREQ(found, door.c_str());
    EXPECT_FALSE(find_region(found, sizeof found, sys.c_str(), door.c_str()));
    EXPECT_STREQ(found, "/dev/uio3");
}
TEST_F(RegionTest, ASocketWhereNobodyAnswersSaysWhomToStart) {
    const std::string door = scratch / "guest.sock";
    const int listener = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    sockaddr_un address{AF_UNIX, ""};
    std::snprintf(address.sun_path, sizeof address.sun_path, "%s", door.c_str());
    ASSERT_EQ(::bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    const Error e = guest.open(door.c_str());
    EXPECT_EQ(e.kind, Error::not_ready);
    EXPECT_NE(std::strstr(e.text, "barcuda-guest"), nullptr) << e.text;
    ::close(listener);
}

// ---- extents --------------------------------------------------------------------------------------------------------
TEST_F(RegionTest, AnExtentLiesAtBasePlusOffset) {
    ASSERT_FALSE(open_guest());
    const std::uint64_t offset = guest.shape().extents_offset + BARCUDA_GRANULE;
    void* p = nullptr;
    const Error e = guest.map_extent(offset, BARCUDA_GRANULE, &p);
    ASSERT_FALSE(e) << e.text;
    EXPECT_EQ(reinterpret_cast<std::uint64_t>(p), region_base + offset);
    EXPECT_EQ(guest.at(offset), p);
    EXPECT_EQ(guest.offset_of(p), offset);
    guest.unmap_extent(offset, BARCUDA_GRANULE);
}
TEST_F(RegionTest, TwoProcessesSeeTheSameExtentAtTheSameAddress) {
    ASSERT_FALSE(open_guest());
    const std::uint64_t offset = guest.shape().extents_offset;
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
    const std::uint64_t offset = guest.shape().extents_offset;
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
    const std::uint64_t first = guest.shape().extents_offset;
    const std::pair<std::uint64_t, std::uint64_t> cases[] = {
        {0, BARCUDA_GRANULE},             // the header
        {first + 4096, BARCUDA_GRANULE},  // unaligned
        {first, 4096},
        {first, 0},
        {region_size, BARCUDA_GRANULE},
        {first, region_size},
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
    EXPECT_TRUE(guest.contains(guest.at(region_size - 1)));
    EXPECT_FALSE(guest.contains(guest.at(region_size)));
    EXPECT_FALSE(guest.contains(reinterpret_cast<void*>(region_base - 1)));
    EXPECT_FALSE(guest.contains(&guest));
}
TEST_F(RegionTest, ADescriptorThatTheProgramReusedIsNeverMapped) {
    ASSERT_FALSE(open_guest());
    const int other = ::memfd_create("other", 0);
    ASSERT_EQ(::ftruncate(other, region_size), 0);
    ASSERT_EQ(::dup2(other, guest.fd()), guest.fd());
    const int stays = guest.fd();
    void* extent = nullptr;
    ASSERT_FALSE(guest.map_extent(guest.shape().extents_offset, BARCUDA_GRANULE, &extent));
    *static_cast<char*>(extent) = 1;
    char byte = 0;
    EXPECT_EQ(::pread(other, &byte, 1, static_cast<off_t>(guest.shape().extents_offset)), 1);
    EXPECT_EQ(byte, 0);
    EXPECT_NE(guest.fd(), stays);
    guest.unmap_extent(guest.shape().extents_offset, BARCUDA_GRANULE);
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

// ---- other kinds of memory ------------------------------------------------------------------------------------------
void everything_works_on(int fd) {
    ASSERT_EQ(::ftruncate(fd, region_size), 0);
    const std::string path = "/proc/self/fd/" + std::to_string(fd);
    HostRegion host;
    Region guest;
    Error e = host.create(path.c_str(), {.base = region_base, .overwrite = true, .rows = region_rows});
    ASSERT_FALSE(e) << e.text;
    host.announce();
    ASSERT_FALSE(e = guest.open(path.c_str())) << e.text;
    Channel c, h;
    ASSERT_FALSE(e = guest.open_channel(c)) << e.text;
    ASSERT_FALSE(e = host.map_channel(c.index, h)) << e.text;
    c.commands()[3] = 9;
    EXPECT_EQ(h.commands()[3], 9);
    EXPECT_EQ(h.status().channel, c.index);
    EXPECT_FALSE(host.owner_gone(c.index));
    const std::uint64_t offset = guest.shape().extents_offset;
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
    if (fd >= 0 && ::ftruncate(fd, region_size) == 0) p = ::mmap(nullptr, region_size, PROT_READ, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED) {
        if (fd >= 0) ::close(fd);
        GTEST_SKIP() << "needs 64 huge pages of 2 MiB (sysctl vm.nr_hugepages=64)";
    }
    ::munmap(p, region_size);
    everything_works_on(fd);
    ::close(fd);
}

}  // namespace
}  // namespace barcuda
