// SPDX-License-Identifier: Apache-2.0
// startup_test: how a bridge divides what the machine gives it, before there is a client.
#include "host-bridge/bridge/startup.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include "host-bridge/bridge/rooms.h"
#include "tests/unit/support/scratch.h"

namespace barcuda {
namespace {

// How many descriptors clients may share, each of 10, where a process may have 1000.
int files_of_ten(std::size_t of_the_store) {
    const pid_t child = test::fork_child([&] {
        const rlimit limit{1000, 1000};
        rlimit given;
        if (setrlimit(RLIMIT_NOFILE, &limit) != 0) return 255;
        return static_cast<int>(Startup::files_of_each(10, 0, of_the_store, given));
    });
    return test::exit_status(child);
}

TEST(Startup, LeavesTheStoresDescriptorsToTheStore) {
    const int without = files_of_ten(0);
    EXPECT_GT(without, 60);
    EXPECT_EQ(files_of_ten(500), without - 50);
    EXPECT_EQ(files_of_ten(5000), 1) << "there are none left";
    EXPECT_EQ(Rooms::most_files(0), 0u);
    EXPECT_EQ(Rooms::most_files(10 * Rooms::granule + 1), 20u);
}

}  // namespace
}  // namespace barcuda
