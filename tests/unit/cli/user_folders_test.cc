// SPDX-License-Identifier: Apache-2.0
// Where a user's files are, and which names VMs may have.
#include "base/cli/user_folders.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "base/cli/names.h"

namespace barcuda {
namespace {

class UserFoldersTest : public testing::Test {
  protected:
    void SetUp() override {
        for (const char* name : {"XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"}) unsetenv(name);
        setenv("HOME", "/home/user", 1);
    }
    const char* const home_ = getenv("HOME");
    void TearDown() override {
        for (const char* name : {"XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"}) unsetenv(name);
        if (home_) setenv("HOME", before_.c_str(), 1);
    }
    const std::string before_ = home_ ? home_ : "";
};

TEST_F(UserFoldersTest, AreInHomeUnlessAVariableNamesAnother) {
    EXPECT_EQ("/home/user/.cache/barcuda", user_folder(UserFolder::cache));
    EXPECT_EQ("/home/user/.local/share/barcuda", user_folder(UserFolder::data));
    EXPECT_EQ("/home/user/.local/state/barcuda", user_folder(UserFolder::state));
    setenv("XDG_DATA_HOME", "/elsewhere", 1);
    EXPECT_EQ("/elsewhere/barcuda", user_folder(UserFolder::data));
}

TEST_F(UserFoldersTest, IgnoreARelativePath) {
    setenv("XDG_STATE_HOME", "here", 1);
    EXPECT_EQ("/home/user/.local/state/barcuda", user_folder(UserFolder::state));
}

TEST_F(UserFoldersTest, AreNowhereWithoutAHome) {
    setenv("HOME", "", 1);
    EXPECT_EQ("", user_folder(UserFolder::cache));
    EXPECT_EQ("neither XDG_CACHE_HOME nor HOME names a folder for it",
              no_user_folder(UserFolder::cache, "for it").text());
}

TEST(NamesTest, AreWordsThatLeadNowhere) {
    for (const char* name : {"vm1", "_", "a.b-c_D", "9"}) EXPECT_EQ("", check_name(name));
    for (const char* name : {"", ".", "..", ".hidden", "-x", "a/b", "a b", "a\n", "\xc3\xa4"})
        EXPECT_NE("", check_name(name)) << name;
    EXPECT_TRUE(is_name(std::string(longest_name, 'a')));
    EXPECT_FALSE(is_name(std::string(longest_name + 1, 'a')));
}

}  // namespace
}  // namespace barcuda
