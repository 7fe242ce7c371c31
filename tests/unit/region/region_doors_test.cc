// SPDX-License-Identifier: Apache-2.0
// region_doors_test: each door that is available without a VM does what every door must do
// (support/door_conformance.h), and open_door() finds the right one. The stub refuses all of it by name.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>

#include "shm-device/doors/bar_door.h"
#include "shm-device/doors/file_door.h"
#include "shm-device/doors/socket_door.h"
#include "shm-device/doors/stub_door.h"
#include "shm-device/doors/uio_door.h"
#include "shm-device/region/host_region.h"
#include "tests/unit/support/door_conformance.h"
#include "tests/unit/support/door_service.h"
#include "tests/unit/support/region_fixture.h"

namespace barcuda {
namespace {

using test::DoorCase;
using test::DoorSetting;
using test::DoorTest;

class InFile : public DoorSetting {
  public:
    InFile() {
        const Error e = host.create(path.c_str(), {.size = region_size, .base = region_base, .rows = region_rows});
        EXPECT_FALSE(e) << e.text;
        host.announce();
    }
    Error open(Region& region) override { return region.open(path.c_str()); }
    std::uint64_t granted(const Region& region, const Channel&, unsigned n) override {
        return region.shape().extents_offset + n * BARCUDA_GRANULE;
    }

  protected:
    test::Scratch scratch;
    std::string path = scratch / "region";
    HostRegion host;
};

class InHugePages final : public DoorSetting {
  public:
    InHugePages() {
        fd_ = ::memfd_create("region", MFD_CLOEXEC | MFD_HUGETLB | 21u << 26);  // 21: the logarithm of 2 MiB
        void* p = MAP_FAILED;
        if (fd_ >= 0 && ::ftruncate(fd_, region_size) == 0)
            p = ::mmap(nullptr, region_size, PROT_READ, MAP_SHARED, fd_, 0);
        if (p == MAP_FAILED) return;
        ::munmap(p, region_size);
        path_ = "/proc/self/fd/" + std::to_string(fd_);
        const Error e = host_.create(path_.c_str(), {.base = region_base, .overwrite = true, .rows = region_rows});
        EXPECT_FALSE(e) << e.text;
        host_.announce();
    }
    ~InHugePages() override {
        if (fd_ >= 0) ::close(fd_);
    }
    std::string missing() override {
        return path_.empty() ? "needs 64 huge pages of 2 MiB (sysctl vm.nr_hugepages=64)" : "";
    }
    Error open(Region& region) override { return region.open(path_.c_str()); }
    std::uint64_t granted(const Region& region, const Channel&, unsigned n) override {
        return region.shape().extents_offset + n * BARCUDA_GRANULE;
    }

  private:
    int fd_ = -1;
    std::string path_;
    HostRegion host_;
};

// The door of a BAR, which leads to a file.
class AsBar final : public InFile {
  public:
    Error open(Region& region) override {
        Error e = InFile::open(region);
        if (!e) RegionProbe::become_bar(region);
        return e;
    }
};

class ThroughSocket final : public InFile {
  public:
    Error open(Region& region) override { return region.open(socket_.c_str()); }

