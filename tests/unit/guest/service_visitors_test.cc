// SPDX-License-Identifier: Apache-2.0
// service_visitors_test: how many connections the guest's service keeps open.
#include "guest-allocator/pmem/visitors.h"

#include <gtest/gtest.h>

namespace barcuda::pmem {
namespace {

constexpr uid_t alice = 1000, bob = 1001;

TEST(Visitors, OfOneUserLeaveOthersTheirPlaces) {
    UserPlaces visitors(100'000);
    for (std::size_t i = 0; i < UserPlaces::most_wanted / 4; ++i) {
        ASSERT_TRUE(visitors.may_come(alice)) << i;
        visitors.came(alice);
    }
    EXPECT_FALSE(visitors.may_come(alice));
    EXPECT_TRUE(visitors.may_come(bob));
    EXPECT_TRUE(visitors.may_come(0));
    visitors.went(alice);
    EXPECT_TRUE(visitors.may_come(alice));
}

TEST(Visitors, AreNoMoreThanThereAreDescriptorsFor) {
    UserPlaces visitors(UserPlaces::own + 8);
    for (int i = 0; i < 8; ++i) {
        EXPECT_TRUE(visitors.has_place());
        visitors.came(0);
    }
    EXPECT_FALSE(visitors.has_place());
    EXPECT_FALSE(visitors.may_come(0));
    EXPECT_TRUE(UserPlaces(0).has_place()) << "one at a time in any case";
}

TEST(Visitors, HaveAsManyDescriptorsAsTheProcessCanGet) {
    rlimit before{}, now{};
    getrlimit(RLIMIT_NOFILE, &before);
    now = before;
    now.rlim_cur = 64;
    setrlimit(RLIMIT_NOFILE, &now);
    EXPECT_EQ(UserPlaces::raise_descriptors(),
              std::min<rlim_t>(before.rlim_max, UserPlaces::most_wanted + UserPlaces::own));
    setrlimit(RLIMIT_NOFILE, &before);
}

}  // namespace
}  // namespace barcuda::pmem
