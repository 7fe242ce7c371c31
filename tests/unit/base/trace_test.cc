// SPDX-License-Identifier: Apache-2.0
// trace_test: the file that BARCUDA_TRACE names, as Perfetto reads it.
#include "base/trace.h"

#include <errno.h>
#include <gtest/gtest.h>
#include <locale.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

namespace barcuda::trace {
namespace {

class Trace : public ::testing::Test {
  protected:
    Trace() {
        if (!mkdtemp(folder)) ADD_FAILURE() << "no temporary folder";
        file = std::string(folder) + "/trace.json";
    }
    ~Trace() override {
        setlocale(LC_ALL, "C");
        on = false;
        unlink(file.c_str());
        rmdir(folder);
    }

    nlohmann::json events() {
        flush();
        return nlohmann::json::parse(std::ifstream(file));
    }
    void write(const char* text) const { std::ofstream(file) << text; }
    int slices() {
        int n = 0;
        for (const auto& e : events()) n += e["ph"] == "X";
        return n;
    }

    char folder[32] = "/tmp/barcuda-trace-XXXXXX";
    std::string file;
};

TEST_F(Trace, ASliceIsAnEventWithANameAThreadAndADuration) {
    start(file.c_str());
    {
        const Slice slice("cuMemAlloc");
        usleep(2000);
    }
    const auto all = events();
    ASSERT_EQ(all.size(), 2u);
    EXPECT_EQ(all[0]["name"], "process_name");
    EXPECT_EQ(all[1]["name"], "cuMemAlloc");
    EXPECT_EQ(all[1]["ph"], "X");
    EXPECT_EQ(all[1]["pid"], getpid());
    EXPECT_GE(all[1]["dur"].get<double>(), 2000.0) << "in microseconds";
}

TEST_F(Trace, IsJsonWhateverTheProgramIsCalled) {
    char* const before = program_invocation_short_name;
    const auto name_of = [&](const char* program) {
        program_invocation_short_name = const_cast<char*>(program);
        start(file.c_str());
        { const Slice slice("cuMemAlloc"); }
        const std::string name = events().at(0)["args"]["name"];
        unlink(file.c_str());
        return name;
    };
    EXPECT_EQ(name_of("a\"b\\c\t\u00e9"), "guest: a\"b\\c \u00e9");
    EXPECT_EQ(name_of("\xff\xc3"), "guest: ??");
    std::string many = "x";
    while (many.size() < 500) many += "\u00e9";
    const std::string cut = name_of(many.c_str());
    EXPECT_EQ(many.find(cut.substr(strlen("guest: "))), 0u) << cut;
    program_invocation_short_name = before;
}

TEST_F(Trace, IsJsonWhateverTheProgramsLocaleIs) {
    const std::string made = std::string(folder) + "/de_DE.UTF-8";
    if (system(("localedef -i de_DE -f UTF-8 " + made + " > /dev/null 2>&1").c_str()) != 0)
        GTEST_SKIP() << "no localedef, or no source of a locale with a decimal comma (package locales)";
    setenv("LOCPATH", folder, 1);
    ASSERT_TRUE(setlocale(LC_ALL, "de_DE.UTF-8"));
    start(file.c_str());
    { const Slice slice("cuMemAlloc"); }
    note('i', clock(), 0, "\"name\":\"mark\"");
    const auto all = events();
    EXPECT_EQ(all.size(), 3u);
    EXPECT_TRUE(all[1]["ts"].is_number());
    setlocale(LC_ALL, "C");
    unsetenv("LOCPATH");
    std::filesystem::remove_all(made);
}

TEST_F(Trace, NothingIsWrittenWhereNoTraceWasAskedFor) {
    { const Slice slice("cuMemAlloc"); }
    flush();
    EXPECT_NE(access(file.c_str(), F_OK), 0);
}

TEST_F(Trace, ThreadsHaveLanesOfTheirOwn) {
    start(file.c_str());
    { const Slice slice("here"); }
    std::thread([] { const Slice slice("there"); }).join();
    const auto all = events();
    ASSERT_EQ(all.size(), 3u);
    EXPECT_NE(all[1]["tid"], all[2]["tid"]);
}

TEST_F(Trace, MoreSlicesThanAreHeldBackAreAllWritten) {
    start(file.c_str());
    for (int i = 0; i < 10000; ++i) const Slice slice("cuLaunchKernel");
    EXPECT_EQ(slices(), 10000);
}

TEST_F(Trace, TwoProcessesShareAFile) {
    start(file.c_str());
    const pid_t other = fork();
    if (other == 0) {
        start(file.c_str());  // like another program
        for (int i = 0; i < 5000; ++i) const Slice slice("theirs");
        flush();
        _exit(0);
    }
    for (int i = 0; i < 5000; ++i) const Slice slice("ours");
    waitpid(other, nullptr, 0);
    EXPECT_EQ(slices(), 10000);
}

TEST_F(Trace, AForkedChildDoesNotWriteItsParentsSlices) {
    start(file.c_str());
    { const Slice slice("ours"); }
    const pid_t child = fork();
    if (child == 0) {
        flush();
        _exit(0);
    }
    waitpid(child, nullptr, 0);
    EXPECT_EQ(slices(), 1);
}

TEST_F(Trace, WhatAKilledWriterLeftOfALineGoesAndTheFileIsWholeAgain) {
    start(file.c_str());
    { const Slice slice("first"); }
    flush();
    const off_t whole = static_cast<off_t>(std::filesystem::file_size(file));
    for (const off_t lost : {1, 2, 3, 5, 20}) {
        ASSERT_EQ(truncate(file.c_str(), whole - lost), 0);
        { const Slice slice("second"); }
        const auto all = events();
        EXPECT_EQ(all.back()["name"], "second") << lost;
        EXPECT_EQ(all.size(), lost < 3 ? 3u : 2u) << lost;
        ASSERT_EQ(truncate(file.c_str(), 0), 0);
        start(file.c_str());
        { const Slice slice("first"); }
        flush();
    }
}

TEST_F(Trace, TheBridgeCompletesWhatAKilledWriterLeft) {
    start(file.c_str());
    complete();
    EXPECT_FALSE(std::filesystem::exists(file)) << "nothing has been written yet";
    { const Slice slice("first"); }
    flush();
    const auto whole = static_cast<off_t>(std::filesystem::file_size(file));
    for (const off_t lost : {0, 1, 2, 3, 5, 20}) {
        ASSERT_EQ(truncate(file.c_str(), whole - lost), 0);
        complete();
        const auto all = nlohmann::json::parse(std::ifstream(file));
        EXPECT_EQ(all.size(), lost < 3 ? 2u : 1u) << lost;
        ASSERT_EQ(truncate(file.c_str(), 0), 0);
        start(file.c_str());
        { const Slice slice("first"); }
        flush();
    }
}

TEST_F(Trace, AWorkerHasANameInTheFileAsSoonAsItServes) {
    start(file.c_str());
    serves(7);
    const auto all = nlohmann::json::parse(std::ifstream(file));
    ASSERT_EQ(all.size(), 1u);
    EXPECT_EQ(all[0]["args"]["client"], 7);
    serves(0);
}

TEST_F(Trace, AFileThatIsNoTraceStaysAsItIs) {
    write("a letter\n");
    start(file.c_str());
    { const Slice slice("cuMemAlloc"); }
    flush();
    EXPECT_FALSE(on);
    setenv("BARCUDA_TRACE", file.c_str(), 1);
    EXPECT_STREQ(begin_run(), "there is a file of that name, which is no trace");
    unsetenv("BARCUDA_TRACE");
    std::string line;
    EXPECT_TRUE(std::getline(std::ifstream(file), line));
    EXPECT_EQ(line, "a letter");
}

TEST_F(Trace, ARunBeginsAnewWhatAnEarlierOneWrote) {
    start(file.c_str());
    { const Slice slice("cuMemAlloc"); }
    flush();
    setenv("BARCUDA_TRACE", file.c_str(), 1);
    EXPECT_EQ(begin_run(), nullptr);
    unsetenv("BARCUDA_TRACE");
    EXPECT_EQ(std::filesystem::file_size(file), 0u);
}

TEST_F(Trace, AFileThatCannotBeWrittenEndsTheTraceAndNothingElse) {
    start("/nowhere/trace.json");
    { const Slice slice("cuMemAlloc"); }
    flush();
    EXPECT_FALSE(on);
}

}  // namespace
}  // namespace barcuda::trace
