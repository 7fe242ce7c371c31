// SPDX-License-Identifier: Apache-2.0
// doorbell_test: interrupts in both directions, on ivshmem-doorbell (tests/vm/run --doorbell). stub_bridge rings back.
#include <poll.h>

#include "tests/vm/door.h"

namespace barcuda::vm {
namespace {

class Doorbell : public testing::Test {
  protected:
    ~Doorbell() override { close(fd); }
    bool ring(std::int32_t vector = 0) const { return write(fd, &vector, sizeof vector) == sizeof vector; }
    std::uint32_t await() const {
        std::uint32_t count = 0;
        pollfd p{fd, POLLIN, 0};
        if (poll(&p, 1, 10000) != 1 || read(fd, &count, sizeof count) != sizeof count) ADD_FAILURE() << "no interrupt";
        return count;
    }
    const int fd = open(device(), O_RDWR);
};

TEST_F(Doorbell, AHostThatIsRungRingsBack) {
    ASSERT_TRUE(ring());
    const std::uint32_t first = await();
    for (std::uint32_t i = 1; i <= 20; ++i) {
        ASSERT_TRUE(ring());
        EXPECT_EQ(await(), first + i);
    }
}

TEST_F(Doorbell, EveryOpenFileIsWoken) {
    Doorbell_EveryOpenFileIsWoken_Test* const self = this;
    EXPECT_EQ(in_child([self] {
                  const int other = open(device(), O_RDWR);
                  if (!self->ring()) return 1;
                  std::uint32_t count;
                  return read(other, &count, sizeof count) == sizeof count ? 0 : 2;
              }),
              0);
    await();
}

TEST_F(Doorbell, AVectorThatCannotBeIsRefused) {
    EXPECT_FALSE(ring(-1));
    EXPECT_EQ(errno, EINVAL);
    EXPECT_FALSE(ring(1 << 16)) << "that would be another peer";
}

TEST_F(Doorbell, TheRegionIsThereAsWithoutIt) {
    Client c;
    EXPECT_EQ(c.error(), 0);
    EXPECT_EQ(c.map_extents(), 0);
}

}  // namespace
}  // namespace barcuda::vm
