// SPDX-License-Identifier: Apache-2.0
// place_test: what the log says when the region's file leaves its place, and when it is there again.
#include "host-bridge/bridge/place.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/message.h"
#include "tests/unit/support/scratch.h"

namespace barcuda {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using testing::HasSubstr;

struct PlaceTest : testing::Test {
    test::Scratch scratch;
    const std::string path = scratch / "region";
    Place::Clock::time_point now{1h};
    File file{open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)};
    Place place{path, file.fd()};

    std::string look() {
        testing::internal::CaptureStdout();
        place.look(now += 1s);
        return testing::internal::GetCapturedStdout();
    }
};

TEST_F(PlaceTest, EachChangeIsSaidOnce) {
    EXPECT_EQ(look(), "");
    fs::rename(path, scratch / "elsewhere");
    EXPECT_THAT(look(), HasSubstr(path + ": the region's file was removed"));
    EXPECT_EQ(look(), "");
    std::ofstream(path) << "another program's";
    EXPECT_THAT(look(), HasSubstr("was replaced by another one"));
    EXPECT_EQ(look(), "");
    fs::rename(scratch / "elsewhere", path);
    EXPECT_THAT(look(), HasSubstr("is there again"));
    EXPECT_EQ(look(), "");
}
TEST_F(PlaceTest, AFileOfTheSameBytesIsAnotherOne) {
    fs::copy_file(path, scratch / "copy");
    fs::rename(scratch / "copy", path);
    EXPECT_THAT(look(), HasSubstr("was replaced by another one"));
}
TEST_F(PlaceTest, IsLookedAtTwiceASecond) {
    EXPECT_EQ(look(), "");
    fs::remove(path);
    testing::internal::CaptureStdout();
    place.look(now + 499ms);
    EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
    EXPECT_THAT(look(), HasSubstr("was removed"));
}
TEST(Place, WithoutAFileNothingIsSaid) {
    testing::internal::CaptureStdout();
    Place().look();
    EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
}

}  // namespace
}  // namespace barcuda
