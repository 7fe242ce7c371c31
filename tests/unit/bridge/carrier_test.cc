// SPDX-License-Identifier: Apache-2.0
// carrier_test: how the bridge orders a worker to carry its client away, how it gives a client to a new worker, and
// what it makes of what workers say about that. The test plays the worker.
#include "host-bridge/bridge/carrier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "host-bridge/between/conveyor.h"
#include "tests/unit/support/desks.h"
#include "tests/unit/support/suspended_set.h"

namespace barcuda {
namespace {

using carrying::Hand;
using carrying::Wanted;
using carrying::Which;
using testing::HasSubstr;

struct CarrierTest : test::DesksTest {
    std::optional<Carrier> carrier{std::in_place};
    Client* client = nullptr;
    File link;  // the worker's end
    std::vector<File> ends;

    void SetUp() override {
        DesksTest::SetUp();
        script = "exec sleep 3600";  // it reads nothing
        client = &arrive();
        link = test::workers_link(*client->worker);
        if (!link) GTEST_SKIP() << "no descriptor of another process may be taken here: " << std::strerror(errno);
        Assignment job;
        ASSERT_EQ(recv(link.fd(), &job, sizeof job, 0), static_cast<ssize_t>(sizeof job));
    }
    CarryPlace& place() const { return client->worker->sheet().carry; }
    std::string order(bool check) {
        ends.clear();
        return carrier->order(*client, check, ends).text();
    }
    // The next part that was handed to the worker, and its descriptor; nothing: none was.
    std::optional<std::pair<Which, File>> handed(bool ahead = false) const {
        Hand hand;
        File file;
        const ssize_t n = receive_message(link.fd(), &hand, sizeof hand, file, MSG_DONTWAIT);
        if (n < 0) return {};
        EXPECT_EQ(n, static_cast<ssize_t>(sizeof hand));
        EXPECT_EQ(hand.form, Hand::right_form);
        EXPECT_EQ(hand.ahead, ahead ? 1u : 0u);
        EXPECT_GT(hand.number, 0u);
        return std::pair(hand.part, std::move(file));
    }
    void says(std::uint32_t order, bool able, const std::string& what = {}, const std::string& cure = {}) const {
        place().able = able;
        what.copy(place().what, sizeof place().what);  // which may lack its zero
        cure.copy(place().cure, sizeof place().cure);
        publish(place().done, order);
    }
    SuspendRow row() const {
        SuspendRow row{};
        carrier->look(*client, row);
        return row;
    }
    static std::string text_of(int file) {
        std::string all;
        char text[1 << 16];
        for (ssize_t n; (n = read(file, text, sizeof text)) > 0;) all.append(text, static_cast<std::size_t>(n));
        return all;
    }
};

// ---- out
TEST_F(CarrierTest, ACheckIsAnOrderWithoutDescriptors) {
    EXPECT_EQ(row().state, SuspendRow::waiting) << "there was no order";
    EXPECT_EQ(order(true), "");
    const auto hand = handed();
    ASSERT_TRUE(hand) << "a worker that waits for an answer looks when a message comes";
    EXPECT_EQ(hand->first, Which::none);
    EXPECT_FALSE(hand->second);
    EXPECT_FALSE(handed());
    EXPECT_TRUE(ends.empty());
    EXPECT_EQ(place().wanted, Wanted::check);
    EXPECT_EQ(place().order, 1u);
}
TEST_F(CarrierTest, ToWriteTheWorkerGetsTwoPipesAndAConveyor) {
    EXPECT_EQ(order(false), "");
    ASSERT_EQ(ends.size(), carrying::parts);
    std::vector<File> parts;
    for (unsigned part = 0; part < carrying::parts; ++part) {
        auto hand = handed();
        ASSERT_TRUE(hand);
        EXPECT_EQ(hand->first, static_cast<Which>(part));
        parts.push_back(std::move(hand->second));
    }
    EXPECT_FALSE(handed());
    Conveyor filler, taker;
    ASSERT_EQ(filler.open(std::move(parts[2]), parts[3]).text(), "");
    ASSERT_EQ(taker.open(std::move(ends[2]), ends[3]).text(), "");
    std::memcpy(filler.slot(1).data(), "bytes", 5);
    EXPECT_TRUE(filler.say({1, 5}));
    Conveyor::Word word;
    ASSERT_TRUE(taker.hear(word));
    EXPECT_EQ(word.slot, 1u);
    EXPECT_EQ(std::memcmp(taker.slot(1).data(), "bytes", word.bytes), 0);
    for (const int pipe : {0, 1}) EXPECT_EQ(write(parts[pipe].fd(), "bytes", 5), 5);
    parts.clear();
    for (const int pipe : {0, 1})
        EXPECT_EQ(text_of(ends[pipe].fd()), "bytes") << "and the bridge keeps no end that writes";
    EXPECT_EQ(place().wanted, Wanted::write);
    EXPECT_EQ(place().order, 1u);
}
TEST_F(CarrierTest, ToPassOnAheadTheWorkerGetsAConveyorForAClientThatRuns) {
    EXPECT_EQ(carrier->order_ahead(*client, ends).text(), "");
    ASSERT_EQ(ends.size(), 2u);
    for (const Which part : {Which::memory, Which::room}) {
        const auto hand = handed(true);
        ASSERT_TRUE(hand);
        EXPECT_EQ(hand->first, part);
        EXPECT_TRUE(hand->second);
    }
    EXPECT_FALSE(handed());
    EXPECT_EQ(place().wanted, Wanted::ahead);
    EXPECT_EQ(place().order, 1u);
    Conveyor taker;
    EXPECT_EQ(taker.open(std::move(ends[0]), ends[1]).text(), "");
    Conveyor::Word word;
    EXPECT_FALSE(taker.hear(word)) << "the bridge keeps no end that fills";
}
TEST_F(CarrierTest, AWorkerOfAnEarlierBuildIsOrderedNothing) {
    client->worker->sheet().orders.link = Orders::link_of_this_build - 1;
    EXPECT_THAT(carrier->order_ahead(*client, ends).text(), HasSubstr("its worker is of an earlier build"));
    EXPECT_THAT(order(false), HasSubstr("its worker is of an earlier build"));
    EXPECT_FALSE(handed());
    EXPECT_EQ(place().order, 0u);
    EXPECT_EQ(row().state, SuspendRow::waiting);
}
TEST_F(CarrierTest, AWorkerThatHasEndedIsNamedByThePartThatItDoesNotTake) {
    link = File();
    kill(client->worker->pid(), SIGKILL);
    test::await_end(*client->worker);
    EXPECT_THAT(order(false), HasSubstr("its worker does not take the descriptor of its births"));
    EXPECT_THAT(order(true), HasSubstr("its worker does not take an order"));
    EXPECT_EQ(place().order, 2u) << "what it may have taken of them is no other order's";
    EXPECT_EQ(place().wanted, Wanted::nothing);
}
TEST_F(CarrierTest, AnAnswerIsThatOfTheLastOrderAlone) {
    order(true);
    EXPECT_EQ(row().state, SuspendRow::busy);
    says(1, true);
    EXPECT_EQ(row().state, SuspendRow::able);
    order(false);
    EXPECT_EQ(row().state, SuspendRow::busy) << "it has answered the first";
    says(2, false, "its module is lost", "load it again");
    const SuspendRow its = row();
    EXPECT_EQ(its.state, SuspendRow::hindered);
    EXPECT_STREQ(its.text, "its module is lost");
    EXPECT_STREQ(its.cure, "load it again");
    says(77, true);
    EXPECT_EQ(row().state, SuspendRow::busy) << "there was no such order";
}
TEST_F(CarrierTest, AWorkersTextsEndThoughItWritesNoEnd) {
    order(true);
    says(1, true, std::string(1000, 'x'), std::string(1000, 'y'));
    place().able = 2;  // neither yes nor no
    const SuspendRow its = row();
    EXPECT_EQ(its.state, SuspendRow::hindered);
    EXPECT_EQ(its.text, std::string(sizeof its.text - 1, 'x'));
    EXPECT_EQ(its.cure, std::string(sizeof its.cure - 1, 'y'));
}
TEST_F(CarrierTest, AnOrderThatIsWithdrawnIsNone) {
    order(false);
    carrier->withdraw(*client);
    EXPECT_EQ(place().wanted, Wanted::nothing);
    EXPECT_EQ(place().order, 1u) << "the next one has another number";
    order(true);
    EXPECT_EQ(place().order, 2u);
}

// ---- back
struct GivingTest : CarrierTest {
    SetReader set;
    std::string memory = std::string(3 << 20, 'm');  // more than a pipe takes, and than a frame has

