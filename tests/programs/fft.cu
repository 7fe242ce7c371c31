// SPDX-License-Identifier: Apache-2.0
// fft.cu: NVIDIA's own cuFFT, where there is one: it asks its driver for private tables, and for the functions of what
// it loads. The sizes are those of which it brings PTX, so that any device can compute them.
#include <dlfcn.h>

#include <cmath>
#include <complex>
#include <vector>

#include "check.h"

// <cufft.h>, as far as it goes here; a toolkit need not have it.
using Plan = int;
constexpr int complex_to_complex = 0x29, forward = -1, inverse = 1;
static int (*plan_1d)(Plan*, int size, int type, int batch);
static int (*execute)(Plan, float2* in, float2* out, int direction);
static int (*set_stream)(Plan, cudaStream_t);
static int (*destroy)(Plan);

static bool found() {
    for (const char* name : {"libcufft.so.12", "libcufft.so.11", "libcufft.so.10"})
        if (void* library = dlopen(name, RTLD_NOW)) {
            plan_1d = reinterpret_cast<decltype(plan_1d)>(dlsym(library, "cufftPlan1d"));
            execute = reinterpret_cast<decltype(execute)>(dlsym(library, "cufftExecC2C"));
            set_stream = reinterpret_cast<decltype(set_stream)>(dlsym(library, "cufftSetStream"));
            destroy = reinterpret_cast<decltype(destroy)>(dlsym(library, "cufftDestroy"));
            return plan_1d && execute && set_stream && destroy;
        }
    return false;
}

static long transform(int size, int batch, cudaStream_t stream) {
    const int count = size * batch;
    std::vector<std::complex<float>> before(count), there(count), back(count);
    for (int i = 0; i < count; ++i)
        before[i] = {static_cast<float>(i % 7) - 3, static_cast<float>(i % 5 * (i / size + 1)) - 2};
    float2* data = nullptr;
    CHECK(cudaMalloc(&data, count * sizeof *data));
    CHECK(cudaMemcpy(data, before.data(), count * sizeof *data, cudaMemcpyHostToDevice));
    Plan plan = 0;
    REQUIRE(plan_1d(&plan, size, complex_to_complex, batch) == 0);
    REQUIRE(set_stream(plan, stream) == 0);
    REQUIRE(execute(plan, data, data, forward) == 0);
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaMemcpy(there.data(), data, count * sizeof *data, cudaMemcpyDeviceToHost));
    REQUIRE(execute(plan, data, data, inverse) == 0);
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaMemcpy(back.data(), data, count * sizeof *data, cudaMemcpyDeviceToHost));
    REQUIRE(destroy(plan) == 0);
    CHECK(cudaFree(data));
    long wrong = 0;
    for (int i = 0; i < count; ++i) wrong += std::abs(back[i] / static_cast<float>(size) - before[i]) > 1e-4;
    for (int b = 0; b < batch; ++b)
        for (int k = 0; k < size; k += size / 8) {
            std::complex<double> sum = 0;
            for (int j = 0; j < size; ++j)
                sum += std::complex<double>(before[b * size + j]) *
                       std::polar(1.0, -2 * M_PI * static_cast<double>(static_cast<long>(j) * k % size) / size);
            wrong += std::abs(sum - std::complex<double>(there[b * size + k])) > 1e-4 * size;
        }
    if (wrong) printf("%d transforms of %d: %ld wrong\n", batch, size, wrong);
    return wrong;
}

int main() {
    if (!found()) return printf("skipped: there is no cuFFT\n"), 77;
    cudaStream_t stream = nullptr;
    CHECK(cudaStreamCreate(&stream));
    long wrong = 0;
    for (int size : {8, 243, 1000, 1009, 4096})
        for (int batch : {1, 3}) wrong += transform(size, batch, nullptr) + transform(size, batch, stream);
    CHECK(cudaStreamDestroy(stream));
    return verdict(wrong);
}
