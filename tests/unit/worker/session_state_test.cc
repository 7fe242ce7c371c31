// SPDX-License-Identifier: Apache-2.0
// session_state_test: a worker that goes on where another one has stopped answers as if there were one worker. Random
// programs of a client run twice, over a queue, a session and a supply each time: once with one worker, once with
// workers that replace each other between commands. What the client reads must be the same.
#include "host-bridge/worker/session_state.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "host-bridge/worker/execute.h"
#include "tests/unit/support/channel_memory.h"
#include "tests/unit/support/fake_driver.h"
#include "tests/unit/support/sample.h"
#include "tests/unit/support/sanitized.h"

namespace barcuda {
namespace {

constexpr std::uint64_t granule = BARCUDA_GRANULE;
constexpr std::uint64_t channel_offset = BARCUDA_CHANNELS_OFFSET;

// What a client's region and bridge keep while workers start and end: its channel, and the granules that it was
// granted.
struct Kept : Granter {
    ChannelMemory memory = channel_memory();
    Channel channel;
    std::uint64_t next = 8 * granule;
    Kept() {
        channel.memory = memory.get();
        channel.offset = channel_offset;
    }
    CUresult grant(std::uint64_t bytes, std::uint64_t& offset, std::uint64_t& got) override {
        offset = next;
        got = bytes;
        next += bytes;
        return CUDA_SUCCESS;
    }
    void release(std::uint64_t, std::uint64_t) override {}
    CUresult share(Shared::Kind, Shared::Handle&, const File&) override { return CUDA_ERROR_NOT_SUPPORTED; }
    CUresult find_shared(Shared::Kind, Shared::Handle&, File&) override { return CUDA_ERROR_NOT_SUPPORTED; }
    void withdraw(const Shared::Handle&) override {}
};

struct Worker {
    const Driver driver = fake::driver();
    Extents extents{-1, fake::ground_base};
    Session session;
    SessionScope scope{session};
    Supply supply;
    ChannelReader reader;

    static Preparation two_extents() {
        Preparation prepared{};
        for (std::uint64_t i = 0; i < Preparation::most; ++i) prepared.extents[i] = {(i + 1) * granule, granule};
        return prepared;
    }
    explicit Worker(Kept& kept)
        : session(driver, extents, kept, kept.channel.status(), &kept.channel.calls()),
          supply(kept.channel.supply(), {}, kept, extents, two_extents()),
          reader(kept.channel) {}
    Worker(Kept& kept, const SessionState& state)
        : session(driver, extents, kept, kept.channel.status(), &kept.channel.calls()),
          supply(kept.channel.supply(), {}, kept, extents, state.supply),
          reader(kept.channel, {}, state.queue) {
        EXPECT_TRUE(session.restore(state.session));
    }
    std::optional<SessionState> state() { return take_state(reader, supply, session); }

    // All that is in the queue, as serve() does it.
    void serve() {
        while (const auto command = reader.next()) {
            Writer reply(reader.reply_room(*command));
            const Verdict verdict = perform(session, command->head, command->body, command->wants_reply(), reply);
            ASSERT_FALSE(verdict.lie);
            reader.answer(*command, verdict.result, verdict.ok() ? reply.used() : 0);
        }
        ASSERT_EQ(reader.lie(), "");
        reader.flush();
        if (supply.asked()) supply.serve();
    }
};

// A client, and the worker that it has at the moment.
struct Client {
    Kept kept;
    virtqueue::Driver<> queue{virtqueue::in_channel(kept.channel.memory)};
    std::unique_ptr<Worker> worker = std::make_unique<Worker>(kept);
    sample::Guest guest;
    std::vector<std::uint64_t> seen;  // all that it has read, in order

    void part() {
        const auto state = worker->state();
        ASSERT_TRUE(state);
        worker.reset();
        worker = std::make_unique<Worker>(kept, *state);
        EXPECT_EQ(worker->state(), state) << "what was put in does not come out again";
    }

