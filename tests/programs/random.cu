// SPDX-License-Identifier: Apache-2.0
// cuRAND: numbers are spread as they should be, the same seed gives the same numbers, an offset skips, a generator on
// the host gives what one on the device does, and numbers come in their stream's turn. (The software GPU has one where
// NVIDIA's library is installed.)
#include <curand.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "check.h"

#define RANDOM_CHECK(call)                                                                            \
    do {                                                                                              \
        curandStatus_t status_ = (call);                                                              \
        if (status_ != CURAND_STATUS_SUCCESS) {                                                       \
            printf("FAILED: %s:%d: %s: status %d\n", __FILE__, __LINE__, #call, (int)status_);        \
            exit(1);                                                                                  \
        }                                                                                             \
    } while (0)

constexpr size_t n = 200000;
constexpr unsigned long long some_seed = 1234;

struct Generator {
    curandGenerator_t it;
    explicit Generator(curandRngType_t type, bool on_host = false, bool seeded = true) {
        RANDOM_CHECK(on_host ? curandCreateGeneratorHost(&it, type) : curandCreateGenerator(&it, type));
        if (seeded) RANDOM_CHECK(curandSetPseudoRandomGeneratorSeed(it, some_seed));
    }
    Generator(const Generator&) = delete;
    ~Generator() { RANDOM_CHECK(curandDestroyGenerator(it)); }
    operator curandGenerator_t() const { return it; }
};

// What `draw(memory)` puts into device memory.
template <class T, class Draw> std::vector<T> from_device(size_t count, Draw draw) {
    T* device;
    std::vector<T> host(count);
    CHECK(cudaMalloc(&device, count * sizeof(T)));
    RANDOM_CHECK(draw(device));
    CHECK(cudaMemcpy(host.data(), device, count * sizeof(T), cudaMemcpyDeviceToHost));
    CHECK(cudaFree(device));
    return host;
}
template <class T, class Draw> std::vector<T> from_host(size_t count, Draw draw) {
    std::vector<T> host(count);
    RANDOM_CHECK(draw(host.data()));
    return host;
}

template <class T> void expect_moments(const std::vector<T>& all, double mean, double deviation, const char* what) {
    double sum = 0, squares = 0;
    for (T x : all) sum += x, squares += double(x) * x;
    const double m = sum / all.size(), d = std::sqrt(squares / all.size() - m * m),
                 far = 6 * deviation / std::sqrt(double(all.size()));
    if (std::fabs(m - mean) < far && std::fabs(d - deviation) < far) return;
    printf("FAILED: %s: mean %g, deviation %g; not %g and %g\n", what, m, d, mean, deviation);
    exit(1);
}

void pseudo(curandRngType_t type) {
    const auto bits = from_device<unsigned>(n, [=](unsigned* p) { return curandGenerate(Generator(type), p, n); });
    double ones = 0;
    for (unsigned b : bits) ones += __builtin_popcount(b);
    REQUIRE(std::fabs(ones / n - 16) < 0.1);
    REQUIRE(bits == from_device<unsigned>(n, [=](unsigned* p) { return curandGenerate(Generator(type), p, n); }));
    REQUIRE(bits != from_device<unsigned>(n, [=](unsigned* p) {
        Generator g(type);
        RANDOM_CHECK(curandSetPseudoRandomGeneratorSeed(g, some_seed + 1));
        return curandGenerate(g, p, n);
    }));
    const size_t skipped = 8192;
    const auto later = from_device<unsigned>(n, [=](unsigned* p) {
        Generator g(type);
        RANDOM_CHECK(curandSetGeneratorOffset(g, skipped));
        return curandGenerate(g, p, n);
    });
    REQUIRE(std::equal(bits.begin() + skipped, bits.end(), later.begin()));

    const auto uniform = from_device<float>(n, [=](float* p) { return curandGenerateUniform(Generator(type), p, n); });
    for (float x : uniform) REQUIRE(x > 0 && x <= 1);
    expect_moments(uniform, 0.5, std::sqrt(1.0 / 12), "uniform");
    expect_moments(
        from_device<double>(n, [=](double* p) { return curandGenerateUniformDouble(Generator(type), p, n); }), 0.5,
        std::sqrt(1.0 / 12), "uniform, double");
    const auto normal =
        from_device<float>(n, [=](float* p) { return curandGenerateNormal(Generator(type), p, n, 3.f, 2.f); });
    expect_moments(normal, 3, 2, "normal");
    expect_moments(
        from_device<double>(n, [=](double* p) { return curandGenerateNormalDouble(Generator(type), p, n, -1, 0.5); }),
        -1, 0.5, "normal, double");

    // The same on the host: in memory of every kind.
    REQUIRE(bits == from_host<unsigned>(n, [=](unsigned* p) { return curandGenerate(Generator(type, true), p, n); }));
    REQUIRE(uniform ==
            from_host<float>(n, [=](float* p) { return curandGenerateUniform(Generator(type, true), p, n); }));
    const auto close =
        from_host<float>(n, [=](float* p) { return curandGenerateNormal(Generator(type, true), p, n, 3.f, 2.f); });
    for (size_t i = 0; i < n; ++i) REQUIRE(std::fabs(close[i] - normal[i]) < 1e-3);
    unsigned few[16], *pinned;
    RANDOM_CHECK(curandGenerate(Generator(type, true), few, 16));
    CHECK(cudaMallocHost(&pinned, 16 * sizeof *pinned));
    RANDOM_CHECK(curandGenerate(Generator(type, true), pinned, 16));
    REQUIRE(!memcmp(few, bits.data(), sizeof few) && !memcmp(pinned, bits.data(), sizeof few));
    CHECK(cudaFreeHost(pinned));
    expect_moments(from_host<double>(
                       n, [=](double* p) { return curandGenerateNormalDouble(Generator(type, true), p, n, -1, 0.5); }),
                   -1, 0.5, "normal on the host");
}

void quasi() {
    Generator g(CURAND_RNG_QUASI_SOBOL32, false, false);
    RANDOM_CHECK(curandSetQuasiRandomGeneratorDimensions(g, 2));
    const size_t count = 1 << 12;
    const auto all = from_device<float>(2 * count, [&](float* p) { return curandGenerateUniform(g, p, 2 * count); });
    int boxes[64][64] = {};
    for (size_t i = 0; i < count; ++i) ++boxes[int(all[i] * 63.999f)][int(all[count + i] * 63.999f)];
    int most = 0;
    for (auto& row : boxes)
        for (int b : row) most = b > most ? b : most;
    REQUIRE(most <= 4);  // chance alone would put 6 into some of them
    float* p;
    CHECK(cudaMalloc(&p, 100));
    REQUIRE(curandGenerateUniform(g, p, 3) == CURAND_STATUS_LENGTH_NOT_MULTIPLE);
    REQUIRE(curandSetPseudoRandomGeneratorSeed(g, 1) == CURAND_STATUS_TYPE_ERROR);
    CHECK(cudaFree(p));
}

__global__ void scale(float* x, size_t count) {
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) x[i] = 2 * x[i] - 1;
}

