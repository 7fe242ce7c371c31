// SPDX-License-Identifier: Apache-2.0
// unplug_test: the device may vanish under its users (PCI hot-unplug) and come back. Takes the device away for a
// moment: run it after the others, as root, on a PCI device.
#include <sys/uio.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/vm/door.h"
#include "tests/vm/pci.h"

namespace barcuda::vm {
namespace {

void take_away() { ASSERT_TRUE(unplug()); }

// Once no process maps it any more, its memory can be used again. The kernel frees it a moment later.
void plug() {
    ASSERT_TRUE(rescan());
    wait_until([] { return !pci_node().empty(); });
}

// Runs `use` in a child that has mapped an extent, takes the device away, and then runs `after` there.
template <class After> int unplugged_under(After after) {
    Gate mapped, gone;
    setenv("BARCUDA_TEST_DEVICE", pci_node().c_str(), 1);
    const pid_t pid = start_child([&] {
        Client c;
        const bool works = !c.error() && !c.map_extents();
        if (works) *c.address() = 1;
        mapped.open_for();
        if (!works) return 1;
        gone.wait();
        return after(c);
    });
    mapped.wait();
    take_away();
    EXPECT_TRUE(pci_node().empty());
    gone.open_for();
    const int status = status_of(pid);
    plug();
    EXPECT_FALSE(pci_node().empty()) << "it does not come back";
    return status;
}

TEST(Unplug, AnAccessAfterwardsIsABusError) {
    EXPECT_EQ(unplugged_under([](Client& c) { return static_cast<int>(*c.address()); }), 128 + SIGBUS);
    EXPECT_EQ(unplugged_under([](Client& c) { return static_cast<int>(*c.channel()); }), 128 + SIGBUS);
    EXPECT_EQ(unplugged_under([](Client&) { return static_cast<int>(*header().memory()); }), 128 + SIGBUS);
}

TEST(Unplug, NothingCanBeMappedAfterwards) {
    EXPECT_EQ(unplugged_under([](Client& c) {
                  munmap(c.address(), BARCUDA_GRANULE);
                  return c.map_extents() != 0 ? 0 : 1;
              }),
              0);
}

TEST(Unplug, ChildrenWithASnapshotGetABusErrorToo) {
    EXPECT_EQ(unplugged_under(
                  [](Client& c) { return in_child([&] { return static_cast<int>(c.address()[BARCUDA_PAGE]); }); }),
              128 + SIGBUS);
}

// The pages of a BAR are one, whichever device it belongs to.
TEST(Unplug, TheDeviceComesBackByItselfWhenItsLastUserHasEnded) {
    Gate mapped, end;
    setenv("BARCUDA_TEST_DEVICE", pci_node().c_str(), 1);
    const std::string before = pci_device();
    const pid_t pid = start_child([&] {
        Client c;
        const bool works = !c.error() && !c.map_extents();
        mapped.open_for();
        if (!works) return 1;
        end.wait();
        return 0;
    });
    mapped.wait();
    take_away();
    ASSERT_TRUE(rescan());
    EXPECT_EQ(access(before.c_str(), F_OK), 0) << "the device is there again";
    EXPECT_TRUE(pci_node().empty()) << "but its memory is not free";
    end.open_for();
    EXPECT_EQ(status_of(pid), 0);
    wait_until([] { return !pci_node().empty(); });
    setenv("BARCUDA_TEST_DEVICE", pci_node().c_str(), 1);
    EXPECT_EQ(in_child([] {
                  Client c;
                  return c.error() || c.map_extents() ? 1 : 0;
              }),
              0);
}

TEST(Unplug, APipeMayHoldPagesOfItLongerThanAnybodyElse) {
    int fds[2];
    ASSERT_EQ(pipe(fds), 0);
    setenv("BARCUDA_TEST_DEVICE", pci_node().c_str(), 1);
    const int held = in_child([&] {
        Client c;
        if (c.error() || c.map_extents()) return 1;
        std::strcpy(c.address(), "there");
        iovec from{c.address(), 6};
        return vmsplice(fds[1], &from, 1, 0) == 6 ? 0 : errno;
    });
    if (held == EFAULT) GTEST_SKIP() << "this device's memory has no struct pages";
    ASSERT_EQ(held, 0);
    take_away();
    ASSERT_TRUE(rescan());
    EXPECT_TRUE(pci_node().empty()) << "its memory is not free";
    char text[6] = "";
    EXPECT_EQ(in_child([&] { return read(fds[0], text, 6) == 6 && !std::strcmp(text, "there") ? 0 : 1; }), 0);
    wait_until([] { return !pci_node().empty(); });
    close(fds[0]);
    close(fds[1]);
}

TEST(Unplug, TheDeviceThatComesBackHasFreeChannels) {
    EXPECT_EQ(unplugged_under([](Client&) { return 0; }), 0);
    setenv("BARCUDA_TEST_DEVICE", pci_node().c_str(), 1);
    EXPECT_EQ(in_child([] {
                  Client c;
                  return c.error() || c.map_extents() ? 1 : 0;
              }),
              0);
}

}  // namespace
}  // namespace barcuda::vm