    void SetUp() override {
        CarrierTest::SetUp();
        if (IsSkipped()) return;
        Description description;
        description.base = region_base;
        description.size = region_size;
        description.clients = {client->slot()};
        test::write_set(scratch / "set", description, [this](const std::string& name) {
            if (name.ends_with("memory.zst")) return test::framed(memory);
            return name.ends_with(".zst") ? test::framed("of " + name) : "of " + name;
        });
        ASSERT_EQ(set.open(scratch / "set").text(), "");
        ASSERT_EQ(set.verify().text(), "");
        carrier->announce(*client);
    }
};

TEST_F(GivingTest, ANewWorkerGetsEachPartFromItsBeginning) {
    EXPECT_EQ(place().wanted, Wanted::read);
    for (int attempt = 0; attempt < 2; ++attempt) {  // the second bridge's
        ASSERT_EQ(carrier->give(*client, set).text(), "");
        for (const Which part : {Which::births, Which::code}) {
            const auto hand = handed();
            ASSERT_TRUE(hand);
            EXPECT_EQ(hand->first, part);
            EXPECT_THAT(text_of(hand->second.fd()), HasSubstr(std::string(carrying::name_of(part))));
        }
        auto socket = handed(), room = handed();
        ASSERT_TRUE(socket && room);
        EXPECT_EQ(socket->first, Which::memory);
        EXPECT_EQ(room->first, Which::room);
        Conveyor taker;
        ASSERT_EQ(taker.open(std::move(socket->second), room->second).text(), "");
        std::map<std::uint32_t, std::string> frames;  // which come in any order, each in the slot of its turn
        Conveyor::Word word;
        while (taker.hear(word) && word.slot != Conveyor::Word::end) {
            frames[word.slot].assign(reinterpret_cast<const char*>(taker.slot(word.slot).data()), word.bytes);
            EXPECT_TRUE(taker.say({word.slot, 0}));
        }
        std::string all;
        for (const auto& [slot, bytes] : frames) all += bytes;
        EXPECT_TRUE(all == memory) << all.size();
    }
}
TEST_F(GivingTest, AWorkerThatStopsReadingHarmsNobody) {
    ASSERT_EQ(carrier->give(*client, set).text(), "");
    for (auto hand = handed(); hand; hand = handed()) continue;  // all its descriptors close
    carrier.reset();                                             // and the thread that writes ends
}
TEST_F(GivingTest, AWorkerThatHasEndedIsSaid) {
    link = File();
    kill(client->worker->pid(), SIGKILL);
    test::await_end(*client->worker);
    EXPECT_THAT(carrier->give(*client, set).text(), HasSubstr("does not take the descriptor of its births"));
}
TEST_F(GivingTest, TheClientIsBackWhenItsWorkerSaysSo) {
    std::string why;
    EXPECT_EQ(carrier->returned(*client, why), Carrier::Returned::not_yet);
    says(1, false, "its memory has another hash");
    EXPECT_EQ(carrier->returned(*client, why), Carrier::Returned::failed);
    EXPECT_EQ(why, "its memory has another hash");
    says(1, true);
    EXPECT_EQ(carrier->returned(*client, why), Carrier::Returned::able);
}

}  // namespace
}  // namespace barcuda
