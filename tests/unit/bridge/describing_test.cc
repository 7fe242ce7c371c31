// SPDX-License-Identifier: Apache-2.0
// describing_test: what a bridge says of itself in a suspended VM's set, and which bridge may wake that set.
#include "host-bridge/bridge/describing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "tests/unit/support/region_fixture.h"

namespace barcuda {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct DescribingTest : testing::Test {
    test::Scratch scratch;
    Ground ground;

    void SetUp() override {
        ground.options.name = "vm1";
        ground.options.region = scratch / "region";
        ground.options.device_memory = "blocks";
        const Error e = ground.region.create(
            ground.options.region.c_str(),
            {.size = region_size, .base = region_base, .build = "test build", .rows = region_rows});
        ASSERT_FALSE(e) << e.text;
        ground.region.announce();
        ground.host.devices = devices({"one GPU", "another GPU"});
        ground.host.devices.driver_version = 13000;
    }
    static HostDevices devices(const std::vector<const char*>& names) {
        HostDevices devices;
        for (const char* const name : names) std::strcpy(devices.all.emplace_back().name, name);
        return devices;
    }
    // Of a set that is as this bridge would write it, except for one thing.
    std::string refusal(const std::function<void(Description&)>& change) const {
        Description d = describe(ground);
        d.clients = {3};
        change(d);
        return refuse(d, ground.options).text();
    }
};

TEST_F(DescribingTest, ABridgeSaysWhatItIs) {
    const Description d = describe(ground);
    EXPECT_EQ(d.name, "vm1");
    EXPECT_EQ(d.region, ground.options.region);
    EXPECT_THAT(d.gpus, ElementsAre("one GPU", "another GPU"));
    EXPECT_EQ(d.driver, 13000u);
    EXPECT_EQ(d.size, region_size);
    EXPECT_EQ(d.base, region_base);
    EXPECT_EQ(d.epoch, ground.region.epoch());
    EXPECT_EQ(d.boot, this_boot());
    struct stat st {};
    ASSERT_EQ(stat(ground.options.region.c_str(), &st), 0);
    EXPECT_EQ(d.inode, st.st_ino);
    EXPECT_EQ(d.device, st.st_dev);
    EXPECT_TRUE(d.clients.empty());
    Description read;
    ASSERT_EQ(parse(text_of(d), read, true).text(), "");
    EXPECT_EQ(read, d);
}
TEST_F(DescribingTest, ABridgeOfTheSameNumbersMayWakeIt) {
    EXPECT_EQ(refusal([](Description&) {}), "");
    EXPECT_THAT(refusal([](Description& d) { ++d.layout; }), HasSubstr("its layout has number"));
    EXPECT_THAT(refusal([](Description& d) { ++d.packets; }), HasSubstr("its format of packets has number"));
    EXPECT_THAT(refusal([](Description& d) { ++d.books; }), HasSubstr("its form of books has number"));
}
TEST_F(DescribingTest, OptionsThatContradictItAreNamed) {
    ground.options.size = 2 * region_size;
    EXPECT_THAT(refusal([](Description&) {}), HasSubstr("and --size says"));
    ground.options.size = region_size;
    ground.options.base = region_base + region_size;
    EXPECT_THAT(refusal([](Description&) {}), HasSubstr("and --base says"));
    ground.options.base = region_base;
    EXPECT_EQ(refusal([](Description&) {}), "");
    ground.options.device_memory = "driver";
    EXPECT_THAT(refusal([](Description&) {}), HasSubstr("only --device-memory blocks"));
    EXPECT_EQ(refusal([](Description& d) { d.clients.clear(); }), "") << "no client has memory";
}
TEST_F(DescribingTest, TheGpusHaveTheSameNamesInTheSameOrder) {
    const Description d = describe(ground);
    EXPECT_EQ(refuse(d, ground.host.devices).text(), "");
    EXPECT_THAT(refuse(d, devices({"another GPU", "one GPU"})).text(), HasSubstr("with --gpus"));
    EXPECT_THAT(refuse(d, devices({"one GPU"})).text(), HasSubstr("its GPUs were one GPU, another GPU"));
}

}  // namespace
}  // namespace barcuda
