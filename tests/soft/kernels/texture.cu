// SPDX-License-Identifier: Apache-2.0
// texture.cu: textures of one, two and three dimensions, layered, of cubes, with levels, over arrays and plain memory;
// every filter and addressing mode, normalized or not; gathers; and surfaces, read and written. The CPU samples as the
// CUDA C++ Programming Guide's appendix on texture fetching says.
#include <vector>

#include "suite.h"

constexpr int width = 13, height = 9, depth = 5;
constexpr int samples = 512;

// ---- the CPU's sampling ---------------------------------------------------------------------------------------------
static float clean(float x) { return std::nearbyint(x * 256) / 256; }  // a weight has 8 bits of fraction
static int placed(int i, int n, cudaTextureAddressMode mode) {         // -1: border
    switch (mode) {
        case cudaAddressModeWrap: return (i % n + n) % n;
        case cudaAddressModeMirror: {
            const int k = (i % (2 * n) + 2 * n) % (2 * n);
            return k < n ? k : 2 * n - 1 - k;
        }
        case cudaAddressModeClamp: return std::min(std::max(i, 0), n - 1);
        default: return i < 0 || i >= n ? -1 : i;
    }
}
template <class Fetch> float sampled(const int (&size)[3], int dimensions, const float (&at)[3], bool linear,
                                     cudaTextureAddressMode mode, Fetch fetch) {
    int base[3] = {};
    float weight[3] = {};
    for (int k = 0; k < dimensions; ++k) {
        const float x = linear ? at[k] - 0.5f : at[k];
        base[k] = static_cast<int>(std::floor(x));
        weight[k] = linear ? clean(x - std::floor(x)) : 0;
    }
    float sum = 0;
    for (int corner = 0; corner < 1 << dimensions; ++corner) {
        float w = 1;
        int place[3] = {};
        bool border = false;
        for (int k = 0; k < dimensions; ++k) {
            const bool upper = corner >> k & 1;
            w *= upper ? weight[k] : 1 - weight[k];
            place[k] = placed(base[k] + upper, size[k], mode);
            border |= place[k] < 0;
        }
        if (w != 0 && !border) sum += w * fetch(place[0], place[1], place[2]);
    }
    return sum;
}
static float texel(int x, int y, int z) { return static_cast<float>((x * 7 + y * 31 + z * 17) % 64); }

// ---- kernels --------------------------------------------------------------------------------------------------------
__global__ void fetch(cudaTextureObject_t t, int dimensions, const float3* at, float* out) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const float3 p = at[i];
    out[i] = dimensions == 1   ? tex1D<float>(t, p.x)
             : dimensions == 2 ? tex2D<float>(t, p.x, p.y)
                               : tex3D<float>(t, p.x, p.y, p.z);
}
__global__ void fetch_layer(cudaTextureObject_t t, bool two, const float3* at, float* out) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const float3 p = at[i];
    out[i] = two ? tex2DLayered<float>(t, p.x, p.y, static_cast<int>(p.z))
                 : tex1DLayered<float>(t, p.x, static_cast<int>(p.z));
}

static float3* points(bool normalized) {
    float3* at = common<float3>(samples);
    for (int i = 0; i < samples; ++i) {
        const auto number = [&](int k, int n) {  // multiples of 1/256, from before the beginning to beyond the end
            const float x = static_cast<float>(static_cast<int>(scramble(i * 3 + k) % (n * 256 * 2)) - n * 128) / 256;
            return normalized ? x / n : x;
        };
        at[i] = normalized ? make_float3(number(0, 16), number(1, 8), number(2, 4))
                           : make_float3(number(0, width), number(1, height), number(2, depth));
    }
    return at;
}

