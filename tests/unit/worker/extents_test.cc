// SPDX-License-Identifier: Apache-2.0
// extents_test: a worker has its client's parts of the region where the client has them.
#include "host-bridge/worker/session/extents.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "base/message.h"
#include "tests/unit/support/fake_driver.h"

namespace barcuda {
namespace {

constexpr std::uint64_t granule = BARCUDA_GRANULE;
// ThreadSanitizer lets programs have memory in few places only; this is one of them.
constexpr std::uint64_t here = 0x7e8000000000, there = here + 64 * granule;

bool is_mapped(std::uint64_t address) {
    unsigned char in_memory = 0;
    return mincore(reinterpret_cast<void*>(address), BARCUDA_PAGE, &in_memory) == 0;
}

struct ExtentsTest : testing::Test {
    const File region{memfd_create("region", MFD_CLOEXEC)};
    const Driver driver = fake::driver();
    fake::World& world = fake::World::current();
    Extents extents{region.fd(), here};
    static constexpr std::uint64_t first = granule, second = 3 * granule;

    ExtentsTest() {
        EXPECT_EQ(ftruncate(region.fd(), 8 * granule), 0);
        for (const std::uint64_t offset : {first, second}) {
            EXPECT_EQ(extents.map(offset, granule).text(), "");
            std::memset(extents.locate(offset, 1), static_cast<int>(offset / granule), BARCUDA_PAGE);
        }
    }
    std::uint64_t driver_calls() const { return world.calls; }
};

TEST_F(ExtentsTest, AreWhereTheClientHasThem) {
    EXPECT_EQ(extents.move_to(driver, there).text(), "");
    for (const std::uint64_t offset : {first, second}) {
        EXPECT_FALSE(is_mapped(here + offset));
        ASSERT_TRUE(is_mapped(there + offset));
        ASSERT_EQ(extents.locate(offset, granule), reinterpret_cast<std::byte*>(there + offset));
        EXPECT_EQ(*extents.locate(offset, 1), static_cast<std::byte>(offset / granule));
        EXPECT_TRUE(extents.contains(there + offset, granule));
        EXPECT_FALSE(extents.contains(here + offset, 1));
    }
    EXPECT_EQ(extents.map(5 * granule, granule).text(), "");
    EXPECT_TRUE(is_mapped(there + 5 * granule));
}
TEST_F(ExtentsTest, HaveNoPlaceForNothingBehindTheirEnd) {
    EXPECT_NE(extents.locate(first, 0), nullptr);
    EXPECT_NE(extents.locate(first + granule, 0), nullptr);
    for (const std::uint64_t offset : {first + granule + 1, second - 1, second + granule + 8, ~std::uint64_t{0}})
        EXPECT_EQ(extents.locate(offset, 0), nullptr) << offset;
}
TEST_F(ExtentsTest, AreRegisteredWhereTheyAre) {
    EXPECT_EQ(extents.register_all(driver), CUDA_SUCCESS);
    const std::uint64_t before = driver_calls();
    EXPECT_EQ(extents.move_to(driver, there).text(), "");
    EXPECT_EQ(driver_calls(), before + 2) << "each is unregistered before it goes";
    EXPECT_EQ(extents.register_all(driver), CUDA_SUCCESS);
    EXPECT_EQ(driver_calls(), before + 4);
}
TEST_F(ExtentsTest, StayWhereTheClientHasThemAtTheRegionsBase) {
    EXPECT_EQ(extents.register_all(driver), CUDA_SUCCESS);
    const std::uint64_t before = driver_calls();
    EXPECT_EQ(extents.move_to(driver, here).text(), "");
    EXPECT_EQ(driver_calls(), before);
    EXPECT_TRUE(is_mapped(here + first));
}
TEST_F(ExtentsTest, OverOtherMappingsAreAnErrorAndChangeNothing) {
    void* const wish = reinterpret_cast<void*>(there + second);
    void* const other =
        mmap(wish, BARCUDA_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    ASSERT_EQ(other, wish);
    std::memset(other, 0x77, BARCUDA_PAGE);
    const std::string error = extents.move_to(driver, there).text();
    EXPECT_NE(error.find(std::strerror(EEXIST)), std::string::npos) << error;
    EXPECT_EQ(static_cast<unsigned char*>(other)[0], 0x77);
    EXPECT_FALSE(extents.holds(second, granule));
    EXPECT_EQ(extents.locate(second, 1), nullptr);
    EXPECT_NE(extents.map(second, granule).text(), "");
    EXPECT_EQ(static_cast<unsigned char*>(other)[0], 0x77);
    munmap(other, BARCUDA_PAGE);
}

}  // namespace
}  // namespace barcuda
