// SPDX-License-Identifier: Apache-2.0
// Textures and surfaces of the software GPU: arrays, and the result of a fetch between, at and beyond texels.
#include "soft-gpu/texture.h"

#include <atomic>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "soft-gpu/ptx/texture_lanes.h"
#include "tests/unit/support/soft_fixture.h"

namespace {

using barcuda::soft::fetch;
using barcuda::soft::find;
using barcuda::soft::gather;
using barcuda::soft::locate;
using barcuda::soft::sample;
using barcuda::soft::SamplePoint;
using barcuda::soft::Texel;
using barcuda::soft::TextureObject;

float real(const Texel& texel, int channel = 0) { return std::bit_cast<float>(texel.channel[channel]); }

// A texture over the test's own floats: tests the arithmetic without a driver.
struct Floats {
    std::vector<float> texels;
    TextureObject object;
    Floats(std::vector<float> values, std::size_t width, std::size_t height = 1, std::size_t depth = 1)
        : texels(std::move(values)) {
        object.dimensions = depth > 1 ? 3 : height > 1 ? 2 : 1;
        object.levels[0] = {
            reinterpret_cast<std::byte*>(texels.data()), width, height, depth, width * 4, width * height * 4};
    }
    float at(float x, float y = 0, float z = 0) const { return real(sample(object, {x, y, z, 0, 0})); }
};

TEST(SoftTexture, APointFilterTakesTheTexelThatTheCoordinateLiesIn) {
    const Floats t({10, 20, 30, 40}, 4);
    EXPECT_EQ(10, t.at(0.0f));
    EXPECT_EQ(10, t.at(0.99f));
    EXPECT_EQ(20, t.at(1.0f));
    EXPECT_EQ(40, t.at(3.5f));
}

TEST(SoftTexture, ALinearFilterWeighsWithEightFractionalBits) {
    Floats t({0, 256}, 2);
    t.object.linear_filter = true;
    EXPECT_EQ(0, t.at(0.5f));  // a texel's middle is the texel
    EXPECT_EQ(256, t.at(1.5f));
    EXPECT_EQ(128, t.at(1.0f));
    EXPECT_EQ(77, t.at(0.5f + 0.3f));  // 0.3 is 77/256
}

TEST(SoftTexture, BilinearAndTrilinearAreProducts) {
    Floats flat({0, 4, 8, 12}, 2, 2);
    flat.object.linear_filter = true;
    EXPECT_EQ(6, flat.at(1, 1));
    EXPECT_EQ(4 * 0.25f + 8 * 0.5f, flat.at(0.75f, 1.0f));
    Floats volume({0, 1, 2, 3, 4, 5, 6, 7}, 2, 2, 2);
    volume.object.linear_filter = true;
    EXPECT_EQ(3.5f, volume.at(1, 1, 1));
}

TEST(SoftTexture, BeyondTheEdgeTheAddressModeDecides) {
    Floats t({1, 2, 3, 4}, 4);
    t.object.normalized = true;
    const auto with = [&](TextureObject::Border border, float x) {
        t.object.borders[0] = border;
        return t.at(x);
    };
    EXPECT_EQ(1, with(TextureObject::Border::clamp, -0.3f));
    EXPECT_EQ(4, with(TextureObject::Border::clamp, 7.0f));
    EXPECT_EQ(3, with(TextureObject::Border::wrap, -0.3f));
    EXPECT_EQ(2, with(TextureObject::Border::wrap, 5.3f));
    EXPECT_EQ(2, with(TextureObject::Border::mirror, -0.3f));
    EXPECT_EQ(3, with(TextureObject::Border::mirror, 5.3f));
    t.object.border_color = {9, 0, 0, 0};
    EXPECT_EQ(9, with(TextureObject::Border::border, -0.1f));
    EXPECT_EQ(9, with(TextureObject::Border::border, 1.0f));
}

TEST(SoftTexture, WrapNeedsNormalizedCoordinates) {
    Floats t({1, 2, 3, 4}, 4);
    t.object.borders[0] = TextureObject::Border::wrap;
    EXPECT_EQ(4, t.at(5));
}

TEST(SoftTexture, NarrowIntegersAreReadAsFractionsWhereAsked) {
    std::uint8_t bytes[] = {0, 255, 128};
    TextureObject t;
    t.format = TextureObject::Format::u8;
    t.levels[0] = {reinterpret_cast<std::byte*>(bytes), 3, 1, 1, 3, 3};
    EXPECT_EQ(255u, fetch(t, 1, 0, 0, 0, 0).channel[0]);
    t.as_real = true;
    EXPECT_EQ(1.0f, real(fetch(t, 1, 0, 0, 0, 0)));
    EXPECT_EQ(128.0f / 255.0f, real(fetch(t, 2, 0, 0, 0, 0)));
    t.format = TextureObject::Format::s8;
    EXPECT_EQ(-1.0f, real(fetch(t, 2, 0, 0, 0, 0)));  // -128 and -127 both
    t.as_real = false;
    EXPECT_EQ(0xffffff80u, fetch(t, 2, 0, 0, 0, 0).channel[0]);
}

TEST(SoftTexture, HalvesAreFloats) {
    std::uint16_t halves[] = {0x3c00, 0xc500, 0x0001, 0x7c00};
    TextureObject t;
    t.format = TextureObject::Format::f16;
    t.levels[0] = {reinterpret_cast<std::byte*>(halves), 4, 1, 1, 8, 8};
    EXPECT_EQ(1.0f, real(fetch(t, 0, 0, 0, 0, 0)));
    EXPECT_EQ(-5.0f, real(fetch(t, 1, 0, 0, 0, 0)));
    EXPECT_EQ(std::ldexp(1.0f, -24), real(fetch(t, 2, 0, 0, 0, 0)));
    EXPECT_TRUE(std::isinf(real(fetch(t, 3, 0, 0, 0, 0))));
}

TEST(SoftTexture, MissingChannelsAreZeroAndOpaque) {
    const Floats t({5}, 1);
    const Texel texel = fetch(t.object, 0, 0, 0, 0, 0);
    EXPECT_EQ(5, real(texel, 0));
    EXPECT_EQ(0, real(texel, 1));
    EXPECT_EQ(1, real(texel, 3));
}

TEST(SoftTexture, ALayerIsChosenNotFiltered) {
    Floats t({1, 2, 10, 20}, 2, 1, 2);
    t.object.dimensions = 1;
    t.object.layered = true;
    EXPECT_EQ(20, real(sample(t.object, {1.5f, 0, 0, 1, 0})));
    EXPECT_EQ(10, real(sample(t.object, {0.5f, 0, 0, 7, 0})));  // clamped to the last
}

TEST(SoftTexture, ACubesFaceIsThatOfTheLongestAxis) {
    Floats t({0, 1, 2, 3, 4, 5}, 1, 1, 6);
    t.object.cube = true;
    t.object.dimensions = 3;
    EXPECT_EQ(0, t.at(1, 0.5f, 0));
    EXPECT_EQ(1, t.at(-1, 0.5f, 0));
    EXPECT_EQ(2, t.at(0, 1, 0.5f));
    EXPECT_EQ(3, t.at(0, -1, 0.5f));
    EXPECT_EQ(4, t.at(0.5f, 0, 1));
    EXPECT_EQ(5, t.at(0.5f, 0, -1));
}

TEST(SoftTexture, LevelsAreChosenOrMixed) {
    std::vector<float> fine{0, 0}, coarse{8};
    TextureObject t;
    t.normalized = true;
    t.level_count = 2;
    t.most_level = 1;
    t.levels[0] = {reinterpret_cast<std::byte*>(fine.data()), 2, 1, 1, 8, 8};
    t.levels[1] = {reinterpret_cast<std::byte*>(coarse.data()), 1, 1, 1, 4, 4};
    const auto at = [&](float level) { return real(sample(t, {0.5f, 0, 0, 0, level})); };
    EXPECT_EQ(0, at(0.25f));
    EXPECT_EQ(8, at(0.75f));
    t.linear_between_levels = true;
    EXPECT_EQ(2, at(0.25f));
    EXPECT_EQ(8, at(5));
}

TEST(SoftTexture, GatherGivesTheFourTexelsOfALinearFilter) {
    const Floats t({1, 2, 3, 4}, 2, 2);
    const Texel texel = gather(t.object, {1, 1, 0, 0, 0}, 0);
    EXPECT_EQ(3, real(texel, 0));
    EXPECT_EQ(4, real(texel, 1));
    EXPECT_EQ(2, real(texel, 2));
    EXPECT_EQ(1, real(texel, 3));
}

// Every kind of texture that a warp samples at once, with coordinates inside, at edges, and far away.
TEST(SoftTexture, AWarpSamplesWhatEachLaneWould) {
    using Format = TextureObject::Format;
    using Border = TextureObject::Border;
    std::mt19937 random(1);
    std::vector<std::byte> memory(64 * 1024);
    for (std::size_t i = 0; i < memory.size(); i += 4) {
        const float value = static_cast<float>(random() % 4096) / 16 - 100;
        std::memcpy(memory.data() + i, &value, sizeof value);
    }
    constexpr float infinity = std::numeric_limits<float>::infinity();
    const float edges[] = {0,  -0.0f, 0.5f, 1,     1.5f,     -0.5f,     -1,  7.0f,
                           16, 16.5f, 17,   1e20f, infinity, -infinity, NAN, 0.999999f};
    int kinds = 0;
    for (unsigned n = 0; n < 1u << 10; ++n) {
        TextureObject t;
        t.format = (n & 1) != 0 ? Format::f32 : Format::u8;
        t.channels = (n & 2) != 0 ? ((n & 4) != 0 ? 4 : 2) : 1;
        t.dimensions = (n & 8) != 0 ? 2 : 1;
        t.linear_filter = (n & 16) != 0;
        t.normalized = (n & 32) != 0;
        t.as_real = (n & 64) != 0;
        t.borders = {(n & 128) != 0 ? Border::border : Border::clamp, (n & 256) != 0 ? Border::border : Border::wrap,
                     Border::clamp};
        if ((n & 512) != 0) t.borders[1] = Border::clamp;
        t.border_color = {3, -2, 0.5f, 7};
        t.levels[0] = {memory.data(), 16, t.dimensions == 2 ? 7u : 1u, 1, 16 * t.texel_bytes() + 8, 0};
        if (!barcuda::soft::can_sample_lanes(t)) continue;
        ++kinds;
        for (int round = 0; round < 8; ++round) {
            float x[32], y[32];
            for (auto* all : {x, y})
                for (int i = 0; i < 32; ++i)
                    all[i] = round == 0
                                 ? edges[random() % std::size(edges)]
                                 : (static_cast<float>(random() % 8192) / 256 - 8) / (t.normalized ? 16.0f : 1.0f);
            std::uint32_t texels[4][32];
            barcuda::soft::sample_lanes(t, x, y, texels);
            for (int i = 0; i < 32; ++i) {
                const Texel one = sample(t, {x[i], t.dimensions == 2 ? y[i] : 0, 0, 0, 0});
                for (int c = 0; c < 4; ++c)
                    ASSERT_EQ(one.channel[c], texels[c][i])
                        << "kind " << n << ", (" << x[i] << ", " << y[i] << "), channel " << c;
            }
        }
    }
    EXPECT_GT(kinds, 500);
}

TEST(SoftTexture, ASurfaceHasPlacesOnlyInside) {
    Floats t({1, 2, 3, 4, 5, 6}, 3, 2);
    auto* const first = t.object.levels[0].base;
    EXPECT_EQ(first + 16, locate(t.object, 4, 1, 0, 4, false));
    EXPECT_EQ(nullptr, locate(t.object, 12, 0, 0, 4, false));
    EXPECT_EQ(nullptr, locate(t.object, 8, 0, 0, 8, false));
    EXPECT_EQ(nullptr, locate(t.object, -4, 0, 0, 4, false));
    EXPECT_EQ(nullptr, locate(t.object, 0, 2, 0, 4, false));
    EXPECT_EQ(first + 8, locate(t.object, 100, -5, 0, 4, true));
}

TEST(SoftTexture, NoNumberIsMistakenForAnObject) {
    EXPECT_EQ(nullptr, find(0));
    EXPECT_EQ(nullptr, find(~0ull));
    EXPECT_EQ(nullptr, find(1));
    const auto first = barcuda::soft::create({});
    ASSERT_NE(nullptr, find(first));
    EXPECT_TRUE(barcuda::soft::destroy(first));
    EXPECT_FALSE(barcuda::soft::destroy(first));
    const auto second = barcuda::soft::create({});  // perhaps in the same slot
    EXPECT_EQ(nullptr, find(first));
    EXPECT_NE(first, second);
    EXPECT_TRUE(barcuda::soft::destroy(second));
}

// ---- through the driver ---------------------------------------------------------------------------------------------

struct SoftArray : SoftGpu {
    static CUarray array(std::size_t width, std::size_t height, std::size_t depth, unsigned flags = 0) {
        CUarray made = nullptr;
        const CUDA_ARRAY3D_DESCRIPTOR shape{width, height, depth, CU_AD_FORMAT_FLOAT, 1, flags};
        EXPECT_EQ(CUDA_SUCCESS, cuArray3DCreate(&made, &shape));
        return made;
    }
    static void put(CUarray to, const std::vector<float>& values, std::size_t width, std::size_t height,
                    std::size_t depth) {
        CUDA_MEMCPY3D copy{};
        copy.srcMemoryType = CU_MEMORYTYPE_HOST;
        copy.srcHost = values.data();
        copy.srcPitch = width * 4;
        copy.srcHeight = height;
        copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
        copy.dstArray = to;
        copy.WidthInBytes = width * 4;
        copy.Height = height;
        copy.Depth = depth;
        EXPECT_EQ(CUDA_SUCCESS, cuMemcpy3D(&copy));
    }
    static CUDA_RESOURCE_DESC of(CUarray array) {
        CUDA_RESOURCE_DESC resource{};
        resource.resType = CU_RESOURCE_TYPE_ARRAY;
        resource.res.array.hArray = array;
        return resource;
    }
};

TEST_F(SoftArray, ATextureReadsWhatWasCopiedIntoItsArray) {
    const CUarray a = array(4, 2, 0);
    put(a, {0, 1, 2, 3, 4, 5, 6, 7}, 4, 2, 1);
    CUDA_TEXTURE_DESC reading{};
    reading.filterMode = CU_TR_FILTER_MODE_LINEAR;
    reading.addressMode[0] = reading.addressMode[1] = CU_TR_ADDRESS_MODE_CLAMP;
    const CUDA_RESOURCE_DESC resource = of(a);
    CUtexObject texture = 0;
    OK(cuTexObjectCreate(&texture, &resource, &reading, nullptr));
    ASSERT_NE(nullptr, find(texture));
    EXPECT_EQ(2.5f, real(sample(*find(texture), {1, 1, 0, 0, 0})));
    CUDA_RESOURCE_DESC asked;
    OK(cuTexObjectGetResourceDesc(&asked, texture));
    EXPECT_EQ(a, asked.res.array.hArray);
    OK(cuTexObjectDestroy(texture));
    SAYS(CUDA_ERROR_INVALID_VALUE, cuTexObjectDestroy(texture));
    OK(cuArrayDestroy(a));
}

TEST_F(SoftArray, ATextureDestroyedWhileItsWorkIsQueuedServesThatWork) {
    const CUarray a = array(4, 1, 0);
    put(a, {5, 6, 7, 8}, 4, 1, 1);
    const CUDA_TEXTURE_DESC reading{};
    const CUDA_RESOURCE_DESC resource = of(a);
    CUtexObject texture = 0, next = 0;
    OK(cuTexObjectCreate(&texture, &resource, &reading, nullptr));
    CUmodule module;
    CUfunction read;
    OK(cuModuleLoadData(&module, R"(
.version 8.0
.target sm_75
.address_size 64
.visible .entry read(.param .u64 texture, .param .u64 to)
{
    .reg .b64 %rd<3>;
    .reg .f32 %f<5>;
    ld.param.u64 %rd1, [texture];
    ld.param.u64 %rd2, [to];
    tex.1d.v4.f32.s32 {%f1, %f2, %f3, %f4}, [%rd1, {2}];
    st.global.f32 [%rd2], %f1;
    ret;
}
)"));
    OK(cuModuleGetFunction(&read, module, "read"));
    CUdeviceptr to = device_memory(4);
    void *go, *parameters[] = {&texture, &to};
    OK(cuMemAllocHost(&go, 4));
    const auto gate = reinterpret_cast<CUdeviceptr>(go);
    OK(cuMemsetD32(gate, 0, 1));
    CUstream stream;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuStreamWaitValue32(stream, gate, 1, CU_STREAM_WAIT_VALUE_EQ));
    OK(cuLaunchKernel(read, 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr));
    OK(cuTexObjectDestroy(texture));
    SAYS(CUDA_ERROR_INVALID_VALUE, cuTexObjectDestroy(texture));
    std::atomic_ref(*static_cast<int*>(go)) = 1;
    OK(cuStreamSynchronize(stream));
    EXPECT_EQ(7, read_back<float>(to, 1)[0]);
    OK(cuTexObjectCreate(&next, &resource, &reading, nullptr));
    EXPECT_EQ(nullptr, find(texture)) << "and then it is gone";
    OK(cuTexObjectDestroy(next));
    OK(cuStreamDestroy(stream));
    OK(cuMemFreeHost(go));
    OK(cuMemFree(to));
    OK(cuModuleUnload(module));
    OK(cuArrayDestroy(a));
}

TEST_F(SoftArray, ASurfaceNeedsAnArrayMadeForIt) {
    const CUarray plain = array(4, 4, 0), storable = array(4, 4, 0, CUDA_ARRAY3D_SURFACE_LDST);
    CUsurfObject surface = 0;
    CUDA_RESOURCE_DESC resource = of(plain);
    SAYS(CUDA_ERROR_INVALID_VALUE, cuSurfObjectCreate(&surface, &resource));
    resource = of(storable);
    OK(cuSurfObjectCreate(&surface, &resource));
    EXPECT_TRUE(find(surface)->surface);
    SAYS(CUDA_ERROR_INVALID_VALUE, cuTexObjectDestroy(surface));
    OK(cuSurfObjectDestroy(surface));
    OK(cuArrayDestroy(plain));
    OK(cuArrayDestroy(storable));
}

TEST_F(SoftArray, ATextureOverDeviceMemoryReadsItInPlace) {
    const CUdeviceptr at = device_memory(64);
    CUDA_RESOURCE_DESC resource{};
    resource.resType = CU_RESOURCE_TYPE_LINEAR;
    resource.res.linear = {at, CU_AD_FORMAT_SIGNED_INT32, 2, 64};
    const CUDA_TEXTURE_DESC reading{};
    CUtexObject texture = 0;
    OK(cuTexObjectCreate(&texture, &resource, &reading, nullptr));
    OK(cuMemsetD32(at, static_cast<unsigned>(-3), 16));
    OK(cuCtxSynchronize());
    EXPECT_EQ(static_cast<std::uint32_t>(-3), fetch(*find(texture), 7, 0, 0, 0, 0).channel[1]);
    EXPECT_EQ(0u, fetch(*find(texture), 8, 0, 0, 0, 0).channel[0]);  // beyond the end
    OK(cuTexObjectDestroy(texture));
    resource.res.linear.sizeInBytes = 65 * 1024;  // more than the memory: what exists can be read
    OK(cuTexObjectCreate(&texture, &resource, &reading, nullptr));
    EXPECT_EQ(static_cast<std::uint32_t>(-3), fetch(*find(texture), 7, 0, 0, 0, 0).channel[1]);
    EXPECT_EQ(0u, fetch(*find(texture), 65 * 1024 / 8 - 1, 0, 0, 0, 0).channel[0]);
    OK(cuTexObjectDestroy(texture));
    OK(cuMemFree(at));
}

TEST_F(SoftArray, ATextureReadsWhereOneMappingMeetsTheNext) {
    constexpr std::size_t granule = 2 << 20;
    CUmemAllocationProp what{};
    what.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    what.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    const CUmemAccessDesc access{what.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUdeviceptr at = 0;
    OK(cuMemAddressReserve(&at, 3 * granule, 0, 0, 0));
    for (const CUdeviceptr piece : {at, at + granule}) {
        CUmemGenericAllocationHandle memory = 0;
        OK(cuMemCreate(&memory, granule, &what, 0));
        OK(cuMemMap(piece, granule, 0, memory, 0));
        OK(cuMemRelease(memory));
    }
    OK(cuMemSetAccess(at, 2 * granule, &access, 1));
    OK(cuMemsetD32(at, 5, 2 * granule / 4));
    CUDA_RESOURCE_DESC resource{};
    resource.resType = CU_RESOURCE_TYPE_LINEAR;
    resource.res.linear = {at + 16, CU_AD_FORMAT_SIGNED_INT32, 1, 3 * granule};
    const CUDA_TEXTURE_DESC reading{};
    CUtexObject texture = 0;
    OK(cuTexObjectCreate(&texture, &resource, &reading, nullptr));
    EXPECT_EQ(5u, fetch(*find(texture), granule / 4, 0, 0, 0, 0).channel[0]);
    EXPECT_EQ(5u, fetch(*find(texture), 2 * granule / 4 - 5, 0, 0, 0, 0).channel[0]);
    EXPECT_EQ(0u, fetch(*find(texture), 2 * granule / 4 - 4, 0, 0, 0, 0).channel[0]);  // beyond what is mapped
    OK(cuTexObjectDestroy(texture));
    OK(cuMemUnmap(at, 2 * granule));
    OK(cuMemAddressFree(at, 3 * granule));
}

TEST_F(SoftArray, AViewOfNoKnownFormatIsRefused) {
    const CUarray a = array(4, 4, 0);
    const CUDA_RESOURCE_DESC resource = of(a);
    const CUDA_TEXTURE_DESC reading{};
    for (const unsigned format : {0x23u, 0x7fffffffu, 0x80000000u, 0x80000001u, 0xffffffffu}) {
        CUDA_RESOURCE_VIEW_DESC view{};
        std::memcpy(&view.format, &format, sizeof format);
        view.width = view.height = 4;
        CUtexObject texture = 0;
        SAYS(CUDA_ERROR_INVALID_VALUE, cuTexObjectCreate(&texture, &resource, &reading, &view)) << format;
    }
    OK(cuArrayDestroy(a));
}

TEST_F(SoftArray, CopiesStayWithinTheArray) {
    const CUarray a = array(4, 2, 3);
    std::vector<float> values(24);
    std::iota(values.begin(), values.end(), 0.0f);
    put(a, values, 4, 2, 3);
    float back = 0;
    CUDA_MEMCPY3D copy{};
    copy.srcMemoryType = CU_MEMORYTYPE_ARRAY;
    copy.srcArray = a;
    copy.srcXInBytes = 12;
    copy.srcY = 1;
    copy.srcZ = 2;
    copy.dstMemoryType = CU_MEMORYTYPE_HOST;
    copy.dstHost = &back;
    copy.WidthInBytes = 4;
    copy.Height = copy.Depth = 1;
    OK(cuMemcpy3D(&copy));
    EXPECT_EQ(23, back);
    copy.srcZ = 3;
    SAYS(CUDA_ERROR_INVALID_VALUE, cuMemcpy3D(&copy));
    OK(cuArrayDestroy(a));
    SAYS(CUDA_ERROR_INVALID_HANDLE, cuArrayDestroy(a));
}

TEST_F(SoftArray, AMipmapHasLevelsThatHalve) {
    CUmipmappedArray mipmap;
    const CUDA_ARRAY3D_DESCRIPTOR shape{8, 4, 0, CU_AD_FORMAT_FLOAT, 1, 0};
    OK(cuMipmappedArrayCreate(&mipmap, &shape, 10));
    CUarray level;
    CUDA_ARRAY3D_DESCRIPTOR seen;
    OK(cuMipmappedArrayGetLevel(&level, mipmap, 2));
    OK(cuArray3DGetDescriptor(&seen, level));
    EXPECT_EQ(2u, seen.Width);
    EXPECT_EQ(1u, seen.Height);
    SAYS(CUDA_ERROR_INVALID_VALUE, cuMipmappedArrayGetLevel(&level, mipmap, 4));
    OK(cuMipmappedArrayGetLevel(&level, mipmap, 3));
    SAYS(CUDA_ERROR_INVALID_HANDLE, cuArrayDestroy(level));
    OK(cuMipmappedArrayDestroy(mipmap));
}

}  // namespace
