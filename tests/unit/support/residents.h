// SPDX-License-Identifier: Apache-2.0
// residents.h: bridges with their parts in the book of a card, for tests: the test plays workers, and the driver's
// account of the card.
#pragma once
#include "host-bridge/bridge/residents.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "base/os/file.h"
#include "tests/unit/support/scratch.h"

namespace barcuda::test {

using cards::Claim;
using residency::Bytes;
using residency::second;
using residency::Time;
using testing::IsEmpty;

constexpr Bytes MiB = 1 << 20, size = 1024 * MiB, reserve = 24 * MiB;
constexpr cards::Uuid gpu{7};

// A bridge with its part in the book, and the workers of its clients.
struct Side {
    cards::Member book;
    std::optional<Residents> residents;
    std::array<Sheet, 4> sheets{};
    std::map<std::uint32_t, Bytes> rooms;
    std::map<std::uint32_t, bool> returns;
    std::optional<Residents::Facts::Use> use;
    std::vector<KeptResidents> kept{4};
    std::vector<Residents::News> news;

    explicit Side(const std::string& path, std::uint32_t owner) {
        EXPECT_THAT(book.join(path, owner).text(), IsEmpty());
    }
    void begin(const residency::Policy& policy, bool behind_another = false) {
        residents.emplace(
            book, policy, std::vector<Residents::Card>{{gpu, size}}, reserve,
            Residents::Facts{[this](int) { return use; }, [this](std::uint32_t slot) { return rooms[slot]; },
                             [this](std::uint32_t slot) { return returns[slot]; }},
            Part<KeptResidents>{kept, behind_another});
    }
    CardPlace& place(std::uint32_t slot) { return sheets[slot].cards[0]; }
};

struct ResidentsTest : testing::Test {
    test::Scratch scratch;
    residency::Policy policy;
    Time now = 5000 * second;
    Side a{scratch / "cards", 1}, b{scratch / "cards", 2};

    void SetUp() override {
        a.begin(policy);
        b.begin(policy);
    }
    void admit(Side& side, std::uint32_t slot, const Claim::Terms& terms = {}) {
        side.residents->admit(slot, side.sheets[slot], {0}, terms);
    }
    void look(Side& side) { side.news = side.residents->look(now); }
    // ---- what a worker does
    static void wish(Side& side, std::uint32_t slot, Bytes needs, bool returns = false) {
        CardPlace& p = side.place(slot);
        p.needs = needs;
        p.returns = returns;
        ++p.wish;
    }
    static bool granted(Side& side, std::uint32_t slot) { return side.place(slot).granted == side.place(slot).wish; }
    static bool refused(Side& side, std::uint32_t slot) { return side.place(slot).refused == side.place(slot).wish; }
    // It uses its grant.
    static void use(Side& side, std::uint32_t slot) {
        CardPlace& p = side.place(slot);
        ASSERT_TRUE(granted(side, slot));
        ASSERT_GE(p.promised, p.needs);
        p.holds = p.on_card = p.needs;
        p.needs = 0;
    }
    void gets(Side& side, std::uint32_t slot, Bytes needs) {
        wish(side, slot, needs);
        look(side);
        use(side, slot);
        look(side);
    }
    // It moves memory to the store until it holds what it may keep.
    static void obey(Side& side, std::uint32_t slot) {
        CardPlace& p = side.place(slot);
        ASSERT_LT(p.keep, p.holds);
        const Bytes moved = p.holds - p.keep;
        p.out += moved;
        p.moved_out += moved;
        p.leaving_ns += moved;
        p.on_card = p.holds = p.keep;
    }
    // A client that has all of the card but `free`, and is idle for long.
    void fill(Side& side, std::uint32_t slot, Bytes free = 0) {
        gets(side, slot, size - reserve - free);
        side.place(slot).idle_since = now;
        side.rooms[slot] = size;
        now += 10 * second;
        look(side);
    }
    Bytes promised() const { return a.book.promised(gpu); }
};

MATCHER_P2(Is, what, slot, "") { return arg.what == what && arg.slot == std::uint32_t(slot); }

}  // namespace barcuda::test
