// SPDX-License-Identifier: Apache-2.0
// barrier.cu: barriers of a block, named and counted, of a warp and of a grid; cuda::barrier; copies that run beside
// the threads (cp.async); clocks and sleep.
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cuda_pipeline.h>

#include <cuda/barrier>

#include "suite.h"

namespace cg = cooperative_groups;
constexpr int threads = 192;

__global__ void block_wide(int* out) {
    const int i = threadIdx.x;
    __shared__ int data[threads];
    int v = i;
    for (int step = 1; step < threads; step *= 2) {  // a sum of all that are before
        data[i] = v;
        __syncthreads();
        if (i >= step) v += data[i - step];
        __syncthreads();
    }
    out[i] = v;
    out[threads + i] = __syncthreads_count(i % 3 == 0) * 100 + __syncthreads_and(i >= 0) * 10 +
                       __syncthreads_or(i == 77) + __syncthreads_and(i != 5) * 1000000;
}

// Producers arrive and go on; consumers wait: four warps make, two take, with a barrier for "full" and one for "empty".
__global__ void producers_and_consumers(int* out) {
    __shared__ int buffer[128];
    const int i = threadIdx.x;
    for (int round = 0; round < 8; ++round) {
        if (i < 128) {
            if (round > 0) asm volatile("barrier.sync 2, 192;" ::: "memory");
            buffer[i] = round * 1000 + i;
            asm volatile("barrier.arrive 1, 192;" ::: "memory");
        } else {
            asm volatile("barrier.sync 1, 192;" ::: "memory");
            out[round * 64 + i - 128] = buffer[i - 128] + buffer[i - 64];
            if (round < 7) asm volatile("barrier.arrive 2, 192;" ::: "memory");
        }
    }
}
// Each half of the block has a barrier of its own; what is reduced is its own.
__global__ void named(int* out) {
    const int half = threadIdx.x / 96;
    int any;
    asm volatile("{ .reg .pred p, q; setp.eq.s32 p, %1, 100; barrier.red.or.pred q, %2, 96, p; selp.s32 %0, 1, 0, q; }"
                 : "=r"(any)
                 : "r"(threadIdx.x), "r"(half + 3)
                 : "memory");
    int count;
    asm volatile("{ .reg .pred p; setp.lt.s32 p, %1, 50; barrier.red.popc.u32 %0, %2, 96, p; }"
                 : "=r"(count)
                 : "r"(threadIdx.x), "r"(half + 3)
                 : "memory");
    out[threadIdx.x] = any * 1000 + count;
}
void barriers() {
    int *out = common<int>(2 * threads), *made = common<int>(8 * 64), *halves = common<int>(threads);
    block_wide<<<1, threads>>>(out);
    producers_and_consumers<<<1, threads>>>(made);
    named<<<1, threads>>>(halves);
    finish();
    all_are("a scan with barriers", out, threads, [](int i) { return i * (i + 1) / 2; });
    all_are("barriers that count", out + threads, threads, [](int) { return 6411; });
    all_are("producers and consumers", made, 8 * 64, [](int i) { return 2 * (i / 64 * 1000 + i % 64) + 64; });
    all_are("named barriers", halves, threads, [](int i) { return i < 96 ? 50 : 1000; });
}

// ---- a grid ---------------------------------------------------------------------------------------------------------
__global__ void grid_wide(int* data, int rounds) {
    auto grid = cg::this_grid();
    const int i = grid.thread_rank(), n = grid.size();
    for (int r = 0; r < rounds; ++r) {
        const int neighbour = data[(i + blockDim.x) % n];
        grid.sync();
        data[i] = neighbour + 1;
        grid.sync();
    }
}
void grids() {
    constexpr int blocks = 3, size = 64, rounds = 7;
    int* data = common<int>(blocks * size);
    for (int i = 0; i < blocks * size; ++i) data[i] = i * 10;
    int* argument = data;
    int count = rounds;
    void* arguments[] = {&argument, &count};
    CHECK(cudaLaunchCooperativeKernel(grid_wide, blocks, size, arguments, 0, nullptr));
    finish();
    all_are("a grid that meets", data, blocks * size,
            [=](int i) { return (i + rounds * size) % (blocks * size) * 10 + rounds; });
}