    template <Op op, class... Given> CUresult call(Given... given) {
        using R = RowOf<op>;
        typename R::Arguments arguments{given...};
        typename R::Parameters parameters{};
        return [&]<std::size_t... I>(std::index_sequence<I...>) {
            std::vector<std::byte> body((std::size_t{0} + ... + std::get<I>(parameters).room(arguments)));
            Writer w(body);
            (std::get<I>(parameters).send(w, arguments, guest), ...);
            const auto [result, reply] = send(op, body, R::how == How::call);
            Reader r(reply);
            if (result == CUDA_SUCCESS) (std::get<I>(parameters).receive(r, arguments, guest), ...);
            return result;
        }
        (std::make_index_sequence<R::count>{});
    }
    std::pair<CUresult, std::span<const std::byte>> send(Op op, std::span<const std::byte> body, bool waits) {
        char* const at = kept.channel.commands();
        const std::uint64_t offset = channel_offset + BARCUDA_COMMANDS_OFFSET;
        const RequestHead head{static_cast<std::uint32_t>(op), 0};
        const auto bytes = static_cast<std::uint32_t>(sizeof head + body.size());
        std::memcpy(at, &head, sizeof head);
        std::memcpy(at + sizeof head, body.data(), body.size());
        constexpr std::uint32_t room = 4096;
        const virtqueue::Buffer chain[] = {{offset, bytes, false}, {offset + padded(bytes), room, true}};
        const std::uint64_t number = queue.post(std::span(chain, waits ? 2 : 1));
        worker->serve();
        EXPECT_EQ(queue.reap(), number);
        EXPECT_FALSE(queue.broken());
        seen.push_back(observe(kept.channel.status().posted_count));
        if (!waits) return {};
        ReplyHead answer;
        std::memcpy(&answer, at + padded(bytes), sizeof answer);
        seen.push_back(static_cast<std::uint64_t>(answer.result));
        return {static_cast<CUresult>(answer.result),
                {reinterpret_cast<const std::byte*>(at + padded(bytes) + sizeof answer), answer.bytes}};
    }
    void ask_for_memory() {
        barcuda_supply& page = kept.channel.supply();
        page.bytes = granule;
        publish(page.asked, observe(page.asked) + 1);
        worker->serve();
        EXPECT_EQ(observe(page.answered), observe(page.asked)) << "the request is not answered";
        seen.push_back(page.offset);
    }
    // The GPU's work waits for a function of the program.
    void run_function(std::uint64_t function) {
        barcuda_calls& page = kept.channel.calls();
        const std::uint64_t before = observe(page.asked);
        std::atomic<bool> returned = false;
        std::jthread gpu([&] {
            Calls::run(Calls::as_data(function));
            returned = true;
        });
        while (observe(page.asked) == before && !returned) std::this_thread::yield();
        publish(page.done, observe(page.asked));
        gpu.join();
        seen.push_back(observe(page.asked));
        seen.push_back(page.function);
    }
};

// A client that makes objects, uses them, and drops them, and some that it does not have.
class Program {
  public:
    Program(Client& client, unsigned seed) : client_(client), random_(seed) {}

    void step() {
        switch (random_() % 40) {
            case 0: return client_.run_function(random_());  // a thread each
            case 1:
            case 2: return client_.ask_for_memory();
            default: return use_objects();
        }
    }

  private:
    void use_objects() {
        switch (random_() % 10) {
            case 0: return made(streams_, client_.call<Op::cuStreamCreateWithPriority>(&stream_, 0u, 0), stream_);
            case 1: return made(events_, client_.call<Op::cuEventCreate>(&event_, 0u), event_);
            case 2: return made(graphs_, client_.call<Op::cuGraphCreate>(&graph_, 0u), graph_);
            case 3: return add_node();
            case 4: return add_node();
            case 5:
                if (CUgraphNode node = take(nodes_)) client_.call<Op::cuGraphDestroyNode>(node);
                return;
            case 6:
                if (CUgraph graph = take(graphs_)) client_.call<Op::cuGraphDestroy>(graph);
                return;
            case 7: client_.call<Op::cuStreamDestroy_v2>(take(streams_)); return;  // null: a failure that is posted
            case 8: client_.call<Op::cuEventQuery>(one_of(events_)); return;
            default: client_.call<Op::cuEventDestroy_v2>(take(events_)); return;
        }
    }
    template <class T> void made(std::vector<T>& all, CUresult result, T one) {
        EXPECT_EQ(result, CUDA_SUCCESS);
        client_.seen.push_back(reinterpret_cast<std::uint64_t>(one));
        all.push_back(one);
    }
    void add_node() {
        CUgraph graph = one_of(graphs_);
        CUgraphNode node = nullptr;
        if (client_.call<Op::cuGraphAddEmptyNode>(&node, graph, nullptr, std::size_t{0}) != CUDA_SUCCESS) return;
        client_.seen.push_back(reinterpret_cast<std::uint64_t>(node));  // the host has chosen its id
        nodes_.push_back(node);
    }
    template <class T> T one_of(const std::vector<T>& all) {  // or one that it has no more
        return all.empty() ? nullptr : all[random_() % all.size()];
    }
    template <class T> T take(std::vector<T>& all) {
        if (all.empty()) return nullptr;
        const auto at = all.begin() + static_cast<std::ptrdiff_t>(random_() % all.size());
        const T one = *at;
        if (random_() % 4) all.erase(at);  // else the client uses it again
        return one;
    }

