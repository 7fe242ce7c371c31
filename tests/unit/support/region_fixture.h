// SPDX-License-Identifier: Apache-2.0
// region_fixture.h: what the tests of the region share: a region on tmpfs, its host, and a guest that may open it.
#pragma once
#include <gtest/gtest.h>

#include <string>

#include "shm-device/region/region.h"
#include "tests/unit/support/scratch.h"

namespace barcuda {

// A BAR is not at hand everywhere: a region in a file is made to believe that it is one. And a header says what no
// bridge would.
struct RegionProbe {
    static barcuda_header& header(Region& region) { return region.writable_header(); }
    static void pretend(Region& region, Region::Kind kind) { region.kind_ = kind; }
};

constexpr std::uint64_t kRows[] = {0x1234567890abcdef, 2, 3};  // some identities
constexpr std::uint64_t kSize = BARCUDA_MIN_SIZE;
// ThreadSanitizer lets programs have memory in few places only; this is one of them.
constexpr std::uint64_t kBase = 0x7e8000000000;

class RegionTest : public ::testing::Test {
  protected:
    test::Scratch scratch;
    std::string path = scratch / "region";
    Region host;
    Region guest;

    void SetUp() override {
        const Error e = host.create(path.c_str(), {.size = kSize, .base = kBase, .build = "test build", .rows = kRows});
        ASSERT_FALSE(e) << e.text;
        host.announce();
    }
    Error open_guest() { return guest.open(path.c_str()); }
};

inline std::string says(const Error& e) { return e.text; }
inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace barcuda
