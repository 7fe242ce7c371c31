// SPDX-License-Identifier: Apache-2.0
// What Kubernetes learns of a node's bridges: which of them are trusted, and which files containers get. A file is one
// that a bridge serves, or none.
#include "host-bridge/kubernetes/shares.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>

#include <csignal>
#include <cstring>
#include <filesystem>

#include "base/message.h"
#include "host-bridge/between/limits_link.h"
#include "host-bridge/watch/region_file.h"
#include "tests/unit/support/region_fixture.h"

namespace barcuda {
namespace {

constexpr uid_t nobody = 65534;

// Answers like a bridge, with the test's values, and as another user if `user` is one.
class Speaker {
  public:
    Speaker(const std::string& door, const std::string& name, const std::string& region, uid_t user = geteuid())
        : door_(door) {
        int ready[2];
        if (pipe(ready) != 0) std::abort();
        child_ = test::fork_child([&] {
            if (user != geteuid() && (setgid(user) != 0 || setuid(user) != 0)) return 1;
            const int listener = socket(AF_UNIX, SOCK_SEQPACKET, 0);
            const sockaddr_un address = unix_address(door);
            if (bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
                listen(listener, 8) != 0 || write(ready[1], "", 1) != 1)
                return 1;
            close(ready[0]);
            close(ready[1]);
            signal(SIGPIPE, SIG_IGN);
            static ListReply reply;
            name.copy(reply.name, sizeof reply.name - 1);
            region.copy(reply.region, sizeof reply.region - 1);
            reply.no_vm = true;
            for (ListRequest request;;) {
                const int visitor = accept(listener, nullptr, nullptr);
                if (recv(visitor, &request, sizeof request, 0) > 0) send(visitor, &reply, reply.bytes(), 0);
                close(visitor);
            }
        });
        close(ready[1]);
        char byte;
        listens_ = read(ready[0], &byte, 1) == 1;
        close(ready[0]);
    }
    ~Speaker() {
        kill(child_, SIGKILL);
        test::exit_status(child_);
        unlink(door_.c_str());
    }
    bool listens() const { return listens_; }

  private:
    const std::string door_;
    pid_t child_ = 0;
    bool listens_ = false;
};

// The door of a file's bridge. `which`: there may be several.
std::string door_of(const std::string& file, const std::string& which = "1") {
    struct stat st {};
    EXPECT_EQ(stat(file.c_str(), &st), 0) << file;
    return std::string(limits_folder) + "/" + limits_name_of(st) + "shares" + std::to_string(getpid()) + which;
}

class SharesTest : public RegionTest {
  protected:
    const std::string name = "shares-" + std::to_string(getpid());  // other tests' bridges run at the same time
    std::string error;
    watch::Doors believed{{}, watch::believed_users({}, error)};
    kubernetes::Shares shares{2, false, {name}};
    std::string told;  // by choose()

    std::string region_of_share() {
        const auto chosen = shares.choose({name + "-0"}, told);
        return chosen ? chosen->region : "";
    }
    // Whether a bridge of this user that says this is trusted.
    bool believes(const std::string& region, const std::string& door) {
        const Speaker speaker(door, name, region);
        EXPECT_TRUE(speaker.listens());
        kubernetes::Shares fresh{2, false, {name}};
        fresh.update(watch::look(false, believed));
        return !fresh.list().empty() || !fresh.regions().empty();
    }
};

TEST_F(SharesTest, AreOfABridgeWhoseFileIsWhatItSays) {
    const Speaker bridge(door_of(path), name, path);
    ASSERT_TRUE(bridge.listens());
    EXPECT_TRUE(shares.update(watch::look(false, believed)));
    EXPECT_EQ(shares.list().size(), 2u);
    EXPECT_EQ(shares.regions().at(name), path);
    EXPECT_EQ(region_of_share(), path) << told;
}

TEST_F(SharesTest, AreNotOfAFolderALinkOrAnotherFile) {
    const std::string link = scratch / "link", plain = scratch / "plain", loose = scratch / "loose";
    EXPECT_FALSE(believes("/", door_of("/")));
    EXPECT_FALSE(believes("/etc/passwd", door_of("/etc/passwd")));
    ASSERT_EQ(symlink(path.c_str(), link.c_str()), 0);
    EXPECT_FALSE(believes(link, door_of(path)));
    EXPECT_FALSE(believes("region", door_of(path)));
    std::filesystem::copy_file("/etc/passwd", plain);
    EXPECT_FALSE(believes(plain, door_of(plain)));
    EXPECT_FALSE(believes(path, door_of(plain)));  // a region, but not the one that this bridge serves
    std::filesystem::create_directory(loose);
    HostRegion second;
    const std::string inside = loose + "/region";
    ASSERT_FALSE(second.create(inside.c_str(),
                               {.size = region_size, .base = region_base, .build = "test", .rows = region_rows}));
    second.announce();
    EXPECT_TRUE(believes(inside, door_of(inside)));
    ASSERT_EQ(chmod(loose.c_str(), 0777), 0);  // another user may replace the file
    EXPECT_FALSE(believes(inside, door_of(inside)));
}

TEST_F(SharesTest, AreVerifiedAgainWhenTheyAreGiven) {
    const Speaker bridge(door_of(path), name, path);
    shares.update(watch::look(false, believed));
    ASSERT_EQ(region_of_share(), path) << told;
    ASSERT_EQ(rename(path.c_str(), (scratch / "away").c_str()), 0);
    ASSERT_EQ(symlink("/", path.c_str()), 0);
    EXPECT_EQ(region_of_share(), "");
    EXPECT_TRUE(contains(told, "a symbolic link")) << told;
    shares.update(watch::look(false, believed));
    EXPECT_TRUE(shares.regions().empty());
    EXPECT_FALSE(shares.list().front().healthy);
}

TEST_F(SharesTest, AreNeverOfAnotherUsersBridgeAndAnHonestOneKeepsItsName) {
    if (geteuid() != 0) GTEST_SKIP() << "needs root, to be another user as well";
    const Speaker bridge(door_of(path), name, path);
    const Speaker thief(std::string(limits_folder) + "/" + limits_name + "1-1-" + name, name, "/", nobody);
    ASSERT_TRUE(bridge.listens() && thief.listens());
    shares.update(watch::look(false, believed));
    EXPECT_EQ(shares.list().size(), 2u);
    EXPECT_EQ(region_of_share(), path) << told;
    // The user is named as trusted, so that user's bridge is asked; but what it names is not a region.
    const watch::Doors both({}, watch::believed_users({std::to_string(nobody)}, error));
    EXPECT_TRUE(both.believes(nobody));
    kubernetes::Shares of_both{2, false, {}};
    of_both.update(watch::look(false, both));
    for (const auto& [_, file] : of_both.regions()) EXPECT_NE(file, "/");
}

TEST(BelievedUsers, AreRootThisUserAndThoseThatAreNamed) {
    std::string error;
    const auto users = watch::believed_users({"nobody", "4711"}, error);
    EXPECT_EQ(error, "");
    for (const uid_t user : {uid_t{0}, geteuid(), uid_t{4711}, nobody}) EXPECT_TRUE(users.contains(user)) << user;
    EXPECT_FALSE(users.contains(12));
    watch::believed_users({"no-such-user"}, error);
    EXPECT_TRUE(contains(error, "no-such-user: there is no such user")) << error;
}

}  // namespace
}  // namespace barcuda