// ---- cuda::barrier and copies beside the threads --------------------------------------------------------------------
__global__ void split_barrier(int* out) {
    using Barrier = cuda::barrier<cuda::thread_scope_block>;
    __shared__ alignas(Barrier) char place[sizeof(Barrier)];
    __shared__ int data[64];
    auto* barrier = reinterpret_cast<Barrier*>(place);
    if (threadIdx.x == 0) init(barrier, blockDim.x);
    __syncthreads();
    int sum = 0;
    for (int r = 0; r < 5; ++r) {
        data[threadIdx.x] = threadIdx.x + r;
        auto token = barrier->arrive();
        sum += r;  // something else meanwhile
        barrier->wait(std::move(token));
        sum += data[63 - threadIdx.x];
        barrier->arrive_and_wait();
    }
    out[threadIdx.x] = sum;
}
template <class T> __global__ void staged(T* out, const T* in, int count) {
    extern __shared__ char stages[];
    T* const buffer[2] = {reinterpret_cast<T*>(stages), reinterpret_cast<T*>(stages) + blockDim.x};
    const int i = threadIdx.x;
    __pipeline_memcpy_async(&buffer[0][i], in + i, sizeof(T));
    __pipeline_commit();
    for (int k = 0; k < count; ++k) {
        if (k + 1 < count) __pipeline_memcpy_async(&buffer[(k + 1) % 2][i], in + (k + 1) * blockDim.x + i, sizeof(T));
        __pipeline_commit();
        __pipeline_wait_prior(1);
        __syncthreads();
        out[k * blockDim.x + i] = buffer[k % 2][blockDim.x - 1 - i];
        __syncthreads();
    }
}
__global__ void filled_with_zeros(float4* out, const float4* in) {
    __shared__ float4 buffer[32];
    __pipeline_memcpy_async(&buffer[threadIdx.x], in + threadIdx.x, 16, threadIdx.x % 4 * 4);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    out[threadIdx.x] = buffer[31 - threadIdx.x];
}
__global__ void by_the_group(int* out, const int* in) {
    __shared__ int buffer[256];
    auto block = cg::this_thread_block();
    cg::memcpy_async(block, buffer, in, sizeof buffer);
    cg::wait(block);
    for (int i = block.thread_rank(); i < 256; i += block.size()) out[i] = buffer[255 - i];
}
__global__ void with_a_barrier(int* out, const int* in) {
    using Barrier = cuda::barrier<cuda::thread_scope_block>;
    __shared__ alignas(Barrier) char place[sizeof(Barrier)];
    __shared__ alignas(16) int buffer[128];
    auto* barrier = reinterpret_cast<Barrier*>(place);
    if (threadIdx.x == 0) init(barrier, blockDim.x);
    __syncthreads();
    cuda::memcpy_async(buffer + threadIdx.x * 4, in + threadIdx.x * 4, cuda::aligned_size_t<16>(16), *barrier);
    barrier->arrive_and_wait();
    for (int k = 0; k < 4; ++k) out[threadIdx.x + 32 * k] = buffer[127 - threadIdx.x - 32 * k];
}
template <class T> void stages(const char* what) {
    T *in = common<T>(6 * 64), *out = common<T>(6 * 64);
    for (unsigned i = 0; i < 6 * 64 * sizeof(T) / 4; ++i) reinterpret_cast<u32*>(in)[i] = static_cast<u32>(scramble(i));
    staged<T><<<1, 64, 2 * 64 * sizeof(T)>>>(out, in, 6);
    finish();
    all_are(what, reinterpret_cast<u32*>(out), 6 * 64 * sizeof(T) / 4, [&](unsigned i) {
        const unsigned words = sizeof(T) / 4, k = i / words;
        return reinterpret_cast<u32*>(in)[(k / 64 * 64 + 63 - k % 64) * words + i % words];
    });
}
void copies() {
    int *split = common<int>(64), *in = common<int>(256), *out = common<int>(256), *out2 = common<int>(128);
    float4 *zeros = common<float4>(32), *full = common<float4>(32);
    for (int i = 0; i < 256; ++i) in[i] = i * 3;
    for (int i = 0; i < 32; ++i) full[i] = make_float4(i + 1, i + 2, i + 3, i + 4);
    split_barrier<<<1, 64>>>(split);
    filled_with_zeros<<<1, 32>>>(zeros, full);
    by_the_group<<<1, 64>>>(out, in);
    with_a_barrier<<<1, 32>>>(out2, in);
    finish();
    all_are("cuda::barrier", split, 64, [](int i) { return 5 * (63 - i) + 20; });
    all_are("cp.async that fills with zeros", &zeros[0].x, 128, [](int i) {
        const int k = 31 - i / 4;
        return i % 4 < 4 - k % 4 ? k + 1.f + i % 4 : 0.f;
    });
    all_are("cg::memcpy_async", out, 256, [](int i) { return (255 - i) * 3; });
    all_are("cuda::memcpy_async", out2, 128, [](int i) { return (127 - i) * 3; });
    stages<u32>("cp.async of 4 bytes");
    stages<double>("cp.async of 8 bytes");
    stages<int4>("cp.async of 16 bytes");
}

// ---- time -----------------------------------------------------------------------------------------------------------
__global__ void times(u64* out) {
    const s64 start = clock64();
    const unsigned short_start = clock();
    u64 began, ended;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(began));
    __nanosleep(200);
    for (volatile int k = 0; k < 100; ++k) {}
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ended));
    out[0] = clock64() > start;
    out[1] = clock() != short_start;
    out[2] = ended >= began && began > 1600000000000000000ull;
    unsigned lane, warp, warps;
    asm volatile("mov.u32 %0, %%laneid; mov.u32 %1, %%warpid; mov.u32 %2, %%nwarpid;"
                 : "=r"(lane), "=r"(warp), "=r"(warps));
    unsigned lt, ge;
    asm volatile("mov.u32 %0, %%lanemask_lt; mov.u32 %1, %%lanemask_ge;" : "=r"(lt), "=r"(ge));
    out[3] = lane == threadIdx.x % 32 && warp < warps && lt == (1u << lane) - 1 && ge == ~lt;
}
void clocks() {
    u64* out = common<u64>(4);
    times<<<1, 1>>>(out);
    finish();
    all_are("clocks and special registers", out, 4, [](int) { return 1; });
}

int main() {
    barriers();
    grids();
    copies();
    clocks();
    return verdict();
}
