// SPDX-License-Identifier: Apache-2.0
// visible_devices_test: which devices a program sees on a machine with four, by CUDA_VISIBLE_DEVICES and
// CUDA_DEVICE_ORDER.
#include "shm-device/cuda/visible_devices.h"

#include <gtest/gtest.h>

namespace barcuda {
namespace {

using Numbers = std::vector<int>;

// The two in the middle have the same beginning; on the bus they are in the opposite order.
constexpr unsigned char uuids[4][16] = {
    {0x8a, 0x32, 0xf9, 0x37, 0xd7, 0x2c}, {0x11, 0x22, 0x33}, {0x11, 0x22, 0x44}, {0xff}};
const DeviceId machine[] = {
    {uuids[0], "0000:C1:00.0"}, {uuids[1], "0000:b1:00.0"}, {uuids[2], "0000:A1:00.0"}, {uuids[3], "0000:01:00.0"}};

Numbers seen(const char* list, const char* order = nullptr) { return visible_devices(machine, list, order).numbers; }

TEST(VisibleDevices, AreAllWithoutAList) { EXPECT_EQ(seen(nullptr), (Numbers{0, 1, 2, 3})); }
TEST(VisibleDevices, AreNoneByAnEmptyList) {
    EXPECT_EQ(seen(""), Numbers{});
    EXPECT_EQ(seen("  "), Numbers{});
}
TEST(VisibleDevices, AreInTheOrderOfTheList) {
    EXPECT_EQ(seen("2,1"), (Numbers{2, 1}));
    EXPECT_EQ(seen("3, 0 ,1"), (Numbers{3, 0, 1}));
}
TEST(VisibleDevices, EndWithTheFirstNumberThatIsNone) {
    EXPECT_EQ(seen("0,2,-1,1"), (Numbers{0, 2}));
    EXPECT_EQ(seen("1,4,0"), Numbers{1});
    EXPECT_EQ(seen("-1"), Numbers{});
    EXPECT_EQ(seen("1,,0"), Numbers{1});
    EXPECT_EQ(seen("none"), Numbers{});
    EXPECT_EQ(seen("99999999999999999999,0"), Numbers{});
    EXPECT_EQ(visible_devices(machine, "1,4,0", nullptr).stopped_at, "4");
}
TEST(VisibleDevices, AreNumberedByTheDigitsThatAnEntryBeginsWith) { EXPECT_EQ(seen("1gpu2,2ampere"), (Numbers{1, 2})); }
TEST(VisibleDevices, AreNumberedByTheLower32Bits) {
    EXPECT_EQ(seen("4294967297,2"), (Numbers{1, 2}));
    EXPECT_EQ(seen("-4294967295"), Numbers{1});
    EXPECT_EQ(seen("2147483649"), Numbers{});
}
TEST(VisibleDevices, AreNamedByUuidsAndTheirBeginnings) {
    EXPECT_EQ(seen("GPU-8a32f937-d72c-0000-0000-000000000000"), Numbers{0});
    EXPECT_EQ(seen("GPU-ff,GPU-8A3"), (Numbers{3, 0}));
    EXPECT_EQ(seen("GPU-112244"), Numbers{2});
    EXPECT_EQ(seen("GPU-8a32f937-d72c-0000-0000-0000000000000,GPU-ff"), (Numbers{0, 3})) << "one digit too many";
}
TEST(VisibleDevices, EndWithABeginningThatMeansSeveralOrNone) {
    EXPECT_EQ(seen("GPU-ff,GPU-1122,GPU-8a"), Numbers{3});
    EXPECT_EQ(seen("GPU-ff,GPU-12"), Numbers{3});
    EXPECT_EQ(seen("GPU-ff,GPU-"), Numbers{3});
    EXPECT_EQ(seen("GPU-ff, GPU-8a"), Numbers{3}) << "a space";
    EXPECT_EQ(seen(" GPU-ff"), Numbers{});
}
TEST(VisibleDevices, AreNotNamedInTwoWaysInOneList) {
    EXPECT_EQ(seen("0,GPU-ff"), Numbers{0});
    EXPECT_EQ(seen("GPU-ff,0"), Numbers{3});
}
TEST(VisibleDevices, AreNoneWhereOneIsNamedTwice) {
    EXPECT_EQ(seen("0,1,0"), Numbers{});
    EXPECT_EQ(seen("GPU-ff,GPU-f"), Numbers{});
    EXPECT_TRUE(visible_devices(machine, "2,2", nullptr).repeated);
}
TEST(VisibleDevices, ThatArePartsOfAGpuAreNamedByTheirWholeUuid) {
    EXPECT_EQ(seen("MIG-11224400-0000-0000-0000-000000000000"), Numbers{2});
    EXPECT_EQ(seen("MIG-112244"), Numbers{});
    EXPECT_EQ(seen("MIG-GPU-11224400-0000-0000-0000-000000000000/1/0"), Numbers{});
}
TEST(VisibleDevices, AreCountedByTheirPlaceOnTheBusIfThatIsAskedFor) {
    EXPECT_EQ(seen(nullptr, "PCI_BUS_ID"), (Numbers{3, 2, 1, 0}));
    EXPECT_EQ(seen("0,3", "PCI_BUS_ID"), (Numbers{3, 0}));
    EXPECT_EQ(seen("GPU-8a,GPU-ff", "PCI_BUS_ID"), (Numbers{0, 3})) << "a list has its own order";
    EXPECT_EQ(seen("0,3", "FASTEST_FIRST"), (Numbers{0, 3}));
}

}  // namespace
}  // namespace barcuda
