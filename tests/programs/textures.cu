// SPDX-License-Identifier: Apache-2.0
// textures: texture objects over linear memory, as programs make them: what they say of filters and of addressing does
// not matter there, and they may claim more memory than they have, as long as they do not read it.
#include <vector>

#include "check.h"

constexpr int n = 1000;

__global__ void fetch(float2* to, cudaTextureObject_t texture) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) to[i] = tex1Dfetch<float2>(texture, i);
}

int main() {
    std::vector<float2> sent(n), got(n);
    for (int i = 0; i < n; ++i) sent[i] = {1.5f * i, -1.0f * i};
    float2 *from, *to;
    CHECK(cudaMalloc((void**)&from, n * sizeof *from));
    CHECK(cudaMalloc((void**)&to, n * sizeof *to));
    CHECK(cudaMemcpy(from, sent.data(), n * sizeof *from, cudaMemcpyHostToDevice));

    cudaResourceDesc memory = {};
    memory.resType = cudaResourceTypeLinear;
    memory.res.linear.devPtr = from;
    memory.res.linear.desc = cudaCreateChannelDesc<float2>();
    cudaTextureDesc reading = {};
    reading.filterMode = cudaFilterModeLinear;
    reading.addressMode[0] = cudaAddressModeWrap;
    reading.readMode = cudaReadModeElementType;
    for (const size_t claimed : {n * sizeof *from, 4096 * n * sizeof *from}) {
        memory.res.linear.sizeInBytes = claimed;
        cudaTextureObject_t texture = 0;
        CHECK(cudaMemset(to, 0, n * sizeof *to));
        CHECK(cudaCreateTextureObject(&texture, &memory, &reading, nullptr));
        fetch<<<(n + 255) / 256, 256>>>(to, texture);
        CHECK(cudaMemcpy(got.data(), to, n * sizeof *to, cudaMemcpyDeviceToHost));
        for (int i = 0; i < n; ++i) REQUIRE(got[i].x == sent[i].x && got[i].y == sent[i].y);
        CHECK(cudaDestroyTextureObject(texture));
    }
    CHECK(cudaFree(from));
    CHECK(cudaFree(to));
    return verdict(0);
}
