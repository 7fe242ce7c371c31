// SPDX-License-Identifier: Apache-2.0
// launches_test: how launches reach the driver: alone or as chains, in which order, and what is reported for those that
// it refuses. The driver here only records its calls.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "host-bridge/worker/session/session.h"
#include "tests/unit/support/fake_driver.h"

namespace barcuda {
namespace {

struct Given {
    std::string kernels;  // a letter for each, in the order in which the driver got them; a chain is in brackets
    std::map<CUgraphNode, char> nodes;
    std::map<CUgraph, std::vector<CUgraphNode>> graphs;
    std::map<CUgraphExec, std::vector<CUgraphNode>> execs;
    unsigned set = 0, made = 0, destroyed = 0;
    char refused = 0;  // a kernel whose launch fails
    bool graphs_work = true, window = false, map = false;
    unsigned full = 0;  // number of launches that find no memory
    std::uint64_t handle = 0x5000;
};
Given* given = nullptr;

char letter(CUfunction f) { return static_cast<char>(reinterpret_cast<std::uint64_t>(f)); }
CUfunction kernel(char name) { return reinterpret_cast<CUfunction>(static_cast<std::uint64_t>(name)); }

CUresult launch(CUfunction f, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void**,
                void**) {
    if (given->full) {
        --given->full;
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (letter(f) == given->refused) return CUDA_ERROR_INVALID_VALUE;
    given->kernels += letter(f);
    return CUDA_SUCCESS;
}
CUresult create(CUgraph* g, unsigned) {
    *g = reinterpret_cast<CUgraph>(++given->handle);
    return CUDA_SUCCESS;
}
CUresult add(CUgraphNode* n, CUgraph g, const CUgraphNode*, std::size_t, const CUDA_KERNEL_NODE_PARAMS* p) {
    if (letter(p->func) == given->refused) return CUDA_ERROR_INVALID_VALUE;
    *n = reinterpret_cast<CUgraphNode>(++given->handle);
    given->nodes[*n] = letter(p->func);
    given->graphs[g].push_back(*n);
    return CUDA_SUCCESS;
}
CUresult instantiate(CUgraphExec* e, CUgraph g, unsigned long long) {
    if (!given->graphs_work) return CUDA_ERROR_NOT_SUPPORTED;
    *e = reinterpret_cast<CUgraphExec>(++given->handle);
    given->execs[*e] = given->graphs[g];
    ++given->made;
    return CUDA_SUCCESS;
}
CUresult set(CUgraphExec, CUgraphNode n, const CUDA_KERNEL_NODE_PARAMS* p) {
    if (letter(p->func) == given->refused) return CUDA_ERROR_INVALID_VALUE;
    given->set += given->nodes[n] != letter(p->func);
    given->nodes[n] = letter(p->func);
    return CUDA_SUCCESS;
}
CUresult launch_graph(CUgraphExec e, CUstream) {
    EXPECT_TRUE(given->execs.contains(e)) << "a chain that is gone";
    given->kernels += '(';
    for (CUgraphNode n : given->execs[e]) given->kernels += given->nodes[n];
    given->kernels += ')';
    return CUDA_SUCCESS;
}
CUresult destroy(CUgraphExec e) {
    given->execs.erase(e);
    ++given->destroyed;
    return CUDA_SUCCESS;
}
CUresult attribute(CUstream, CUstreamAttrID id, CUstreamAttrValue* value) {
    *value = {};
    if (given->window && id == CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW) value->accessPolicyWindow.num_bytes = 4096;
    if (given->map && id == CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP) value->memSyncDomainMap = {1, 1};
    return CUDA_SUCCESS;
}

Driver driver() {
    Driver d = fake::driver();
    d.cuLaunchKernel = launch;
    d.cuGraphCreate = create;
    d.cuGraphAddKernelNode_v2 = add;
    d.cuGraphInstantiateWithFlags = instantiate;
    d.cuGraphExecKernelNodeSetParams_v2 = set;
    d.cuGraphLaunch = launch_graph;
    d.cuGraphExecDestroy = destroy;
    d.cuGraphDestroy = [](CUgraph) { return CUDA_SUCCESS; };
    d.cuStreamGetAttribute = attribute;
    d.cuModuleUnload = [](CUmodule) { return CUDA_SUCCESS; };
    d.cuCtxSetCurrent = [](CUcontext) { return CUDA_SUCCESS; };
    d.cuStreamQuery = [](CUstream) { return CUDA_ERROR_NOT_READY; };
    return d;
}

struct LaunchesTest : testing::Test {
    Given all;
    fake::Ground ground{fake::ground_base, driver()};
    Launches& launches = ground.session.launches();
    const CUstream one = reinterpret_cast<CUstream>(0x100), two = reinterpret_cast<CUstream>(0x200);

    LaunchesTest() { given = &all; }
    void take(const std::string& names, CUstream stream) {
        const ext::Shape shape{{1, 1, 1}, {1, 1, 1}, 0, 0};
        for (char name : names) EXPECT_EQ(launches.hold(kernel(name), shape, stream, "", 0), CUDA_SUCCESS);
    }
    std::string taken(const std::string& names) {
        take(names, one);
        launches.flush();
        return std::exchange(all.kernels, {});
    }
    void make_chains() {  // of each length
        taken(std::string(160, 'a'));
        for (int i = 0; i < 40; ++i) taken("aaaa");
        for (int i = 0; i < 80; ++i) taken("a");
    }
};

TEST_F(LaunchesTest, AFewGoAlone) { EXPECT_EQ(taken("abcabcabc"), "abcabcabc"); }
TEST_F(LaunchesTest, ManyGoAsChains) {
    make_chains();
    EXPECT_EQ(taken(std::string(23, 'a')), "(aaaaaaaaaaaaaaaa)(aaaa)(a)(a)(a)");
}
TEST_F(LaunchesTest, OneGoesAsAChainOfItsKernel) {
    for (int i = 0; i < 63; ++i) EXPECT_EQ(taken("a"), "a");
    EXPECT_EQ(taken("a"), "(a)");
    all.set = 0;
    EXPECT_EQ(taken("b") + taken("a"), "b(a)");  // setting another kernel costs more than launching it
    EXPECT_EQ(all.set, 0u);
    for (int i = 0; i < 64; ++i) taken("b");
    EXPECT_EQ(taken("b") + taken("a"), "(b)(a)");
}
TEST_F(LaunchesTest, ChainsOfOneDoNotGrowInNumberForEver) {
    for (int i = 0; i < 10'000; ++i) taken(std::string(1, static_cast<char>('A' + i % 61)));
    EXPECT_EQ(all.made, 32u);
    for (std::uintptr_t i = 1; i <= 4000; ++i)
        for (int round = 0; round < 64; ++round) {
            take("a", reinterpret_cast<CUstream>(i << 12));
            launches.flush();
        }
    EXPECT_EQ(all.made, 2048u);
    launches.forget(reinterpret_cast<CUstream>(std::uintptr_t{1} << 12));
    for (int i = 0; i < 64; ++i) {
        take("a", two);
        launches.flush();
    }
    EXPECT_EQ(all.made, 2049u);
}
TEST_F(LaunchesTest, AChainIsSetToOtherKernels) {
    make_chains();
    EXPECT_EQ(taken("abcd"), "(abcd)");
    EXPECT_EQ(taken("bcda"), "(bcda)");
}
TEST_F(LaunchesTest, WhatComesAgainNeedsNoOtherKernelsSet) {
    for (int i = 0; i < 500; ++i) {
        taken("abcd");
        taken("efgh");
    }
    all.set = 0;
    EXPECT_EQ(taken("abcd") + taken("efgh"), "(abcd)(efgh)");
    EXPECT_EQ(all.set, 0u);
}
TEST_F(LaunchesTest, ChainsDoNotGrowInNumberForEver) {
    for (int i = 0; i < 2000; ++i) taken(std::string(1, static_cast<char>('a' + i % 23)) + "bcd");
    EXPECT_EQ(all.made, 8u);
}
TEST_F(LaunchesTest, TheOrderInEachStreamStays) {
    for (int i = 0; i < 100; ++i) {
        take("a", one);
        take("A", two);
        take("b", one);
        take("B", two);
        if (i % 7 == 0) launches.flush();
    }
    launches.flush();
    std::string small, large;
    for (char c : all.kernels)
        if (std::isalpha(c)) (std::islower(c) ? small : large) += c;
    for (int i = 0; i < 200; ++i) ASSERT_TRUE(small[i] == "ab"[i % 2] && large[i] == "AB"[i % 2]) << i;
}
TEST_F(LaunchesTest, ChainsAreOfManyStreamsThatTakeTurns) {
    for (int round = 0; round < 200; ++round)
        for (std::uintptr_t i = 1; i <= 16; ++i) take("a", reinterpret_cast<CUstream>(i << 12));
    launches.flush();
    EXPECT_EQ(std::ranges::count(all.kernels, 'a'), 3200);
    EXPECT_GE(all.made, 16u);
}
TEST_F(LaunchesTest, TheDefaultStreamKeepsItsPlaceAmongOthers) {
    take("a", one);
    take("b", nullptr);
    take("c", one);
    take("d", CU_STREAM_LEGACY);
    take("e", nullptr);
    launches.flush();
    EXPECT_EQ(all.kernels, "abcde");
}
TEST_F(LaunchesTest, NoneIsHeldForEverWhileOthersCome) {
    take("A", two);
    take(std::string(17, 'a'), one);
    EXPECT_EQ(all.kernels[0], 'A');
}
TEST_F(LaunchesTest, ManyParametersGoAloneAndInTheirTurn) {
    const std::vector<char> large(5000);
    take("a", one);
    launches.hold(kernel('b'), {{1, 1, 1}, {1, 1, 1}, 0, 0}, one, large.data(), large.size());
    EXPECT_EQ(all.kernels, "ab");
}
TEST_F(LaunchesTest, ARefusedOneIsToldAndTheOthersRun) {
    make_chains();
    all.refused = 'x';
    EXPECT_EQ(taken("aaxaaaa"), "aa(aaaa)");
    EXPECT_EQ(ground.status.posted_count, 1u);
    EXPECT_EQ(ground.status.posted_error, CUDA_ERROR_INVALID_VALUE);
}
TEST_F(LaunchesTest, WithoutGraphsAllGoAlone) {
    all.graphs_work = false;
    EXPECT_EQ(taken(std::string(500, 'a')), std::string(500, 'a'));
    EXPECT_EQ(ground.status.posted_count, 0u);
}
TEST_F(LaunchesTest, AStreamWithAWindowKeepsItsLaunchesToItself) {
    all.window = true;
    EXPECT_EQ(taken(std::string(500, 'a')), std::string(500, 'a'));
}
TEST_F(LaunchesTest, AStreamWithADomainOfItsOwnKeepsItsLaunchesToItself) {
    all.map = true;
    EXPECT_EQ(taken(std::string(500, 'a')), std::string(500, 'a'));
}
TEST_F(LaunchesTest, OneThatFindsNoMemoryMayTakeTheChainsWithIt) {
    ground.session.contexts().ready(reinterpret_cast<CUcontext>(0x300));
    ground.session.deferred().note_work();
    make_chains();
    ground.session.deferred().unload(reinterpret_cast<CUmodule>(0x400));
    all.refused = 'x';
    all.full = 1;
    EXPECT_EQ(taken("aaxaaaaaaa"), "aaaaaaaaa");  // the first alone, because of its neighbour; it makes room
    EXPECT_EQ(all.destroyed, all.made);
    EXPECT_EQ(ground.status.posted_count, 1u);
}
TEST_F(LaunchesTest, ChainsGoWithWhatTheyRemember) {
    make_chains();
    EXPECT_GT(all.made, 0u);
    ground.session.begin_command(static_cast<std::uint32_t>(Op::cuFuncSetAttribute));
    EXPECT_EQ(all.destroyed, all.made);
    make_chains();
    launches.forget(two);
    EXPECT_LT(all.destroyed, all.made);
    launches.forget(one);
    EXPECT_EQ(all.destroyed, all.made);
}
TEST_F(LaunchesTest, WhateverIsNoLaunchComesAfterThem) {
    take("abc", one);
    ground.session.begin_command(static_cast<std::uint32_t>(Op::launch));
    EXPECT_EQ(all.kernels, "");
    ground.session.begin_command(static_cast<std::uint32_t>(Op::write_fence));
    EXPECT_EQ(all.kernels, "abc");
}

}  // namespace
}  // namespace barcuda
