// SPDX-License-Identifier: Apache-2.0
// log_test: what guests and drivers say, as it stands in the log.
#include "host-bridge/log.h"

#include <gtest/gtest.h>

namespace barcuda::log {
namespace {

TEST(Log, SaysWhatCouldMoveATerminalsCursorInNumbers) {
    EXPECT_EQ(escaped("a\x1b[2Jb\rc\x7f"), "a\\x1b[2Jb\\x0dc\\x7f");
    EXPECT_EQ(escaped("na\xc3\xafve, 3 \xc2\xb5s\tlong"), "na\xc3\xafve, 3 \xc2\xb5s\tlong");
}
TEST(Log, HasNoLinesThatAGuestHasMade) {
    EXPECT_EQ(escaped("x\nbarcuda-bridge: all is well"), "x\\x0abarcuda-bridge: all is well");
    std::FILE* const file = std::tmpfile();
    start(file, "test", "warn");
    warn("channel 1: {}", "x\ntest: all is well");
    std::fflush(file);
    std::rewind(file);
    char text[100] = {};
    EXPECT_GT(std::fread(text, 1, sizeof text - 1, file), 0u);
    EXPECT_STREQ(text, "test: channel 1: x\\x0atest: all is well\n");
    start(stderr, "test", "off");
    std::fclose(file);
}
TEST(Log, KeepsTheLinesOfADriver) { EXPECT_EQ(escaped("one\ntwo\b", true), "one\ntwo\\x08"); }

}  // namespace
}  // namespace barcuda::log
