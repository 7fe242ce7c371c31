// SPDX-License-Identifier: Apache-2.0
// set_test: the folder of a suspended VM: it is whole or not there, and what was changed in it is found and named.
#include "host-bridge/suspended/set.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/unit/support/sanitized.h"
#include "tests/unit/support/scratch.h"

namespace barcuda {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

std::string text(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}
void put(const fs::path& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

Description example() {
    Description d;
    d.build = "1.2.3";
    d.name = "vm1";
    d.when = "today";
    d.layout = 7;
    d.packets = 1;
    d.books = 2;
    d.driver = 13000;
    d.gpus = {"Software GPU"};
    d.base = 0x600000000000;
    d.size = 1 << 28;
    d.clients = {0, 12};
    d.vm = "running";
    d.domain = "vm1";
    return d;
}

struct SetTest : testing::Test {
    SetTest() {
        char name[] = "/tmp/barcuda-set-XXXXXX";
        folder = mkdtemp(name);
        set = folder / "set";
    }
    ~SetTest() override {
        std::error_code ec;
        fs::remove_all(folder, ec);
    }
    static Failure fill(SetWriter& writer) {
        for (const std::string& name : example().names()) {
            SetPlace::Sink sink;
            if (Failure failure = writer.make(name, sink)) return failure;
            const std::string bytes = "the bytes of " + name;
            Digest digest;
            digest.add(std::as_bytes(std::span(bytes)));
            if (Failure failure = sink(std::as_bytes(std::span(bytes)))) return failure;
            if (Failure failure = writer.finish(name, bytes.size(), digest)) return failure;
        }
        return {};
    }
    void make() const {
        SetWriter writer;
        ASSERT_EQ(writer.begin(set).text(), "");
        ASSERT_EQ(fill(writer).text(), "");
        ASSERT_EQ(writer.commit(example()).text(), "");
    }
    std::string refusal() const {
        SetReader reader;
        const Failure failure = reader.open(set);
        return failure ? failure.text() : reader.verify().text();
    }

    fs::path folder, set;
};

TEST_F(SetTest, ComesBackAsItWasWritten) {
    make();
    SetReader reader;
    ASSERT_EQ(reader.open(set).text(), "");
    EXPECT_FALSE(reader.part("client-12/births")) << "nothing is given out before it is verified";
    ASSERT_EQ(reader.verify().text(), "");
    Description expected = example();
    expected.parts = reader.description().parts;
    EXPECT_EQ(reader.description(), expected);
    EXPECT_EQ(expected.parts.size(), 10U);
    char bytes[100] = {};
    EXPECT_GT(pread(reader.part("client-12/births").fd(), bytes, sizeof bytes, 0), 0);
    EXPECT_STREQ(bytes, "the bytes of client-12/births");
}

TEST_F(SetTest, IsItsUsersAlone) {
    const mode_t before = umask(0);
    make();
    umask(before);
    for (const auto& entry : fs::recursive_directory_iterator(set))
        EXPECT_EQ(entry.status().permissions(), entry.is_directory() ? fs::perms{0700} : fs::perms{0600}) << entry;
    EXPECT_EQ(fs::status(set).permissions(), fs::perms{0700});
}

TEST_F(SetTest, ThatWasNotCommittedLeavesNothing) {
    {
        SetWriter writer;
        ASSERT_EQ(writer.begin(set).text(), "");
        ASSERT_EQ(fill(writer).text(), "");
        EXPECT_FALSE(fs::exists(set));
        EXPECT_TRUE(fs::exists(set.string() + ".part"));
    }
    EXPECT_TRUE(fs::is_empty(folder));
}

TEST_F(SetTest, ThatLacksAPartIsNotCommitted) {
    SetWriter writer;
    ASSERT_EQ(writer.begin(set).text(), "");
    EXPECT_THAT(writer.commit(example()).text(), HasSubstr("its parts are not those"));
    EXPECT_FALSE(fs::exists(set));
}

TEST_F(SetTest, TakesTheNameOfNothingThatIsThere) {
    make();
    EXPECT_THAT(SetWriter().begin(set).text(), HasSubstr("it is there already"));
    put(folder / "file", "");
    EXPECT_THAT(SetWriter().begin(folder / "file").text(), HasSubstr("it is there already"));
    fs::create_directory(folder / "empty");
    EXPECT_EQ(SetWriter().begin(folder / "empty").text(), "");
    EXPECT_EQ(SetWriter().begin(folder / "with slash/").text(), "");
    SetWriter first;
    ASSERT_EQ(first.begin(folder / "two").text(), "");
    EXPECT_THAT(SetWriter().begin(folder / "two").text(), HasSubstr("another command writes it"));
    EXPECT_TRUE(fs::exists(folder / "two.part")) << "the second one removed the first one's";
}

TEST_F(SetTest, WhatAKilledCommandHasLeftIsRemovedByTheNext) {
    const pid_t killed = test::fork_child([this] {
        SetWriter writer;
        if (!writer.begin(set) && !fill(writer)) raise(SIGKILL);
        return 1;
    });
    int status = 0;
    ASSERT_EQ(waitpid(killed, &status, 0), killed);
    ASSERT_TRUE(WIFSIGNALED(status));
    const fs::path part = set.string() + ".part";
    ASSERT_FALSE(fs::is_empty(part));
    put(part / "set.json", "the beginning of");
    SetWriter next;
    ASSERT_EQ(next.begin(set).text(), "");
    EXPECT_TRUE(fs::is_empty(part));
    ASSERT_EQ(fill(next).text(), "");
    EXPECT_EQ(next.commit(example()).text(), "");
}

TEST_F(SetTest, WhatNoSuspendHasWrittenStays) {
    const fs::path part = set.string() + ".part";
    for (const char* const name : {"letter", "client-3/letter", "other/births"}) {
        fs::create_directories((part / name).parent_path());
        put(part / name, "");
        put(part / "region.zst", "");
        EXPECT_THAT(SetWriter().begin(set).text(), HasSubstr("is of no suspend")) << name;
        EXPECT_TRUE(fs::exists(part / name) && fs::exists(part / "region.zst"));
        fs::remove_all(part);
    }
    fs::create_directory_symlink("/", part);
    EXPECT_THAT(SetWriter().begin(set).text(), HasSubstr("symbolic link"));
}

TEST_F(SetTest, WhatLiesAsideHasNoNameAndRoomThatIsKnown) {
    SetWriter writer;
    ASSERT_EQ(writer.begin(set).text(), "");
    File file;
    std::uint64_t most = 0;
    ASSERT_EQ(writer.aside(file, most).text(), "");
    EXPECT_EQ(write(file.fd(), "bytes", 5), 5);
    EXPECT_GT(most, 0u);
    EXPECT_LE(most, fs::space(folder).free);
    EXPECT_TRUE(fs::is_empty(set.string() + ".part"));
}

TEST_F(SetTest, WhoeverGivesUpWhileItIsVerifiedGetsNoPart) {
    make();
    SetReader reader;
    ASSERT_EQ(reader.open(set).text(), "");
    std::atomic<int> asked = 0;
    EXPECT_EQ(reader.verify([&] { return ++asked == 2 ? Failure("given up") : Failure(); }).text(), "given up");
    EXPECT_FALSE(reader.part("books.zst"));
    EXPECT_EQ(reader.verify([] { return Failure(); }).text(), "");
    EXPECT_TRUE(reader.part("books.zst"));
}

TEST_F(SetTest, InWhichAnyBitHasChangedIsRefused) {
    make();
    for (const auto& entry : fs::recursive_directory_iterator(set)) {
        if (!entry.is_regular_file()) continue;
        const std::string whole = text(entry.path());
        // A newline behind the description says nothing.
        const std::size_t end = whole.size() - (entry.path().filename() == "set.json" ? 1 : 0);
        for (std::size_t i = 0; i < end; i += sanitized_step) {
            std::string damaged = whole;
            damaged[i] = static_cast<char>(damaged[i] ^ (1 << i % 8));
            put(entry.path(), damaged);
            // Space between words has no meaning either.
            if (isspace(whole[i]) && isspace(damaged[i])) continue;
            EXPECT_NE(refusal(), "") << entry.path() << ", byte " << i;
        }
        put(entry.path(), whole);
        ASSERT_EQ(refusal(), "");
    }
}

TEST_F(SetTest, OfWhichAPartWasCutOrHasGrownIsRefused) {
    make();
    for (const auto& entry : fs::recursive_directory_iterator(set)) {
        if (!entry.is_regular_file()) continue;
        const std::string whole = text(entry.path());
        for (const std::size_t length : {std::size_t{0}, std::size_t{1}, whole.size() / 2, whole.size() - 2}) {
            put(entry.path(), whole.substr(0, length));
            EXPECT_THAT(refusal(), HasSubstr("cut short")) << entry.path() << ", " << length;
        }
        put(entry.path(), whole + "more");
        EXPECT_NE(refusal(), "") << entry.path();
        put(entry.path(), whole);
        ASSERT_EQ(refusal(), "");
    }
}

TEST_F(SetTest, OfAnotherFormatNamesBothAndTheBuild) {
    make();
    std::string json = text(set / "set.json");
    json.replace(json.find("\"format\": 4"), 11, "\"format\": 9");
    put(set / "set.json", json);
    EXPECT_THAT(refusal(), HasSubstr("its format has number 9, this build's 4: use a build of barcuda 1.2.3"));
}

TEST_F(SetTest, ThatOthersMayHaveMadeIsRefused) {
    make();
    const fs::path part = set / "client-0" / "births";
    chmod(part.c_str(), 0620);
    EXPECT_THAT(refusal(), HasSubstr("other users may write to client-0/births"));
    chmod(part.c_str(), 0600);
    chmod((set / "client-0").c_str(), 0770);
    EXPECT_THAT(refusal(), HasSubstr("other users may write to client-0"));
    chmod((set / "client-0").c_str(), 0700);
    chmod(set.c_str(), 0702);
    EXPECT_THAT(refusal(), HasSubstr("other users may write to"));
    chmod(set.c_str(), 0700);
    fs::create_hard_link(part, folder / "second");
    EXPECT_THAT(refusal(), HasSubstr("second name"));
    fs::remove(folder / "second");
    ASSERT_EQ(refusal(), "");
    if (geteuid() != 0) GTEST_SKIP() << "only root can give a file to another user";
    for (const char* const name : {"books.zst", "set.json", "client-12", "."}) {
        ASSERT_EQ(chown((set / name).c_str(), 65534, 65534), 0);
        EXPECT_THAT(refusal(), HasSubstr("belongs to user 65534")) << name;
        ASSERT_EQ(chown((set / name).c_str(), 0, 0), 0);
    }
}

TEST_F(SetTest, InWhichALinkOrAPipeStandsForAPartIsRefused) {
    make();
    for (const char* const name : {"region.zst", "set.json", "client-12"}) {
        fs::rename(set / name, folder / "elsewhere");
        fs::create_symlink(folder / "elsewhere", set / name);
        EXPECT_THAT(refusal(), HasSubstr("symbolic link")) << name;
        fs::remove(set / name);
        ASSERT_EQ(mkfifo((set / name).c_str(), 0600), 0);
        EXPECT_NE(refusal(), "") << name;
        fs::remove(set / name);
        EXPECT_THAT(refusal(), HasSubstr("No such file")) << name;
        fs::rename(folder / "elsewhere", set / name);
    }
    fs::rename(set, folder / "real");
    fs::create_directory_symlink(folder / "real", set);
    EXPECT_THAT(refusal(), HasSubstr("symbolic link"));
}

}  // namespace
}  // namespace barcuda
