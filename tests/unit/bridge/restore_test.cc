// SPDX-License-Identifier: Apache-2.0
// restore_test: a bridge is killed before any of its stores while a client is admitted, asks, ends or is reclaimed, and
// the next one goes on from its books. The workers go on, as a keeper has them.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <map>
#include <optional>
#include <string>

#include "host-bridge/bridge/ledger.h"
#include "tests/unit/support/desks.h"
#include "tests/unit/support/sanitized.h"

namespace barcuda {
namespace {

using testing::HasSubstr;
using State = WorkerProcess::State;

struct Killed {};
unsigned stores_left = 0;

struct RestoreTest : test::DesksTest {
    Ledger ledger;
    std::map<std::uint32_t, std::unique_ptr<WorkerProcess>> keeper;  // the workers of clients, by slot
    std::vector<std::unique_ptr<WorkerProcess>> waiting;             // those of none
    bool reserves = false;                                           // a worker that starts has memory prepared
    Totals own_totals;
    std::optional<Quotas> own_quotas;
    std::optional<Shared> own_shared;
    std::map<std::string, File> kept;  // descriptors of what clients share

    void SetUp() override {
        test::DesksTest::SetUp();
        begin();
    }
    void TearDown() override { records::before_store = nullptr; }

    // A bridge with books that are empty.
    void begin() {
        Ledger made;
        ASSERT_EQ(made.make(host.shape()).text(), "");
        ledger = std::move(made);
        own_totals = {};
        kept.clear();
        build();
    }
    Shared::Keep keep() {
        return {[this](const std::string& name, int fd) {
                    records::step();
                    kept[name] = File(fcntl(fd, F_DUPFD_CLOEXEC, 0));
                    return true;
                },
                [this](const std::string& name) {
                    records::step();
                    kept.erase(name);
                },
                [this](const std::string& name) {
                    const auto found = kept.find(name);
                    return found == kept.end() ? File() : File(fcntl(found->second.fd(), F_DUPFD_CLOEXEC, 0));
                },
                [this](const std::string& prefix) {
                    std::vector<std::string> names;
                    for (const auto& [name, file] : kept)
                        if (name.starts_with(prefix)) names.push_back(name);
                    return names;
                }};
    }
    void build() {
        own_quotas.emplace(ledger.accounts());
        own_shared.emplace(2, ledger.shown(), keep());
        grants.emplace(
            host.shape(), host.host_grants(), [](std::uint64_t, std::uint64_t) {}, ledger.granules());
        clients.emplace(host, Clients::Books{*grants, *own_shared, *own_quotas, own_totals, &ledger}, -1, "",
                        [this](std::uint32_t slot, pid_t worker) { roster.emplace_back(slot, worker); });
        pool.emplace(
            WarmOptions{.least = 0}, loop, [this](const std::vector<int>& devices) { return start(devices); },
            [this](Grants::Run run) { grants->release(run); });
        acceptor.emplace(*clients, *pool, *limits, *heap, gpus, own_totals, [] { return false; });
        requests.emplace(Requests::Desks{*clients, *grants, *own_shared, *own_quotas, *limits, *heap, *cards}, loop);
    }
    std::unique_ptr<WorkerProcess> start(const std::vector<int>& devices) {
        auto worker = test::start_worker(script, devices);
        if (reserves)
            if (const Grants::Run run = grants->reserve(host.shape().granule); run.bytes) worker->reserved = {run};
        return worker;
    }
    // The bridge is killed before the n-th store of an action. False: the action has come to its end.
    template <class Action> bool killed(unsigned n, const Action& action) {
        stores_left = n;
        records::before_store = [] {
            if (stores_left-- == 0) {
                records::before_store = nullptr;
                throw Killed();
            }
        };
        try {
            action();
        } catch (const Killed&) { return true; }
        records::before_store = nullptr;
        return false;
    }
    // The next bridge. Workers whose clients the books do not know waited for one, and are ended.
    void come_back() {
        clients->each([&](Client& client) {
            if (client.worker) keeper[client.slot()] = std::move(client.worker);
        });
        clients.reset();
        Ledger next;
        ASSERT_EQ(next.open(File(fcntl(ledger.fd(), F_DUPFD_CLOEXEC, 0))).text(), "");
        ledger = std::move(next);
        own_totals = {};
        build();
        clients->restore([this](std::uint32_t slot, const KeptClient& its) -> std::unique_ptr<WorkerProcess> {
            const auto found = keeper.find(slot);
            if (found == keeper.end()) return nullptr;
            EXPECT_EQ(found->second->pid(), its.worker);
            found->second->reserved.clear();
            auto worker = std::move(found->second);
            keeper.erase(found);
            return worker;
        });
        keeper.clear();
        clients->each([this](Client& client) { acceptor->restore(client); });  // the order of Resuming::restore()
        grants->release_reserves();
        clients->each([this](Client& client) { requests->restore(client); });
    }
    std::uint64_t all() const { return host.shape().granule_count * host.shape().granule; }
    void reclaim_all() {
        for (int tries = 0; tries < 2; ++tries) {
            clients->each([](Client& client) {
                if (client.worker && client.worker->is_leaving()) test::await_end(*client.worker);
            });
            turn();
        }
    }
};

TEST_F(RestoreTest, AClientGoesOnAsItWas) {
    arrive({1});
    Client& before = arrive({1, 0});
    const std::uint32_t slot = before.slot();
    const pid_t worker = before.worker->pid();
    const std::string text = before.record.text();
    const auto number = before.number;
    grants->confirm(grants->grant(slot, host.shape().granule));
    before.own[2] = 77;
    before.own[4] = 0;
    before.record.most_region_memory = 123;
    before.write_down();
    publish(host.host_slots()[slot].served, 0u);  // as its guest may write
    come_back();
    Client& client = *(*clients)[slot];
    ASSERT_TRUE(client.worker);
    EXPECT_EQ(client.worker->pid(), worker);
    EXPECT_EQ(client.record.text(), text);
    EXPECT_EQ(client.record.worker, worker);
    EXPECT_EQ(client.record.most_region_memory, 123u);
    EXPECT_FALSE(client.record.end);
    EXPECT_EQ(client.number, number);
    EXPECT_EQ(client.own[2], 77u);
    EXPECT_EQ(client.own[4], 0u) << "no limit, said so";
    EXPECT_FALSE(client.own[3]);
    EXPECT_EQ(client.channel.opening, host.slots()[slot].opened);
    EXPECT_EQ(host.slots()[slot].served, client.channel.opening);
    EXPECT_EQ(grants->held(slot), host.shape().granule);
    EXPECT_EQ(own_totals.came, 2u);
    EXPECT_EQ(clients->served(), 2u);
    EXPECT_EQ(arrive().number, number + 1);
    EXPECT_EQ(own_totals.came, 3u);
}
TEST_F(RestoreTest, AClientThatWaitsForItsWorkerIsMetAgain) {
    const Channel channel = open();
    clients->look([](Client&) {});
    come_back();
    EXPECT_FALSE((*clients)[channel.index]);
    turn();
    EXPECT_TRUE((*clients)[channel.index]->worker);
    EXPECT_EQ(own_totals.came, 1u);
}
// Whichever store it was: the client has one worker, which is told of it, and what the worker had prepared.
TEST_F(RestoreTest, AnAdmissionIsWholeOrBeginsAgain) {
    reserves = true;
    unsigned n = 0, again = 0;
    for (bool was_killed = true; was_killed; ++n) {
        SCOPED_TRACE("killed before store " + std::to_string(n));
        Channel channel = open();
        was_killed = killed(n, [&] { turn(); });
        Client* const before = (*clients)[channel.index];
        const pid_t first = before && before->worker ? before->worker->pid() : 0;
        come_back();
        turn();
        Client* const client = (*clients)[channel.index];
        ASSERT_TRUE(client && client->worker);
        again += client->worker->pid() != first;
        EXPECT_TRUE(client->told);
        EXPECT_TRUE(client->worker->reserved.empty());
        EXPECT_EQ(client->channel.status().state, BARCUDA_STATE_NEW);
        EXPECT_EQ(own_totals.came, 1u);
        EXPECT_EQ(grants->held(channel.index), host.shape().granule);
        EXPECT_EQ(grants->held() + grants->free(), all()) << "nothing is reserved any more";
        guest.close_channel(channel);
        turn();
        reclaim_all();
        ASSERT_EQ(grants->free(), all());
        begin();
    }
    EXPECT_GT(n, 8u);
    EXPECT_GT(again, 0u);
    EXPECT_LT(again, n);
}
TEST_F(RestoreTest, ARefusalIsWholeOrBeginsAgain) {
    unsigned n = 0;
    for (bool was_killed = true; was_killed; ++n) {
        SCOPED_TRACE("killed before store " + std::to_string(n));
        Channel channel = open({7});
        was_killed = killed(n, [&] { turn(); });
        come_back();
        turn();
        Client* const client = (*clients)[channel.index];
        ASSERT_TRUE(client);
        EXPECT_EQ(channel.status().state, BARCUDA_STATE_REFUSED);
        EXPECT_THAT(channel.status().message, HasSubstr("a device that does not exist"));
        EXPECT_EQ(client->record.end, End::refused);
        EXPECT_EQ(own_totals.came, 0u);
        guest.close_channel(channel);
        turn();
        EXPECT_EQ(own_totals.went[static_cast<unsigned>(End::refused)], 1u);
        begin();
    }
    EXPECT_GT(n, 3u);
}
TEST_F(RestoreTest, AWorkerThatWasToldToEndEndsAndTheReasonIsKept) {
    unsigned n = 0;
    for (bool was_killed = true; was_killed; ++n) {
        SCOPED_TRACE("killed before store " + std::to_string(n));
        Channel channel = open();
        turn();
        const std::uint32_t slot = channel.index;
        was_killed = killed(n, [&] { (*clients)[slot]->end_worker("it broke the protocol"); });
        come_back();
        Client& client = *(*clients)[slot];
        if (client.record.end) {
            EXPECT_EQ(client.record.how, "it broke the protocol");
            EXPECT_TRUE(client.worker->is_leaving());
            EXPECT_STREQ(channel.status().message, "it broke the protocol");
            test::await_end(*client.worker);
            clients->reap_workers();
            come_back();
            EXPECT_EQ((*clients)[slot]->record.how, "it broke the protocol");
            EXPECT_FALSE((*clients)[slot]->worker);
        } else {
            EXPECT_TRUE(client.is_served());
            EXPECT_EQ(channel.status().state, BARCUDA_STATE_NEW);
        }
        guest.close_channel(channel);
        turn();
        reclaim_all();
        begin();
    }
    EXPECT_GT(n, 3u);
}
TEST_F(RestoreTest, AWorkerThatHasDiedMeanwhileEndsItsClientWithTheReason) {
    const Channel channel = open(), other = open();
    turn();
    for (const Channel& c : {channel, other}) {
        kill((*clients)[c.index]->worker->pid(), SIGKILL);
        test::await_end(*(*clients)[c.index]->worker);
    }
    (*clients)[other.index]->worker->reap();
    (*clients)[other.index]->worker.reset();  // of this one nothing is left
    come_back();
    clients->worker_ended(*(*clients)[channel.index]);
    EXPECT_STREQ(channel.status().message, "the worker process was killed by signal 9 (Killed)");
    EXPECT_EQ(channel.status().state, BARCUDA_STATE_DEAD);
    EXPECT_THAT(other.status().message, HasSubstr("ended while the bridge was restarted"));
    EXPECT_EQ(other.status().state, BARCUDA_STATE_DEAD);
    come_back();
    EXPECT_EQ((*clients)[channel.index]->record.end, End::died);
    EXPECT_EQ((*clients)[other.index]->record.end, End::died);
}
TEST_F(RestoreTest, AWorkerThatWasKilledBecauseItsClientHasLeftIsNoFault) {
    Channel channel = open();
    turn();
    const std::uint32_t slot = channel.index;
    guest.close_channel(channel);
    kill((*clients)[slot]->worker->pid(), SIGKILL);
    test::await_end(*(*clients)[slot]->worker);
    come_back();
    ASSERT_TRUE((*clients)[slot] && (*clients)[slot]->worker);
    EXPECT_TRUE((*clients)[slot]->worker->is_leaving());
    reclaim_all();
    EXPECT_FALSE((*clients)[slot]);
    EXPECT_EQ(own_totals.went[static_cast<unsigned>(End::left)], 1u);
    EXPECT_EQ(own_totals.went[static_cast<unsigned>(End::died)], 0u);
}
TEST_F(RestoreTest, AClientThatHasLeftIsReclaimedAndCountedOnce) {
    unsigned n = 0;
    for (bool was_killed = true; was_killed; ++n) {
        SCOPED_TRACE("killed before store " + std::to_string(n));
        Channel channel = open();
        turn();
        const std::uint32_t slot = channel.index;
        grants->confirm(grants->grant(slot, host.shape().granule));
        (*clients)[slot]->worker->sheet().counts.launches = 7;
        roster.clear();
        guest.close_channel(channel);
        was_killed = killed(n, [&] {
            turn();
            reclaim_all();
        });
        come_back();
        reclaim_all();
        EXPECT_FALSE((*clients)[slot]);
        EXPECT_THAT(roster, testing::Contains(testing::Pair(slot, 0))) << "orders to pause are forgotten, too";
        EXPECT_EQ(host.slots()[slot].reclaimed, host.slots()[slot].closed);
        EXPECT_EQ(ledger.clients().records[slot].get().state, KeptClient::none);
        EXPECT_EQ(grants->free(), all());
        EXPECT_EQ(own_totals.came, 1u);
        EXPECT_EQ(own_totals.went[static_cast<unsigned>(End::left)], 1u);
        EXPECT_EQ(own_totals.counts.launches, 7u);
        come_back();
        EXPECT_EQ(own_totals.came, 1u);
        EXPECT_EQ(own_totals.counts.launches, 7u);
        begin();
    }
    EXPECT_GT(n, 6u);
}

TEST_F(RestoreTest, AClientWhoseChannelCannotBeMappedHearsOfItsEndWhenItCan) {
    if (sanitized) GTEST_SKIP() << "a sanitizer maps memory itself";
    const Channel channel = open();
    turn();
    const std::uint32_t slot = channel.index;
    keeper[slot] = std::move((*clients)[slot]->worker);
    clients.reset();
    build();
    rlimit before{};
    getrlimit(RLIMIT_AS, &before);
    const rlimit none{1, before.rlim_max};
    setrlimit(RLIMIT_AS, &none);
    clients->restore([](auto...) { return nullptr; });
    setrlimit(RLIMIT_AS, &before);
    EXPECT_FALSE((*clients)[slot]);
    EXPECT_EQ(channel.status().state, BARCUDA_STATE_NEW);
    clients->look([](Client&) {}, Clients::Clock::now() + std::chrono::seconds(2));
    ASSERT_TRUE((*clients)[slot]);
    EXPECT_EQ(channel.status().state, BARCUDA_STATE_DEAD);
    EXPECT_EQ((*clients)[slot]->record.end, End::died);
    EXPECT_EQ(own_totals.came, 1u);
}

// ---- what a worker asks
struct RepeatedRequests : RestoreTest {
    File link;  // the worker's end
    Channel channel;
    std::uint64_t number = 0;

