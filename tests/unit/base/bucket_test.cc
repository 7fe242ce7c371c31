// SPDX-License-Identifier: Apache-2.0
// So much a second, and so much at once.
#include "base/bucket.h"

#include <gtest/gtest.h>

namespace {

using namespace std::chrono_literals;
using barcuda::Bucket;

constexpr Bucket::Time start{100s};
constexpr Bucket::Rate ten{.a_second = 10, .at_once = 20};

TEST(Bucket, IsFullAtFirst) {
    Bucket bucket;
    EXPECT_TRUE(bucket.take(20, ten, start));
    EXPECT_FALSE(bucket.take(1, ten, start));
}
TEST(Bucket, FillsAsTimePasses) {
    Bucket bucket;
    ASSERT_TRUE(bucket.take(20, ten, start));
    EXPECT_FALSE(bucket.take(5, ten, start + 400ms));
    EXPECT_TRUE(bucket.take(5, ten, start + 500ms));
    EXPECT_FALSE(bucket.take(1, ten, start + 500ms));
}
TEST(Bucket, HoldsNoMoreThanThereMayBeAtOnce) {
    Bucket bucket;
    ASSERT_TRUE(bucket.take(20, ten, start));
    EXPECT_FALSE(bucket.take(21, ten, start + 1h));
    EXPECT_TRUE(bucket.take(20, ten, start + 1h));
}
TEST(Bucket, SaysWhatItHolds) {
    Bucket bucket;
    EXPECT_EQ(bucket.held(ten, start), 20);
    ASSERT_TRUE(bucket.take(20, ten, start));
    EXPECT_EQ(bucket.held(ten, start), 0);
    EXPECT_EQ(bucket.held(ten, start + 500ms), 5);
    EXPECT_EQ(bucket.held(ten, start + 1h), 20);
}
TEST(Bucket, FollowsARateThatChanges) {
    Bucket bucket;
    ASSERT_TRUE(bucket.take(1, ten, start));
    EXPECT_FALSE(bucket.take(3, {.a_second = 1, .at_once = 2}, start)) << "it holds less now";
    EXPECT_TRUE(bucket.take(2, {.a_second = 1, .at_once = 2}, start));
}

}  // namespace
