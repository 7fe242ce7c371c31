// SPDX-License-Identifier: Apache-2.0
// ledger_test: the bridge's books as a file, and what a new bridge reads from them when the earlier one was killed
// before any of its stores. (What each class makes of its records otherwise is in its own test.)
#include "host-bridge/bridge/ledger.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <optional>
#include <random>
#include <set>
#include <vector>

#include "tests/unit/support/killed.h"

namespace barcuda {
namespace {

using test::killed_at_each_store;
using testing::HasSubstr;

constexpr std::uint64_t granule = BARCUDA_GRANULE;
constexpr std::uint32_t channels = 4, granules = 8;

Shape shape() {
    Shape shape;
    shape.base = BARCUDA_DEFAULT_BASE;
    shape.size = 1 << 30;
    shape.granule = granule;
    shape.extents_offset = 4 * granule;
    shape.channel_count = channels;
    shape.granule_count = granules;
    return shape;
}

// Memory that a child shares with the test, as a region is.
template <class T> struct SharedWith {
    T* const at = static_cast<T*>(mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    SharedWith() = default;
    SharedWith(const SharedWith&) = delete;
    ~SharedWith() { munmap(at, sizeof(T)); }
    T* operator->() const { return at; }
    void clear() const { std::memset(static_cast<void*>(at), 0, sizeof(T)); }
};

// ---- the file
File copy_of(const Ledger& ledger) { return File(fcntl(ledger.fd(), F_DUPFD_CLOEXEC, 0)); }

TEST(LedgerTest, ALaterBridgeReadsWhatAnEarlierOneHasWritten) {
    Ledger first, second;
    ASSERT_EQ(first.make(shape()).text(), "");
    EXPECT_FALSE(first.kept());
    first.granules().records[3].owner = 7;
    ASSERT_EQ(second.open(copy_of(first)).text(), "");
    EXPECT_TRUE(second.kept());
    EXPECT_TRUE(second.granules().kept);
    EXPECT_EQ(second.head().shape.size, shape().size);
    EXPECT_EQ(second.granules().records.size(), granules);
    EXPECT_EQ(second.granules().records[3].owner, 7u);
}
TEST(LedgerTest, NobodyChangesItsLengthAndNoProgramInheritsIt) {
    Ledger ledger;
    ASSERT_EQ(ledger.make(shape()).text(), "");
    EXPECT_NE(ftruncate(ledger.fd(), 4096), 0);
    EXPECT_NE(ftruncate(ledger.fd(), 1 << 30), 0);
    EXPECT_NE(fcntl(ledger.fd(), F_GETFD) & FD_CLOEXEC, 0);
}
TEST(LedgerTest, WhatIsReadDifferentlyIsRefusedAndBothNumbersAreNamed) {
    struct {
        std::size_t word;
        std::uint32_t its;
        const char* text;
    } const cases[] = {
        {offsetof(Ledger::Head, form), Ledger::form + 1,
         "the form of the bridge's books has number 4 in the running bridge, and 3 in the new one"},
        {offsetof(Ledger::Head, layout), BARCUDA_LAYOUT + 1,
         "the layout of the region has number 8 in the running bridge, and 7 in"},
        {offsetof(Ledger::Head, packets), BARCUDA_PACKETS + 1,
         "the form of packets has number 2 in the running bridge, and 1 in"},
        {offsetof(Ledger::Head, link), 1000, "the link to workers has number 1000 in the running bridge, and"},
        {offsetof(Ledger::Head, whole), 0, "not whole"},
        {offsetof(Ledger::Head, magic), 0, "not whole"},
        {offsetof(Ledger::Head, bytes), 4096, "size"},
    };
    for (const auto& [word, its, text] : cases) {
        Ledger first, second;
        ASSERT_EQ(first.make(shape()).text(), "");
        ASSERT_EQ(pwrite(first.fd(), &its, sizeof its, static_cast<off_t>(word)), 4);
        EXPECT_THAT(second.open(copy_of(first)).text(), HasSubstr(text));
        EXPECT_FALSE(second);
    }
}
TEST(LedgerTest, OfASuspendedBridgeIsKeptWhatItsClientsOwnAndNotWhatItsWorkersHad) {
    Ledger old, woken;
    ASSERT_EQ(old.make(shape()).text(), "");
    old.granules().records[3].owner = 2;
    old.granules().records[3].mapper = 2;
    old.granules().records[5].dirty = 1;
    old.accounts().records[1][0].lent = 100;
    KeptClient client{};
    client.state = KeptClient::assigned;
    client.worker = 4711;
    client.worker_start = 12;
    client.told = 1;
    client.base = 0x1234;
    client.reserved[0] = {granule, granule};
    old.clients().records[1].set(client);
    old.requests().records[1].set({KeptRequest::asked, 8, 9, 0, {}});
    KeptPause pause{};
    pause.known = 1;
    pause.order = 5;
    pause.wanted = pause.state = Paused::held;
    old.pauses().records[1].set(pause);
    const File file = copy_of(old);
    ASSERT_EQ(woken.wake(file.fd()).text(), "");
    EXPECT_TRUE(woken.kept());
    EXPECT_EQ(woken.granules().records[3].owner, 2u);
    EXPECT_EQ(woken.granules().records[3].mapper, 0u) << "of a worker that has ended";
    EXPECT_EQ(woken.granules().records[5].dirty, 1u);
    EXPECT_EQ(woken.accounts().records[1][0].lent, 0u) << "its new worker borrows again";
    const KeptClient& its = woken.clients().records[1].get();
    EXPECT_EQ(its.state, KeptClient::assigned);
    EXPECT_EQ(its.base, 0x1234u);
    EXPECT_EQ(its.told, 0u);
    EXPECT_EQ(its.worker_start, 0u);
    EXPECT_EQ(its.reserved[0].bytes, 0u);
    EXPECT_EQ(woken.requests().records[1].get().state, KeptRequest::none);
    const KeptPause& again = woken.pauses().records[1].get();
    EXPECT_EQ(again.wanted, Paused::held);
    EXPECT_EQ(again.state, Paused::running);
    EXPECT_EQ(again.pending, 1u);
    EXPECT_EQ(again.order, 5u);
    EXPECT_EQ(old.granules().records[3].mapper, 2u) << "the books on the disk were changed";
    // What a damaged file says.
    Ledger other;
    EXPECT_THAT(other.wake(File(memfd_create("books", MFD_CLOEXEC)).fd()).text(), HasSubstr("shorter than their head"));
    const_cast<Ledger::Head&>(old.head()).bytes = 1;
    EXPECT_THAT(other.wake(file.fd()).text(), HasSubstr("the size that their head says"));
    const_cast<Ledger::Head&>(old.head()).form = 99;
    EXPECT_THAT(other.wake(file.fd()).text(), HasSubstr("99"));
}

TEST(LedgerTest, AFileThatIsNoneOfABridgesIsRefused) {
    Ledger ledger;
    File file(memfd_create("another", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    ASSERT_EQ(ftruncate(file.fd(), 1 << 20), 0);
    EXPECT_THAT(ledger.open(std::move(file)).text(), HasSubstr("not a file that a bridge made"));
    EXPECT_THAT(ledger.open(File()).text(), HasSubstr("cannot be read"));
}
TEST(LedgerTest, ARecordOfManyWordsIsTheOldOneOrTheNewOne) {
    struct Big {
        std::uint64_t words[37];
    };
    const SharedWith<Twice<Big>> record;
    const auto filled = [](std::uint64_t with) {
        Big big;
        std::ranges::fill(big.words, with);
        return big;
    };
    const unsigned stores = killed_at_each_store([&] { record->set(filled(1)); }, [&] { record->set(filled(2)); },
                                                 [&](bool whole) {
                                                     for (const std::uint64_t word : record->get().words)
                                                         EXPECT_EQ(word, whole ? 2u : 1u);
                                                 });
    EXPECT_GE(stores, 3u);
}

// ---- grants
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
    // No granule is lost: what no channel holds can be granted. None is granted that has somebody's bytes in it.
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
// A client's channel comes and goes, memory is granted, mapped, cleaned and released, until the bridge is killed.
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

// ---- what clients share
struct KeptShared : testing::Test {
    // Outside the bridge: where each name's descriptor is, until it is dropped. The test sees what a child has kept.
    struct Outside {
        char names[64][16];
        bool is_kept(const std::string& name) const {
            return std::ranges::any_of(names, [&](const char* its) { return its == name; });
        }
    };
    SharedWith<Outside> outside;
    struct Tokens {
        Shared::Handle first, second;
    };
    SharedWith<Tokens> tokens;
    Ledger ledger;
    std::optional<Shared> shared;

    Shared::Keep keep() const {
        return {[this](const std::string& name, int) {
                    records::step();
                    for (auto& place : outside->names)
                        if (!*place || place == name) {
                            name.copy(place, sizeof place - 1);
                            return true;
                        }
                    return false;
                },
                [this](const std::string& name) {
                    records::step();
                    for (auto& place : outside->names)
                        if (place == name) std::memset(place, 0, sizeof place);
                },
                [this](const std::string& name) { return outside->is_kept(name) ? a_file() : File(); },
                [this](const std::string& prefix) {
                    std::vector<std::string> all;
                    for (const char* name : outside->names)
                        if (std::string(name).starts_with(prefix)) all.emplace_back(name);
                    return all;
                }};
    }
    static File a_file() { return File(open("/dev/null", O_RDONLY | O_CLOEXEC)); }
    static Shared::Handle handle(char first) { return {first}; }
    void begin() {
        outside.clear();
        tokens.clear();
        ledger = Ledger::anonymous(shape());
        shared.emplace(3, ledger.shown(), keep());
    }
    void come_back(const std::function<bool(std::uint32_t)>& lives = [](std::uint32_t) { return true; }) {
        shared.emplace(3, ledger.shown(), keep());
        shared->restore(lives);
    }
    std::size_t kept() const { return keep().names("share-").size(); }
};

TEST_F(KeptShared, ATokenThatWasAnsweredLeadsToTheSameHandle) {
    begin();
    Shared::Handle token = handle('a'), same = handle('a');
    ASSERT_TRUE(shared->offer(1, Shared::Kind::memory, token));
    shared->confirm(token);
    come_back();
    shared->settle(1, false);
    ASSERT_TRUE(shared->find(Shared::Kind::memory, token));
    EXPECT_EQ(shared->find(Shared::Kind::memory, token)->handle, handle('a'));
    EXPECT_EQ(shared->find(Shared::Kind::memory, token)->channel, 1u);
    EXPECT_TRUE(shared->offer(1, Shared::Kind::memory, same));
    EXPECT_EQ(same, token);
    EXPECT_EQ(shared->shares_with(1), 1);
}
TEST_F(KeptShared, ADescriptorIsThereWhereverTheBridgeWasKilled) {
    killed_at_each_store(
        [&] {
            begin();
            Shared::Handle& token = tokens->first;
            shared->offer(1, Shared::Kind::allocation, token, a_file());
            shared->confirm(token);
        },
        [&] {
            Shared::Handle& token = tokens->second;
            shared->offer(1, Shared::Kind::allocation, token, a_file());
            shared->confirm(token);
        },
        [&](bool whole) {
            come_back();
            shared->settle(1, false);
            const Shared::Thing* const thing = shared->find(Shared::Kind::allocation, tokens->first);
            ASSERT_TRUE(thing);
            EXPECT_TRUE(thing->file);
            EXPECT_EQ(shared->size(), whole ? 2u : 1u);
            EXPECT_EQ(kept(), shared->size()) << "no descriptor without a token";
        });
}
TEST_F(KeptShared, AWithdrawnTokenLeavesNoDescriptorAndItsPlaceIsUsedAgain) {
    killed_at_each_store(
        [&] {
            begin();
            for (Shared::Handle* token : {&tokens->first, &tokens->second}) {
                shared->offer(1, Shared::Kind::allocation, *token, a_file());
                shared->confirm(*token);
            }
        },
        [&] { shared->withdraw(1, tokens->first); },
        [&](bool whole) {
            come_back();
            EXPECT_TRUE(shared->find(Shared::Kind::allocation, tokens->second));
            EXPECT_TRUE(!whole || !shared->find(Shared::Kind::allocation, tokens->first));
            shared->withdraw(1, tokens->first);
            EXPECT_EQ(shared->size(), 1u);
            EXPECT_EQ(kept(), 1u);
            for (int i = 0; i < 2; ++i) {
                Shared::Handle more{};
                EXPECT_TRUE(shared->offer(1, Shared::Kind::pool, more, a_file()));
            }
            EXPECT_EQ(ledger.shown().records[1].used, 3u);
        });
}
TEST_F(KeptShared, WhoHasOpenedWhatIsKnownAndForgottenWithEither) {
    killed_at_each_store(
        [&] {
            begin();
            tokens->first = handle('a');
            shared->offer(1, Shared::Kind::memory, tokens->first);
            shared->confirm(tokens->first);
            shared->open(2, Shared::Kind::memory, tokens->first);
            shared->open(3, Shared::Kind::memory, tokens->first);
        },
        [&] { shared->forget(2); },
        [&](bool whole) {
            come_back([](std::uint32_t channel) { return channel != 2; });
            EXPECT_EQ(shared->shares_with(2), -1);
            EXPECT_EQ(shared->shares_with(3), 1);
            EXPECT_EQ(shared->shares_with(1), 3);
            EXPECT_TRUE(!whole || ledger.shown().records[2].opened[0] == 0);
        });
}
TEST_F(KeptShared, OfAClientThatIsGoneNoTokenIsLeft) {
    killed_at_each_store(
        [&] {
            begin();
            shared->offer(1, Shared::Kind::allocation, tokens->first, a_file());
            shared->offer(2, Shared::Kind::allocation, tokens->second, a_file());
            for (char c = 'a'; c < 'f'; ++c) {
                Shared::Handle h = handle(c);
                shared->offer(1, Shared::Kind::memory, h);
            }
        },
        [&] { shared->forget(1); },
        [&](bool) {
            come_back([](std::uint32_t channel) { return channel != 1; });
            shared->settle(2, true);
            EXPECT_EQ(shared->size(), 1u);
            EXPECT_FALSE(shared->find(Shared::Kind::allocation, tokens->first));
            EXPECT_TRUE(shared->find(Shared::Kind::allocation, tokens->second));
            EXPECT_EQ(kept(), 1u);
            come_back();
            EXPECT_EQ(shared->size(), 1u) << "nor for the next client of that channel";
        });
}
TEST_F(KeptShared, NoTokenLeadsToWhatAnEarlierClientOfTheChannelHasShown) {
    killed_at_each_store(
        [&] {
            begin();
            tokens->first = handle('a');
            shared->offer(1, Shared::Kind::memory, tokens->first);
            shared->confirm(tokens->first);
            shared->forget(1);
        },
        [&] {
            tokens->second = handle('b');
            shared->offer(1, Shared::Kind::memory, tokens->second);
            shared->confirm(tokens->second);
        },
        [&](bool whole) {
            come_back();
            EXPECT_FALSE(shared->find(Shared::Kind::memory, tokens->first));
            shared->settle(1, false);
            EXPECT_EQ(shared->size(), whole ? 1u : 0u);
        });
}
TEST_F(KeptShared, ThePagesOfManyTokensGoBackToTheHost) {
    Ledger file;
    ASSERT_EQ(file.make(shape()).text(), "");
    const auto blocks = [&] {
        struct stat st {};
        fstat(file.fd(), &st);
        return st.st_blocks;
    };
    const auto before = blocks();
    Shared many(3, file.shown(), keep());
    for (unsigned n = 0; n < Shared::most; ++n) {
        Shared::Handle h{'x', static_cast<char>(n), static_cast<char>(n >> 8)};
        ASSERT_TRUE(many.offer(1, Shared::Kind::memory, h));
    }
    EXPECT_GT(blocks(), before + 2000);
    many.forget(1);
    EXPECT_LT(blocks(), before + 64);
}
TEST_F(KeptShared, ADescriptorThatCannotBeKeptIsNotOffered) {
    begin();
    Shared::Keep none;
    none.keep = [](const std::string&, int) { return false; };
    shared.emplace(3, ledger.shown(), none);
    Shared::Handle token{};
    EXPECT_FALSE(shared->offer(1, Shared::Kind::allocation, token, a_file()));
    EXPECT_EQ(shared->size(), 0u);
}

}  // namespace
}  // namespace barcuda
