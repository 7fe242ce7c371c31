// SPDX-License-Identifier: Apache-2.0
// Options of subcommands: how a time, a size and a choice are typed, what is refused before a command runs, and what
// the error says.
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/cli/command.h"
#include "base/cli/options.h"

namespace barcuda {
namespace {

struct CommandTest : testing::Test {
    CLI::App app{"", "barcuda"};
    const Command command{app};

    // What is wrong with these words; nothing: they were taken.
    std::string parse(const std::string& words) {
        try {
            app.parse(words);
        } catch (const CLI::ParseError& error) { return error.what(); }
        return "";
    }
};

TEST_F(CommandTest, ATimeIsTypedInSecondsOrWithItsUnit) {
    double within = 10;
    command.add_option("--within", within, "").as_seconds();
    EXPECT_EQ("", parse(""));
    EXPECT_EQ(10, within);
    for (const auto& [typed, seconds] : std::vector<std::pair<std::string, double>>{
             {"7", 7}, {"10s", 10}, {"500ms", 0.5}, {"2m", 120}, {"1.5s", 1.5}, {"0", 0}}) {
        EXPECT_EQ("", parse("--within " + typed)) << typed;
        EXPECT_DOUBLE_EQ(seconds, within) << typed;
    }
    for (const char* const typed : {"10h", "s", "ten", "10 s x", "''"})
        EXPECT_NE("", parse(std::string("--within ") + typed)) << typed;
}
TEST_F(CommandTest, ASizeIsTypedInBytesOrWithItsUnitOf1024) {
    std::uint64_t bytes = 0;
    command.add_option("--size", bytes, "").as_size();
    for (const auto& [typed, value] : std::vector<std::pair<std::string, std::uint64_t>>{
             {"4096", 4096}, {"1K", 1024}, {"512M", 512ull << 20}, {"4G", 4ull << 30}, {"4GiB", 4ull << 30}}) {
        EXPECT_EQ("", parse("--size " + typed)) << typed;
        EXPECT_EQ(value, bytes) << typed;
    }
    EXPECT_NE("", parse("--size much"));
    EXPECT_NE("", parse("--size -1"));
}
TEST_F(CommandTest, AFlagIsGivenOrNot) {
    bool keep = false;
    command.add_flag("--keep-memory", keep, "");
    EXPECT_EQ("", parse(""));
    EXPECT_FALSE(keep);
    EXPECT_EQ("", parse("--keep-memory"));
    EXPECT_TRUE(keep);
}
TEST_F(CommandTest, AnOptionalNumberIsNoneWhereItIsNotGiven) {
    std::optional<unsigned> client;
    command.add_option("--client", client, "");
    EXPECT_EQ("", parse(""));
    EXPECT_FALSE(client);
    EXPECT_EQ("", parse("--client 4711"));
    EXPECT_EQ(4711u, client);
    EXPECT_NE("", parse("--client -1"));
    EXPECT_NE("", parse("--client me"));
}
TEST_F(CommandTest, AnOptionThatIsRequiredMustBeGiven) {
    std::string region;
    command.add_option("--region", region, "").required();
    EXPECT_NE(std::string::npos, parse("").find("--region"));
    EXPECT_EQ("", parse("--region x"));
}
TEST_F(CommandTest, TwoOptionsThatExcludeEachOtherAreNotGivenTogether) {
    bool all = false;
    std::string vm;
    command.add_option("vm", vm, "").excludes(command.add_flag("--all", all, ""));
    EXPECT_EQ("", parse("vm1"));
    EXPECT_EQ("", parse("--all"));
    EXPECT_NE(std::string::npos, parse("vm1 --all").find("excludes"));
}
TEST_F(CommandTest, AValueIsOneOfAListOrInARange) {
    std::string device;
    int number = 0;
    command.add_option("--device", device, "").is_member({"cuda", "soft"});
    command.add_option("--number", number, "").range(1, 3);
    EXPECT_EQ("", parse("--device soft --number 3"));
    EXPECT_NE("", parse("--device hard"));
    EXPECT_NE("", parse("--number 4"));
    EXPECT_NE("", parse("--number 0"));
}
TEST_F(CommandTest, ACheckSaysWhatIsWrong) {
    std::string name;
    command.add_option("--name", name, "").check([](const std::string& value) {
        return value == "good" ? "" : "that is no good name";
    });
    EXPECT_EQ("", parse("--name good"));
    EXPECT_NE(std::string::npos, parse("--name bad").find("that is no good name"));
}
TEST_F(CommandTest, AnOptionThatIsGivenAgainHasOneMoreValue) {
    std::vector<std::string> files;
    command.add_option("--put", files, "").take_all();
    EXPECT_EQ("", parse("--put a --put b"));
    EXPECT_EQ((std::vector<std::string>{"a", "b"}), files);
}
TEST_F(CommandTest, AVariableHasTheValueOfAnOptionThatIsNotGiven) {
    std::string region = "default";
    command.add_option("--region", region, "").envname("BARCUDA_COMMAND_TEST");
    setenv("BARCUDA_COMMAND_TEST", "by the variable", 1);
    EXPECT_EQ("", parse(""));
    EXPECT_EQ("by the variable", region);
    EXPECT_EQ("", parse("--region x"));
    EXPECT_EQ("x", region);
    unsetenv("BARCUDA_COMMAND_TEST");
}
TEST_F(CommandTest, OfAChoiceExactlyOneMustBeGiven) {
    std::string chosen;
    command.add_choice("how", "", "by ", {"qemu", "libvirt"}, [&](const char* name) { chosen = name; });
    EXPECT_EQ("", parse("--libvirt"));
    EXPECT_EQ("libvirt", chosen);
    EXPECT_NE("", parse(""));
    EXPECT_NE("", parse("--qemu --libvirt"));
}
TEST_F(CommandTest, AllWordsBehindTheFirstPositionalOneAreTheProgramsOwn) {
    bool json = false;
    std::vector<std::string> words;
    add_json(command, json);
    add_program(command, words);
    EXPECT_EQ("", parse("./program --json -x"));
    EXPECT_FALSE(json);
    EXPECT_EQ((std::vector<std::string>{"./program", "--json", "-x"}), words);
}
TEST_F(CommandTest, AnUnknownOptionIsRefused) { EXPECT_NE("", parse("--not-there")); }

TEST(ParseNumber, TakesTheWholeWordOrNothing) {
    double number = 0;
    EXPECT_TRUE(parse_number("2.5", number));
    EXPECT_EQ(2.5, number);
    for (const char* const word : {"", "2.5x", "x", "2 5"}) EXPECT_FALSE(parse_number(word, number)) << word;
}

}  // namespace
}  // namespace barcuda
