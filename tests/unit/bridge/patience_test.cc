// SPDX-License-Identifier: Apache-2.0
// patience_test: for how long the bridge's loop sleeps at most.
#include "host-bridge/bridge/patience.h"

#include <gtest/gtest.h>

namespace barcuda {
namespace {

using namespace std::chrono_literals;
using patience::between_looks;

TEST(Patience, EndsSoonWhereMoreMayFollow) {
    EXPECT_EQ(between_looks(49ms, false, true), 1ms);
    EXPECT_EQ(between_looks(51ms, false, true), 2ms);
    EXPECT_EQ(between_looks(999ms, false, true), 2ms);
}
TEST(Patience, IsLongOnlyWhereAnEventTellsOfEachClient) {
    EXPECT_EQ(between_looks(2s, false, true), 250ms);
    EXPECT_EQ(between_looks(2s, false, false), 8ms);
}
TEST(Patience, IsShortWhileSomethingIsAwaited) {
    EXPECT_EQ(between_looks(1h, true, true), 2ms);
    EXPECT_EQ(between_looks(1h, true, false), 2ms);
}

}  // namespace
}  // namespace barcuda
