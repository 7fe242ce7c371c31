// SPDX-License-Identifier: Apache-2.0
// region_test: shm-device/region, as libbarcuda uses it, at the doors that only a VM has: the guest module's /dev/uioN,
// or the socket of `barcuda guest serve` ($BARCUDA_TEST_DEVICE); and BAR2 mapped whole. Run as root; the stub bridge
// plays the host.
#include "shm-device/region/region.h"

#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <memory>
#include <string>

#include "shm-device/doors/bar_door.h"
#include "shm-device/doors/socket_door.h"
#include "shm-device/doors/uio_door.h"
#include "shm-device/queue/sync.h"
#include "tests/unit/support/door_conformance.h"
#include "tests/vm/door.h"

namespace barcuda {
namespace {

using test::DoorTest;

std::uint64_t extent_of(const Region& region, const Channel& channel, unsigned i = 0) {
    return region.shape().extents_offset + (channel.index * stub_granules + i) * BARCUDA_GRANULE;
}
void wait_for_grants(const Region& region, const Channel& channel) {
    vm::wait_until([&] { return observe(region.slots()[channel.index].served) == channel.opening; });
}

TEST(RegionInVm, IsFoundByTheNameOfTheModulesDevice) {
    Region r;
    ::unsetenv("BARCUDA_REGION");
    const Error e = r.open(nullptr);
    ASSERT_FALSE(e) << e.text;
    EXPECT_STREQ(r.path(), vm::device());
    const bool is_socket = std::strcmp(vm::device(), door::usual_path) == 0;
    EXPECT_EQ(dynamic_cast<SocketDoor*>(&r.door()) != nullptr, is_socket);
    EXPECT_EQ(dynamic_cast<UioDoor*>(&r.door()) != nullptr, !is_socket);
    EXPECT_EQ(r.shape().base, BARCUDA_DEFAULT_BASE);
}
TEST(RegionInVm, OpensAChannelAndMapsWhatWasGranted) {
    Region r;
    ASSERT_FALSE(r.open(vm::device()));
    Channel c;
    Error e = r.open_channel(c);
    ASSERT_FALSE(e) << e.text;
    EXPECT_EQ(c.status().channel, c.index);
    EXPECT_EQ(observe(r.slots()[c.index].opened), c.opening);
    EXPECT_EQ(c.offset, BARCUDA_CHANNELS_OFFSET + c.index * BARCUDA_CHANNEL_SIZE);
    wait_for_grants(r, c);
    const std::uint64_t offset = extent_of(r, c);
    ASSERT_FALSE(e = r.map_extent(offset, 2 * BARCUDA_GRANULE)) << e.text;
    std::memset(r.at(offset), 7, 4096);
    EXPECT_EQ(reinterpret_cast<std::uint64_t>(r.at(offset)), r.shape().base + offset);
    r.unmap_extent(offset, 2 * BARCUDA_GRANULE);
    r.close_channel(c);
}
TEST(RegionInVm, SaysThatAnotherClientsExtentWasNotGranted) {
    Region r;
    ASSERT_FALSE(r.open(vm::device()));
    Channel c;
    ASSERT_FALSE(r.open_channel(c));
    wait_for_grants(r, c);
    const Error e = r.map_extent(extent_of(r, c, stub_granules), BARCUDA_GRANULE);
    EXPECT_EQ(e.kind, Error::permission);
    EXPECT_NE(std::strstr(e.text, "not granted"), nullptr) << e.text;
    r.close_channel(c);
}
TEST(RegionInVm, NamesTheGroupToAUserOutsideIt) {
    EXPECT_EQ(vm::in_child([] {
                  if (setgroups(0, nullptr) || setgid(4321) || setuid(4321)) return 1;
                  Region r;
                  const Error e = r.open(vm::device());
                  return e.kind == Error::permission && std::strstr(e.text, "'barcuda'") ? 0 : 2;
              }),
              0);
}
TEST(RegionInVm, OpensChannelAfterChannelFasterThanTheHostCleansUp) {
    for (int i = 0; i < 100; ++i)
        ASSERT_EQ(vm::in_child([] {
                      Region r;
                      Channel c;
                      return r.open(vm::device()) || r.open_channel(c) ? 1 : 0;
                  }),
                  0)
            << i;
}
TEST(RegionInVm, ShowsTheRowsOfItsHost) {
    Region r;
    ASSERT_FALSE(r.open(vm::device()));
    EXPECT_EQ(r.rows().size(), stub_rows);
}

// BAR2 as PCI shows it. The module must have released it: Debian's kernel lets no process map what a driver holds.
std::string bar() {
    DIR* devices = ::opendir("/sys/bus/pci/devices");
    std::string found;
    while (const dirent* d = devices ? ::readdir(devices) : nullptr) {
        const std::string folder = std::string("/sys/bus/pci/devices/") + d->d_name;
        std::string vendor, device;
        std::ifstream(folder + "/vendor") >> vendor;
        std::ifstream(folder + "/device") >> device;
        if (vendor == "0x1af4" && device == "0x1110") found = folder + "/resource2";
    }
    if (devices) ::closedir(devices);
    return found;
}
bool without_module() {
    return ::access("/sys/module/uio_barcuda", F_OK) != 0 ||
           ::syscall(SYS_delete_module, "uio_barcuda", O_NONBLOCK) == 0;
}

// ---- what every door must do ----------------------------------------------------------------------------------------
class OfTheGuest : public test::DoorSetting {
  public:
    std::string missing() override {
        return ::access(vm::device(), F_OK) == 0 ? "" : std::string("needs ") + vm::device();
    }
    Error open(Region& region) override { return region.open(vm::device()); }
    std::uint64_t granted(const Region& region, const Channel& channel, unsigned n) override {
        wait_for_grants(region, channel);
        return extent_of(region, channel, n);
    }
};
class WholeBar final : public OfTheGuest {
  public:
    std::string missing() override {
        return without_module() ? "" : "needs root, and a module that can be removed (pages=0)";
    }
    Error open(Region& region) override { return region.open(bar().c_str()); }
};
INSTANTIATE_TEST_SUITE_P(RegionInVm, DoorTest,
                         ::testing::Values(test::DoorCase{"guest", [] { return std::make_unique<OfTheGuest>(); }}),
                         [](const auto& c) { return c.param.name; });
INSTANTIATE_TEST_SUITE_P(RegionInVmWithoutModule, DoorTest,
                         ::testing::Values(test::DoorCase{"bar", [] { return std::make_unique<WholeBar>(); }}),
                         [](const auto& c) { return c.param.name; });

TEST(RegionInVmWithoutModule, IsTheBarMappedWhole) {
    if (!without_module()) GTEST_SKIP() << "needs root, and a module that can be removed (pages=0)";
    const std::string path = bar();
    Region r;
    Error e = r.open(path.c_str());
    ASSERT_FALSE(e) << e.text;
    EXPECT_NE(dynamic_cast<BarDoor*>(&r.door()), nullptr);
    Channel c;
    ASSERT_FALSE(e = r.open_channel(c)) << e.text;
    EXPECT_EQ(c.status().channel, c.index);
    EXPECT_EQ(observe(r.slots()[c.index].pid), 0u);
    wait_for_grants(r, c);
    const std::uint64_t offset = extent_of(r, c);
    ASSERT_FALSE(e = r.map_extent(offset, BARCUDA_GRANULE)) << e.text;
    static_cast<volatile char*>(r.at(offset))[1] = 3;
    r.unmap_extent(offset, BARCUDA_GRANULE);
    const std::uint32_t index = c.index, opening = c.opening;
    r.close_channel(c);
    vm::wait_until([&] { return observe(r.slots()[index].reclaimed) == opening; });
}
TEST(RegionInVmWithoutModule, ADeadClientsSlotIsClosedByTheNextOne) {
    if (!without_module()) GTEST_SKIP() << "needs root, and a module that can be removed (pages=0)";
    const std::string path = bar();
    ASSERT_EQ(vm::in_child([&] {
                  Region r;
                  Channel c;
                  return r.open(path.c_str()) || r.open_channel(c) ? 1 : 0;
              }),
              0);
    Region r;
    Channel c;
    ASSERT_FALSE(r.open(path.c_str()));
    ASSERT_FALSE(r.open_channel(c));
    vm::wait_until([&] {  // the host has no process left to wait for
        unsigned open = 0;
        for (unsigned i = 0; i < r.shape().channel_count; ++i)
            open += observe(r.slots()[i].opened) != observe(r.slots()[i].reclaimed);
        return open == 1;
    });
    r.close_channel(c);
}

}  // namespace
}  // namespace barcuda