    Client& client_;
    std::minstd_rand random_;
    CUstream stream_ = nullptr;
    CUevent event_ = nullptr;
    CUgraph graph_ = nullptr;
    std::vector<CUstream> streams_;
    std::vector<CUevent> events_;
    std::vector<CUgraph> graphs_;
    std::vector<CUgraphNode> nodes_;
};

// What a client reads in `steps` steps, if its worker is replaced before every `every`th; 0: never.
std::vector<std::uint64_t> run(unsigned seed, unsigned steps, unsigned every) {
    Client client;
    Program program(client, seed);
    for (unsigned i = 0; i < steps && !testing::Test::HasFailure(); ++i) {
        if (every && i % every == every - 1) client.part();
        program.step();
    }
    return client.seen;
}

TEST(SessionState, ADifferentWorkerAnswersAsTheFirstWouldHave) {
    for (unsigned seed = 1; seed <= (sanitized ? 4 : 16) && !testing::Test::HasFailure(); ++seed)
        EXPECT_EQ(run(seed, 300, 0), run(seed, 300, seed % 4 ? 1 + seed % 37 : 1)) << "seed " << seed;
}
TEST(SessionState, TheQueuesPlaceCrossesItsEnd) {  // more chains than it has descriptors
    EXPECT_EQ(run(7, 3 * BARCUDA_QUEUE_SIZE, 0), run(7, 3 * BARCUDA_QUEUE_SIZE, 101));
}
TEST(SessionState, ARequestForMemoryThatIsNotAnsweredIsAnsweredByTheNextWorker) {
    Client client;
    client.ask_for_memory();
    barcuda_supply& page = client.kept.channel.supply();
    publish(page.asked, observe(page.asked) + 1);
    client.part();
    ASSERT_TRUE(client.worker->supply.asked());
    client.worker->serve();
    EXPECT_EQ(observe(page.answered), observe(page.asked));
    EXPECT_EQ(page.offset, 2 * granule) << "the second of those that were prepared";
}
TEST(SessionState, TheClerkAnswersNothingBehindIt) {
    Client client;
    client.worker->supply.begin();
    const auto state = client.worker->state();
    ASSERT_TRUE(state);
    barcuda_supply& page = client.kept.channel.supply();
    page.bytes = granule;
    publish(page.asked, observe(page.asked) + 1);
    EXPECT_TRUE(client.worker->supply.asked());
    client.worker.reset();
    client.worker = std::make_unique<Worker>(client.kept, *state);
    client.worker->serve();
    EXPECT_EQ(page.offset, granule);
}
TEST(SessionState, ThereIsNoneWhileACommandIsUnderWay) {
    Client client;
    const virtqueue::Buffer request{channel_offset + BARCUDA_COMMANDS_OFFSET, sizeof(RequestHead), false};
    client.queue.post(std::span(&request, 1));
    const auto command = client.worker->reader.next();
    ASSERT_TRUE(command);
    EXPECT_FALSE(client.worker->state());
    client.worker->reader.answer(*command, CUDA_SUCCESS, 0);
    EXPECT_TRUE(client.worker->state());
}
TEST(SessionState, ThereIsNoneWhileAFunctionOfTheProgramRuns) {
    Client client;
    barcuda_calls& page = client.kept.channel.calls();
    std::jthread gpu([] { Calls::run(Calls::as_data(1)); });
    while (observe(page.asked) == 0) std::this_thread::yield();
    EXPECT_FALSE(client.worker->session.quiet());
    EXPECT_FALSE(client.worker->state());
    publish(page.done, observe(page.asked));
    gpu.join();
    EXPECT_TRUE(client.worker->state());
}
TEST(SessionState, ThereIsNoneWhileAnImageHasComeInPart) {
    Client client;
    EXPECT_EQ((client.call<Op::image_part>(std::size_t{0}, static_cast<const void*>("part"), std::size_t{4})),
              CUDA_SUCCESS);
    EXPECT_FALSE(client.worker->state());
    client.worker->session.code().drop_parts();
    EXPECT_TRUE(client.worker->state());
    EXPECT_EQ((client.call<Op::image_begin>(std::size_t{4})), CUDA_SUCCESS);
    EXPECT_FALSE(client.worker->state()) << "or is about to come";
    client.worker->session.code().drop_parts();
    EXPECT_TRUE(client.worker->state());
}
TEST(SessionState, AFaultLasts) {
    Client client;
    client.worker->session.fences().post_failure(0, CUDA_ERROR_ILLEGAL_ADDRESS);
    client.part();
    EXPECT_EQ(client.worker->session.fences().lasting_error(), CUDA_ERROR_ILLEGAL_ADDRESS);
}
TEST(SessionState, TheCurrentContextStaysCurrent) {
    Client client;
    CUcontext context = nullptr;
    ASSERT_EQ((client.call<Op::create_context>(&context, 0u, 0)), CUDA_SUCCESS);
    const CUcontext before = client.worker->session.contexts().current();
    ASSERT_TRUE(before);
    client.part();
    EXPECT_EQ(client.worker->session.contexts().current(), before);
}

// ---- ids
struct IdsTest : testing::Test {
    Handles handles;
    Handles::State state() {
        handles.keep(0x20, reinterpret_cast<CUstream>(0x1000), 0x21);
        handles.name(reinterpret_cast<CUgraphNode>(0x2000), 0x22);
        return handles.state();
    }
};
TEST_F(IdsTest, AreTheSameForTheNextObject) {
    const auto first = handles.name(reinterpret_cast<CUgraphNode>(0x2000));
    handles.drop(first);
    handles.name(reinterpret_cast<CUfunction>(0x3000));
    Handles other;
    ASSERT_TRUE(other.restore(handles.state()));
    EXPECT_EQ(other.state(), handles.state());
    for (std::uint64_t raw : {0x4000, 0x5000})
        EXPECT_EQ(other.name(reinterpret_cast<CUgraphNode>(raw)), handles.name(reinterpret_cast<CUgraphNode>(raw)));
    EXPECT_EQ(other.name(reinterpret_cast<CUfunction>(0x3000)), handles.name(reinterpret_cast<CUfunction>(0x3000)));
    CUgraphNode gone{};
    EXPECT_FALSE(other.find(first, gone));
}
TEST_F(IdsTest, GoWithTheWholeThatTheyArePartsOf) {
    const auto part = handles.name(reinterpret_cast<CUgraphNode>(0x2000), 0x22);
    handles.keep(0x22, reinterpret_cast<CUgraph>(0x3000));
    Handles other;
    ASSERT_TRUE(other.restore(handles.state()));
    other.drop(0x22);
    CUgraphNode node{};
    EXPECT_FALSE(other.find(part, node));
}
TEST_F(IdsTest, ThatNoSessionHasAreRefused) {
    const Handles::State good = state();
    const auto refused = [&](void (*spoil)(Handles::State&)) {
        Handles::State bad = good;
        spoil(bad);
        Handles other;
        return !other.restore(bad) && other.size() == 0;
    };
    EXPECT_TRUE(refused([](Handles::State& s) { s.objects[0].id = 1; }));
    EXPECT_TRUE(refused([](Handles::State& s) { s.objects[0].id = wire::most_ids; }));
    EXPECT_TRUE(refused([](Handles::State& s) { s.objects[0].type = 0; }));
    EXPECT_TRUE(refused([](Handles::State& s) { s.objects.push_back(s.objects[0]); }));
    EXPECT_TRUE(refused([](Handles::State& s) { s.objects[1].id += 1; }));
    EXPECT_TRUE(refused([](Handles::State& s) { s.objects[1].id += std::uint64_t{1} << 32; }));
    EXPECT_TRUE(refused([](Handles::State& s) { s.free.push_back(0); }));
    EXPECT_TRUE(refused([](Handles::State& s) { s.free.push_back(1); }));
    Handles other;
    EXPECT_TRUE(other.restore(good));
}

}  // namespace
}  // namespace barcuda
