// SPDX-License-Identifier: Apache-2.0
// births_test: what is recorded of a client's commands, over a driver that only watches: what is kept, how long, and
// that a second session which executes it has the same objects.
#include "host-bridge/worker/births/births.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <set>
#include <string>
#include <vector>

#include "base/content_hash.h"
#include "host-bridge/worker/births/variables.h"
#include "host-bridge/worker/carriable.h"
#include "host-bridge/worker/carried_format.h"
#include "host-bridge/worker/replay.h"
#include "tests/unit/support/container.h"
#include "tests/unit/support/loopback.h"
#include "tests/unit/support/sanitized.h"

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
// Its session ends; what is in front of the room is not its answer.
TEST_F(BirthsTest, ACommandWithoutRoomForItsAnswerIsNot) {
    const CUgraph g = graph();
    const CUgraphExec e = exec(g);
    node(g);
    std::vector<std::byte> request(16);
    Writer w(request);
    w.put(id(e));
    w.put(id(g));
    const auto before = births().count();
    for (const std::size_t room : {0, 8, 16}) {
        std::vector<std::byte> memory(64);
        Writer answer(std::span<std::byte>(memory).subspan(32, room));
        const RequestHead head{static_cast<std::uint32_t>(exec_update), 0};
        EXPECT_TRUE(perform(ground.session, head, request, true, answer).lie) << room;
        EXPECT_EQ(births().count(), before) << room;
    }
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
TEST_F(BirthsTest, ANodeThatIsGoneIsThereInWhatWasInstantiatedBefore) {
    const CUgraph g = graph();
    const CUgraphNode n = node(g);
    exec(g);
    EXPECT_TRUE((call<cuGraphDestroyNode>(n).ok()));
    EXPECT_EQ(kept(),
              (std::vector{cuGraphCreate, cuGraphAddEmptyNode, cuGraphInstantiateWithFlags, cuGraphDestroyNode}));
    EXPECT_NO_FATAL_FAILURE(expect_the_same_again());
}
TEST_F(BirthsTest, OfWorkThatRunsNothingIsLeftBehind) {  // however long
    for (int i = 0; i < 20'000; ++i) EXPECT_TRUE((call<cuStreamDestroy_v2>(stream()).ok()));
    EXPECT_EQ(births().count(), 0u);
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
TEST_F(BirthsTest, IdsThatTheHostGaveAreNotThoseThatAreFreeNow) {
    const CUmodule gone = module("code");
    function(gone);
    function(module("more code"));
    EXPECT_TRUE((call<cuModuleUnload>(gone).ok()));
    EXPECT_EQ(kept(), (std::vector{load_module, load_module, cuModuleGetFunction, cuModuleUnload}))
        << "code that was loaded behind it is there";
    EXPECT_NO_FATAL_FAILURE(expect_the_same_again());
}

// ---- limits
TEST_F(BirthsTest, AClientOfTooManyObjectsRunsOnAndCannotBeCarried) {
    fake::Ground other(elsewhere);
    const SessionScope its(other.session);
    Births& small = other.session.births();
    small.record([](auto) { return true; }, [] { return std::size_t{0}; }, code, 1 << 20);
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
    CUdeviceptr at = 0;
    ASSERT_TRUE((call<cuMemAllocAsync>(&at, std::size_t{64}, CUstream{}).ok()));
    ASSERT_EQ(stand_in_the_way().size(), 1u);
    EXPECT_NE(stand_in_the_way()[0].find("by cuMemAllocAsync"), std::string::npos) << stand_in_the_way()[0];
    EXPECT_TRUE((call<cuMemFreeAsync>(at, CUstream{}).ok()));
    EXPECT_EQ(stand_in_the_way(), std::vector<std::string>{});
}
TEST_F(BirthsTest, AFaultStandsInTheWay) {
    ground.session.fences().post_failure(0, CUDA_ERROR_ILLEGAL_ADDRESS);
    EXPECT_EQ(stand_in_the_way().size(), 1u);
}
TEST_F(BirthsTest, CodeThatIsNotKeptStandsInTheWayAndNothingElseDoes) {
    CodeStore none(0);
    fake::Ground other(elsewhere);
    other.session.record_births(none);
    EXPECT_EQ(hindrances(other.session).size(), 0u);
    other.session.births().begin(load_module, 0);
    other.session.births().loads("code");
    other.session.births().commit({}, {});
    ASSERT_EQ(hindrances(other.session).size(), 1u);
    EXPECT_NE(hindrances(other.session).front().what.find("ADDR_NO_RANDOMIZE"), std::string::npos);
}
TEST_F(BirthsTest, ASessionThatRecordsNothingSaysSo) {
    fake::Ground other(elsewhere);
    EXPECT_EQ(hindrances(other.session).size(), 1u);
}

// ---- what is in code
TEST(CodeContents, VariablesOfPtxAreThoseOutsideOfFunctions) {
    const std::string ptx =
        ".version 8.0\n.target sm_75\n.visible .global .align 4 .u32 counter = 5;\n.global .align 1 .b8 text[12];\n"
        ".extern .global .align 8 .u64 other;\n.const .align 4 .b8 table[16];\n"
        ".visible .entry k() {\n\tld.global.u32 %r1, [counter];\n.global.nothing\n}\n";
    const auto contents = contents_of(std::as_bytes(std::span(ptx)));
    ASSERT_TRUE(contents);
    EXPECT_EQ(contents->variables, (std::set<std::string>{"counter", "text", "other"}));
    EXPECT_FALSE(contents->heap || contents->launches);
}
TEST(CodeContents, VariablesMayBeIndentedOverSeveralLinesAndSeveralInADeclaration) {
    const std::string ptx =
        ".version 8.0\n  .visible .global .align 4 .u32 a = 5, b[2] = {1, 2}, c;\n\t.global\n\t.align 16 .v4 .f32\n  d;"
        " .global .u64 e[3]= {1,\n {2, 3}} ,f;// .global .u32 no;\n/* .global .u32 never; */.global .b8 g[2][3];\n"
        ".func f() { ld.global.u32 %r1, [a]; }\n.file 1 \"/* x\"\n.weak .global .attribute(.managed) .s32 h;\n";
    const auto contents = contents_of(std::as_bytes(std::span(ptx)));
    ASSERT_TRUE(contents);
    EXPECT_EQ(contents->variables, (std::set<std::string>{"a", "b", "c", "d", "e", "f", "g", "h"}));
}
TEST(CodeContents, AHeapAndLaunchesFromKernelsAreSeen) {
    const auto of = [](const std::string& ptx) { return *contents_of(std::as_bytes(std::span(ptx))); };
    EXPECT_TRUE(of(".version 8.0\n.extern .func  (.param .b64 func_retval0) malloc\n(\n").heap);
    EXPECT_FALSE(of(".version 8.0\n.func (.param .b64 r) my_malloc\n(\n").heap);
    EXPECT_TRUE(of(".version 8.0\n.extern .func (.param .b32 r) cudaLaunchDeviceV2\n").launches);
}
TEST(CodeContents, APackedImageIsUnpackedAndWhatCannotBeReadIsNot) {
    test::Container container;
    container.add(fatbin::ptx, 75, ".version 8.0\n.global .u32 packed;\n", test::Packing::zstd);
    const auto contents = contents_of(container.span());
    ASSERT_TRUE(contents);
    EXPECT_EQ(contents->variables, std::set<std::string>{"packed"});
    container.add(fatbin::elf, 75, "\177ELF, and no more");
    EXPECT_FALSE(contents_of(container.span()));
    EXPECT_FALSE(contents_of(std::as_bytes(std::span("some bytes"))));
    EXPECT_FALSE(contents_of({}));
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
        }() + " was not made again");
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
    for (std::size_t i = 0; i < good.size(); i += sanitized_step) {
        EXPECT_TRUE(read(std::span(good).first(i), nothing, carried));
        std::vector<std::byte> bad = good;
        bad[i] ^= std::byte{1};
        const bool in_words = i >= offsetof(CarriedHead, build) && i < offsetof(CarriedHead, bytes);
        EXPECT_EQ(in_words, !read(bad, nothing, carried)) << i;
    }
}

// ---- the program's numbers of its commands
struct NumbersTest : BirthsTest {
    // As a build with those rows would have written it.
    std::string refusal(const ClientRows::State& rows) {
        Carried carried = carry(ground.session), again;
        carried.rows = rows;
        return read(
                   written(carried), [](auto, auto) { return CodeStore::Ref(); }, again)
            .text();
    }
    ClientRows::State rows() { return ground.session.client_rows().state(); }
};
TEST_F(NumbersTest, InAnotherOrderAndWithOneMoreInTheMiddleAreRead) {
    ClientRows::State its = rows();
    std::ranges::reverse(its);
    its.insert(its.begin() + 100, {0x4711, "cuOther", false});
    EXPECT_EQ(refusal(its), "");
}
TEST_F(NumbersTest, OfACommandThatIsUsedAndLackingAreRefusedByItsName) {
    ClientRows::State its = rows();
    its.insert(its.begin() + 100, {0x4711, "cuOther", true});
    const std::string text = refusal(its);
    EXPECT_NE(text.find("its program uses cuOther"), std::string::npos) << text;
}
TEST_F(NumbersTest, OfACommandThatEveryProgramNeedsAreRefusedByItsName) {
    ClientRows::State its = rows();
    its[static_cast<std::size_t>(write_fence)].identity ^= 1;
    const std::string text = refusal(its);
    EXPECT_NE(text.find("its program uses write_fence"), std::string::npos) << text;
}
TEST_F(NumbersTest, AnObjectOfACommandThatIsLackingIsRefusedByTheCommandsName) {
    stream();
    std::vector<std::byte> bytes = written(carry(ground.session));
    const std::uint64_t known = row_identities()[static_cast<std::size_t>(cuStreamCreateWithPriority)], other = ~known;
    const auto its = std::as_bytes(std::span(&known, 1));
    unsigned places = 0;  // among the numbers, and among the rows of births
    for (auto at = bytes.begin(); (at = std::search(at, bytes.end(), its.begin(), its.end())) != bytes.end(); ++places)
        std::ranges::copy(std::as_bytes(std::span(&other, 1)), at);
    EXPECT_EQ(places, 2u);
    CarriedHead head;
    std::memcpy(&head, bytes.data(), sizeof head);
    head.hash = content_hash(std::span(bytes).subspan(sizeof head));
    std::memcpy(bytes.data(), &head, sizeof head);
    Carried carried;
    const std::string text = read(
                                 bytes, [](auto, auto) { return CodeStore::Ref(); }, carried)
                                 .text();
    EXPECT_NE(text.find("its program uses cuStreamCreateWithPriority"), std::string::npos) << text;
}
TEST_F(NumbersTest, ThatNoBuildWouldWriteAreRefused) {
    constexpr const char* none = "the numbers of its commands are none";
    EXPECT_EQ(refusal({}), none);
    ClientRows::State its = rows();
    its.resize(BARCUDA_MAX_ROWS + 1);
    EXPECT_EQ(refusal(its), none);
    for (const char* name : {"", "a name", "cu\nFoo", "cu\033[2J"}) {
        its = rows();
        its.push_back({0x4711, name, true});
        EXPECT_EQ(refusal(its), none) << name;
    }
    its.back().name = std::string(129, 'a');
    EXPECT_EQ(refusal(its), none);
}

// ---- every row

// A client of its own for each row: it makes an object of each type that the row needs, and sends the row once.
struct Alone : BirthsTest {
    sample::Arguments samples;
    void TestBody() override {}

    template <Op op, class T, class... Given> T make(Given... given) {
        T object{};
        EXPECT_TRUE((call<op>(&object, given...).ok())) << op_names[static_cast<std::size_t>(op)];
        return object;
    }
    template <class T> T argument() {
        if constexpr (std::is_same_v<T, CUstream>) return stream();
        else if constexpr (std::is_same_v<T, CUgraph>) return graph();
        else if constexpr (std::is_same_v<T, CUgraphNode>) return node(graph());
        else if constexpr (std::is_same_v<T, CUgraphExec>) return exec(graph());
        else if constexpr (std::is_same_v<T, CUmodule>) return module("code");
        else if constexpr (std::is_same_v<T, CUfunction>) return function(module("code"));
        else if constexpr (std::is_same_v<T, CUevent>) return make<cuEventCreate, CUevent>(0u);
        else if constexpr (std::is_same_v<T, CUcontext>) return make<create_context, CUcontext>(0u, CUdevice{0});
        else if constexpr (std::is_same_v<T, CUlinkState>) return make<link_create, CUlinkState>(ext::no_logs);
        else if constexpr (std::is_same_v<T, cublasHandle_t>) return make<cublasCreate_v2, cublasHandle_t>();
        else if constexpr (std::is_same_v<T, curandGenerator_t>)
            return make<curandCreateGenerator, curandGenerator_t>(CURAND_RNG_PSEUDO_DEFAULT);
        else if constexpr (std::is_same_v<T, CUmemoryPool>) {
            const CUmemPoolProps what{};
            return make<cuMemPoolCreate, CUmemoryPool>(&what);
        } else if constexpr (std::is_same_v<T, CUlibrary>)
            return make<load_library, CUlibrary>(static_cast<const void*>(this), std::size_t{4}, ext::no_logs);
        else if constexpr (std::is_same_v<T, CUkernel>)
            return make<cuLibraryGetKernel, CUkernel>(argument<CUlibrary>(), "kernel");
        else if constexpr (std::is_integral_v<T>) return std::is_same_v<T, CUdeviceptr> ? T(world.memory) : T{0};
        else return samples.of<T>();
    }
    template <Op op> bool send_it() {
        using Arguments = typename RowOf<op>::Arguments;
        return [&]<std::size_t... I>(std::index_sequence<I...>) {
            return call<op>(argument<std::tuple_element_t<I, Arguments>>()...).ok();
        }
        (std::make_index_sequence<std::tuple_size_v<Arguments>>{});
    }
};

struct Seen {
    unsigned carried = 0, refused = 0;
    std::string neither;  // the driver that only watches does not make it
};
// (It gives no physical memory a number, and no node a kernel.)
template <Op op> constexpr bool it_knows =
    op != kernel_node && !RowOf<op>::template takes<CUmemGenericAllocationHandle*>;
template <Op op> void look_at_row(Seen& seen) {
    constexpr Carry carry = it_knows<op> ? rule_of(op).carry : Carry::unsaid;
    if constexpr (carry == Carry::made || carry == Carry::adds || carry == Carry::sets || carry == Carry::refused) {
        const std::string name(op_names[static_cast<std::size_t>(op)]);
        SCOPED_TRACE(name);
        Alone client;
        std::memset(client.ground.extents.locate(client.guest.offset, 64), 'c', 64);  // code
        const bool sent = client.template send_it<op>();
        const std::vector<Op> kept = client.kept();
        if (!sent || std::ranges::find(kept, op) == kept.end()) {
            seen.neither += " " + name;
        } else if (carry == Carry::refused) {
            const std::vector<Op> all = client.births().obstacles();
            EXPECT_NE(std::ranges::find(all, op), all.end());
            ++seen.refused;
        } else if (client.births().obstacles().empty()) {
            EXPECT_NO_FATAL_FAILURE(client.expect_the_same_again());
            ++seen.carried;
        }
    }
}
TEST(EveryRow, ThatMakesOrChangesSomethingComesAgainOrStandsInTheWay) {
    Seen seen;
#define X(name, ...) look_at_row<Op::name>(seen);
    BARCUDA_ROWS(X)
#undef X
    std::printf("%u rows come again, %u stand in the way. Not shown here:%s\n", seen.carried, seen.refused,
                seen.neither.c_str());
    EXPECT_GE(seen.carried, 80u);
    EXPECT_GE(seen.refused, 12u);
}

}  // namespace
}  // namespace barcuda