// Sizes are powers of two where coordinates are normalized, so that products with them are exact.
static cudaArray_t array_of(const int (&size)[3], int dimensions, unsigned flags = 0) {
    cudaArray_t array;
    const auto format = cudaCreateChannelDesc<float>();
    const bool layered = flags & cudaArrayLayered;
    const cudaExtent extent =
        make_cudaExtent(size[0], dimensions > 1 ? size[1] : 0, dimensions > 2 || layered ? size[2] : 0);
    CHECK(cudaMalloc3DArray(&array, &format, extent, flags));
    const int rows = dimensions > 1 ? size[1] : 1, planes = dimensions > 2 || layered ? size[2] : 1;
    std::vector<float> data;
    for (int z = 0; z < planes; ++z)
        for (int y = 0; y < rows; ++y)
            for (int x = 0; x < size[0]; ++x) data.push_back(texel(x, y, z));
    cudaMemcpy3DParms copy = {};
    copy.srcPtr = make_cudaPitchedPtr(data.data(), size[0] * sizeof(float), size[0], rows);
    copy.dstArray = array;
    copy.extent = make_cudaExtent(size[0], rows, planes);
    copy.kind = cudaMemcpyHostToDevice;
    CHECK(cudaMemcpy3D(&copy));
    return array;
}
// `modes`: how many dimensions get the mode; the others stay what a zeroed descriptor says.
static cudaTextureObject_t texture_of(const cudaResourceDesc& resource, cudaTextureAddressMode mode, bool linear,
                                      bool normalized, cudaTextureReadMode read = cudaReadModeElementType,
                                      int modes = 2) {
    cudaTextureDesc d = {};
    for (int k = 0; k < modes; ++k) d.addressMode[k] = mode;
    d.filterMode = linear ? cudaFilterModeLinear : cudaFilterModePoint;
    d.readMode = read;
    d.normalizedCoords = normalized;
    cudaTextureObject_t t;
    CHECK(cudaCreateTextureObject(&t, &resource, &d, nullptr));
    return t;
}
static cudaResourceDesc resource_of(cudaArray_t array) {
    cudaResourceDesc r = {};
    r.resType = cudaResourceTypeArray;
    r.res.array.array = array;
    return r;
}

// Rounding of the weights may differ by a step of 1/256 of the largest difference of two texels, in each dimension.
static void compare(const char* what, const float* out, float allowed, float (*expected)(int, const void*),
                    const void* argument) {
    int wrong = 0;
    for (int i = 0; i < samples; ++i)
        if (!(std::fabs(out[i] - expected(i, argument)) <= allowed) && wrong++ < 2)
            std::printf("FAILED: %s: sample %d is %g, not %g\n", what, i, out[i], expected(i, argument));
    ++forms_run, forms_wrong += wrong != 0;
}
template <class F> void compare(const char* what, const float* out, float allowed, F f) {
    compare(
        what, out, allowed, [](int i, const void* g) { return (*static_cast<const F*>(g))(i); }, &f);
}

void every_mode() {
    const cudaTextureAddressMode modes[] = {cudaAddressModeClamp, cudaAddressModeBorder, cudaAddressModeWrap,
                                            cudaAddressModeMirror};
    const char* names[] = {"clamp", "border", "wrap", "mirror"};
    float* out = common<float>(samples);
    for (const bool normalized : {false, true}) {
        float3* at = points(normalized);
        const int size[3] = {normalized ? 16 : width, normalized ? 8 : height, normalized ? 4 : depth};
        for (int dimensions = 1; dimensions <= 3; ++dimensions) {
            const cudaArray_t array = array_of(size, dimensions);
            for (int m = 0; m < (normalized ? 4 : 2); ++m)
                for (const bool linear : {false, true}) {
                    const auto t = texture_of(resource_of(array), modes[m], linear, normalized, cudaReadModeElementType,
                                              dimensions);
                    fetch<<<samples / 64, 64>>>(t, dimensions, at, out);
                    finish();
                    char what[64];
                    std::snprintf(what, sizeof what, "%dD, %s, %s%s", dimensions, names[m], linear ? "linear" : "point",
                                  normalized ? ", normalized" : "");
                    compare(what, out, linear ? 64.f * dimensions / 256 : 0, [&](int i) {
                        const float scale[3] = {normalized ? 16.f : 1, normalized ? 8.f : 1, normalized ? 4.f : 1};
                        return sampled(size, dimensions, {at[i].x * scale[0], at[i].y * scale[1], at[i].z * scale[2]},
                                       linear, modes[m], texel);
                    });
                    CHECK(cudaDestroyTextureObject(t));
                }
            CHECK(cudaFreeArray(array));
        }
        const cudaArray_t layers = array_of({size[0], size[1], 4}, 2, cudaArrayLayered);
        const auto t = texture_of(resource_of(layers), cudaAddressModeClamp, true, normalized);
        for (int i = 0; i < samples; ++i) at[i].z = static_cast<float>(i % 4);
        fetch_layer<<<samples / 64, 64>>>(t, true, at, out);
        finish();
        compare(normalized ? "2D layers, normalized" : "2D layers", out, 0.5f, [&](int i) {
            const float x = at[i].x * (normalized ? 16 : 1), y = at[i].y * (normalized ? 8 : 1);
            return sampled({size[0], size[1], 1}, 2, {x, y, 0}, true, cudaAddressModeClamp,
                           [&](int a, int b, int) { return texel(a, b, i % 4); });
        });
        CHECK(cudaDestroyTextureObject(t));
        CHECK(cudaFreeArray(layers));
    }
}

