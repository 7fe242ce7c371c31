// SPDX-License-Identifier: Apache-2.0
// requests_test: what the bridge accepts as a request of a worker: a message of a known form, with exactly the length
// of that form; and its answer to each.
#include "host-bridge/bridge/requests.h"

#include <cuda.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <vector>

#include "tests/unit/support/desks.h"
#include "tests/unit/support/scratch.h"

namespace barcuda {
namespace {

template <class M> std::vector<char> bytes_of(const M& message) {
    const char* const first = reinterpret_cast<const char*>(&message);
    return {first, first + sizeof message};
}
std::vector<char> with_form(std::vector<char> message, std::uint32_t form) {
    std::memcpy(message.data(), &form, sizeof form);
    return message;
}

TEST(Requests, AreReadAsTheyWereSent) {
    const auto grant = read_request(bytes_of(Message<request::Grant>{.request = {4096}}));
    ASSERT_TRUE(grant && std::holds_alternative<request::Grant>(*grant));
    EXPECT_EQ(std::get<request::Grant>(*grant).bytes, 4096u);
    const auto repay = read_request(bytes_of(Message<request::Repay>{.request = {3, 5}}));
    ASSERT_TRUE(repay && std::holds_alternative<request::Repay>(*repay));
    EXPECT_EQ(std::get<request::Repay>(*repay).device, 3u);
    EXPECT_EQ(std::get<request::Repay>(*repay).bytes, 5u);
    const auto mapper = read_request(bytes_of(Message<request::Mapper>()));
    EXPECT_TRUE(mapper && std::holds_alternative<request::Mapper>(*mapper));
}

TEST(Requests, OfFormsOfTheSameLengthAreToldApart) {
    static_assert(sizeof(Message<request::Borrow>) == sizeof(Message<request::Repay>));
    const auto borrow = read_request(bytes_of(Message<request::Borrow>{.request = {0, 1}}));
    EXPECT_TRUE(borrow && std::holds_alternative<request::Borrow>(*borrow));
}

TEST(Requests, OfAnUnknownFormAreNone) {
    const std::vector<char> release = bytes_of(Message<request::Release>{.request = {0, 4096}});
    ASSERT_TRUE(read_request(release));
    EXPECT_FALSE(read_request(with_form(release, 0)));
    EXPECT_FALSE(read_request(with_form(release, std::variant_size_v<BridgeRequest> + 1)));
    EXPECT_FALSE(read_request(with_form(release, ~0u)));
}

TEST(Requests, OfAnotherFormsLengthAreNone) {
    const std::vector<char> grant = bytes_of(Message<request::Grant>{.request = {4096}});
    EXPECT_FALSE(read_request(with_form(grant, form_of<request::Release>())));
    EXPECT_FALSE(read_request(with_form(grant, form_of<request::Mapper>())));
}

TEST(Requests, OfAWrongLengthAreNone) {
    const std::vector<char> whole = bytes_of(Message<request::Withdraw>());
    ASSERT_TRUE(read_request(whole));
    for (std::size_t n = 0; n < whole.size(); ++n) EXPECT_FALSE(read_request(std::span(whole).first(n))) << n;
    std::vector<char> longer = whole;
    longer.push_back(0);
    EXPECT_FALSE(read_request(longer));
}

TEST(Requests, ThatSayAnotherLengthThanTheyHaveAreNone) {
    Message<request::Grant> grant{.request = {4096}};
    grant.bytes += 8;
    EXPECT_FALSE(read_request(bytes_of(grant)));
}

TEST(Requests, ForAKindThatThereIsNotAreNone) {
    constexpr auto last = Shared::Kind::pool, none = static_cast<Shared::Kind>(static_cast<std::uint64_t>(last) + 1);
    EXPECT_TRUE(read_request(bytes_of(Message<request::Share>{.request = {last, {}}})));
    EXPECT_FALSE(read_request(bytes_of(Message<request::Share>{.request = {none, {}}})));
    EXPECT_FALSE(read_request(bytes_of(Message<request::Find>{.request = {none, {}}})));
}

// ---- the answers: the test plays the worker
struct RequestsTest : test::DesksTest {
    Client* client = nullptr;
    File link;
    std::uint64_t granule = 0;

