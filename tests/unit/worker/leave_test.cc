// SPDX-License-Identifier: Apache-2.0
// leave_test: what a worker answers to a bridge that carries its client, and what becomes of the requests between the
// two meanwhile. (What is carried, and whether it comes again: births_carried_test.)
#include "host-bridge/worker/leave.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "host-bridge/worker/carried_format.h"
#include "host-bridge/worker/wake.h"
#include "tests/unit/support/bridge_end.h"
#include "tests/unit/support/loopback.h"

namespace barcuda {
namespace {

using carrying::Wanted;
using carrying::Which;
using testing::HasSubstr;

// Another worker of this process has its client's region there.
constexpr std::uint64_t elsewhere = fake::ground_base + (std::uint64_t{1} << 30);

struct LeaveTest : Loopback {
    CodeStore code;
    Station station{ground.session};
    const File files[3] = {file(), file(), file()};
    std::optional<MemoryRelay> relay;
    LeaveTest() {
        ground.session.record_births(code);
        signal(SIGPIPE, SIG_IGN);  // as in a worker
    }
    static File file() { return File(memfd_create("part", MFD_CLOEXEC)); }
    void hand_over() {
        for (const File& file : files) EXPECT_TRUE(ftruncate(file.fd(), 0) == 0 && lseek(file.fd(), 0, SEEK_SET) == 0);
        for (const Which part : {Which::births, Which::code}) station.hand(part, files[static_cast<int>(part)].fd());
        relay.emplace().into(files[2]);
        station.hand(Which::memory, relay->take_socket(true).fd());
        station.hand(Which::room, relay->room().fd());
    }
    void write() {
        hand_over();
        station.order(Wanted::write);
        if (able()) relay->join();
    }
    bool able() const { return station.place.able == 1; }
    std::string what() const { return station.place.what; }
    // The same, for another worker.
    BridgeLink::Parts again() {
        BridgeLink::Parts parts;
        for (std::size_t i = 0; i < 2; ++i) {
            EXPECT_EQ(0, lseek(files[i].fd(), 0, SEEK_SET));
            parts[i] = File(dup(files[i].fd()));
        }
        EXPECT_EQ(0, lseek(files[2].fd(), 0, SEEK_SET));
        relay.emplace().from(files[2]);
        parts[2] = relay->take_socket(false);
        parts[3] = File(dup(relay->room().fd()));
        return parts;
    }
    Failure wakes(Session& session, Carried& carried) {
        BridgeLink::Parts parts = again();
        return wake(session, code, parts, station.place, carried);
    }
    void ask_for_memory() {
        station.channel.supply().bytes = BARCUDA_GRANULE;
        publish(station.channel.supply().asked, observe(station.channel.supply().asked) + 1);
    }
};

// ---- orders
TEST_F(LeaveTest, AClientThatCanBeCarriedIsAble) {
    station.hand(Which::none);
    station.order(Wanted::check);
    EXPECT_TRUE(able());
    EXPECT_EQ(what(), "");
    EXPECT_EQ(0, lseek(files[0].fd(), 0, SEEK_END)) << "nothing is written";
}
TEST_F(LeaveTest, WhatStandsInTheWayIsToldWithItsCureUntilItIsGone) {
    CUdeviceptr at = 0;
    ASSERT_TRUE((call<Op::cuMemAllocAsync>(&at, std::size_t{64}, CUstream{}).ok()));
    station.order(Wanted::check);
    EXPECT_FALSE(able());
    EXPECT_THAT(what(), HasSubstr("cuMemAllocAsync"));
    EXPECT_THAT(station.place.cure, HasSubstr("free it"));
    write();
    EXPECT_FALSE(able());
    EXPECT_EQ(0, lseek(files[0].fd(), 0, SEEK_END));
    ASSERT_TRUE((call<Op::cuMemFreeAsync>(at, CUstream{}).ok()));
    write();
    EXPECT_TRUE(able()) << what();
    EXPECT_EQ(std::string(station.place.cure), "");
}
TEST_F(LeaveTest, ACommandThatWasPutBackIsTheNextWorkersAndOneThatIsUnderWayStandsInTheWay) {
    virtqueue::Driver<> queue{virtqueue::in_channel(station.memory.get())};
    const RequestHead head{static_cast<std::uint32_t>(Op::cuCtxSynchronize), 0};
    std::memcpy(station.channel.commands(), &head, sizeof head);
    const virtqueue::Buffer chain[] = {{station.channel.offset + BARCUDA_COMMANDS_OFFSET, sizeof head, false}};
    queue.post(chain);
    const auto command = station.reader.next();
    ASSERT_TRUE(command);
    write();
    EXPECT_FALSE(able());
    EXPECT_THAT(what(), HasSubstr("under way"));
    station.reader.put_back(*command);
    write();
    EXPECT_TRUE(able()) << what();
    ChannelReader next(station.channel, {}, station.reader.state());
    const auto again = next.next();
    ASSERT_TRUE(again);
    EXPECT_EQ(head.op, again->head.op);
    EXPECT_EQ(command->chain.sequence, again->chain.sequence);
}
TEST_F(LeaveTest, WithoutItsDescriptorsNothingIsWritten) {
    station.hand(Which::births, files[0].fd());
    station.hand(Which::memory, files[2].fd());
    station.order(Wanted::write);
    EXPECT_THAT(what(), HasSubstr("too few descriptors"));
    write();
    EXPECT_TRUE(able()) << what();
}
TEST_F(LeaveTest, AnOrderThatMakesNoSenseIsRefused) {
    station.order(static_cast<Wanted>(9));
    EXPECT_FALSE(able());
    station.order(Wanted::read);
    EXPECT_FALSE(able());
}
TEST_F(LeaveTest, AnOrderThatWasTakenBackTakesNoDescriptorsOfTheNextOne) {
    hand_over();
    station.order(Wanted::nothing);
    EXPECT_FALSE(able());
    EXPECT_FALSE(station.leave.rests());
    station.order(Wanted::write);
    EXPECT_TRUE(able()) << what();
}
TEST_F(LeaveTest, AReaderThatHasGoneEndsTheAttempt) {
    int ends[2];
    ASSERT_EQ(0, pipe(ends));
    close(ends[0]);
    hand_over();
    station.hand(Which::births, ends[1]);  // in place of the first one
    close(ends[1]);
    station.order(Wanted::write);
    EXPECT_FALSE(able());
    EXPECT_THAT(what(), HasSubstr("births cannot be written"));
}
TEST_F(LeaveTest, AReaderMayReadEachPartToItsEndBeforeTheNext) {
    std::vector<File> ends;
    relay.emplace().into(files[2]);
    station.hand(Which::memory, relay->take_socket(true).fd());
    station.hand(Which::room, relay->room().fd());
    for (std::size_t i = 0; i < 2; ++i) {
        int pair[2];
        ASSERT_EQ(0, pipe2(pair, O_NONBLOCK));
        while (i != 0 && ::write(pair[1], "full", 4) > 0) {}  // the worker waits for the reader
        for (const int end : pair) ASSERT_EQ(0, fcntl(end, F_SETFL, 0));
        ends.emplace_back(pair[0]);
        station.hand(static_cast<Which>(i), pair[1]);
        close(pair[1]);
    }
    std::thread reader([&] {
        char bytes[4096];
        for (const File& end : ends)
            while (::read(end.fd(), bytes, sizeof bytes) > 0) {}
    });
    station.order(Wanted::write);
    reader.join();
    EXPECT_TRUE(able()) << what();
}
TEST_F(LeaveTest, ALongTextIsCut) {
    Hindrance much{std::string(1000, 'x'), std::string(1000, 'y')};
    answer(station.place, 1, much);
    EXPECT_EQ(what(), std::string(sizeof station.place.what - 1, 'x'));
    EXPECT_EQ(std::string(station.place.cure), std::string(sizeof station.place.cure - 1, 'y'));
}

// ---- ahead (what a running client passes on: births_carried_ahead_test)
TEST_F(LeaveTest, AHeldClientPassesNothingOnAheadAndItsReaderHearsThat) {
    for (const bool was_checked : {false, true}) {  // and the bridge answers nothing meanwhile
        if (was_checked) {
            station.hand(Which::none);
            station.order(Wanted::check);
        }
        Conveyor::Ends ends;
        Conveyor taker;
        ASSERT_EQ(Conveyor::make(2, ends).text(), "");
        ASSERT_EQ(taker.open(std::move(ends.taker), ends.room, std::chrono::milliseconds(1)).text(), "");
        station.hand(Which::memory, ends.filler.fd(), true);
        station.hand(Which::room, ends.room.fd(), true);
        ends.filler = File();
        station.order(Wanted::ahead);
        EXPECT_FALSE(able());
        EXPECT_EQ(what(), "the client is held");
        EXPECT_TRUE(taker.has_word()) << "the reader would wait";
        Conveyor::Word word;
        EXPECT_FALSE(taker.hear(word));
    }
    write();
    EXPECT_TRUE(able()) << what();
}
TEST_F(LeaveTest, HandsForWhatGoesAheadLeaveARequestItsAnswer) {
    Conveyor::Ends ends;
    ASSERT_EQ(Conveyor::make(2, ends).text(), "");
    std::uint64_t offset = 0, granted = 0;
    CUresult result{};
    std::thread asks([&] { result = station.link.grant(BARCUDA_GRANULE, offset, granted); });
    const auto asked = station.hear<request::Grant>();
    station.hand(Which::memory, ends.filler.fd(), true);
    station.hand(Which::room, ends.room.fd(), true);
    station.answer(Answer<request::Grant>{.reply = {3 * BARCUDA_GRANULE, BARCUDA_GRANULE}}, asked.number);
    asks.join();
    EXPECT_EQ(result, CUDA_SUCCESS);
    EXPECT_EQ(offset, 3 * BARCUDA_GRANULE);
    BridgeLink::Parts parts;
    EXPECT_TRUE(station.link.take_ahead(parts));
    EXPECT_FALSE(station.link.take_ahead(parts)) << "they are taken once";
}

// ---- requests meanwhile
TEST_F(LeaveTest, ARequestThatWaitsIsLeftAndItsAnswerIsUsedLater) {
    std::uint64_t offset = 0, granted = 0;
    CUresult result{};
    std::thread asks([&] { result = station.link.grant(BARCUDA_GRANULE, offset, granted); });
    const auto asked = station.hear<request::Grant>();
    station.hand(Which::none);
    asks.join();
    EXPECT_EQ(result, CUDA_ERROR_NOT_READY);
    EXPECT_EQ(station.link.grant(BARCUDA_GRANULE, offset, granted), CUDA_ERROR_NOT_READY) << "at once";
    station.order(Wanted::check);
    station.answer(Answer<request::Grant>{.reply = {3 * BARCUDA_GRANULE, BARCUDA_GRANULE}}, asked.number);
    station.leave.go_on();
    EXPECT_EQ(station.link.grant(BARCUDA_GRANULE, offset, granted), CUDA_SUCCESS);
    EXPECT_EQ(offset, 3 * BARCUDA_GRANULE);
    char byte;
    EXPECT_EQ(-1, recv(station.ends[0], &byte, 1, MSG_DONTWAIT)) << "it asks no second time";
}
// The bridge takes an order back before the worker has looked, and lets the client run.
TEST_F(LeaveTest, WhatWasHandedOverForAnOrderThatWasTakenBackStopsNoRequest) {
    station.hand(Which::births, files[0].fd(), false, 1);
    station.place.order = 1;
    station.place.wanted = Wanted::nothing;
    station.leave.go_on();
    std::uint64_t offset = 0, granted = 0;
    CUresult result{};
    std::thread asks([&] { result = station.link.grant(BARCUDA_GRANULE, offset, granted); });
    const auto asked = station.hear<request::Grant>();
    station.answer(Answer<request::Grant>{.reply = {3 * BARCUDA_GRANULE, BARCUDA_GRANULE}}, asked.number);
    asks.join();
    EXPECT_EQ(result, CUDA_SUCCESS);
    EXPECT_EQ(granted, BARCUDA_GRANULE);
}
TEST_F(LeaveTest, ARequestThatFoundSuchAnOrderIsAskedAgainWhenTheClientRuns) {
    station.hand(Which::births, files[0].fd(), false, 1);
    std::uint64_t offset = 0, granted = 0;
    EXPECT_EQ(station.link.grant(BARCUDA_GRANULE, offset, granted), CUDA_ERROR_NOT_READY);
    const auto asked = station.hear<request::Grant>();
    station.place.order = 1;
    station.place.wanted = Wanted::nothing;
    station.leave.go_on();
    station.answer(Answer<request::Grant>{.reply = {3 * BARCUDA_GRANULE, BARCUDA_GRANULE}}, asked.number);
    EXPECT_EQ(station.link.grant(BARCUDA_GRANULE, offset, granted), CUDA_SUCCESS);
    station.hand(Which::births, files[0].fd(), false, 2);  // and the next order has no part of it
    station.order(Wanted::write);
    EXPECT_THAT(what(), HasSubstr("too few descriptors"));
}
TEST_F(LeaveTest, AnAnswerThatComesBetweenTwoAttemptsIsNotLost) {
    std::uint64_t offset = 0, granted = 0;
    std::thread asks([&] { station.link.grant(BARCUDA_GRANULE, offset, granted); });
    const auto asked = station.hear<request::Grant>();
    station.hand(Which::none);
    asks.join();
    station.order(Wanted::check);
    station.answer(Answer<request::Grant>{.reply = {3 * BARCUDA_GRANULE, BARCUDA_GRANULE}}, asked.number);
    station.hand(Which::none);
    station.order(Wanted::check);
    station.leave.go_on();
    EXPECT_EQ(station.link.grant(BARCUDA_GRANULE, offset, granted), CUDA_SUCCESS);
    EXPECT_EQ(offset, 3 * BARCUDA_GRANULE);
}
TEST_F(LeaveTest, AGrantThatIsNotWantedAnyMoreIsReleased) {
    std::uint64_t offset = 0, granted = 0, left = 0;
    std::thread asks([&] { station.link.grant(BARCUDA_GRANULE, offset, granted); });
    const auto asked = station.hear<request::Grant>();
    station.hand(Which::none);
    asks.join();
    station.order(Wanted::check);
    station.leave.go_on();
    station.answer(Answer<request::Grant>{.reply = {3 * BARCUDA_GRANULE, BARCUDA_GRANULE}}, asked.number);
    std::thread bridge([&] {
        const auto release = station.hear<request::Release>();
        EXPECT_EQ(release.request.offset, 3 * BARCUDA_GRANULE);
        station.answer(Answer<request::Release>{}, release.number);
        const auto borrow = station.hear<request::Borrow>();
        station.answer(Answer<request::Borrow>{.reply = {77}}, borrow.number);
    });
    EXPECT_TRUE(station.link.borrow(0, 1, left));
    bridge.join();
    EXPECT_EQ(left, 77u);
}
TEST_F(LeaveTest, AFileForTheStoreThatComesTooLateIsGivenBack) {
    std::uint64_t number = 0, bytes = request::store_granule, left = 0;
    File room;
    CUresult result{};
    std::thread asks([&] { result = station.link.store_room(number, bytes, room); });
    const auto asked = station.hear<request::StoreRoom>();
    station.hand(Which::none);
    asks.join();
    EXPECT_EQ(result, CUDA_ERROR_NOT_READY);
    station.order(Wanted::check);
    station.leave.go_on();
    station.answer(Answer<request::StoreRoom>{.reply = {7, request::store_granule}}, asked.number);
    std::thread bridge([&] {
        const auto back = station.hear<request::StoreBack>();
        EXPECT_EQ(back.request.number, 7u);
        station.answer(Answer<request::StoreBack>{}, back.number);
        const auto borrow = station.hear<request::Borrow>();
        station.answer(Answer<request::Borrow>{.reply = {77}}, borrow.number);
    });
    EXPECT_TRUE(station.link.borrow(0, 1, left));
    bridge.join();
}
TEST_F(LeaveTest, AClientThatAsksForMemoryHoldsNothingUpAndIsAnsweredByTheNextWorker) {
    station.supply.begin();
    ask_for_memory();
    station.hear<request::Grant>();  // and the bridge answers nothing
    write();
    ASSERT_TRUE(able()) << what();
    EXPECT_TRUE(station.supply.asked());
    fake::Ground other{elsewhere};
    other.session.record_births(code);
    Carried carried;
    ASSERT_EQ("", wakes(other.session, carried).text());
    const Supply next(station.channel.supply(), {}, other, other.extents, carried.supply);
    EXPECT_TRUE(next.asked());
}
TEST_F(LeaveTest, AClientThatGoesOnHereIsAnsweredAgain) {
    station.supply.begin();
    write();
    ASSERT_TRUE(able()) << what();
    ask_for_memory();
    EXPECT_TRUE(station.leave.rests());
    station.leave.go_on();
    EXPECT_FALSE(station.leave.rests());
    const auto asked = station.hear<request::Grant>();
    station.answer(Answer<request::Grant>{.error = CUDA_ERROR_INVALID_VALUE}, asked.number);
    while (station.supply.asked()) std::this_thread::yield();
}

// ---- the next worker
TEST_F(LeaveTest, TheNextWorkerHasTheQueuesPlaceTheExtentsAndTheObjects) {
    const CUstream s = stream();
    write();
    ASSERT_TRUE(able()) << what();
    fake::Ground other{elsewhere};
    other.session.record_births(code);
    Carried carried;
    ASSERT_EQ("", wakes(other.session, carried).text());
    EXPECT_EQ(carried.queue, station.reader.state());
    EXPECT_EQ(carried.extents, ground.extents.all());
    CUstream same = nullptr;
    EXPECT_TRUE(other.session.find(id(s), same).ok());
}
TEST_F(LeaveTest, TheNextWorkerHasTheNumbersByWhichTheProgramNamesItsCommands) {
    ClientRows::State rows = ground.session.client_rows().state();
    std::rotate(rows.begin(), rows.begin() + 1, rows.end());
    ground.session.client_rows().restore(rows);
    write();
    ASSERT_TRUE(able()) << what();
    fake::Ground other{elsewhere};
    other.session.record_births(code);
    Carried carried;
    ASSERT_EQ("", wakes(other.session, carried).text());
    EXPECT_EQ(other.session.client_rows().state(), rows);
    EXPECT_EQ(other.session.client_rows().ours(0), 1u);
}
TEST_F(LeaveTest, AProgramThatUsesACommandWhichThisBuildLacksIsNotWoken) {
    ClientRows::State rows = ground.session.client_rows().state();
    rows.push_back({0x4711, "cuOther", true});
    ground.session.client_rows().restore(rows);
    write();
    ASSERT_TRUE(able()) << what();
    fake::Ground other{elsewhere};
    other.session.record_births(code);
    Carried carried;
    const std::string text = wakes(other.session, carried).text();
    EXPECT_THAT(text, HasSubstr("its program uses cuOther, which barcuda"));
    EXPECT_THAT(text, HasSubstr("wake it with the build that wrote it"));
}
TEST_F(LeaveTest, PartsThatAreCutAreNamed) {
    for (const auto& [part, name] : {std::pair(0, "births"), {2, "memory"}}) {
        write();
        const off_t whole = lseek(files[part].fd(), 0, SEEK_END);
        ASSERT_EQ(0, ftruncate(files[part].fd(), whole - 8));
        fake::Ground other{elsewhere};
        other.session.record_births(code);
        Carried carried;
        EXPECT_EQ(wakes(other.session, carried).text(), std::string("its ") + name + " ends too early");
    }
}

}  // namespace
}  // namespace barcuda
