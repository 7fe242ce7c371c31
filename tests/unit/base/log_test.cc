// SPDX-License-Identifier: Apache-2.0
// log_test: what guests and drivers say, as it stands in the log.
#include "base/log.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <regex>
#include <string>

namespace barcuda::log {
namespace {

TEST(Log, SaysWhatCouldMoveATerminalsCursorInNumbers) {
    EXPECT_EQ(escaped("a\x1b[2Jb\rc\x7f"), "a\\x1b[2Jb\\x0dc\\x7f");
    EXPECT_EQ(escaped("na\xc3\xafve, 3 \xc2\xb5s\tlong"), "na\xc3\xafve, 3 \xc2\xb5s\tlong");
}
// What a log holds that `say` has written to.
std::string log_of(const auto& start_it, const auto& say) {
    std::FILE* const file = std::tmpfile();
    start_it(file);
    say();
    std::fflush(file);
    std::rewind(file);
    char text[400] = {};
    EXPECT_GT(std::fread(text, 1, sizeof text - 1, file), 0u);
    start(stderr, "test", "off");
    std::fclose(file);
    return text;
}
const std::string moment = "[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:]{8}\\.[0-9]{3} ";

TEST(Log, HasNoLinesThatAGuestHasMade) {
    EXPECT_EQ(escaped("x\nbarcuda-bridge: all is well"), "x\\x0abarcuda-bridge: all is well");
    const std::string text = log_of([](std::FILE* file) { start(file, "test", "warn"); },
                                    [] { warn("channel 1: {}", "x\ntest: all is well"); });
    EXPECT_TRUE(text.ends_with("test: channel 1: x\\x0atest: all is well\n")) << text;
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
}
TEST(Log, SaysWhenHowUrgentlyAndOfWhichVm) {
    const std::string text = log_of([](std::FILE* file) { start(file, "test", "info", "vm1"); },
                                    [] {
                                        info("channel 1: came");
                                        debug("nothing");
                                        error("gone");
                                    });
    EXPECT_TRUE(std::regex_match(
        text, std::regex(moment + "info test vm1: channel 1: came\n" + moment + "error test vm1: gone\n")))
        << text;
}
TEST(Log, SaysToJournaldHowUrgentlyAndNoTime) {
    const auto into_journal = [](std::FILE* file) {
        struct stat st;
        ASSERT_EQ(fstat(fileno(file), &st), 0);
        setenv("JOURNAL_STREAM", (std::to_string(st.st_dev) + ":" + std::to_string(st.st_ino)).c_str(), 1);
        start(file, "test", "debug", "vm1");
    };
    EXPECT_EQ(log_of(into_journal,
                     [] {
                         debug("a");
                         info("b");
                         warn("c");
                         error("d");
                         critical("e");
                     }),
              "<7>test vm1: a\n<6>test vm1: b\n<4>test vm1: c\n<3>test vm1: d\n<2>test vm1: e\n");
    setenv("JOURNAL_STREAM", "1:1", 1);  // a service whose output has been sent elsewhere
    const std::string text = log_of([](std::FILE* file) { start(file, "test", "debug"); }, [] { info("b"); });
    EXPECT_TRUE(std::regex_match(text, std::regex(moment + "info test: b\n"))) << text;
    unsetenv("JOURNAL_STREAM");
}
TEST(Log, LeavesTimeAndNamesOfAWorkersLinesToItsBridge) {
    EXPECT_EQ(log_of([](std::FILE* file) { start_worker(file, "info"); },
                     [] {
                         info("a");
                         debug("b");
                         error("c");
                     }),
              "<6>a\n<3>c\n");
}
TEST(Log, PassesOnALineOfAnothersAsOneLine) {
    const std::string text = log_of([](std::FILE* file) { start(file, "test", "info"); },
                                    [] {
                                        pass_on(Level::warn, "a\nb\x1b");
                                        pass_on(Level::debug, "c");
                                    });
    EXPECT_TRUE(std::regex_match(text, std::regex(moment + "warning test: a\\\\x0ab\\\\x1b\n"))) << text;
}
TEST(Log, KeepsTheLinesOfADriver) { EXPECT_EQ(escaped("one\ntwo\b", true), "one\ntwo\\x08"); }

}  // namespace
}  // namespace barcuda::log
