// SPDX-License-Identifier: Apache-2.0
// kept_grants_test: what a new bridge reads from the books of the region's and the devices' memory when the earlier one
// was killed before any of its stores.
#include "host-bridge/bridge/ledger.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <optional>
#include <random>
#include <vector>

#include "tests/unit/support/killed.h"
#include "tests/unit/support/small_region.h"

namespace barcuda {
namespace {

using test::channels;
using test::granule;
using test::granules;
using test::killed_at_each_store;
using test::shape;
using test::SharedWith;
struct KeptGrants : testing::Test {
    struct Region {
        barcuda_grant table[granules];
        bool written[granules];  // by a client
    };
    SharedWith<Region> region;
    Ledger ledger;
    std::optional<Grants> grants;

    void clear(std::uint64_t offset) const { region->written[(offset - 4 * granule) / granule] = false; }
    void over(bool kept) {
        Part<Grants::Granule> books = ledger.granules();
        books.kept = kept;
        grants.emplace(
            shape(), region->table, [this](std::uint64_t offset, std::uint64_t) { clear(offset); }, books);
    }
    void begin() {
        region.clear();
        grants.reset();
        ledger = Ledger::anonymous(shape());
        over(false);
    }
    // What a client does that has a run mapped.
    void write(Grants::Run run) const {
        for (std::uint64_t at = run.offset; at < run.offset + run.bytes; at += granule)
            region->written[(at - 4 * granule) / granule] = true;
    }
    // A new bridge, behind one that was killed.
    void come_back(const std::function<bool(std::uint32_t)>& lives = [](std::uint32_t) { return true; }) {
        over(true);
        grants->restore(lives);
    }
    // No granule is lost: what no channel holds can be granted. None is granted that has a client's bytes in it.
    void expect_whole() {
        for (std::uint32_t g = 0; g < granules; ++g) {
            const std::uint32_t owner = ledger.granules().records[g].owner;
            EXPECT_EQ(region->table[g].owner, owner == ~0u ? 0u : owner) << "the guest's table, granule " << g;
        }
        for (std::uint32_t c = 0; c < channels; ++c) grants->release_all(c);
        grants->release_reserves();
        EXPECT_EQ(grants->grant(0, granules * granule).bytes, granules * granule);
        for (const bool written : region->written) EXPECT_FALSE(written);
    }
};

TEST_F(KeptGrants, AGrantThatWasNotAnsweredIsTakenBackWhole) {
    killed_at_each_store(
        [&] {
            begin();
            const auto run = grants->grant(1, granule);
            grants->confirm(run);
        },
        [&] { grants->grant(1, 3 * granule); },
        [&](bool) {
            come_back();
            grants->settle(1, false);
            EXPECT_EQ(grants->held(1), granule) << "what was answered before";
            expect_whole();
        });
}
TEST_F(KeptGrants, AGrantThatWasAnsweredIsThere) {
    Grants::Run run;
    killed_at_each_store(
        [&] {
            begin();
            run = grants->grant(1, 3 * granule);
        },
        [&] { grants->confirm(run); },
        [&](bool) {
            come_back();
            grants->settle(1, true);
            grants->settle(1, false);
            EXPECT_EQ(grants->held(1), 3 * granule);
            EXPECT_TRUE(grants->release(1, run));
            expect_whole();
        });
}
TEST_F(KeptGrants, AReleaseIsFinished) {
    Grants::Run run;
    killed_at_each_store(
        [&] {
            begin();
            run = grants->grant(1, 3 * granule);
            grants->confirm(run);
            write(run);
        },
        [&] { grants->release(1, run); },
        [&](bool) {
            come_back();
            grants->release_rest(1, run);
            EXPECT_EQ(grants->held(1), 0u);
            expect_whole();
        });
}
TEST_F(KeptGrants, ARunThatIsOutsideTheHeapReleasesNothing) {
    begin();
    grants->grant(1, 2 * granule);
    for (const Grants::Run run : {Grants::Run{0, granule}, Grants::Run{~std::uint64_t{0} - granule + 1, granule},
                                  Grants::Run{4 * granule, ~std::uint64_t{0}}, Grants::Run{4 * granule + 1, granule}})
        grants->release_rest(1, run);
    EXPECT_EQ(grants->held(1), 2 * granule);
}
TEST_F(KeptGrants, NothingThatAWorkerMayHaveWrittenReachesTheNextClient) {
    const unsigned stores = killed_at_each_store(
        [&] {
            begin();
            const auto run = grants->grant(1, 2 * granule);
            grants->confirm(run);
            grants->let_map(1, run);
            grants->release(1, run);
            while (grants->clean_one()) {}
            write(run);  // its worker has it mapped
        },
        [&] { grants->release_all(1); },
        [&](bool) {
            come_back([](std::uint32_t channel) { return channel != 1; });
            EXPECT_EQ(grants->held(1), 0u);
            expect_whole();
        });
    EXPECT_GE(stores, 4u);
}
TEST_F(KeptGrants, ToMapIsAllowedToOneWorkerAlone) {
    Grants::Run run;
    killed_at_each_store(
        [&] {
            begin();
            run = grants->grant(1, 3 * granule);
        },
        [&] { grants->let_map(1, run); },
        [&](bool) {
            come_back();
            EXPECT_FALSE(grants->let_map(2, run));
            EXPECT_TRUE(grants->let_map(1, run));
            EXPECT_TRUE(grants->release(1, run));
            EXPECT_EQ(grants->free(), (granules - 3) * granule);
            expect_whole();
        });
}
TEST_F(KeptGrants, AReserveIsAWorkersUntilThatHasEndedOrItsClientHasIt) {
    Grants::Run run;
    killed_at_each_store(
        [&] {
            begin();
            run = grants->reserve(2 * granule);
            write(run);
        },
        [&] { grants->hand_over(run, 1); },
        [&](bool whole) {
            come_back();
            EXPECT_EQ(grants->free(), (granules - 2) * granule);
            grants->release_reserves();
            EXPECT_TRUE(!whole || grants->held(1) == 2 * granule);
            EXPECT_EQ(grants->free() + grants->held(1), granules * granule);
            expect_whole();
        });
}
// A client's channel is opened and closed, memory is granted, mapped, cleaned and released, until the bridge is killed.
TEST_F(KeptGrants, AfterAnyRandomActionsNoGranuleIsLostAndNoneHasTwoOwners) {
    for (unsigned seed = 0; seed < 40; ++seed) {
        SCOPED_TRACE(seed);
        begin();
        const pid_t child = fork();
        if (child == 0) {
            std::minstd_rand random(seed + 1);
            test::stores_left = random() % 300;
            records::before_store = [] {
                if (test::stores_left-- == 0) raise(SIGKILL);
            };
            std::vector<std::pair<std::uint32_t, Grants::Run>> held;
            for (;;) {
                const std::uint32_t channel = random() % channels;
                switch (random() % 5) {
                    case 0:
                    case 1:
                        if (const auto run = grants->grant(channel, (1 + random() % 3) * granule); run.bytes) {
                            grants->let_map(channel, run);
                            write(run);
                            grants->confirm(run);
                            held.emplace_back(channel, run);
                        }
                        break;
                    case 2:
                        if (held.empty()) break;
                        grants->release(held.back().first, held.back().second);
                        held.pop_back();
                        break;
                    case 3: grants->clean_one(); break;
                    case 4:
                        grants->release_all(channel);
                        std::erase_if(held, [&](const auto& its) { return its.first == channel; });
                }
            }
        }
        int status = 0;
        ASSERT_EQ(waitpid(child, &status, 0), child);
        ASSERT_TRUE(WIFSIGNALED(status));
        come_back();
        for (std::uint32_t c = 0; c < channels; ++c) grants->settle(c, false);
        expect_whole();
    }
}

// ---- quotas
TEST(KeptQuotas, WhatWasLentIsLentAndNoLimitIsPassed) {
    constexpr MemoryLimits limits{.client = 100, .guest = 150};
    Ledger ledger;
    const auto over = [&] { return Quotas(ledger.accounts()); };
    killed_at_each_store(
        [&] {
            ledger = Ledger::anonymous(shape());
            over().lend(1, 0, 60, limits);
        },
        [&] {
            Quotas quotas = over();
            quotas.lend(1, 0, 40, limits);
            quotas.lend(2, 0, 50, limits);
            quotas.note(2, 1, 30);
            quotas.repay(1, 0, 40);
        },
        [&](bool whole) {
            Quotas quotas = over();
            quotas.restore([](std::uint32_t) { return true; });
            EXPECT_GE(quotas.held(1, 0), 60u);
            EXPECT_LE(quotas.held(1, 0), limits.client);
            EXPECT_EQ(quotas.held(0), quotas.held(1, 0) + quotas.held(2, 0)) << "the sum follows from the accounts";
            EXPECT_LE(quotas.held(0), limits.guest);
            EXPECT_EQ(quotas.left(1, 0, limits), std::min(100 - quotas.held(1, 0), 150 - quotas.held(0)));
            EXPECT_TRUE(!whole || (quotas.held(1, 0) == 60 && quotas.held(2, 1) == 30));
        });
}
TEST(KeptQuotas, OfAClientThatIsGoneNothingIsLeft) {
    Ledger ledger;
    const auto over = [&] { return Quotas(ledger.accounts()); };
    killed_at_each_store(
        [&] {
            ledger = Ledger::anonymous(shape());
            for (int device : {0, 31}) {
                over().lend(1, device, 60, {});
                over().note(1, device, 70);
                over().lend(3, device, 5, {});
            }
        },
        [&] { over().repay_all(1); },
        [&](bool) {
            Quotas quotas = over();
            quotas.restore([](std::uint32_t slot) { return slot == 3; });
            for (int device : {0, 31}) {
                EXPECT_EQ(quotas.held(1, device), 0u);
                EXPECT_EQ(quotas.held(device), 5u);
            }
        });
}

}  // namespace
}  // namespace barcuda
