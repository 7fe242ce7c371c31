// SPDX-License-Identifier: Apache-2.0
// Which clients begin at once, and which wait.
#include "host-bridge/bridge/admissions.h"

#include <gtest/gtest.h>

namespace {

using namespace std::chrono_literals;
using barcuda::Admissions;
using Answer = Admissions::Answer;

constexpr Admissions::Time start{100s};
constexpr std::uint64_t usual = 64;  // a second

TEST(Admissions, LetProgramsBeginTogether) {
    Admissions admissions;
    for (std::uint32_t process = 1; process <= 200; ++process)
        EXPECT_EQ(admissions.ask(process, usual, start), Answer::now) << process;
}
TEST(Admissions, KeepAProcessThatComesAgainAndAgainWaiting) {
    Admissions admissions;
    unsigned begun = 0;
    for (int ms = 0; ms < 60'000; ms += 6)  // ten thousand in a minute
        begun += admissions.ask(1, usual, start + std::chrono::milliseconds(ms)) == Answer::now;
    EXPECT_LE(begun, 64u + 4 * 60 + 1);
    EXPECT_GE(begun, 64u + 4 * 60 - 1);
    admissions.ask(1, usual, start + 60s);
    EXPECT_EQ(admissions.ask(1, usual, start + 60s), Answer::process_waits);
    EXPECT_EQ(admissions.ask(2, usual, start + 60s), Answer::now) << "another process does not wait for it";
}
TEST(Admissions, BoundAGuestThatSaysOtherPids) {
    Admissions admissions;
    unsigned begun = 0;
    std::uint32_t process = 0;
    for (int ms = 0; ms < 10'000; ++ms)
        begun += admissions.ask(++process, usual, start + std::chrono::milliseconds(ms)) == Answer::now;
    EXPECT_LE(begun, 4 * usual + 10 * usual + 1);
    EXPECT_EQ(admissions.ask(1, usual, start + 9'999ms), Answer::guest_waits);
    EXPECT_LE(admissions.known(), 4096u) << "it does not remember all of them";
}
TEST(Admissions, CountOnlyThoseThatBegin) {
    Admissions admissions;
    for (std::uint32_t process = 1; process <= 4; ++process) ASSERT_EQ(admissions.ask(process, 1, start), Answer::now);
    for (int i = 0; i < 100; ++i) ASSERT_EQ(admissions.ask(5, 1, start), Answer::guest_waits);
    for (int second = 1; second <= 10; ++second)
        EXPECT_EQ(admissions.ask(5, 1, start + std::chrono::seconds(second)), Answer::now) << "it has come only now";
}
TEST(Admissions, AreFreeWithoutALimit) {
    Admissions admissions;
    for (int i = 0; i < 1000; ++i) EXPECT_EQ(admissions.ask(1, 0, start), Answer::now);
    EXPECT_EQ(admissions.known(), 0u);
}

}  // namespace
