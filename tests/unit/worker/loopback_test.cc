// SPDX-License-Identifier: Apache-2.0
// loopback_test: a command from the kinds' guest side through perform() into a driver that only watches, in one
// process. What is shown: handles never cross, whatever a struct carries is translated, a program's mistake is a
// CUresult, and a lying guest never reaches the driver.
#include <gtest/gtest.h>

#include <random>

#include "tests/unit/support/loopback.h"

namespace barcuda {
namespace {

TEST_F(Loopback, WhatTheProgramHoldsIsAnIdNotTheDriversHandle) {
    const CUstream s = stream();
    EXPECT_FALSE(world.given.contains(id(s)));
    CUstream raw = nullptr;
    EXPECT_TRUE(ground.session.find(id(s), raw).ok());
    EXPECT_TRUE(world.given.contains(id(raw)));
}
TEST_F(Loopback, TheDriverGetsItsOwnHandleBack) {
    EXPECT_TRUE((call<Op::cuStreamQuery>(stream()).ok()));  // the fake aborts at any other
    EXPECT_EQ(world.last, "cuStreamQuery");
}
TEST_F(Loopback, AnUnknownHandleIsTheProgramsMistake) {
    const auto before = world.calls;
    EXPECT_EQ((call<Op::cuStreamQuery>(reinterpret_cast<CUstream>(0x777)).result), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(world.calls, before);
}
TEST_F(Loopback, AHandleOfAnotherTypeIsTheProgramsMistake) {
    const auto s = reinterpret_cast<CUgraph>(stream());
    EXPECT_EQ((call<Op::cuGraphDestroy>(s).result), CUDA_ERROR_INVALID_HANDLE);
}
TEST_F(Loopback, ADestroyedHandleIsUnknown) {
    const CUstream s = stream();
    EXPECT_TRUE((call<Op::cuStreamDestroy_v2>(s).ok()));
    EXPECT_EQ((call<Op::cuStreamQuery>(s).result), CUDA_ERROR_INVALID_HANDLE);
}
TEST_F(Loopback, AFunctionIsUnknownAfterTheResetOfItsDevice) {
    CUcontext first = nullptr, second = nullptr;
    EXPECT_TRUE((call<Op::cuDevicePrimaryCtxRetain>(&first, 0).ok()));
    const auto gone = reinterpret_cast<CUfunction>(ground.session.name(reinterpret_cast<CUfunction>(world.give())));
    EXPECT_TRUE((call<Op::cuDevicePrimaryCtxRetain>(&second, 1).ok()));
    const auto stays = reinterpret_cast<CUfunction>(ground.session.name(reinterpret_cast<CUfunction>(world.give())));
    EXPECT_TRUE((call<Op::cuFuncLoad>(gone).ok()));
    EXPECT_TRUE((call<Op::cuDevicePrimaryCtxReset_v2>(0).ok()));
    EXPECT_EQ((call<Op::cuFuncLoad>(gone).result), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_TRUE((call<Op::cuFuncLoad>(stays).ok()));
}
TEST_F(Loopback, AnIdThatIsTakenCannotBeChosenAgain) {
    const CUstream s = stream();
    guest.next = id(s);
    CUstream other = nullptr;
    EXPECT_TRUE((call<Op::cuStreamCreateWithPriority>(&other, 0u, 0).lie));
}
TEST_F(Loopback, AListLongerThanAReplyIsRefusedNotCutShort) {
    using R = RowOf<Op::cuGraphGetNodes>;
    const auto valid = [&](std::size_t room) {
        CUgraphNode node = nullptr;
        const R::Arguments arguments{nullptr, &node, &room};
        return std::get<1>(R::Parameters{}).valid(arguments, guest);
    };
    constexpr std::size_t most = max_list_bytes / sizeof(CUgraphNode);
    EXPECT_EQ(valid(most), CUDA_SUCCESS);
    EXPECT_EQ(valid(most + 1), CUDA_ERROR_NOT_SUPPORTED);
}
TEST_F(Loopback, NodesOfAGraphGoWithIt) {
    const CUgraph g = graph();
    CUgraphNode node = nullptr;
    EXPECT_TRUE(
        (call<Op::cuGraphAddEmptyNode>(&node, g, static_cast<const CUgraphNode*>(nullptr), std::size_t{0}).ok()));
    CUgraphNodeType type{};
    EXPECT_TRUE((call<Op::cuGraphNodeGetType>(node, &type).ok()));
    EXPECT_TRUE((call<Op::cuGraphDestroy>(g).ok()));
    EXPECT_EQ((call<Op::cuGraphNodeGetType>(node, &type).result), CUDA_ERROR_INVALID_HANDLE);
}
TEST_F(Loopback, EachHandleOfAListIsTranslated) {
    const CUgraph g = graph();
    CUgraphNode a = nullptr, b = nullptr;
    const CUgraphNode* none = nullptr;
    EXPECT_TRUE((call<Op::cuGraphAddEmptyNode>(&a, g, none, std::size_t{0}).ok()));
    const CUgraphNode after[] = {a, reinterpret_cast<CUgraphNode>(0x777)};
    EXPECT_TRUE((call<Op::cuGraphAddEmptyNode>(&b, g, static_cast<const CUgraphNode*>(after), std::size_t{1}).ok()));
    EXPECT_EQ((call<Op::cuGraphAddEmptyNode>(&b, g, static_cast<const CUgraphNode*>(after), std::size_t{2}).result),
              CUDA_ERROR_INVALID_HANDLE);
}
TEST_F(Loopback, WhatLivesInAContextGoesWithIt) {
    CUcontext one = nullptr, other = nullptr;
    ASSERT_TRUE((call<Op::create_context>(&one, 0u, CUdevice{0}).ok()));
    ASSERT_TRUE((call<Op::create_context>(&other, 0u, CUdevice{0}).ok()));
    const CUstream outside = stream();
    context = static_cast<std::uint32_t>(id(one));
    const CUstream inside = stream();
    const CUgraph its_own = graph();
    context = 0;
    EXPECT_TRUE((call<Op::cuCtxDestroy_v2>(one).ok()));
    EXPECT_EQ((call<Op::cuStreamQuery>(inside).result), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_TRUE((call<Op::cuStreamQuery>(outside).ok()));
    EXPECT_TRUE((call<Op::cuGraphDestroy>(its_own).ok()));
    EXPECT_FALSE(ground.session.enter(static_cast<std::uint32_t>(id(one)), false).ok());
    context = static_cast<std::uint32_t>(id(one));  // what needs no context is done all the same
    const CUmemAllocationProp where{};
    std::size_t bytes = 0;
    EXPECT_TRUE((call<Op::cuMemGetAllocationGranularity>(&bytes, &where, CU_MEM_ALLOC_GRANULARITY_MINIMUM).ok()));
    EXPECT_EQ((call<Op::cuMemGetInfo_v2>(&bytes, &bytes).result), CUDA_ERROR_INVALID_CONTEXT);
}

// ---- memory ---------------------------------------------------------------------------------------------------------
TEST_F(Loopback, ACopyFromTheClientsExtentsReachesTheDriver) {
    EXPECT_TRUE(
        (call<Op::cuMemcpyHtoDAsync_v2>(world.memory, static_cast<const void*>(this), std::size_t{4096}, CUstream{})
             .ok()));
}
TEST_F(Loopback, MemoryIsNotFreedTwice) {
    CUdeviceptr p = 0;
    EXPECT_EQ(ground.session.deferred().allocate(p = world.memory, 4096), CUDA_SUCCESS);
    EXPECT_EQ((call<Op::cuMemFree_v2>(p).result), CUDA_SUCCESS);
    EXPECT_EQ((call<Op::cuMemFree_v2>(p).result), CUDA_ERROR_INVALID_VALUE);
}
TEST_F(Loopback, FreedMemoryIsUnknownThoughTheDriverStillHasIt) {
    CUdeviceptr p = world.memory;
    std::uint64_t type = 0;
    const auto asked = [&] {
        return call<Op::pointer_attribute>(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p + 64).result;
    };
    EXPECT_EQ(ground.session.deferred().allocate(p, 4096), CUDA_SUCCESS);
    EXPECT_EQ(asked(), CUDA_SUCCESS);
    EXPECT_TRUE((call<Op::write_fence>(CUstream{}, ext::Fence{0x2000, 1}).ok()));  // until it is written, the GPU works
    EXPECT_EQ((call<Op::cuMemFree_v2>(p).result), CUDA_SUCCESS);
    EXPECT_EQ(asked(), CUDA_ERROR_INVALID_VALUE);
    EXPECT_TRUE(ground.session.deferred().pending());
    EXPECT_EQ(ground.session.deferred().allocate(p, 4096), CUDA_SUCCESS);  // the same memory again
    EXPECT_EQ(asked(), CUDA_SUCCESS);
}
TEST_F(Loopback, ACopyFromOutsideTheExtentsIsALie) {
    for (std::uint64_t offset : {ground.granted, ground.granted - 1, ~std::uint64_t{0} - 100}) {
        guest.offset = offset;
        EXPECT_TRUE(
            (call<Op::cuMemcpyHtoDAsync_v2>(world.memory, static_cast<const void*>(this), std::size_t{4096}, CUstream{})
                 .lie))
            << offset;
    }
}
TEST_F(Loopback, OnlyAnExtentIsGivenBackAndOnlyAsAWhole) {
    const std::uint64_t channel = fake::Ground::granted, bytes = 1 << 20;
    ASSERT_EQ(ground.extents.map_channel(channel, bytes).text(), "");
    for (const auto& [offset, size] : {std::pair{channel, bytes}, {channel + bytes, bytes}, {std::uint64_t{0}, bytes}})
        EXPECT_EQ((call<Op::release>(offset, size).result), CUDA_ERROR_INVALID_VALUE) << offset;
    EXPECT_NE(ground.extents.locate(channel, bytes), nullptr);
    EXPECT_TRUE((call<Op::release>(std::uint64_t{0}, fake::Ground::granted).ok()));
    EXPECT_EQ(ground.extents.locate(0, 1), nullptr);
}

TEST_F(Loopback, DeviceMemoryBeyondItsAllocationIsTheProgramsMistake) {
    const CUdeviceptr end = world.memory + world.memory_bytes;
    EXPECT_TRUE((call<Op::cuMemsetD8Async>(end - 16, static_cast<unsigned char>(0), std::size_t{16}, CUstream{}).ok()));
    EXPECT_EQ((call<Op::cuMemsetD8Async>(end - 16, static_cast<unsigned char>(0), std::size_t{17}, CUstream{}).result),
              CUDA_ERROR_INVALID_VALUE);
}
TEST_F(Loopback, TheWorkersOwnMemoryIsNeverReached) {
    const auto own = reinterpret_cast<CUdeviceptr>(&ground);
    EXPECT_EQ((call<Op::cuMemsetD8Async>(own, static_cast<unsigned char>(0), std::size_t{16}, CUstream{}).result),
              CUDA_ERROR_INVALID_VALUE);
}
TEST_F(Loopback, AWordThatAStreamWritesIsTheClients) {
    const auto own = reinterpret_cast<CUdeviceptr>(&ground);
    EXPECT_TRUE((call<Op::cuStreamWriteValue64_v2>(CUstream{}, world.memory, cuuint64_t{1}, 0u).ok()));
    EXPECT_TRUE((call<Op::cuStreamWriteValue64_v2>(CUstream{}, region(0x1000), cuuint64_t{1}, 0u).ok()));
    EXPECT_FALSE((call<Op::cuStreamWriteValue64_v2>(CUstream{}, own, cuuint64_t{1}, 0u).ok()));
    EXPECT_FALSE(
        (call<Op::cuStreamWriteValue64_v2>(CUstream{}, world.memory + world.memory_bytes - 4, cuuint64_t{1}, 0u).ok()));
    CUstreamBatchMemOpParams batch[2] = {};
    batch[0].operation = batch[1].operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
    batch[0].writeValue.address = batch[1].writeValue.address = world.memory;
    EXPECT_TRUE((call<Op::cuStreamBatchMemOp_v2>(CUstream{}, 2u, &batch[0], 0u).ok()));
    batch[1].writeValue.address = own;
    EXPECT_FALSE((call<Op::cuStreamBatchMemOp_v2>(CUstream{}, 2u, &batch[0], 0u).ok()));
    batch[1].operation = static_cast<CUstreamBatchMemOpType>(99);
    EXPECT_FALSE((call<Op::cuStreamBatchMemOp_v2>(CUstream{}, 2u, &batch[0], 0u).ok()));
}
TEST_F(Loopback, MemoryInAStructIsNamedByTheAddressAtWhichTheDeviceFindsIt) {
    const CUdeviceptr programs = 0x7700'0000;
    guest.moved = world.memory - programs;
    CUstreamBatchMemOpParams batch[2] = {};
    batch[0].operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
    batch[0].writeValue.address = programs;
    batch[1].operation = CU_STREAM_MEM_OP_BARRIER;
    EXPECT_TRUE((call<Op::cuStreamBatchMemOp_v2>(CUstream{}, 2u, &batch[0], 0u).ok()));
    EXPECT_EQ(batch[0].writeValue.address, programs);  // the program's own stays as it was
    CUDA_RESOURCE_DESC d{};
    d.resType = CU_RESOURCE_TYPE_LINEAR;
    d.res.linear.devPtr = programs;
    d.res.linear.sizeInBytes = 4096;
    CUsurfObject surface = 0;
    EXPECT_TRUE((call<Op::cuSurfObjectCreate>(&surface, static_cast<const CUDA_RESOURCE_DESC*>(&d)).ok()));
}
TEST_F(Loopback, AUnitCountThatOverflowsIsRefused) {
    EXPECT_EQ((call<Op::cuMemsetD32Async>(world.memory, 0u, (~std::size_t{0} >> 2) + 2, CUstream{}).result),
              CUDA_ERROR_INVALID_VALUE);
}
TEST_F(Loopback, RowsWhoseWidthInBytesOverflowsAreRefused) {  // to nothing, for which no memory would be needed
    const auto own = reinterpret_cast<CUdeviceptr>(&ground);
    const auto before = world.calls;
    for (std::size_t width : {std::size_t{1} << 62, (std::size_t{1} << 62) + 1}) {
        EXPECT_EQ((call<Op::cuMemsetD2D32Async>(own, std::size_t{512}, 0u, width, std::size_t{1}, CUstream{}).result),
                  CUDA_ERROR_INVALID_VALUE);
        EXPECT_EQ((call<Op::cuMemsetD2D16Async>(own, std::size_t{512}, static_cast<unsigned short>(0), width * 2,
                                                std::size_t{1}, CUstream{})
                       .result),
                  CUDA_ERROR_INVALID_VALUE);
    }
    EXPECT_EQ(world.calls, before);
}

TEST_F(Loopback, FencesThatTheGpuWillNotWriteHaveAnEnd) {
    EXPECT_TRUE((call<Op::write_fence>(CUstream{}, ext::Fence{0x2000, 1}).ok()));  // and the GPU never does
    const auto nothing = reinterpret_cast<CUevent>(0x777);
    constexpr unsigned many = 5000;
    unsigned refused = 0;
    while (refused < many && !call<Op::record_event>(nothing, CUstream{}, 0u, ext::Fence{0x2000, 2}).lie) ++refused;
    EXPECT_GT(refused, 1000u);
    EXPECT_LT(refused, many);
}

struct Textures : Loopback {
    CUDA_RESOURCE_DESC rows() {  // of four floats each, the last one at the end of what there is
        CUDA_RESOURCE_DESC d{};
        d.resType = CU_RESOURCE_TYPE_PITCH2D;
        auto& p = d.res.pitch2D;
        p.format = CU_AD_FORMAT_FLOAT;
        p.numChannels = 4;
        p.width = 32;
        p.height = 3;
        p.pitchInBytes = 1024;
        p.devPtr = world.memory + world.memory_bytes - (2 * 1024 + 32 * 16);
        return d;
    }
    CUresult create(const CUDA_RESOURCE_DESC& d) {
        const CUDA_TEXTURE_DESC how{};
        CUtexObject object = 0;
        return call<Op::cuTexObjectCreate>(&object, &d, &how, static_cast<const CUDA_RESOURCE_VIEW_DESC*>(nullptr))
            .result;
    }
};
TEST_F(Textures, OfRowsMayEndWithTheirLastElementExactly) {
    CUDA_RESOURCE_DESC d = rows();
    EXPECT_EQ(create(d), CUDA_SUCCESS);
    d.res.pitch2D.devPtr += 1;
    EXPECT_EQ(create(d), CUDA_ERROR_INVALID_VALUE);
    d = rows();
    d.res.pitch2D.width += 1;
    EXPECT_EQ(create(d), CUDA_ERROR_INVALID_VALUE);
}
TEST_F(Textures, OfLinearMemoryMayClaimMoreThanThereIs) {
    CUDA_RESOURCE_DESC d{};
    d.resType = CU_RESOURCE_TYPE_LINEAR;
    d.res.linear = {world.memory + world.memory_bytes - 16, CU_AD_FORMAT_FLOAT, 2, 1024};
    EXPECT_EQ(create(d), CUDA_SUCCESS);
    d.res.linear.devPtr = world.memory + world.memory_bytes;
    EXPECT_EQ(create(d), CUDA_ERROR_INVALID_VALUE);
}
TEST_F(Textures, OfRowsOfSmallerElementsNeedLess) {
    const auto bytes = [&](CUarray_format format, unsigned channels) {
        CUDA_RESOURCE_DESC d = rows();
        auto& p = d.res.pitch2D;
        p.format = format;
        p.numChannels = channels;
        p.height = 1;
        for (std::size_t n = 1; n <= 16; ++n) {
            p.devPtr = world.memory + world.memory_bytes - 32 * n;
            if (create(d) == CUDA_SUCCESS) return n;
        }
        return std::size_t{0};
    };
    EXPECT_EQ(bytes(CU_AD_FORMAT_UNSIGNED_INT8, 1), 1u);
    EXPECT_EQ(bytes(CU_AD_FORMAT_SIGNED_INT8, 4), 4u);
    EXPECT_EQ(bytes(CU_AD_FORMAT_HALF, 2), 4u);
    EXPECT_EQ(bytes(CU_AD_FORMAT_UNSIGNED_INT32, 2), 8u);
    EXPECT_EQ(bytes(CU_AD_FORMAT_FLOAT, 4), 16u);
}
TEST_F(Textures, OfRowsWhoseSizesOverflowAreRefused) {
    CUDA_RESOURCE_DESC d = rows();
    d.res.pitch2D.width = std::size_t{1} << 60;  // times 16: nothing in 64 bits
    EXPECT_EQ(create(d), CUDA_ERROR_INVALID_VALUE);
    d = rows();
    d.res.pitch2D.numChannels = ~0u;
    EXPECT_EQ(create(d), CUDA_ERROR_INVALID_VALUE);
    d = rows();
    d.res.pitch2D.format = static_cast<CUarray_format>(0x7777);
    EXPECT_EQ(create(d), CUDA_ERROR_INVALID_VALUE);
}

struct Boxes : Loopback {
    CUDA_MEMCPY3D box() {
        CUDA_MEMCPY3D c{};
        c.srcMemoryType = CU_MEMORYTYPE_HOST;
        c.srcHost = reinterpret_cast<const void*>(region(0x1000));
        c.srcPitch = 256;
        c.srcHeight = 8;
        c.dstMemoryType = CU_MEMORYTYPE_DEVICE;
        c.dstDevice = world.memory;
        c.dstPitch = 256;
        c.dstHeight = 8;
        c.WidthInBytes = 100;
        c.Height = 8;
        c.Depth = 4;
        return c;
    }
    Verdict copy(const CUDA_MEMCPY3D& c) { return call<Op::cuMemcpy3DAsync_v2>(&c, CUstream{}); }
};
TEST_F(Boxes, OfTheClientsMemoryReachTheDriver) { EXPECT_TRUE(copy(box()).ok()); }
TEST_F(Boxes, MayEndWithTheirLastRowExactly) {
    CUDA_MEMCPY3D c = box();
    const std::uint64_t bytes = (3 * 8 + 7) * 256 + 100;
    c.srcHost = reinterpret_cast<const void*>(region(ground.granted - bytes));
    EXPECT_TRUE(copy(c).ok());
    c.srcHost = reinterpret_cast<const void*>(region(ground.granted - bytes + 1));
    EXPECT_FALSE(copy(c).ok());
}
TEST_F(Boxes, OfTheWorkersMemoryAreRefused) {
    CUDA_MEMCPY3D c = box();
    c.srcHost = &ground;
    EXPECT_FALSE(copy(c).ok());
}
TEST_F(Boxes, WhoseSizesOverflowAreRefused) {
    for (auto field :
         {&CUDA_MEMCPY3D::srcPitch, &CUDA_MEMCPY3D::srcHeight, &CUDA_MEMCPY3D::srcZ, &CUDA_MEMCPY3D::srcY,
          &CUDA_MEMCPY3D::srcXInBytes, &CUDA_MEMCPY3D::WidthInBytes, &CUDA_MEMCPY3D::Height, &CUDA_MEMCPY3D::Depth})
        for (std::size_t value : {~std::size_t{0}, std::size_t{1} << 63, std::size_t{1} << 39, std::size_t{1} << 32}) {
            CUDA_MEMCPY3D c = box();
            c.*field = value;
            EXPECT_FALSE(copy(c).ok()) << value;
        }
}
TEST_F(Boxes, WhosePitchIsShorterThanARowAreRefused) {
    CUDA_MEMCPY3D c = box();
    c.srcPitch = 99;
    EXPECT_EQ(copy(c).result, CUDA_ERROR_INVALID_VALUE);
}
TEST_F(Boxes, NameArraysByTheirIds) {
    CUDA_MEMCPY3D c = box();
    c.dstMemoryType = CU_MEMORYTYPE_ARRAY;
    c.dstArray = reinterpret_cast<CUarray>(0x777);
    EXPECT_EQ(copy(c).result, CUDA_ERROR_INVALID_HANDLE);
    CUDA_ARRAY3D_DESCRIPTOR d{};
    ASSERT_TRUE((call<Op::cuArray3DCreate_v2>(&c.dstArray, &d).ok()));
    EXPECT_TRUE(copy(c).ok());
}
TEST_F(Boxes, OfAKindThatTheLibraryNeverSendsAreALie) {
    CUDA_MEMCPY3D c = box();
    c.srcMemoryType = CU_MEMORYTYPE_UNIFIED;
    EXPECT_TRUE(copy(c).lie);
}

TEST_F(Boxes, MayRideInTheCommandPackedWithoutGaps) {
    CUDA_MEMCPY3D c = box();
    c.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    c.srcDevice = world.memory;  // the device's side stands on both
    std::vector<std::byte> packed(100 * 8 * 4);
    const void* bytes = packed.data();
    EXPECT_TRUE((call<Op::box_in>(&c, bytes, packed.size(), CUstream{}).ok()));
    EXPECT_TRUE((call<Op::box_out>(&c, static_cast<void*>(packed.data()), packed.size(), CUstream{}).ok()));
}
TEST_F(Boxes, ThatRideInACommandOfAnotherSizeAreRefused) {
    std::vector<std::byte> packed(100 * 8 * 4);
    const void* bytes = packed.data();
    const auto refused = [&](const CUDA_MEMCPY3D& c, std::size_t n) {
        const auto before = world.calls;
        const CUresult in = ext::box_in(&c, bytes, n, nullptr), out = ext::box_out(&c, packed.data(), n, nullptr);
        EXPECT_EQ(world.calls, before);
        return in == CUDA_ERROR_INVALID_VALUE && out == CUDA_ERROR_INVALID_VALUE;
    };
    CUDA_MEMCPY3D c = box();
    c.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    c.srcDevice = world.memory;
    EXPECT_TRUE(refused(c, packed.size() - 1));
    EXPECT_TRUE(refused(c, 0));
    c.Height = std::size_t{1} << 63;  // times 100 times 4: 0 in 64 bits
    EXPECT_TRUE(refused(c, 0));
    c.Depth = 0;
    EXPECT_TRUE(refused(c, 0));
}

// ---- images in parts ------------------------------------------------------------------------------------------------
struct Parts : Loopback {
    Verdict part(std::size_t place, const std::string& text) {
        return call<Op::image_part>(place, static_cast<const void*>(text.data()), text.size());
    }
    Verdict begin(std::size_t bytes) { return call<Op::image_begin>(bytes); }
    bool piece(const std::string& text) {
        return call<Op::image_piece>(static_cast<const void*>(text.data()), text.size()).ok();
    }
    Verdict load(std::size_t bytes) {
        CUmodule module = nullptr;
        guest.offset = 0;  // null, for the kind
        return call<Op::load_module>(&module, static_cast<const void*>(nullptr), bytes, ext::no_logs);
    }
};
TEST_F(Parts, AreLoadedWhenTheyAreWhole) {
    EXPECT_TRUE(part(0, "for").ok());
    EXPECT_TRUE(part(3, "ty-two").ok());
    EXPECT_TRUE(load(9).ok());
}
TEST_F(Parts, AreGoneWhenTheyAreLoaded) {
    const std::string long_part(200, 'x');
    EXPECT_TRUE(part(0, long_part).ok());
    EXPECT_GE(ground.session.code().held(), long_part.size());
    EXPECT_TRUE(load(long_part.size()).ok());
    EXPECT_LT(ground.session.code().held(), long_part.size());
    EXPECT_EQ(load(long_part.size()).result, CUDA_ERROR_INVALID_VALUE);
    EXPECT_TRUE(part(0, long_part).ok());
    EXPECT_FALSE(part(1, "out of order").ok());
    EXPECT_LT(ground.session.code().held(), long_part.size());
}
TEST_F(Parts, ThatAreNotAllThereAreTheProgramsMistake) {
    EXPECT_EQ(load(9).result, CUDA_ERROR_INVALID_VALUE);
    EXPECT_TRUE(part(0, "for").ok());
    EXPECT_EQ(load(9).result, CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(load(0).result, CUDA_ERROR_INVALID_VALUE);
}
TEST_F(Parts, ThatNobodyWaitsForAreLoadedWhenTheyAreWhole) {
    EXPECT_TRUE(begin(9).ok());
    EXPECT_GE(ground.session.code().held(), 9u) << "there is memory for all of them";
    EXPECT_TRUE(piece("for"));
    EXPECT_EQ(load(9).result, CUDA_ERROR_INVALID_VALUE);
    EXPECT_TRUE(piece("ty-two"));
    EXPECT_TRUE(load(9).ok());
    EXPECT_FALSE(ground.session.code().has_parts());
    EXPECT_EQ(load(9).result, CUDA_ERROR_INVALID_VALUE);
}
TEST_F(Parts, BeyondWhatWasSaidAreNoImage) {
    EXPECT_TRUE(piece("not begun"));
    EXPECT_EQ(load(9).result, CUDA_ERROR_INVALID_VALUE);
    EXPECT_TRUE(begin(4).ok());
    EXPECT_TRUE(piece("fort"));
    EXPECT_TRUE(piece("y"));
    EXPECT_FALSE(ground.session.code().has_parts());
    EXPECT_EQ(load(4).result, CUDA_ERROR_INVALID_VALUE);
    EXPECT_TRUE(begin(4).ok());
    EXPECT_TRUE(part(0, "for").ok()) << "another image, in the older way";
    EXPECT_TRUE(piece("ty"));
    EXPECT_EQ(load(4).result, CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(begin(wire::most_image_parts + 1).result, CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(begin(~std::size_t{0}).result, CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_FALSE(ground.session.code().has_parts());
}
TEST_F(Parts, OutOfTheirOrderAreRefused) {
    EXPECT_TRUE(part(0, "for").ok());
    EXPECT_EQ(part(4, "y").result, CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(load(3).result, CUDA_ERROR_INVALID_VALUE);
    EXPECT_TRUE(part(0, "six").ok());  // a new image begins
    EXPECT_TRUE(load(3).ok());
}

// ---- lies -----------------------------------------------------------------------------------------------------------
TEST_F(Loopback, ACommandThatDoesNotExistIsALie) {
    EXPECT_TRUE(send(Op::count, {}).lie);
    EXPECT_TRUE(send(static_cast<Op>(~0u), {}).lie);
}
TEST_F(Loopback, ATruncatedRequestIsALieAndReachesNoDriver) {
    const auto before = world.calls;
    auto arguments = std::make_unique<sample::Arguments>();
    for (unsigned i = 0; i < static_cast<unsigned>(Op::count); ++i) {
        const auto op = static_cast<Op>(i);
        const auto bytes = sample::request(op, guest, *arguments);
        for (std::size_t n = 0; n < bytes.size(); n += 8)
            EXPECT_TRUE(send(op, std::span(bytes).first(n)).lie) << op_names[i] << " " << n;
    }
    EXPECT_EQ(world.calls, before);
}
TEST_F(Loopback, RandomRequestsNeverLeadTheDriverAstray) {  // the fake aborts at a handle that is not its own
    std::mt19937_64 random(7);
    stream();
    graph();
    const auto before = world.calls;
    auto arguments = std::make_unique<sample::Arguments>();
    for (int i = 0; i < 20000; ++i) {
        const auto op = static_cast<Op>(random() % static_cast<unsigned>(Op::count));
        if (op == Op::cuDevicePrimaryCtxReset_v2 || op == Op::take_output)
            continue;  // the process's own: its context, its output
        arguments->handle = random() % 4 ? 0x40 + random() % 8 : wire::given + random() % 8;
        auto bytes = sample::request(op, guest, *arguments);
        for (unsigned change = random() % 3; change && !bytes.empty(); --change)
            bytes[random() % bytes.size()] = static_cast<std::byte>(random());
        send(op, bytes);
    }
    EXPECT_GT(world.calls - before, 2000u);  // else the test would show nothing
}

}  // namespace
}  // namespace barcuda
