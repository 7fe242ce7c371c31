// SPDX-License-Identifier: Apache-2.0
// client_test: what the bridge writes down of a client and of its worker's last request, how a client goes on from
// that, and what is read of the client's page. (How clients start and end: clients_test.)
#include "host-bridge/bridge/client.h"

#include <cuda.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <iterator>
#include <memory>
#include <string>

#include "shm-device/queue/sync.h"
#include "tests/unit/support/region_fixture.h"
#include "tests/unit/support/shell_worker.h"

namespace barcuda {
namespace {

using testing::HasSubstr;

struct ClientTest : RegionTest {
    Channel guests, channel;  // as the guest has it, and as the bridge
    Twice<KeptClient> book;
    Twice<KeptRequest> requests;
    std::unique_ptr<Client> client;
    File link;  // the worker's end, if the test is to speak for it

    void SetUp() override {
        RegionTest::SetUp();
        ASSERT_FALSE(open_guest());
        ASSERT_FALSE(guest.open_channel(guests));
        ASSERT_FALSE(host.map_channel(guests.index, channel));
        channel.opening = guests.opening;
        client = std::make_unique<Client>(channel, -1, 7, Client::Books{&book, &requests});
    }
    void TearDown() override { records::before_store = nullptr; }
    void give_worker(std::vector<int> devices = {0}) {
        client->worker = test::start_worker("exec sleep 3600", std::move(devices));
        ASSERT_TRUE(client->worker);
        client->record.worker = client->worker->pid();
    }
    KeptClient written() {
        client->write_down();
        return book.get();
    }
    // A client of the next bridge's, of the same channel.
    std::unique_ptr<Client> next(const KeptClient& from) {
        auto other = std::make_unique<Client>(channel, -1, 7, Client::Books{&book, &requests});
        other->restore(from);
        return other;
    }
    static std::span<const char> bytes(const std::string& text) { return {text.data(), text.size()}; }
};

// ---- what is written down
TEST_F(ClientTest, OneWithoutAWorkerIsWrittenDownOnlyIfItWasRefused) {
    EXPECT_EQ(written().state, KeptClient::none) << "it is met again";
    client->end(Client::Ending::refused, "no such device");
    EXPECT_EQ(book.get().state, KeptClient::ended);
    EXPECT_EQ(book.get().record().end, End::refused);
}
TEST_F(ClientTest, OneWithAWorkerIsWrittenDownWithItsDevicesAndWhatIsReserved) {
    give_worker({1, 0});
    client->base = 0x1000;
    client->told = true;
    client->own[1] = 9;
    for (std::uint64_t i = 0; i < Preparation::most + 1; ++i) client->worker->reserved.push_back({i << 25, 1 << 25});
    const KeptClient kept = written();
    EXPECT_EQ(kept.state, KeptClient::assigned);
    EXPECT_EQ(kept.opening, channel.opening);
    EXPECT_EQ(kept.number, 7u);
    EXPECT_EQ(kept.worker, client->worker->pid());
    EXPECT_NE(kept.worker_start, 0u);
    EXPECT_EQ(kept.base, 0x1000u);
    EXPECT_TRUE(kept.told);
    ASSERT_EQ(kept.device_count, 2u);
    EXPECT_EQ(kept.devices[0], 1);
    EXPECT_EQ(kept.limits()[1], 9u);
    EXPECT_EQ(kept.reserved[Preparation::most - 1].offset, (Preparation::most - 1) << 25);
    client->worker.reset();
    EXPECT_EQ(written().state, KeptClient::ended);
}
TEST_F(ClientTest, AnEndIsWrittenDownAsItHappens) {
    give_worker();
    client->end_worker("it broke the protocol");
    EXPECT_EQ(book.get().record().how, "it broke the protocol");
    EXPECT_EQ(book.get().record().end, End::died);
}
TEST_F(ClientTest, ABridgeThatStopsEndsNoClientInTheBooks) {
    give_worker();
    written();
    client->end(Client::Ending::stopped, "the bridge has been stopped");
    EXPECT_FALSE(book.get().record().end);
    EXPECT_EQ(channel.status().state, static_cast<barcuda_u32>(BARCUDA_STATE_GONE));
    EXPECT_EQ(channel.status().fatal_error, CUDA_ERROR_DEVICE_UNAVAILABLE);
}

// ---- how a later bridge goes on
TEST_F(ClientTest, GoesOnAsItWasWrittenDown) {
    give_worker();
    client->base = 0x1000;
    client->told = true;
    client->own[2] = 0;
    const auto after = next(written());
    EXPECT_TRUE(after->goes_on);
    EXPECT_TRUE(after->told);
    EXPECT_EQ(after->base, 0x1000u);
    EXPECT_EQ(after->own, client->own);
    EXPECT_EQ(after->record.worker, client->worker->pid());
    EXPECT_FALSE(after->has_ended());
    after->worker = std::move(client->worker);
    const std::uint64_t start = book.get().worker_start;
    kill(after->worker->pid(), SIGKILL);
    test::await_end(*after->worker);
    after->worker->reap();
    after->write_down();
    EXPECT_EQ(book.get().worker_start, start) << "of a process that has gone it is not read again";
}
TEST_F(ClientTest, ThreadsOfOneThatEndedAreToldByTheNextBridge) {
    for (const auto& [how, state] : {std::pair(Client::Ending::refused, BARCUDA_STATE_REFUSED),
                                     std::pair(Client::Ending::died, BARCUDA_STATE_DEAD)}) {
        client = next({});
        client->end(how, "for that");
        publish(channel.status().state, static_cast<barcuda_u32>(BARCUDA_STATE_NEW));  // killed before it said so
        const auto after = next(book.get());
        EXPECT_EQ(channel.status().state, static_cast<barcuda_u32>(state));
        EXPECT_STREQ(channel.status().message, "for that");
        publish(channel.status().state, static_cast<barcuda_u32>(BARCUDA_STATE_NEW));
        book.set({});
    }
}

// ---- requests and answers
TEST_F(ClientTest, ARequestIsWrittenDownUntilItIsAnswered) {
    give_worker();
    link = test::workers_link(*client->worker);
    if (!link) GTEST_SKIP() << "no descriptor of another process may be taken here: " << std::strerror(errno);
    client->begin_request(5, bytes("what it asks"), 77);
    KeptRequest kept = client->request();
    EXPECT_EQ(kept.state, KeptRequest::asked);
    EXPECT_EQ(kept.number, 5u);
    EXPECT_EQ(kept.lent, 77u);
    EXPECT_EQ(std::string(kept.message, kept.bytes), "what it asks");

    Answer<request::Grant> answer;
    answer.reply = {4096, 8192};
    client->answer<request::Grant>(answer);
    kept = client->request();
    EXPECT_EQ(kept.state, KeptRequest::answered);
    Answer<request::Grant> got, again;
    ASSERT_EQ(recv(link.fd(), &got, sizeof got, MSG_DONTWAIT), static_cast<ssize_t>(sizeof got));
    EXPECT_EQ(got.number, 5u) << "of the request";
    EXPECT_EQ(got.reply.bytes, 8192u);
    const auto after = next(written());
    after->worker = std::move(client->worker);
    after->repeat(after->request());
    ASSERT_EQ(recv(link.fd(), &again, sizeof again, MSG_DONTWAIT), static_cast<ssize_t>(sizeof again));
    EXPECT_EQ(std::memcmp(&got, &again, sizeof got), 0);
}
TEST_F(ClientTest, AnAnswerIsWrittenDownBeforeItIsSent) {
    give_worker();
    link = test::workers_link(*client->worker);
    if (!link) GTEST_SKIP() << "no descriptor of another process may be taken here: " << std::strerror(errno);
    client->begin_request(1, bytes("it asks"), 0);
    static int files;
    static bool sent_early;
    files = link.fd();
    sent_early = false;
    records::before_store = [] {
        char first;
        sent_early |= recv(files, &first, 1, MSG_DONTWAIT | MSG_PEEK) > 0;
    };
    client->answer<request::Release>({});
    records::before_store = nullptr;
    EXPECT_FALSE(sent_early);
    char text[256];
    EXPECT_GT(recv(link.fd(), text, sizeof text, MSG_DONTWAIT), 0);
}
TEST_F(ClientTest, AMessageWithoutANumberLeavesTheLastRequestAsItIs) {
    client->begin_request(5, bytes("what it asks"), 0);
    client->begin_request(0, bytes("a mapper"), 0);
    EXPECT_EQ(client->request().number, 5u);
    EXPECT_EQ(client->request().state, KeptRequest::asked);
}
TEST_F(ClientTest, AnAnswerToAWorkerThatHasEndedIsNoReasonForAnEnd) {
    client->worker = test::start_worker("exit 0");
    ASSERT_TRUE(client->worker);
    client->record.worker = client->worker->pid();
    test::await_end(*client->worker);
    client->begin_request(1, bytes("it asks"), 0);
    client->answer<request::Release>({});
    EXPECT_FALSE(client->has_ended()) << "its end is heard elsewhere, with the reason";
    EXPECT_EQ(client->request().state, KeptRequest::answered);
}
TEST_F(ClientTest, WithoutBooksNothingIsWrittenDown) {
    client = std::make_unique<Client>(channel, -1, 7);
    client->record.worker = 1;
    client->write_down();
    client->begin_request(1, bytes("it asks"), 0);
    EXPECT_EQ(client->request().state, KeptRequest::none);
}

// ---- what is read of the client's page and of its worker's sheet
TEST_F(ClientTest, NamesOfAPageThatLacksTheirEndsEnd) {
    barcuda_client& page = guests.client();
    page.pid = 4711;
    std::memset(page.program, 'p', sizeof page.program);
    std::memset(page.user, 'u', sizeof page.user);
    client->introduce();
    EXPECT_EQ(client->record.pid, 4711u);
    EXPECT_EQ(client->record.program, std::string(sizeof page.program, 'p'));
    EXPECT_EQ(client->record.user, std::string(sizeof page.user, 'u'));
}
TEST_F(ClientTest, HasWatchedOnceForEachTimeThatItAsks) {
    EXPECT_FALSE(client->has_watched());
    publish(guests.client().watching, guests.client().watching + 1);
    EXPECT_TRUE(client->has_watched());
    EXPECT_FALSE(client->has_watched());
}
TEST_F(ClientTest, ItsRecordHasTheMostAndTheLast) {
    client->note(100);
    client->note(50);
    EXPECT_EQ(client->record.most_region_memory, 100u);
    give_worker({1, 0});
    Sheet& sheet = client->worker->sheet();
    sheet.counts.launches = 3;
    sheet.device_memory_most[0] = 10;
    sheet.device_memory_most[1] = 20;
    sheet.device_memory_most[2] = 40;  // it has no third
    client->note(0);
    EXPECT_EQ(client->record.counts.launches, 3u);
    EXPECT_EQ(client->record.most_device_memory, 30u);
}

}  // namespace
}  // namespace barcuda