// The texture unit samples a line as the only row of two dimensions, at y = 0, which lies half a row before the row's
// middle: where the mode of the second dimension is border, half of every linear sample is the border's.
void a_line_between_borders() {
    float* out = common<float>(samples);
    float3* at = points(false);
    const int size[3] = {width, 1, 1};
    const cudaArray_t array = array_of(size, 1);
    const auto t = texture_of(resource_of(array), cudaAddressModeBorder, true, false, cudaReadModeElementType, 2);
    fetch<<<samples / 64, 64>>>(t, 1, at, out);
    finish();
    compare("1D, border on all sides, linear", out, 0.25f, [&](int i) {
        return sampled(size, 1, {at[i].x, 0, 0}, true, cudaAddressModeBorder, texel) / 2;
    });
    CHECK(cudaDestroyTextureObject(t));
    CHECK(cudaFreeArray(array));
}

// ---- formats, plain memory, gathers ---------------------------------------------------------------------------------
__global__ void formats(cudaTextureObject_t bytes, cudaTextureObject_t fractions, cudaTextureObject_t line,
                        cudaTextureObject_t pitched, cudaTextureObject_t gathered, float4* out) {
    const int i = threadIdx.x;
    const uchar4 b = tex2D<uchar4>(bytes, i % 8 + 0.5f, i / 8 + 0.5f);
    out[i] = make_float4(b.x, b.y, b.z, b.w);
    out[32 + i] = tex2D<float4>(fractions, i % 8 + 0.5f, i / 8 + 0.5f);
    out[64 + i] = make_float4(tex1Dfetch<int>(line, i), tex1Dfetch<int>(line, 31 - i), 0, 0);
    out[96 + i] = make_float4(tex2D<float>(pitched, i % 8 + 0.5f, i / 8 + 0.5f), 0, 0, 0);
    out[128 + i] = tex2Dgather<float4>(gathered, i % 7 + 1.0f, i / 8 + 1.0f, 0);
}
void every_format() {
    uchar4 data[32];
    for (int i = 0; i < 32; ++i) data[i] = make_uchar4(i, 2 * i, 255 - i, 7 * i);
    cudaArray_t array;
    const auto four = cudaCreateChannelDesc<uchar4>();
    CHECK(cudaMallocArray(&array, &four, 8, 4));
    CHECK(cudaMemcpy2DToArray(array, 0, 0, data, 32, 32, 4, cudaMemcpyHostToDevice));
    int* line = common<int>(32);
    for (int i = 0; i < 32; ++i) line[i] = i * i;
    cudaResourceDesc linear = {}, rows = {};
    linear.resType = cudaResourceTypeLinear;
    linear.res.linear.devPtr = line, linear.res.linear.desc = cudaCreateChannelDesc<int>(),
    linear.res.linear.sizeInBytes = 128;
    rows.resType = cudaResourceTypePitch2D;
    std::size_t pitch;
    void* plane;
    CHECK(cudaMallocPitch(&plane, &pitch, 32, 4));
    float numbers[32];
    for (int i = 0; i < 32; ++i) numbers[i] = i * 0.5f;
    CHECK(cudaMemcpy2D(plane, pitch, numbers, 32, 32, 4, cudaMemcpyHostToDevice));
    rows.res.pitch2D = {plane, cudaCreateChannelDesc<float>(), 8, 4, pitch};
    const cudaArray_t gather = array_of({8, 8, 1}, 2, cudaArrayTextureGather);
    const auto clamp = cudaAddressModeClamp;
    float4* out = common<float4>(160);
    formats<<<1, 32>>>(texture_of(resource_of(array), clamp, false, false),
                       texture_of(resource_of(array), clamp, false, false, cudaReadModeNormalizedFloat),
                       texture_of(linear, clamp, false, false), texture_of(rows, clamp, false, false),
                       texture_of(resource_of(gather), clamp, false, false), out);
    finish();
    const float* f = &out->x;
    const auto byte = [&](int i) { return static_cast<float>((&data[i / 4].x)[i % 4]); };
    all_are("four bytes", f, 128, byte);
    all_are("bytes as fractions", f + 128, 128, [&](int i) { return byte(i) / 255; });
    all_are("plain memory", f + 256, 128, [](int i) {
        return i % 4 > 1 ? 0.f : i % 4 ? (31.f - i / 4) * (31 - i / 4) : (i / 4) * (i / 4);
    });
    all_are("rows of memory", f + 384, 128, [](int i) { return i % 4 ? 0 : i / 4 * 0.5f; });
    all_are("a gather", f + 512, 128, [](int i) {
        const int x = i / 4 % 7,
                  y = i / 4 / 8;  // the texels around the corner (x + 1, y + 1): from below, against the clock
        return i % 4 == 0   ? texel(x, y + 1, 0)
               : i % 4 == 1 ? texel(x + 1, y + 1, 0)
               : i % 4 == 2 ? texel(x + 1, y, 0)
                            : texel(x, y, 0);
    });
}

