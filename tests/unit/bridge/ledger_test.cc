// SPDX-License-Identifier: Apache-2.0
// ledger_test: the bridge's books as a file, and what a new bridge reads from them. (What is granted, lent and shared:
// kept_grants_test, kept_shared_test. What each class makes of its records otherwise is in its own test.)
#include "host-bridge/bridge/ledger.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "tests/unit/support/killed.h"
#include "tests/unit/support/small_region.h"

namespace barcuda {
namespace {

using test::granule;
using test::granules;
using test::killed_at_each_store;
using test::shape;
using test::SharedWith;
using testing::HasSubstr;
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

}  // namespace
}  // namespace barcuda
