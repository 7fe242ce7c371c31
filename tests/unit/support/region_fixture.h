// SPDX-License-Identifier: Apache-2.0
// region_fixture.h: what the tests of the region share: a region on tmpfs, its host, and a guest that may open it.
#pragma once
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "shm-device/doors/bar_door.h"
#include "shm-device/region/host_region.h"
#include "shm-device/region/region.h"
#include "tests/unit/support/scratch.h"

namespace barcuda {

// A BAR is not at hand everywhere: the file of a region gets a BAR's door. And a header says what no bridge would.
struct RegionProbe {
    static barcuda_header& header(Region& region) { return const_cast<barcuda_header&>(*region.header_); }
    static BarDoor& become_bar(Region& region, BarDoor::By by = BarDoor::By::pci) {
        Door& door = *region.door_;
        const std::string path = door.path();
        const Door::Properties properties = door.properties();
        os::KeptFile file = std::move(door.file_);
        void* const header = std::exchange(door.header_, nullptr);  // stays mapped
        const std::size_t header_bytes = door.header_bytes_;
        auto& bar = region.door_.make<BarDoor>(path.c_str(), std::move(file), properties.size, properties.unit, by);
        bar.keep_header(header, header_bytes);
        return bar;
    }
    // As if the system had put the region there.
    static Error choose_base(Region& region, std::uint64_t base, barcuda_header& header) {
        region.door_->properties_.base = base;
        return region.choose_base(header);
    }
    static void become_dax(HostRegion& host) { host.whole_ = &become_bar(host, BarDoor::By::dax); }
};

constexpr std::uint64_t region_rows[] = {0x1234567890abcdef, 2, 3};  // some identities
constexpr std::uint64_t region_size = BARCUDA_MIN_SIZE;
// ThreadSanitizer lets programs have memory in few places only; this is one of them.
constexpr std::uint64_t region_base = 0x7e8000000000;

class RegionTest : public ::testing::Test {
  protected:
    test::Scratch scratch;
    std::string path = scratch / "region";
    HostRegion host;
    Region guest;

    void SetUp() override {
        const Error e = host.create(
            path.c_str(), {.size = region_size, .base = region_base, .build = "test build", .rows = region_rows});
        ASSERT_FALSE(e) << e.text;
        host.announce();
    }
    Error open_guest() { return guest.open(path.c_str()); }
};

inline std::string says(const Error& e) { return e.text; }
inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace barcuda
