// SPDX-License-Identifier: Apache-2.0
// births_carried_test: a client of the software GPU makes its objects in one process, and uses them in another one,
// where they were made again from what was recorded: by the same ids, at the same addresses, with the same contents.
#include "tests/unit/support/births_carried.h"

namespace barcuda {
namespace {

using enum Op;
using test::births::BirthsCarried;
using test::births::Client;

TEST_F(BirthsCarried, MemoryKeepsItsAddressAndItsContentsWhateverWasFreedBefore) {
    first([&](Client& c) {
        const CUdeviceptr gone = c.memory(6 << 20), small_gone = c.memory(700);
        keep(0, c.memory(4 << 20));
        keep(1, c.memory(1000));
        c.free(gone);
        c.free(small_gone);
        c.wait();
        EXPECT_TRUE(c.session().deferred().reap(true));
        keep(2, c.memory(2 << 20));  // where another one was
        c.fill(get<CUdeviceptr>(0), 7, 4 << 20);
        c.fill(get<CUdeviceptr>(1), 8, 1000);
    });
    second([&](Client& c) {
        EXPECT_EQ(c.read<std::uint32_t>(get<CUdeviceptr>(0) + (4 << 20) - 4), 0x07070707u);
        EXPECT_EQ(c.read<std::uint32_t>(get<CUdeviceptr>(1) + 996), 0x08080808u);
        EXPECT_EQ(c.read<std::uint32_t>(get<CUdeviceptr>(2)), 0u);
        for (int i : {0, 1, 2}) c.free(get<CUdeviceptr>(static_cast<std::size_t>(i)));
        EXPECT_NE(c.memory(6 << 20), 0u);
    });
}
TEST_F(BirthsCarried, RowsOfMemoryKeepTheirPitch) {
    first([&](Client& c) {
        std::size_t pitch = 0;
        CUdeviceptr at = 0;
        EXPECT_TRUE((c.call<cuMemAllocPitch_v2>(&at, &pitch, std::size_t{100}, std::size_t{50}, 4u).ok()));
        keep(0, at);
        keep(1, pitch);
        c.fill(at + pitch * 49, 9, 100);
    });
    second([&](Client& c) { EXPECT_EQ(c.read<unsigned char>(get<CUdeviceptr>(0) + get<std::size_t>(1) * 49), 9); });
}
TEST_F(BirthsCarried, MemoryThatTheProgramMapsIsWhereItWas) {
    constexpr std::size_t granule = 2 << 20;
    first([&](Client& c) {
        CUmemAllocationProp what{};
        what.type = CU_MEM_ALLOCATION_TYPE_PINNED;
        what.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
        CUmemAccessDesc access{what.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
        CUdeviceptr at = 0;
        ASSERT_TRUE((c.call<cuMemAddressReserve>(&at, 4 * granule, std::size_t{0}, CUdeviceptr{0}, 0ull).ok()));
        for (std::size_t i = 0; i < 3; ++i) {
            CUmemGenericAllocationHandle physical = 0;
            ASSERT_TRUE((c.call<cuMemCreate>(&physical, granule, &what, 0ull).ok()));
            ASSERT_TRUE((c.call<cuMemMap>(at + i * granule, granule, std::size_t{0}, physical, 0ull).ok()));
            if (i == 0 || i == 2) { EXPECT_TRUE((c.call<cuMemRelease>(physical).ok())); }
            keep(1 + i, physical);
        }
        ASSERT_TRUE((c.call<cuMemSetAccess>(at, 3 * granule, &access, std::size_t{1}).ok()));
        for (std::size_t i = 0; i < 3; ++i) c.fill(at + i * granule, 5, granule);
        c.wait();
        ASSERT_TRUE((c.call<cuMemUnmap>(at, granule).ok()));
        keep(0, at);
    });
    second([&](Client& c) {
        const auto at = get<CUdeviceptr>(0);
        EXPECT_EQ(c.read<std::uint32_t>(at + 2 * granule), 0x05050505u);
        EXPECT_EQ(c.read<std::uint32_t>(at + granule), 0x05050505u);
        ASSERT_TRUE((c.call<cuMemMap>(at, granule, std::size_t{0}, get<CUmemGenericAllocationHandle>(2), 0ull).ok()))
            << "the physical memory that the program kept";
        EXPECT_TRUE((c.call<cuMemUnmap>(at, 3 * granule).ok()));
        EXPECT_TRUE((c.call<cuMemAddressFree>(at, 4 * granule).ok()));
    });
}
TEST_F(BirthsCarried, PhysicalMemoryThatIsNotMappedAsAWholeWithAccessStandsInTheWay) {
    in_a_process([] {
        constexpr std::size_t granule = 2 << 20;
        Client c;
        c.begin();
        CUmemAllocationProp what{};
        what.type = CU_MEM_ALLOCATION_TYPE_PINNED;
        what.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
        CUdeviceptr at = 0;
        CUmemGenericAllocationHandle physical = 0;
        ASSERT_TRUE((c.call<cuMemAddressReserve>(&at, 4 * granule, std::size_t{0}, CUdeviceptr{0}, 0ull).ok()));
        ASSERT_TRUE((c.call<cuMemCreate>(&physical, 2 * granule, &what, 0ull).ok()));
        EXPECT_EQ(hindrances(c.session()).size(), 1u) << "mapped nowhere";
        ASSERT_TRUE((c.call<cuMemMap>(at, 2 * granule, std::size_t{0}, physical, 0ull).ok()));
        EXPECT_EQ(hindrances(c.session()).size(), 1u) << "no access";
        CUmemAccessDesc access{what.location, CU_MEM_ACCESS_FLAGS_PROT_READ};
        ASSERT_TRUE((c.call<cuMemSetAccess>(at, 2 * granule, &access, std::size_t{1}).ok()));
        EXPECT_EQ(hindrances(c.session()).size(), 1u) << "what it has cannot be put back there";
        access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        ASSERT_TRUE((c.call<cuMemSetAccess>(at, 2 * granule, &access, std::size_t{1}).ok()));
        EXPECT_EQ(hindrances(c.session()).size(), 0u) << "mapped as a whole";
        ASSERT_TRUE((c.call<cuMemUnmap>(at, 2 * granule).ok()));
        EXPECT_EQ(hindrances(c.session()).size(), 1u) << "unmapped again";
        ASSERT_TRUE((c.call<cuMemRelease>(physical).ok()));
        EXPECT_EQ(hindrances(c.session()).size(), 0u) << "released";
    });
}
TEST_F(BirthsCarried, ContextsAndTheirLimits) {
    first([&](Client& c) {
        CUcontext second = nullptr;
        ASSERT_TRUE((c.call<create_context>(&second, 0u, CUdevice{0}).ok()));
        const std::uint32_t primary = c.context;
        c.context = static_cast<std::uint32_t>(Client::id(second));
        EXPECT_TRUE((c.call<cuCtxSetLimit>(CU_LIMIT_STACK_SIZE, std::size_t{4096}).ok()));
        keep(0, second);
        keep(1, c.stream());
        keep(2, c.memory(64));
        c.fill(get<CUdeviceptr>(2), 3, 64);
        c.wait();
        c.context = primary;
        keep(3, c.stream());
    });
    second([&](Client& c) {
        const std::uint32_t primary = c.context;
        c.context = static_cast<std::uint32_t>(kept(0));
        std::size_t limit = 0;
        EXPECT_TRUE((c.call<cuCtxGetLimit>(&limit, CU_LIMIT_STACK_SIZE).ok()));
        EXPECT_EQ(limit, 4096u);
        EXPECT_EQ(c.read<unsigned char>(get<CUdeviceptr>(2)), 3);
        EXPECT_TRUE((c.call<cuStreamDestroy_v2>(get<CUstream>(1)).ok()));
        EXPECT_TRUE((c.call<cuCtxDestroy_v2>(get<CUcontext>(0)).ok()));
        c.context = primary;
        EXPECT_TRUE((c.call<cuStreamQuery>(get<CUstream>(3)).ok()));
    });
}
TEST_F(BirthsCarried, TexturesOfLinearMemory) {
    first([&](Client& c) {
        const CUdeviceptr at = c.memory(4096);
        CUDA_RESOURCE_DESC what{};
        what.resType = CU_RESOURCE_TYPE_LINEAR;
        what.res.linear = {at, CU_AD_FORMAT_FLOAT, 1, 4096};
        CUDA_TEXTURE_DESC how{};
        CUtexObject texture = 0;
        ASSERT_TRUE(
            (c.call<cuTexObjectCreate>(&texture, &what, &how, static_cast<const CUDA_RESOURCE_VIEW_DESC*>(nullptr))
                 .ok()));
        keep(0, texture);
        keep(1, at);
    });
    second([&](Client& c) {
        CUDA_RESOURCE_DESC what{};
        ASSERT_TRUE((c.call<cuTexObjectGetResourceDesc>(&what, get<CUtexObject>(0)).ok()));
        EXPECT_EQ(what.res.linear.devPtr, get<CUdeviceptr>(1));
        EXPECT_TRUE((c.call<cuTexObjectDestroy>(get<CUtexObject>(0)).ok()));
    });
}
TEST_F(BirthsCarried, ArraysAndMipmapsKeepTheirContents) {
    // Rows that are no power of two, in slices; each of its words is another.
    constexpr std::size_t width = 30, height = 7, slices = 3;
    const auto copy = [](Client& c, CUarray array, std::vector<std::uint32_t>& words, std::size_t rows,
                         std::size_t deep, bool out) {
        CUDA_MEMCPY3D what{};
        what.WidthInBytes = words.size() / rows / deep * 4;
        what.Height = rows;
        what.Depth = deep;
        (out ? what.srcMemoryType : what.dstMemoryType) = CU_MEMORYTYPE_ARRAY;
        (out ? what.dstMemoryType : what.srcMemoryType) = CU_MEMORYTYPE_HOST;
        (out ? what.srcArray : what.dstArray) = array;
        if (out) what.dstHost = words.data();
        else what.srcHost = words.data();
        (out ? what.dstPitch : what.srcPitch) = what.WidthInBytes;
        (out ? what.dstHeight : what.srcHeight) = rows;
        EXPECT_EQ(CUDA_SUCCESS, c.gpu().cuMemcpy3DAsync_v2(&what, nullptr));
        EXPECT_EQ(CUDA_SUCCESS, c.gpu().cuCtxSynchronize());
    };
    const auto drivers = [](Client& c, auto id) {
        decltype(id) raw = nullptr;
        EXPECT_TRUE(c.session().find(Client::id(id), raw).ok());
        return raw;
    };
    const auto level_of = [](Client& c, CUmipmappedArray mipmap, unsigned level) {
        CUarray array = nullptr;
        EXPECT_EQ(CUDA_SUCCESS, c.gpu().cuMipmappedArrayGetLevel(&array, mipmap, level));
        return array;
    };
    const auto numbers = [](std::size_t count, std::uint32_t from) {
        std::vector<std::uint32_t> words(count);
        for (std::uint32_t& word : words) word = from += 2654435761u;
        return words;
    };
    const CUDA_ARRAY3D_DESCRIPTOR shape{width, height, slices, CU_AD_FORMAT_UNSIGNED_INT32, 1, 0},
        flat{16, 8, 0, CU_AD_FORMAT_FLOAT, 1, 0};
    first([&](Client& c) {
        CUarray array = nullptr;
        CUmipmappedArray mipmap = nullptr;
        ASSERT_TRUE((c.call<cuArray3DCreate_v2>(&array, &shape).ok()));
        ASSERT_TRUE((c.call<cuMipmappedArrayCreate>(&mipmap, &flat, 2u).ok()));
        keep(0, array);
        keep(1, mipmap);
        auto words = numbers(width * height * slices, 1), level = numbers(8 * 4, 2);
        copy(c, drivers(c, array), words, height, slices, false);
        copy(c, level_of(c, drivers(c, mipmap), 1), level, 4, 1, false);
    });
    second([&](Client& c) {
        std::vector<std::uint32_t> words(width * height * slices), level(8 * 4);
        copy(c, drivers(c, get<CUarray>(0)), words, height, slices, true);
        copy(c, level_of(c, drivers(c, get<CUmipmappedArray>(1)), 1), level, 4, 1, true);
        EXPECT_EQ(words, numbers(words.size(), 1));
        EXPECT_EQ(level, numbers(level.size(), 2));
    });
}
TEST_F(BirthsCarried, PoolsAndWhatIsSetOfThem) {
    first([&](Client& c) {
        CUmemPoolProps what{};
        what.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
        what.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
        what.location.id = 0;
        CUmemoryPool pool = nullptr;
        ASSERT_TRUE((c.call<cuMemPoolCreate>(&pool, &what).ok()));
        std::uint64_t threshold = 1 << 20;
        ASSERT_TRUE(
            (c.call<cuMemPoolSetAttribute>(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, static_cast<void*>(&threshold))
                 .ok()));
        keep(0, pool);
    });
    second([&](Client& c) {
        std::uint64_t threshold = 0;
        ASSERT_TRUE((c.call<cuMemPoolGetAttribute>(get<CUmemoryPool>(0), CU_MEMPOOL_ATTR_RELEASE_THRESHOLD,
                                                   static_cast<void*>(&threshold))
                         .ok()));
        EXPECT_EQ(threshold, 1u << 20);
    });
}
TEST_F(BirthsCarried, AnObjectOfTheProgramThatEndedWithItsLastReferenceIsGone) {
    first([&](Client& c) {
        CUuserObject object = nullptr;
        ASSERT_TRUE(
            (c.call<create_user_object>(&object, std::uint64_t{0}, 2u, unsigned{CU_USER_OBJECT_NO_DESTRUCTOR_SYNC})
                 .ok()));
        ASSERT_TRUE((c.call<cuUserObjectRelease>(object, 1u).ok()));
        EXPECT_EQ(hindrances(c.session()).size(), 1u) << "there is a reference";
        ASSERT_TRUE((c.call<cuUserObjectRelease>(object, 1u).ok()));
        keep(0, object);
    });
    second([&](Client& c) { EXPECT_FALSE((c.call<cuUserObjectRelease>(get<CUuserObject>(0), 1u).ok())); });
}
TEST_F(BirthsCarried, ACarriedClientCanBeCarriedOn) {
    first([&](Client& c) {
        const CUfunction store = c.function(c.module(), "store");
        const CUgraph g = c.graph();
        keep(0, c.memory(3 << 20));
        c.kernel_node(g, store, get<CUdeviceptr>(0), 21);
        keep(1, c.exec(g));
        EXPECT_TRUE((c.call<cuGraphDestroy>(g).ok()));
    });
    in_a_process([&] {
        Client client;
        ASSERT_EQ("", wake(client).text());
        ASSERT_TRUE(client.session().quiet());
        Carried again = carry(client.session());
        again.extents = client.session().extents().all();
        EXPECT_EQ(written(again), CarriedParts::bytes_of(parts.births()));
    });
}
// ---- differences
TEST_F(BirthsCarried, MemoryOfAnotherAddressIsNotGivenToTheProgram) {
    first([&](Client& c) { c.fill(c.memory(1 << 20), 1, 1 << 20); });
    std::uint64_t name = 0;
    constexpr off_t its = 2 * sizeof(std::uint64_t);  // behind the length of the frame, and how many there are
    ASSERT_EQ(static_cast<ssize_t>(sizeof name), pread(parts.memory().fd(), &name, sizeof name, its));
    ++name;
    ASSERT_EQ(static_cast<ssize_t>(sizeof name), pwrite(parts.memory().fd(), &name, sizeof name, its));
    in_a_process([&] {
        Client client;
        const std::string text = wake(client).text();
        EXPECT_NE(text.find("in place of"), std::string::npos) << text;
    });
}
TEST_F(BirthsCarried, AnAddressThatIsTakenIsADifferenceByName) {
    first([&](Client& c) { keep(0, c.memory(3 << 20)); });
    in_a_process([&] {
        Client client;
        CUcontext context = nullptr;
        CUdeviceptr taken = 0;
        EXPECT_EQ(CUDA_SUCCESS, client.gpu().cuDevicePrimaryCtxRetain(&context, 0));
        EXPECT_EQ(CUDA_SUCCESS, client.gpu().cuCtxSetCurrent(context));
        EXPECT_EQ(CUDA_SUCCESS, client.gpu().cuMemAlloc_v2(&taken, 3 << 20));
        EXPECT_EQ(taken, get<CUdeviceptr>(0));
        const std::string text = wake(client).text();
        EXPECT_NE(text.find("cuMemAlloc_v2, which made memory at"), std::string::npos) << text;
    });
}

}  // namespace
}  // namespace barcuda
