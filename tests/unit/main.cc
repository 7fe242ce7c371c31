// SPDX-License-Identifier: Apache-2.0
// main.cc: the tests of a room are one program, which has a name for each of its files. Under the name of a file it has
// the tests of that file alone: each file has processes of its own, and what the room is linked with is on the disk
// once.
#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>
#include <utility>

namespace {

// The tests of other files, as a filter has them; nothing where the program has another name. Those of a header are no
// other file's.
std::string others(const std::string& own) {
    std::set<std::string> mine, rest;
    const testing::UnitTest& all = *testing::UnitTest::GetInstance();
    for (int i = 0; i < all.total_test_suite_count(); ++i) {
        const testing::TestSuite& suite = *all.GetTestSuite(i);
        for (int j = 0; j < suite.total_test_count(); ++j) {
            const testing::TestInfo& test = *suite.GetTestInfo(j);
            const std::string file = std::filesystem::path(test.file()).stem();
            if (file != own && !file.ends_with("_test")) continue;
            (file == own ? mine : rest).insert(std::string(suite.name()) + "." + test.name());
        }
    }
    std::string list;
    if (!mine.empty())
        for (const std::string& name : rest)
            if (!mine.contains(name)) list += ":" + name;
    return list;
}

// The tests are chosen when the program starts: from then on its filter, which it prints, is again what it was told.
struct Told : testing::EmptyTestEventListener {
    explicit Told(std::string told) : filter(std::move(told)) {}
    void OnTestProgramStart(const testing::UnitTest&) override { GTEST_FLAG_SET(filter, filter); }
    const std::string filter;
};

}  // namespace

int main(int argc, char** argv) {
    const std::string own = std::filesystem::path(argv[0]).filename();
    testing::InitGoogleTest(&argc, argv);
    if (const std::string list = others(own); !list.empty()) {
        const std::string filter = GTEST_FLAG_GET(filter);
        testing::UnitTest::GetInstance()->listeners().Append(new Told(filter));
        GTEST_FLAG_SET(filter, filter + (filter.find('-') == filter.npos ? "-" : "") + list);
    }
    return RUN_ALL_TESTS();
}
