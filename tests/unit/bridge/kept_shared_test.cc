// SPDX-License-Identifier: Apache-2.0
// kept_shared_test: what a new bridge reads from the books of what clients share when the earlier one was killed before
// any of its stores.
#include "host-bridge/bridge/ledger.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "tests/unit/support/killed.h"
#include "tests/unit/support/small_region.h"

namespace barcuda {
namespace {

using test::killed_at_each_store;
using test::shape;
using test::SharedWith;
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