    void SetUp() override {
        script = "exec sleep 3600";  // it reads nothing
        RestoreTest::SetUp();
    }
    void TearDown() override { RestoreTest::TearDown(); }
    Client& client() { return *(*clients)[channel.index]; }
    void arrive() {
        channel = open({1, 0});
        turn();
        number = 0;
        link = test::workers_link(*client().worker);
        Assignment job;
        if (!link) return;
        ASSERT_EQ(recv(link.fd(), &job, sizeof job, 0), static_cast<ssize_t>(sizeof job));
    }
    void leave() {
        guest.close_channel(channel);
        turn();
        reclaim_all();
    }
    template <class Request> void tell(const Request& request, int with = -1) {
        const Message<Request> message{.number = ++number, .request = request};
        ASSERT_TRUE(send_message(link.fd(), &message, sizeof message, with));
    }
    bool is_asked() const {
        char byte;
        return recv(client_link(), &byte, 1, MSG_DONTWAIT | MSG_PEEK) > 0;
    }
    int client_link() const { return (*clients)[channel.index]->worker->link(); }
    // As a worker hears it: what is no answer to its last request it leaves out.
    template <class Request> std::optional<Answer<Request>> hear() {
        for (Answer<Request> answer;;) {
            File file;
            const ssize_t bytes = receive_message(link.fd(), &answer, sizeof answer, file, MSG_DONTWAIT);
            if (bytes < 0) return {};
            if (bytes == sizeof answer && answer.number == number) return answer;
        }
    }
    template <class Request> Answer<Request> ask(const Request& request, int with = -1) {
        tell(request, with);
        requests->receive(client());
        const auto answer = hear<Request>();
        EXPECT_TRUE(answer);
        return answer.value_or(Answer<Request>());
    }
    // Asks a bridge that is killed before each of its stores; the next one answers, and `look` sees the answer.
    template <class Request> void at_each_store(const std::function<Request()>& begin_with, bool with_file,
                                                const std::function<void(const Answer<Request>&)>& look) {
        const File file(::open("/dev/null", O_RDONLY | O_CLOEXEC));
        unsigned n = 0;
        for (bool was_killed = true; was_killed; ++n) {
            SCOPED_TRACE("killed before store " + std::to_string(n));
            arrive();
            if (!link) GTEST_SKIP() << "no descriptor of another process may be taken here";
            tell(begin_with(), with_file ? file.fd() : -1);
            was_killed = killed(n, [&] { requests->receive(client()); });
            come_back();
            ASSERT_TRUE(client().is_served());
            while (is_asked()) requests->receive(client());
            const auto answer = hear<Request>();
            ASSERT_TRUE(answer) << "the worker would wait for ever";
            look(*answer);
            EXPECT_EQ(ask(request::Withdraw{}).error, 0) << "and the next request is answered";
            leave();
            EXPECT_EQ(grants->free(), all());
            EXPECT_EQ(own_shared->size(), 0u);
            EXPECT_TRUE(kept.empty());
            begin();
        }
        EXPECT_GT(n, 6u);
    }
};

TEST_F(RepeatedRequests, AGrantIsOneGrant) {
    at_each_store<request::Grant>(
        [this] { return request::Grant{2 * host.shape().granule}; }, false,
        [this](const auto& answer) {
            EXPECT_EQ(answer.error, 0);
            EXPECT_EQ(answer.reply.bytes, 2 * host.shape().granule);
            EXPECT_EQ(grants->held(channel.index), answer.reply.bytes);
            EXPECT_TRUE(grants->let_map(channel.index, {answer.reply.offset, answer.reply.bytes}));
        });
}
TEST_F(RepeatedRequests, AReleaseIsOneRelease) {
    at_each_store<request::Release>(
        [this] {
            const auto granted = ask(request::Grant{2 * host.shape().granule});
            return request::Release{granted.reply.offset, granted.reply.bytes};
        },
        false,
        [this](const auto& answer) {
            EXPECT_EQ(answer.error, 0);
            EXPECT_EQ(grants->held(channel.index), 0u);
        });
}
TEST_F(RepeatedRequests, MemoryIsLentOnce) {
    rules.client[Limit::device_memory] = 100;
    at_each_store<request::Borrow>(
        [this] {
            ask(request::Borrow{0, 20});
            return request::Borrow{0, 60};
        },
        false,
        [this](const auto& answer) {
            EXPECT_EQ(answer.error, 0);
            EXPECT_EQ(answer.reply.left, 20u);
            EXPECT_EQ(own_quotas->lent(channel.index, 1), 80u);
        });
}
TEST_F(RepeatedRequests, MemoryIsRepaidOnce) {
    at_each_store<request::Repay>(
        [this] {
            ask(request::Borrow{1, 60});
            return request::Repay{1, 25};
        },
        false,
        [this](const auto& answer) {
            EXPECT_EQ(answer.error, 0);
            EXPECT_EQ(own_quotas->lent(channel.index, 0), 35u);
        });
}
struct SharedDescriptors : RepeatedRequests {
    void are_shared_once(Shared::Kind kind) {
        at_each_store<request::Share>(
            [kind] {
                return request::Share{kind, {}};
            },
            true,
            [this, kind](const auto& answer) {
                EXPECT_EQ(answer.error, 0);
                EXPECT_TRUE(own_shared->find(kind, answer.reply.token));
                EXPECT_EQ(own_shared->size(), 1u);
                EXPECT_EQ(kept.size(), 1u);
            });
    }
};
TEST_F(SharedDescriptors, OfAnAllocation) { are_shared_once(Shared::Kind::allocation); }
TEST_F(SharedDescriptors, OfAHandle) { are_shared_once(Shared::Kind::memory); }
TEST_F(RepeatedRequests, AGrantThatWaitsIsAnsweredByTheNextBridge) {
    arrive();
    if (!link) GTEST_SKIP() << "no descriptor of another process may be taken here";
    tell(request::Grant{host.shape().granule});
    client().begin_request(1, {}, 0);
    Message<request::Grant> message{.number = 1, .request = {host.shape().granule}};
    client().begin_request(1, {reinterpret_cast<const char*>(&message), sizeof message}, 0);
    client().asked.emplace(host.shape().granule);
    come_back();
    while (is_asked()) requests->receive(client());
    const auto answer = hear<request::Grant>();
    ASSERT_TRUE(answer);
    EXPECT_EQ(grants->held(channel.index), host.shape().granule);
}

}  // namespace
}  // namespace barcuda