// ---- surfaces -------------------------------------------------------------------------------------------------------
__global__ void surfaces(cudaSurfaceObject_t one, cudaSurfaceObject_t two, cudaSurfaceObject_t three,
                         cudaSurfaceObject_t layers, float* out) {
    const int x = threadIdx.x, y = threadIdx.y;
    if (y == 0) surf1Dwrite<float>(x * 2.f, one, x * 4);
    float4 v = make_float4(x, y, x * y, x + 10 * y);
    surf2Dwrite(v, two, x * 16, y);
    for (int z = 0; z < 3; ++z) surf3Dwrite<u16>(static_cast<u16>(x + 8 * y + 64 * z), three, x * 2, y, z);
    surf2DLayeredwrite<int>(x - y, layers, x * 4, y, 1);
    __syncthreads();
    const int i = y * 8 + x;
    out[i] = surf1Dread<float>(one, (7 - x) * 4);
    v = surf2Dread<float4>(two, (7 - x) * 16, 7 - y);
    out[64 + i] = v.x + v.y * 100 + v.z * 10000 + v.w * 0.25f;
    out[128 + i] = surf3Dread<u16>(three, y * 2, x, 2);
    out[192 + i] = surf2DLayeredread<int>(layers, y * 4, x, 1);
    // All four numbers of what is clamped: where only the first is used, ptxas reads no more than that, and the last 4
    // bytes of the row are not the last 16.
    v = surf2Dread<float4>(two, (x + 100) * 16, y + 100, cudaBoundaryModeClamp);
    out[256 + i] =
        surf2Dread<float4>(two, (x - 4) * 16, y, cudaBoundaryModeZero).x + v.x + v.y * 10 + v.z * 100 + v.w * 1000;
}
template <class T> cudaSurfaceObject_t surface(cudaExtent extent, unsigned flags) {
    cudaArray_t array;
    const auto format = cudaCreateChannelDesc<T>();
    CHECK(cudaMalloc3DArray(&array, &format, extent, flags | cudaArraySurfaceLoadStore));
    const auto r = resource_of(array);
    cudaSurfaceObject_t s;
    CHECK(cudaCreateSurfaceObject(&s, &r));
    return s;
}
void every_surface() {
    float* out = common<float>(320);
    surfaces<<<1, dim3(8, 8)>>>(surface<float>({8, 0, 0}, 0), surface<float4>({8, 8, 0}, 0), surface<u16>({8, 8, 3}, 0),
                                surface<int>({8, 8, 2}, cudaArrayLayered), out);
    finish();
    all_are("a surface of one dimension", out, 64, [](int i) { return 2.f * (7 - i % 8); });
    all_are("a surface of two", out + 64, 64, [](int i) {
        const int x = 7 - i % 8, y = 7 - i / 8;
        return x + y * 100.f + x * y * 10000.f + (x + 10 * y) * 0.25f;
    });
    all_are("a surface of three", out + 128, 64, [](int i) { return i / 8 + 8.f * (i % 8) + 128; });
    all_are("a layer of a surface", out + 192, 64, [](int i) { return static_cast<float>(i / 8 - i % 8); });
    all_are("beyond the edge of a surface", out + 256, 64,
            [](int i) { return (i % 8 < 4 ? 0.f : i % 8 - 4) + 7 + 70 + 4900 + 77000; });
}

int main() {
    every_mode();
    a_line_between_borders();
    every_format();
    every_surface();
    return verdict();
}