    void SetUp() override {
        test::DesksTest::SetUp();
        granule = host.shape().granule;
        script = "exec sleep 3600";  // it reads nothing
        client = &arrive({1});
        link = test::workers_link(*client->worker);
        if (!link) GTEST_SKIP() << "no descriptor of another process may be taken here: " << std::strerror(errno);
        Assignment job;
        ASSERT_EQ(recv(link.fd(), &job, sizeof job, 0), static_cast<ssize_t>(sizeof job));
        EXPECT_EQ(job.channel, client->slot());
        EXPECT_EQ(job.channel_offset, client->channel.offset);
    }
    template <class Request> void send_request(const Request& request, int with = -1) {
        const Message<Request> message{.request = request};
        ASSERT_TRUE(send_message(link.fd(), &message, sizeof message, with));
        requests->receive(*client);
    }
    template <class Request> Answer<Request> ask(const Request& request, int with = -1, File* got = nullptr) {
        send_request(request, with);
        Answer<Request> answer;
        File file;
        EXPECT_EQ(receive_message(link.fd(), &answer, sizeof answer, file, MSG_DONTWAIT),
                  static_cast<ssize_t>(sizeof answer));
        EXPECT_EQ(answer.form, form_of<Request>());
        if (got) *got = std::move(file);
        return answer;
    }
    void is_ended(const char* why) {
        EXPECT_EQ(client->worker->state(), WorkerProcess::State::leaving);
        EXPECT_STREQ(client->channel.status().message, why);
    }
};

TEST_F(RequestsTest, GrantAndReleaseMoveMemoryOfTheRegion) {
    const auto granted = ask(request::Grant{1});
    EXPECT_EQ(granted.error, CUDA_SUCCESS);
    EXPECT_EQ(granted.reply.bytes, granule);
    EXPECT_EQ(grants->held(client->slot()), granule);
    EXPECT_EQ(ask(request::Release{granted.reply.offset, granule}).error, CUDA_SUCCESS);
    EXPECT_EQ(grants->held(client->slot()), 0u);
    EXPECT_EQ(ask(request::Release{granted.reply.offset, granule}).error, CUDA_ERROR_INVALID_VALUE);
}
TEST_F(RequestsTest, MoreThanThereIsIsNotGranted) {
    EXPECT_EQ(ask(request::Grant{host.shape().size}).error, CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_FALSE(client->asked);
}
TEST_F(RequestsTest, MoreThanTheClientMayHaveIsNotGranted) {
    rules.client[Limit::region_memory] = granule;
    EXPECT_EQ(ask(request::Grant{2 * granule}).error, CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(ask(request::Grant{granule}).error, CUDA_SUCCESS);
}
TEST_F(RequestsTest, ASecondGrantIsRefusedWhileTheFirstWaits) {
    client->asked.emplace(granule);
    EXPECT_EQ(ask(request::Grant{granule}).error, CUDA_ERROR_INVALID_VALUE);
    heap->begin_turn();  // which answers the first
    Answer<request::Grant> first;
    EXPECT_EQ(recv(link.fd(), &first, sizeof first, MSG_DONTWAIT), static_cast<ssize_t>(sizeof first));
    EXPECT_EQ(first.reply.bytes, granule);
    EXPECT_FALSE(client->asked);
}
TEST_F(RequestsTest, DeviceMemoryIsLentByTheWorkersNumbersOfItsDevices) {
    rules.client[Limit::device_memory] = 100;
    const auto lent = ask(request::Borrow{0, 60});
    EXPECT_EQ(lent.error, CUDA_SUCCESS);
    EXPECT_EQ(lent.reply.left, 40u);
    EXPECT_EQ(quotas.held(client->slot(), 1), 60u);
    EXPECT_EQ(ask(request::Borrow{0, 41}).error, CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(ask(request::Repay{0, 60}).error, CUDA_SUCCESS);
    EXPECT_EQ(quotas.held(client->slot(), 1), 0u);
}
TEST_F(RequestsTest, NoOtherDevicesMemoryIsLent) {
    EXPECT_EQ(ask(request::Borrow{1, 1}).error, CUDA_ERROR_INVALID_DEVICE);
    EXPECT_EQ(ask(request::Repay{~std::uint64_t{0}, 1}).error, CUDA_ERROR_INVALID_DEVICE);
}
TEST_F(RequestsTest, WhatIsSharedIsFoundByItsTokenUntilItIsWithdrawn) {
    const File given(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    const auto shown = ask(request::Share{Shared::Kind::allocation, {}}, given.fd());
    EXPECT_EQ(shown.error, CUDA_SUCCESS);
    File found;
    EXPECT_EQ(ask(request::Find{Shared::Kind::allocation, shown.reply.token}, -1, &found).error, CUDA_SUCCESS);
    EXPECT_TRUE(found);
    EXPECT_EQ(ask(request::Find{Shared::Kind::pool, shown.reply.token}).error, CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(ask(request::Withdraw{shown.reply.token}).error, CUDA_SUCCESS);
    EXPECT_EQ(ask(request::Find{Shared::Kind::allocation, shown.reply.token}).error, CUDA_ERROR_INVALID_HANDLE);
}
TEST_F(RequestsTest, AMapperWhereTheCageHasNoneEndsItsWorker) {
    send_request(request::Mapper());
    is_ended("the worker reports a mapper, but its cage has none");
}
TEST_F(RequestsTest, AnythingElseEndsTheWorker) {
    ASSERT_EQ(send(link.fd(), "nonsense", 8, 0), 8);
    requests->receive(*client);
    is_ended("the worker sent a request that this version does not know");
}
TEST_F(RequestsTest, ALongerMessageThanAnyRequestEndsTheWorker) {
    std::vector<char> longer = bytes_of(Message<request::Share>());
    longer.resize(longer.size() + 1);
    ASSERT_EQ(send(link.fd(), longer.data(), longer.size(), 0), static_cast<ssize_t>(longer.size()));
    requests->receive(*client);
    is_ended("the worker sent a request that this version does not know");
}
TEST_F(RequestsTest, AWorkerThatReadsNoAnswersEnds) {
    for (int i = 0; i < 100000 && client->is_served(); ++i) send_request(request::Withdraw{});
    is_ended("the worker asks the bridge and does not read the answers");
}

TEST_F(RequestsTest, ForSharedCardsAreRefusedWhereNoneIsShared) {
    EXPECT_EQ(ask(request::Look{}).error, CUDA_ERROR_NOT_SUPPORTED);
    EXPECT_EQ(ask(request::StoreRoom{Rooms::granule}).error, CUDA_ERROR_NOT_SUPPORTED);
    EXPECT_EQ(ask(request::StoreBack{1}).error, CUDA_ERROR_NOT_SUPPORTED);
}

struct SharedRequestsTest : RequestsTest {
    test::Scratch scratch;
    void SetUp() override {
        ASSERT_EQ(book.join(scratch / "cards", 1).text(), "");
        RequestsTest::SetUp();
        if (IsSkipped()) return;
        ASSERT_EQ(cards->listen(loop).text(), "");
        cards->admit(*client);
    }
    // A thread makes the file.
    Answer<request::StoreRoom> room(std::uint64_t bytes, File& file) {
        send_request(request::StoreRoom{bytes});
        Answer<request::StoreRoom> answer;
        ssize_t n = -1;
        for (int turns = 0; n < 0 && turns < 1000; ++turns) {
            n = receive_message(link.fd(), &answer, sizeof answer, file, MSG_DONTWAIT);
            if (n < 0 && loop.wait(std::chrono::milliseconds(100))) loop.dispatch();
        }
        EXPECT_EQ(n, static_cast<ssize_t>(sizeof answer));
        return answer;
    }
};

TEST_F(SharedRequestsTest, ForRoomInTheStoreAreAnsweredByAFile) {
    File file, none;
    const auto given = room(2 * Rooms::granule, file);
    EXPECT_EQ(given.error, CUDA_SUCCESS);
    EXPECT_EQ(given.reply.bytes, 2 * Rooms::granule);
    EXPECT_EQ(lseek(file.fd(), 0, SEEK_END), static_cast<off_t>(2 * Rooms::granule));
    EXPECT_EQ(rooms->held(client->slot()), 2 * Rooms::granule);
    EXPECT_EQ(room(Rooms::granule - 1, none).error, CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(ask(request::StoreBack{given.reply.number + 1}).error, CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(ask(request::StoreBack{(std::uint64_t{1} << 32) + given.reply.number}).error, CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(ask(request::StoreBack{given.reply.number}).error, CUDA_SUCCESS);
    EXPECT_EQ(rooms->held(), 0u);
}

TEST_F(SharedRequestsTest, BeyondALimitFindNoRoomInTheStore) {
    rules.client[Limit::store_memory] = Rooms::granule;
    File file, none;
    EXPECT_EQ(room(3 * Rooms::granule, file).reply.bytes, Rooms::granule);
    EXPECT_EQ(room(Rooms::granule, none).error, CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_FALSE(none);
    EXPECT_EQ(client->worker->sheet().cards[0].store_pressed, 1u);
}

TEST_F(SharedRequestsTest, MakeTheBridgeLookAtTheCards) {
    CardPlace& place = client->worker->sheet().cards[0];
    place.needs = Rooms::granule;
    place.wish = 1;
    EXPECT_EQ(ask(request::Look{}).error, CUDA_SUCCESS);
    EXPECT_EQ(place.granted, 1u);
    EXPECT_EQ(place.promised, Rooms::granule);
}

}  // namespace
}  // namespace barcuda