void streams() {
    cudaStream_t s;
    float *device, *pinned;
    CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    CHECK(cudaMalloc(&device, n * sizeof(float)));
    CHECK(cudaMallocHost(&pinned, n * sizeof(float)));
    Generator g(CURAND_RNG_PSEUDO_PHILOX4_32_10);
    RANDOM_CHECK(curandSetStream(g, s));
    for (int round = 0; round < 5; ++round) {
        CHECK(cudaMemsetAsync(device, 0, n * sizeof(float), s));
        RANDOM_CHECK(curandGenerateUniform(g, device, n));
        scale<<<16, 128, 0, s>>>(device, n);
        CHECK(cudaMemcpyAsync(pinned, device, n * sizeof(float), cudaMemcpyDeviceToHost, s));
        CHECK(cudaStreamSynchronize(s));
        expect_moments(std::vector<float>(pinned, pinned + n), 0, std::sqrt(1.0 / 3), "scaled");
    }
    CHECK(cudaFree(device));
    CHECK(cudaFreeHost(pinned));
    CHECK(cudaStreamDestroy(s));
}

int main() {
    cudaDeviceProp device;
    CHECK(cudaGetDeviceProperties(&device, 0));
    curandGenerator_t any;
    if (strstr(device.name, "oftware") &&
        curandCreateGenerator(&any, CURAND_RNG_PSEUDO_DEFAULT) == CURAND_STATUS_INITIALIZATION_FAILED) {
        printf("skipped: NVIDIA's libcurand.so.10 is not installed, which the software GPU needs\n");
        return 77;
    }
    int version = 0;
    RANDOM_CHECK(curandGetVersion(&version));
    REQUIRE(version >= 10000);
    pseudo(CURAND_RNG_PSEUDO_XORWOW);
    pseudo(CURAND_RNG_PSEUDO_PHILOX4_32_10);
    quasi();
    streams();
    REQUIRE(curandGenerate(nullptr, nullptr, 0) == CURAND_STATUS_NOT_INITIALIZED);
    return verdict(0);
}
