// SPDX-License-Identifier: Apache-2.0
// texture_references: textures and surfaces by name, as code of CUDA 11 and before has them, and old static runtimes
// use them: what a kernel reads through a reference is what was bound when it was launched.
#define CUDA_ENABLE_DEPRECATED
#include <cuda.h>

#include <cstring>
#include <vector>

#include "driver.h"

#define FUNCTION(name, version) static const auto p_##name = entry<decltype(&name)>(#name, version)

static const char code[] = R"(
.version 6.0
.target sm_70
.address_size 64
.global .texref line;
.global .texref plane;
.global .surfref canvas;
.visible .entry read_line(.param .u64 out) {
    .reg .b64 %d<3>;
    .reg .b32 %r<6>;
    ld.param.u64 %d0, [out];
    mov.u32 %r0, %tid.x;
    tex.1d.v4.s32.s32 {%r1, %r2, %r3, %r4}, [line, {%r0}];
    mul.wide.u32 %d1, %r0, 4;
    add.u64 %d2, %d0, %d1;
    st.global.u32 [%d2], %r1;
    ret;
}
.visible .entry read_plane(.param .u64 out) {
    .reg .b64 %d<3>;
    .reg .b32 %r<4>;
    .reg .f32 %f<6>;
    ld.param.u64 %d0, [out];
    mov.u32 %r0, %tid.x;
    mov.u32 %r1, %tid.y;
    cvt.rn.f32.u32 %f0, %r0;
    cvt.rn.f32.u32 %f1, %r1;
    tex.2d.v4.f32.f32 {%f2, %f3, %f4, %f5}, [plane, {%f0, %f1}];
    mov.u32 %r2, %ntid.x;
    mad.lo.u32 %r3, %r1, %r2, %r0;
    mul.wide.u32 %d1, %r3, 4;
    add.u64 %d2, %d0, %d1;
    st.global.f32 [%d2], %f2;
    ret;
}
.visible .entry draw(.param .u32 value) {
    .reg .b32 %r<4>;
    ld.param.u32 %r0, [value];
    mov.u32 %r1, %tid.x;
    shl.b32 %r2, %r1, 2;
    mov.u32 %r3, %tid.y;
    sust.b.2d.b32.trap [canvas, {%r2, %r3}], {%r0};
    ret;
}
)";

