// SPDX-License-Identifier: Apache-2.0
// visitors_test: which connections a server of strangers closes.
#include "base/visitors.h"

#include <gtest/gtest.h>

namespace barcuda {
namespace {

using namespace std::chrono_literals;
using Fds = std::vector<int>;
const Visitors::Clock::time_point start{};

class VisitorsTest : public ::testing::Test {
  protected:
    Visitors visitors{3, 10s, 1s};
    int who[10];
    void comes(int fd, const char* address, std::chrono::seconds at) {
        visitors.came(&who[fd], fd, address, start + at);
    }
    void is_answered(int fd, std::chrono::seconds at) { visitors.answered(&who[fd], start + at); }
    void goes(int fd) { visitors.left(&who[fd]); }
    Fds overdue(std::chrono::seconds at) { return visitors.overdue(start + at); }
};

TEST_F(VisitorsTest, HaveSoMuchTimeForARequestAndForTheNextOne) {
    EXPECT_FALSE(visitors.next());
    comes(1, "a", 0s);
    comes(2, "b", 1s);
    EXPECT_EQ(visitors.next(), start + 10s);
    EXPECT_EQ(overdue(9s), Fds{});
    is_answered(1, 9s);
    EXPECT_EQ(visitors.next(), start + 11s);
    EXPECT_EQ(overdue(11s), Fds{2});
    EXPECT_EQ(overdue(12s), Fds{}) << "it is named once";
    EXPECT_EQ(overdue(19s), Fds{1});
    goes(1);
    goes(2);
    EXPECT_FALSE(visitors.next());
    is_answered(1, 20s);  // it has gone
    EXPECT_FALSE(visitors.next());
}

TEST_F(VisitorsTest, TheLongestSilentOneGoesWhereTooManyAreThere) {
    for (int i = 1; i <= 3; ++i) comes(i, "a", std::chrono::seconds(i));
    EXPECT_EQ(overdue(4s), Fds{});
    is_answered(1, 4s);
    comes(4, "a", 5s);
    EXPECT_EQ(overdue(5s), Fds{2}) << "not the one that has asked";
    comes(5, "a", 5s);
    EXPECT_EQ(overdue(5s), Fds{3});
    goes(4);
    goes(5);
    comes(6, "a", 6s);
    EXPECT_EQ(overdue(6s), Fds{}) << "there is room again";
}

TEST_F(VisitorsTest, HaveAWhileToAskInHoweverManyAreThere) {
    for (int i = 1; i <= 6; ++i) comes(i, "a", 5s);
    EXPECT_EQ(overdue(5s), Fds{});
    EXPECT_EQ(visitors.next(), start + 6s);
    is_answered(1, 6s);
    EXPECT_EQ(overdue(6s).size(), 3u);
    EXPECT_EQ(visitors.next(), start + 15s);
}

TEST_F(VisitorsTest, AnAddressWithManyKeepsNoOtherOut) {
    comes(1, "quiet", 0s);
    comes(2, "loud", 1s);
    comes(3, "loud", 2s);
    comes(4, "loud", 3s);
    EXPECT_EQ(overdue(4s), Fds{2});
    is_answered(3, 4s);
    comes(5, "loud", 5s);
    EXPECT_EQ(overdue(6s), Fds{4});
}

}  // namespace
}  // namespace barcuda
