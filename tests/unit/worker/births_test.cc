// SPDX-License-Identifier: Apache-2.0
// births_test: what is recorded of a client's commands, over a driver that only watches: what is kept, how long, and
// that a second session which executes it has the same objects.
#include "host-bridge/worker/births/births.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "host-bridge/worker/carriable.h"
#include "host-bridge/worker/carried_format.h"
#include "host-bridge/worker/replay.h"
#include "tests/unit/support/loopback.h"

namespace barcuda {
namespace {

using enum Op;

// Where the second worker of a test has the region.
constexpr std::uint64_t elsewhere = fake::ground_base + (std::uint64_t{1} << 30);

struct BirthsTest : Loopback {
    CodeStore code;
    BirthsTest() { ground.session.record_births(code); }
    Births& births() { return ground.session.births(); }
    std::vector<Op> kept() {
        std::vector<Op> all;
        for (const Birth& birth : births().needed()) all.push_back(birth.op);
        return all;
    }
    CUgraphNode node(CUgraph graph) {
        CUgraphNode n = nullptr;
        EXPECT_TRUE(
            (call<cuGraphAddEmptyNode>(&n, graph, static_cast<const CUgraphNode*>(nullptr), std::size_t{0}).ok()));
        return n;
    }
    CUgraphExec exec(CUgraph graph) {
        CUgraphExec e = nullptr;
        EXPECT_TRUE((call<cuGraphInstantiateWithFlags>(&e, graph, 0ull).ok()));
        return e;
    }
    CUmodule module(std::string_view image) {
        CUmodule m = nullptr;
        std::memcpy(ground.extents.locate(guest.offset, image.size()), image.data(), image.size());
        EXPECT_TRUE((call<load_module>(&m, static_cast<const void*>(this), image.size(), ext::no_logs).ok()));
        return m;
    }
    CUfunction function(CUmodule module) {
        CUfunction f = nullptr;
        EXPECT_TRUE((call<cuModuleGetFunction>(&f, module, "kernel").ok()));
        return f;
    }
    // Another worker goes on with the client: it gets what is written of it.
    void expect_the_same_again() {
        ASSERT_TRUE(ground.session.quiet());
        const Carried carried = carry(ground.session);
        Carried read_back;
        ASSERT_EQ("", read(
                          written(carried), [this](auto hash, auto bytes) { return find(hash, bytes); }, read_back)
                          .text());
        fake::Ground other(elsewhere);
        const SessionScope its(other.session);
        other.session.record_births(code);
        const Failure failure = replay(other.session, read_back);
        ASSERT_EQ("", failure.text());
        ASSERT_TRUE(other.session.quiet());
        Carried again = carry(other.session);
        EXPECT_EQ(again.births, carried.births);
        ASSERT_EQ(again.state.handles.objects.size(), carried.state.handles.objects.size());
        for (std::size_t i = 0; i < again.state.handles.objects.size(); ++i)
            again.state.handles.objects[i].raw = carried.state.handles.objects[i].raw;
        EXPECT_EQ(again.state, carried.state);
    }
    CodeStore::Ref find(std::uint64_t hash, std::uint64_t bytes) {
        for (const Birth& birth : births().needed())
            if (birth.code && birth.code->hash == hash && birth.code->bytes == bytes) return birth.code;
        return {};
    }
    std::vector<std::string> stand_in_the_way() {
        std::vector<std::string> all;
        for (const Hindrance& h : hindrances(ground.session)) all.push_back(h.what);
        return all;
    }
};

// ---- what is kept, and how long
TEST_F(BirthsTest, AnObjectsBirthIsKeptUntilTheObjectIsDropped) {
    const CUstream s = stream();
    EXPECT_EQ(kept(), std::vector{cuStreamCreateWithPriority});
    EXPECT_TRUE((call<cuStreamDestroy_v2>(s).ok()));
    EXPECT_EQ(kept(), std::vector<Op>{});
}
TEST_F(BirthsTest, LaunchesAndCopiesAreNot) {
    const CUfunction f = function(module("code"));
    const auto before = births().count();
    EXPECT_TRUE((call<launch>(f, ext::Shape{}, CUstream{}, static_cast<const void*>("12345678"), std::size_t{8}).ok()));
    EXPECT_TRUE((call<cuMemsetD8Async>(world.memory, static_cast<unsigned char>(0), std::size_t{16}, CUstream{}).ok()));
    EXPECT_TRUE((call<write_fence>(CUstream{}, ext::Fence{0x2000, 1}).ok()));
    EXPECT_EQ(births().count(), before);
}
TEST_F(BirthsTest, AModuleIsKeptWithItsFunctionsAndGoesWithThem) {
    const CUmodule m = module("code");
    const CUfunction f = function(m);
    EXPECT_TRUE((call<cuFuncSetAttribute>(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 4096).ok()));
    EXPECT_EQ(kept(), (std::vector{load_module, cuModuleGetFunction, cuFuncSetAttribute}));
    EXPECT_TRUE((call<cuModuleUnload>(m).ok()));
    EXPECT_EQ(kept(), std::vector<Op>{});
    EXPECT_EQ(code.count(), 1u) << "the store drops it when it needs the room";
}
TEST_F(BirthsTest, ANameThatIsAskedForAgainIsRecordedOnce) {
    const CUmodule m = module("code");
    function(m);
    const CUgraph g = graph();
    node(g);
    std::size_t count = 1;
    CUgraphNode named = nullptr;
    EXPECT_TRUE((call<cuGraphGetNodes>(g, &named, &count).ok()));
    const auto before = births().count();
    EXPECT_TRUE((call<cuGraphGetNodes>(g, static_cast<CUgraphNode*>(nullptr), &count).ok()));
    EXPECT_EQ(births().count(), before);
}
TEST_F(BirthsTest, WhatIsSetAgainReplacesWhatWasSet) {
    const CUfunction f = function(module("code"));
    for (int bytes = 0; bytes < 100; ++bytes) {
        EXPECT_TRUE((call<cuFuncSetAttribute>(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, bytes).ok()));
        EXPECT_TRUE((call<cuFuncSetAttribute>(f, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, bytes).ok()));
    }
    EXPECT_EQ(kept(), (std::vector{load_module, cuModuleGetFunction, cuFuncSetAttribute, cuFuncSetAttribute}));
}
TEST_F(BirthsTest, WhatWasInstantiatedKeepsTheGraphAsItWas) {
    const CUgraph g = graph();
    const CUgraphNode n = node(g);
    const CUfunction f = function(module("code"));
    const auto set = [&](const char* bytes) {
        EXPECT_TRUE((call<set_kernel_node>(n, f, ext::Shape{}, static_cast<const void*>(bytes), std::size_t{8}).ok()));
    };
    set("unseen..");
    set("first...");
    const CUgraphExec e = exec(g);
    set("second..");
    EXPECT_TRUE((call<cuGraphDestroy>(g).ok()));
    EXPECT_EQ(kept(), (std::vector{cuGraphCreate, cuGraphAddEmptyNode, load_module, cuModuleGetFunction,
                                   set_kernel_node, cuGraphInstantiateWithFlags, set_kernel_node, cuGraphDestroy}));
    EXPECT_NO_FATAL_FAILURE(expect_the_same_again());
    EXPECT_TRUE((call<cuGraphExecDestroy>(e).ok()));
    EXPECT_EQ(kept(), (std::vector{load_module, cuModuleGetFunction}));
}
TEST_F(BirthsTest, WhatChangesAGraphDoesNotGrowWithTheTimesThatItRuns) {
    const CUgraph g = graph();
    const CUgraphNode n = node(g);
    const CUfunction f = function(module("code"));
    const CUgraphExec e = exec(g);
    for (int i = 0; i < 1000; ++i)
        EXPECT_TRUE(
            (call<exec_set_kernel_node>(e, n, f, ext::Shape{}, static_cast<const void*>("12345678"), std::size_t{8})
                 .ok()));
    EXPECT_EQ(kept().size(), 6u);
}
TEST_F(BirthsTest, WhatLivesInAContextGoesWithIt) {
    CUcontext one = nullptr;
    ASSERT_TRUE((call<create_context>(&one, 0u, CUdevice{0}).ok()));
    context = static_cast<std::uint32_t>(id(one));
    stream();
    EXPECT_TRUE((call<cuCtxSetLimit>(CU_LIMIT_STACK_SIZE, std::size_t{4096}).ok()));
    EXPECT_EQ(kept(), (std::vector{create_context, cuStreamCreateWithPriority, cuCtxSetLimit}));
    EXPECT_NO_FATAL_FAILURE(expect_the_same_again());
    context = 0;
    EXPECT_TRUE((call<cuCtxDestroy_v2>(one).ok()));
    EXPECT_EQ(kept(), std::vector<Op>{});
}
TEST_F(BirthsTest, OfWorkThatRunsNothingIsLeftBehind) {  // however long
    for (int i = 0; i < 20'000; ++i) EXPECT_TRUE((call<cuStreamDestroy_v2>(stream()).ok()));
    EXPECT_LT(births().count(), 2000u);
}
TEST_F(BirthsTest, AnIdThatIsUsedAgainIsAnother) {
    const CUstream first = stream();
    EXPECT_TRUE((call<cuStreamDestroy_v2>(first).ok()));
    guest.next = id(first);
    CUevent second = nullptr;
    EXPECT_TRUE((call<cuEventCreate>(&second, 0u).ok()));
    EXPECT_EQ(id(second), id(first));
    EXPECT_EQ(kept(), std::vector{cuEventCreate});
    EXPECT_NO_FATAL_FAILURE(expect_the_same_again());
}
TEST_F(BirthsTest, IdsThatTheHostGaveComeAgain) {
    const CUgraph g = graph();
    const CUgraphNode dropped = node(g), stays = node(g);
    EXPECT_TRUE((call<cuGraphDestroyNode>(dropped).ok()));
    const CUgraphNode reused = node(graph());
    EXPECT_EQ(id(reused) & 0xffffffff, id(dropped) & 0xffffffff) << "it has the place of the other";
    EXPECT_NE(stays, nullptr);
    EXPECT_NO_FATAL_FAILURE(expect_the_same_again());
}

// ---- limits
TEST_F(BirthsTest, AClientOfTooManyObjectsRunsOnAndCannotBeCarried) {
    fake::Ground other(elsewhere);
    const SessionScope its(other.session);
    Births& small = other.session.births();
    small.record([](auto) { return true; }, code, 1 << 20);
    for (int i = 0; small.on() && i < 100'000; ++i) {
        const std::uint64_t body[] = {0x40 + static_cast<std::uint64_t>(i), 0};
        std::vector<std::byte> room(64);
        Writer w(room);
        EXPECT_TRUE(perform(other.session, {static_cast<std::uint32_t>(cuEventCreate), 0},
                            std::as_bytes(std::span(body)), true, w)
                        .ok());
    }
    EXPECT_FALSE(small.on());
    EXPECT_EQ(small.bytes(), 0u);
    ASSERT_EQ(hindrances(other.session).size(), 1u);
    EXPECT_NE(hindrances(other.session)[0].what.find("too many objects"), std::string::npos);
}

// ---- what stands in the way
TEST_F(BirthsTest, NothingStandsInTheWayOfASimpleClient) {
    stream();
    EXPECT_EQ(stand_in_the_way(), std::vector<std::string>{});
}
TEST_F(BirthsTest, WhatCannotBeCarriedStandsInTheWayByNameUntilItIsGone) {
    CUarray array = nullptr;
    const CUDA_ARRAY_DESCRIPTOR what{16, 16, CU_AD_FORMAT_FLOAT, 1};
    ASSERT_TRUE((call<cuArrayCreate_v2>(&array, &what).ok()));
    ASSERT_EQ(stand_in_the_way().size(), 1u);
    EXPECT_NE(stand_in_the_way()[0].find("by cuArrayCreate_v2"), std::string::npos) << stand_in_the_way()[0];
    EXPECT_TRUE((call<cuArrayDestroy>(array).ok()));
    EXPECT_EQ(stand_in_the_way(), std::vector<std::string>{});
}
TEST_F(BirthsTest, AFaultStandsInTheWay) {
    ground.session.fences().post_failure(0, CUDA_ERROR_ILLEGAL_ADDRESS);
    EXPECT_EQ(stand_in_the_way().size(), 1u);
}
TEST_F(BirthsTest, ASessionThatRecordsNothingSaysSo) {
    fake::Ground other(elsewhere);
    EXPECT_EQ(hindrances(other.session).size(), 1u);
}

// ---- a difference
TEST_F(BirthsTest, AnotherAnswerIsADifference) {
    const CUgraph g = graph();
    node(g);
    Carried carried = carry(ground.session);
    carried.births[1].answer ^= 1;
    fake::Ground other(elsewhere);
    const SessionScope its(other.session);
    other.session.record_births(code);
    const std::string text = replay(other.session, carried).text();
    EXPECT_NE(text.find("cuGraphAddEmptyNode"), std::string::npos) << text;
}
TEST_F(BirthsTest, AnObjectThatDoesNotComeIsADifference) {
    stream();
    const CUstream second = stream();
    Carried carried = carry(ground.session);
    carried.births.pop_back();
    fake::Ground other(elsewhere);
    const SessionScope its(other.session);
    other.session.record_births(code);
    EXPECT_EQ(
        replay(other.session, carried).text(), "object 0x" + [&] {
            char text[32];
            std::snprintf(text, sizeof text, "%llx", static_cast<unsigned long long>(id(second)));
            return std::string(text);
        }() + " has not come again");
}
TEST_F(BirthsTest, CodeThatIsMissingIsNamed) {
    module("code");
    Carried carried;
    const auto nothing = [](auto, auto) { return CodeStore::Ref(); };
    const std::string text = read(written(carry(ground.session)), nothing, carried).text();
    EXPECT_NE(text.find("an image of its code is missing"), std::string::npos) << text;
}
TEST_F(BirthsTest, BytesThatWereSpoiltOrCutShortAreRefused) {
    stream();
    const std::vector<std::byte> good = written(carry(ground.session));
    Carried carried;
    const auto nothing = [](auto, auto) { return CodeStore::Ref(); };
    ASSERT_EQ("", read(good, nothing, carried).text());
    for (std::size_t i = 0; i < good.size(); ++i) {
        EXPECT_TRUE(read(std::span(good).first(i), nothing, carried));
        std::vector<std::byte> bad = good;
        bad[i] ^= std::byte{1};
        const bool in_words = i >= offsetof(CarriedHead, rows_hash) && i < offsetof(CarriedHead, bytes);
        EXPECT_EQ(in_words, !read(bad, nothing, carried)) << i;
    }
}

}  // namespace
}  // namespace barcuda