  private:
    std::string socket_ = scratch / "guest.sock";
    test::DoorService service_{socket_, reinterpret_cast<const char*>(&RegionProbe::header(host))};
};

template <class Setting> DoorCase door(const char* name) {
    return {name, [] { return std::make_unique<Setting>(); }};
}
INSTANTIATE_TEST_SUITE_P(Without, DoorTest,
                         ::testing::Values(door<InFile>("file"), door<InHugePages>("huge_pages"), door<AsBar>("bar"),
                                           door<ThroughSocket>("socket")),
                         [](const auto& c) { return c.param.name; });

// ---- which door it is -----------------------------------------------------------------------------------------------
template <class D> bool leads_through(const std::string& path) {
    DoorPlace place;
    (void)open_door(place, path.c_str());
    return place && dynamic_cast<D*>(&*place) != nullptr;
}
TEST_F(RegionTest, TheDoorIsChosenByWhatLiesAtThePath) {
    EXPECT_TRUE(leads_through<FileDoor>(path));
    EXPECT_TRUE(leads_through<StubDoor>("/dev/null"));
    test::DoorService service(scratch / "guest.sock", reinterpret_cast<const char*>(&RegionProbe::header(host)));
    EXPECT_TRUE(leads_through<SocketDoor>(scratch / "guest.sock"));
    DoorPlace place;
    EXPECT_EQ(open_door(place, (scratch / "nothing").c_str()).kind, Error::not_found);
    EXPECT_FALSE(place);
}
TEST_F(RegionTest, OnlyAFileOrADaxDeviceIsADoorForAHost) {
    ASSERT_FALSE(open_guest());
    EXPECT_EQ(guest.properties().whole, &guest.door());
    EXPECT_EQ(RegionProbe::become_bar(guest, BarDoor::By::pci).properties().whole, nullptr);
    auto& dax = RegionProbe::become_bar(guest, BarDoor::By::dax);
    EXPECT_EQ(dax.properties().whole, &dax);
    EXPECT_FALSE(dax.is_elastic());
}

TEST_F(RegionTest, AHostDoesNotTakeItsOwnLockForAFreeOne) {
    EXPECT_TRUE(host.served());
    ASSERT_FALSE(open_guest());
    EXPECT_TRUE(guest.served());
}

// ---- what differs, and why ------------------------------------------------------------------------------------------
TEST(Doors, EachSaysWhatTheLayersAboveMustKnow) {
    const UioDoor uio("/dev/uio0", {});
    EXPECT_TRUE(uio.properties().own_kernel);
    EXPECT_TRUE(uio.properties().forks_by_itself);
    EXPECT_FALSE(uio.properties().opens_again) << "the module knows the process by its open file";
    const SocketDoor socket("/run/barcuda/guest.sock");
    EXPECT_TRUE(socket.properties().own_kernel);
    EXPECT_FALSE(socket.properties().forks_by_itself);
    EXPECT_FALSE(socket.properties().remaps);
    const FileDoor file("/dev/shm/region", {}, region_size, BARCUDA_PAGE);
    EXPECT_FALSE(file.properties().own_kernel);
    EXPECT_TRUE(file.properties().offset_is_place);
    EXPECT_TRUE(file.properties().opens_again);
    const BarDoor bar("/sys/resource2", {}, region_size, BARCUDA_PAGE, BarDoor::By::pci);
    EXPECT_FALSE(bar.properties().own_kernel);
    EXPECT_FALSE(bar.properties().offset_is_place);
}
TEST(Doors, ARegionThatIsNotOpenHasNoneOfTheProperties) {
    const Region region;
    EXPECT_FALSE(region.properties().forks_by_itself);
    EXPECT_FALSE(region.properties().own_kernel);
    EXPECT_EQ(region.fd(), -1);
    EXPECT_STREQ(region.path(), "");
}

// ---- the stub -------------------------------------------------------------------------------------------------------
TEST(StubDoorTest, RefusesAllByName) {
    StubDoor stub("/dev/other0", "this system has no such door");
    const char* header = nullptr;
    Channel channel;
    void* p = nullptr;
    const std::string expected = "/dev/other0: this system has no such door";
    EXPECT_EQ(stub.refusal().text, expected);
    EXPECT_EQ(stub.map_header(&header).text, expected);
    EXPECT_EQ(stub.open_channel({}, channel).text, expected);
    EXPECT_EQ(stub.map_extent(0, BARCUDA_GRANULE, nullptr, os::Over::nothing), ENOTSUP);
    EXPECT_EQ(stub.map_again(0, BARCUDA_PAGE, nullptr, &p), ENOTSUP);
    stub.close_channel({}, channel, Door::Leave::to_nobody);
    std::uint32_t bell = 99;
    stub.choose_bell(bell);
    EXPECT_EQ(bell, BARCUDA_BELL_NONE);
    stub.ring(nullptr);
    stub.await(bell, bell, 1);
    EXPECT_FALSE(stub.gone(nullptr, 0));
    EXPECT_FALSE(channel);
}
TEST(StubDoorTest, IsWhatANewDoorBeginsWith) {
    struct NewDoor : StubDoor {
        explicit NewDoor(const char* path) : StubDoor(path, "it gives no channels yet") {}
        Error map_header(const char** header) override {
            *header = "a header";
            return {};
        }
    };
    DoorPlace place;
    Door& door = place.make<NewDoor>("new:1");
    const char* header = nullptr;
    Channel channel;
    EXPECT_FALSE(door.map_header(&header));
    EXPECT_STREQ(header, "a header");
    EXPECT_STREQ(door.open_channel({}, channel).text, "new:1: it gives no channels yet");
}
TEST(StubDoorTest, IsWhatARegionMeetsThatHasNoDoor) {
    Region region;
    const Error e = region.open("/dev/null");
    EXPECT_EQ(e.kind, Error::not_a_region);
    EXPECT_STREQ(e.text, "/dev/null: neither a file nor a device that can hold a region");
    HostRegion host;
    EXPECT_STREQ(host.create("/dev/null", {.size = region_size, .rows = region_rows}).text, e.text);
}

}  // namespace
}  // namespace barcuda