int main() {
    FUNCTION(cuModuleLoadData, 2000);
    FUNCTION(cuModuleGetFunction, 2000);
    FUNCTION(cuModuleGetTexRef, 2000);
    FUNCTION(cuModuleGetSurfRef, 3000);
    FUNCTION(cuModuleUnload, 2000);
    FUNCTION(cuLaunchKernel, 4000);
    FUNCTION(cuTexRefCreate, 2000);
    FUNCTION(cuTexRefDestroy, 2000);
    FUNCTION(cuTexRefSetAddress, 3020);
    FUNCTION(cuTexRefSetAddress2D, 4010);
    FUNCTION(cuTexRefSetArray, 2000);
    FUNCTION(cuTexRefSetFormat, 2000);
    FUNCTION(cuTexRefSetFlags, 2000);
    FUNCTION(cuTexRefSetFilterMode, 2000);
    FUNCTION(cuTexRefSetAddressMode, 2000);
    FUNCTION(cuTexRefSetBorderColor, 8000);
    FUNCTION(cuTexRefSetMaxAnisotropy, 5000);
    FUNCTION(cuTexRefSetMipmapFilterMode, 5000);
    FUNCTION(cuTexRefSetMipmapLevelBias, 5000);
    FUNCTION(cuTexRefSetMipmapLevelClamp, 5000);
    FUNCTION(cuTexRefGetAddress, 3020);
    FUNCTION(cuTexRefGetArray, 2000);
    FUNCTION(cuTexRefGetFormat, 2000);
    FUNCTION(cuTexRefGetFlags, 2000);
    FUNCTION(cuTexRefGetFilterMode, 2000);
    FUNCTION(cuTexRefGetAddressMode, 2000);
    FUNCTION(cuTexRefGetBorderColor, 8000);
    FUNCTION(cuTexRefGetMaxAnisotropy, 5000);
    FUNCTION(cuTexRefGetMipmapFilterMode, 5000);
    FUNCTION(cuTexRefGetMipmapLevelBias, 5000);
    FUNCTION(cuTexRefGetMipmapLevelClamp, 5000);
    FUNCTION(cuTexRefGetMipmappedArray, 5000);
    FUNCTION(cuSurfRefSetArray, 3000);
    FUNCTION(cuSurfRefGetArray, 3000);
    CHECK(cudaFree(nullptr));
    CUmodule module;
    CUfunction read_line, read_plane, draw;
    CUtexref line, plane, none;
    CUsurfref canvas;
    DRIVER(p_cuModuleLoadData(&module, code));
    DRIVER(p_cuModuleGetFunction(&read_line, module, "read_line"));
    DRIVER(p_cuModuleGetFunction(&read_plane, module, "read_plane"));
    DRIVER(p_cuModuleGetFunction(&draw, module, "draw"));
    DRIVER(p_cuModuleGetTexRef(&line, module, "line"));
    DRIVER(p_cuModuleGetTexRef(&plane, module, "plane"));
    DRIVER(p_cuModuleGetSurfRef(&canvas, module, "canvas"));
    REQUIRE(p_cuModuleGetTexRef(&none, module, "absent") == CUDA_ERROR_NOT_FOUND);

    // ---- linear memory, and another one while the first launch may still run
    constexpr int n = 64;
    int *first, *second, *out, host[n], seen[2][n];
    for (int** p : {&first, &second}) {
        CHECK(cudaMalloc(p, sizeof host));
        for (int i = 0; i < n; ++i) host[i] = (p == &first ? 1000 : 2000) + i;
        CHECK(cudaMemcpy(*p, host, sizeof host, cudaMemcpyHostToDevice));
    }
    CHECK(cudaMalloc(&out, sizeof seen));
    size_t offset = 77;
    DRIVER(p_cuTexRefSetFormat(line, CU_AD_FORMAT_SIGNED_INT32, 1));
    DRIVER(p_cuTexRefSetFlags(line, CU_TRSF_READ_AS_INTEGER));
    const auto run = [&](CUfunction function, void* to, int x, int y) {
        void* parameters[] = {&to};
        DRIVER(p_cuLaunchKernel(function, 1, 1, 1, x, y, 1, 0, nullptr, parameters, nullptr));
    };
    DRIVER(p_cuTexRefSetAddress(&offset, line, (CUdeviceptr)first, sizeof host));
    REQUIRE(offset == 0);
    run(read_line, out, n, 1);
    DRIVER(p_cuTexRefSetAddress(&offset, line, (CUdeviceptr)second, sizeof host));
    run(read_line, out + n, n, 1);
    CHECK(cudaMemcpy(seen, out, sizeof seen, cudaMemcpyDeviceToHost));
    for (int i = 0; i < n; ++i) REQUIRE(seen[0][i] == 1000 + i && seen[1][i] == 2000 + i);
    CUdeviceptr bound = 0;
    DRIVER(p_cuTexRefGetAddress(&bound, line));
    REQUIRE(bound == (CUdeviceptr)second);
    // An address that is not aligned is bound from an aligned one on, if the program can hear of it.
    DRIVER(p_cuTexRefSetAddress(&offset, line, (CUdeviceptr)(second + 4), 32 * sizeof(int)));
    REQUIRE(offset == 4 * sizeof(int));
    REQUIRE(p_cuTexRefSetAddress(nullptr, line, (CUdeviceptr)(second + 4), 32 * sizeof(int)) ==
            CUDA_ERROR_INVALID_VALUE);
    CUarray nothing;
    CUmipmappedArray no_levels;
    REQUIRE(p_cuTexRefGetArray(&nothing, line) == CUDA_ERROR_INVALID_VALUE);
    REQUIRE(p_cuTexRefGetMipmappedArray(&no_levels, line) == CUDA_ERROR_INVALID_VALUE);
    REQUIRE(p_cuTexRefSetAddress(&offset, nullptr, (CUdeviceptr)second, sizeof host) != CUDA_SUCCESS);

    // ---- an array, between its texels and beside it
    cudaArray_t array;
    const cudaChannelFormatDesc real = cudaCreateChannelDesc<float>();
    float texels[4][4], got[5][5];
    for (int y = 0; y < 4; ++y)
        for (int x = 0; x < 4; ++x) texels[y][x] = 10.f * y + x;
    CHECK(cudaMallocArray(&array, &real, 4, 4, cudaArraySurfaceLoadStore));
    CHECK(cudaMemcpy2DToArray(array, 0, 0, texels, 16, 16, 4, cudaMemcpyHostToDevice));
    DRIVER(p_cuTexRefSetArray(plane, (CUarray)array, CU_TRSA_OVERRIDE_FORMAT));
    DRIVER(p_cuTexRefSetFilterMode(plane, CU_TR_FILTER_MODE_LINEAR));
    for (int dim = 0; dim < 2; ++dim) DRIVER(p_cuTexRefSetAddressMode(plane, dim, CU_TR_ADDRESS_MODE_CLAMP));
    run(read_plane, out, 5, 5);
    CHECK(cudaMemcpy(got, out, sizeof got, cudaMemcpyDeviceToHost));
    const auto at = [](int i) {
        return i == 0 ? 0.f : i == 4 ? 3.f : i - 0.5f;
    };  // halfway between two, or the last one
    for (int y = 0; y < 5; ++y)
        for (int x = 0; x < 5; ++x) REQUIRE(got[y][x] == 10 * at(y) + at(x));
    CUarray its = nullptr;
    DRIVER(p_cuTexRefGetArray(&its, plane));
    REQUIRE(its == (CUarray)array);

    // ---- rows of linear memory in its place
    float* rows;
    size_t pitch = 0;
    CHECK(cudaMallocPitch((void**)&rows, &pitch, 16, 4));
    for (auto& row : texels)
        for (float& texel : row) texel += 100;
    CHECK(cudaMemcpy2D(rows, pitch, texels, 16, 16, 4, cudaMemcpyHostToDevice));
    CUDA_ARRAY_DESCRIPTOR shape{};
    shape.Width = shape.Height = 4;
    shape.Format = CU_AD_FORMAT_FLOAT;
    shape.NumChannels = 1;
    DRIVER(p_cuTexRefSetFilterMode(plane, CU_TR_FILTER_MODE_POINT));
    DRIVER(p_cuTexRefSetAddress2D(plane, &shape, (CUdeviceptr)rows, pitch));
    run(read_plane, out, 4, 4);
    CHECK(cudaMemcpy(got, out, 64, cudaMemcpyDeviceToHost));
    REQUIRE(memcmp(got, texels, 64) == 0);

    // ---- a surface
    DRIVER(p_cuSurfRefSetArray(canvas, (CUarray)array, 0));
    DRIVER(p_cuSurfRefGetArray(&its, canvas));
    REQUIRE(its == (CUarray)array);
    const float drawn = 42.5f;
    void* parameters[] = {(void*)&drawn};
    DRIVER(p_cuLaunchKernel(draw, 1, 1, 1, 4, 2, 1, 0, nullptr, parameters, nullptr));
    CHECK(cudaMemcpy2DFromArray(texels, 16, array, 0, 0, 16, 4, cudaMemcpyDeviceToHost));
    for (int y = 0; y < 4; ++y)
        for (int x = 0; x < 4; ++x) REQUIRE(texels[y][x] == (y < 2 ? 42.5f : 10.f * y + x));

    // ---- one that is no code's keeps what is set
    CUarray_format format{};
    int channels = 0, anisotropy = 7;
    unsigned flags = 7;
    CUfilter_mode filter = CU_TR_FILTER_MODE_LINEAR, between = CU_TR_FILTER_MODE_LINEAR;
    CUaddress_mode mode{};
    DRIVER(p_cuTexRefCreate(&none));
    DRIVER(p_cuTexRefGetFormat(&format, &channels, none));
    REQUIRE(format == CU_AD_FORMAT_FLOAT && channels == 1);
    DRIVER(p_cuTexRefGetFlags(&flags, none));
    DRIVER(p_cuTexRefGetFilterMode(&filter, none));
    DRIVER(p_cuTexRefGetAddressMode(&mode, none, 0));
    DRIVER(p_cuTexRefGetMaxAnisotropy(&anisotropy, none));
    REQUIRE(flags == 0 && filter == CU_TR_FILTER_MODE_POINT && mode == CU_TR_ADDRESS_MODE_CLAMP && anisotropy == 0);
    REQUIRE(p_cuTexRefGetAddressMode(&mode, none, 3) == CUDA_ERROR_INVALID_VALUE);
    REQUIRE(p_cuTexRefSetFlags(none, 256) == CUDA_ERROR_INVALID_VALUE);
    REQUIRE(p_cuTexRefGetAddress(&bound, none) == CUDA_ERROR_INVALID_VALUE);
    float color[4] = {1, 2, 3, 4}, kept[4] = {}, bias = 0, least = 0, most = 0;
    DRIVER(p_cuTexRefSetBorderColor(none, color));
    DRIVER(p_cuTexRefGetBorderColor(kept, none));
    REQUIRE(memcmp(color, kept, sizeof color) == 0);
    DRIVER(p_cuTexRefSetMaxAnisotropy(none, 4));
    DRIVER(p_cuTexRefGetMaxAnisotropy(&anisotropy, none));
    DRIVER(p_cuTexRefSetMipmapFilterMode(none, CU_TR_FILTER_MODE_LINEAR));
    DRIVER(p_cuTexRefGetMipmapFilterMode(&between, none));
    DRIVER(p_cuTexRefSetMipmapLevelBias(none, 0.5f));
    DRIVER(p_cuTexRefGetMipmapLevelBias(&bias, none));
    DRIVER(p_cuTexRefSetMipmapLevelClamp(none, 1, 2));
    DRIVER(p_cuTexRefGetMipmapLevelClamp(&least, &most, none));
    REQUIRE(anisotropy == 4 && between == CU_TR_FILTER_MODE_LINEAR && bias == 0.5f && least == 1 && most == 2);
    DRIVER(p_cuTexRefDestroy(none));
    DRIVER(p_cuModuleUnload(module));
    CHECK(cudaFreeArray(array));
    for (void* p : {(void*)first, (void*)second, (void*)out, (void*)rows}) CHECK(cudaFree(p));
    printf("PASSED\n");
    return 0;
}
