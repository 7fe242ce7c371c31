// SPDX-License-Identifier: Apache-2.0
// atomic.cu: atomic operations of every type and scope, on shared, global and the host's memory; fences, and what one
// thread hands another by them: cuda::atomic_ref, orders, messages between blocks.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cuda/atomic>

#include "suite.h"

constexpr int blocks = 4, threads = 96, cells = 5;

// ---- every operation, whose result does not depend on the order -----------------------------------------------------
#define OPERATION(Name, function, fold)                                                              \
    struct Name {                                                                                    \
        template <class T> __device__ static T block(T* p, T v) { return function##_block(p, v); }   \
        template <class T> __device__ static T device(T* p, T v) { return function(p, v); }          \
        template <class T> __device__ static T system(T* p, T v) { return function##_system(p, v); } \
        template <class T> static T on_cpu(T x, T v) { return fold; }                                \
    }
OPERATION(Add, atomicAdd, x + v);
OPERATION(Min, atomicMin, std::min(x, v));
OPERATION(Max, atomicMax, std::max(x, v));
OPERATION(And, atomicAnd, x& v);
OPERATION(Or, atomicOr, x | v);
OPERATION(Xor, atomicXor, x ^ v);
OPERATION(Inc, atomicInc, x >= v ? 0 : x + 1);
OPERATION(Dec, atomicDec, x == 0 || x > v ? v : x - 1);

template <class T> __host__ __device__ T value(int i) {
    if constexpr (std::is_floating_point_v<T>) return static_cast<T>(i % 17 - 5) / 4;  // every sum is exact
    else return static_cast<T>(static_cast<u64>(i) * 0x9E3779B97F4A7C15ull >> 13);
}
template <> __host__ __device__ u32 value<u32>(int i) { return i * 0x9E3779B9u; }

template <class Op, class T, bool uniform> __global__ void apply(T* out, T* on_host) {
    __shared__ T shared[cells];
    if (threadIdx.x < cells) shared[threadIdx.x] = value<T>(threadIdx.x);
    __syncthreads();
    const int i = blockIdx.x * threads + threadIdx.x;
    const T v = uniform ? T(100) : value<T>(i + 7);
    Op::block(&shared[i % cells], v);
    const T old = Op::device(&out[i % cells], v);
    out[2 * cells + blocks * cells + i] = old;
    Op::system(&out[cells + i % cells], v);
    Op::system(&on_host[i % cells], v);
    __syncthreads();
    if (threadIdx.x < cells) out[2 * cells + blockIdx.x * cells + threadIdx.x] = shared[threadIdx.x];
}
template <class Op, class T, bool uniform = false> void everywhere(const char* what) {
    T* out = common<T>(2 * cells + blocks * cells + blocks * threads);
    T* on_host;
    CHECK(cudaHostAlloc(&on_host, cells * sizeof(T), cudaHostAllocMapped));
    for (int i = 0; i < cells; ++i) out[i] = out[cells + i] = on_host[i] = value<T>(i);
    apply<Op, T, uniform><<<blocks, threads>>>(out, on_host);
    finish();
    const auto expected = [&](int cell, int from, int to) {
        T x = value<T>(cell);
        for (int i = from; i < to; ++i)
            if (i % cells == cell) x = Op::on_cpu(x, uniform ? T(100) : value<T>(i + 7));
        return x;
    };
    bool right = true;
    for (int c = 0; c < cells; ++c) {
        const T whole = expected(c, 0, blocks * threads);
        right &= same(out[c], whole) && same(out[cells + c], whole) && same(on_host[c], whole);
        for (int b = 0; b < blocks; ++b)
            right &= same(out[2 * cells + b * cells + c], expected(c, b * threads, (b + 1) * threads));
        // Each came upon what the one before it left: one of them found the first value.
        bool first = false;
        for (int i = c; i < blocks * threads; i += 1)
            first |= i % cells == c && same(out[2 * cells + blocks * cells + i], value<T>(c));
        right &= first;
    }
    holds(right, what);
}
void operations() {
    everywhere<Add, s32>("atomicAdd of int");
    everywhere<Add, u32>("atomicAdd of unsigned");
    everywhere<Add, u64>("atomicAdd of unsigned long long");
    everywhere<Add, float>("atomicAdd of float");
    everywhere<Add, double>("atomicAdd of double");
    everywhere<Min, s32>("atomicMin of int");
    everywhere<Min, u32>("atomicMin of unsigned");
    everywhere<Min, s64>("atomicMin of long long");
    everywhere<Max, s32>("atomicMax of int");
    everywhere<Max, u64>("atomicMax of unsigned long long");
    everywhere<And, s32>("atomicAnd of int");
    everywhere<And, u64>("atomicAnd of unsigned long long");
    everywhere<Or, u32>("atomicOr of unsigned");
    everywhere<Or, u64>("atomicOr of unsigned long long");
    everywhere<Xor, u32>("atomicXor of unsigned");
    everywhere<Xor, u64>("atomicXor of unsigned long long");
    everywhere<Inc, u32, true>("atomicInc");
    everywhere<Dec, u32, true>("atomicDec");
}

// ---- exchanges, and loops around a comparison -----------------------------------------------------------------------
template <class T> __global__ void exchange(T* cell, T* sums) {
    const T v = static_cast<T>(blockIdx.x * threads + threadIdx.x + 1);
    atomicAdd(sums, atomicExch(cell, v));
}
template <class T> __global__ void compare(T* cell) {
    T seen = *cell, before;
    do {
        before = seen;
        seen = atomicCAS(cell, before, static_cast<T>(before + 3));
    } while (seen != before);
}
struct alignas(16) Wide {
    u64 low, high;
};
__global__ void compare_wide(Wide* cell, int* unsupported) {
#if __CUDA_ARCH__ >= 900
    Wide seen = *cell, before;
    do {
        before = seen;
        seen = atomicCAS(cell, before, Wide{before.low + 1, before.high + 2});
    } while (seen.low != before.low || seen.high != before.high);
#else
    *unsupported = 1;
#endif
}
__global__ void small_ones(__half* half, __half2* halves, __nv_bfloat162* brains, float4* vector) {
    atomicAdd(half, __float2half(0.25f));
    atomicAdd(halves, __floats2half2_rn(0.5f, -1));
    atomicAdd(brains, __floats2bfloat162_rn(1, 0.5f));
#if __CUDA_ARCH__ >= 900
    atomicAdd(vector, make_float4(1, 2, 3, 0.5f));
#else
    atomicAdd(&vector->x, 1.f), atomicAdd(&vector->y, 2.f), atomicAdd(&vector->z, 3.f), atomicAdd(&vector->w, 0.5f);
#endif
}
void exchanges() {
    u32* narrow = common<u32>(2);
    u64* wide = common<u64>(2);
    float* real = common<float>(2);
    exchange<<<blocks, threads>>>(narrow, narrow + 1);
    exchange<<<blocks, threads>>>(wide, wide + 1);
    exchange<<<blocks, threads>>>(real, real + 1);
    finish();
    constexpr u32 n = blocks * threads, sum = n * (n + 1) / 2;
    HOLDS(narrow[0] + narrow[1] == sum);
    HOLDS(wide[0] + wide[1] == sum);
    HOLDS(real[0] + real[1] == sum);
    narrow[0] = wide[0] = 5;
    u16* shorts = common<u16>(2);
    shorts[1] = 77;
    compare<<<blocks, threads>>>(narrow);
    compare<<<blocks, threads>>>(wide);
    compare<<<blocks, threads>>>(shorts);
    Wide* both = common<Wide>(1);
    int* unsupported = common<int>(1);
    compare_wide<<<blocks, threads>>>(both, unsupported);
    __half* half = common<__half>(2);
    __half2* halves = common<__half2>(1);
    __nv_bfloat162* brains = common<__nv_bfloat162>(1);
    float4* vector = common<float4>(1);
    small_ones<<<2, 64>>>(half, halves, brains, vector);
    finish();
    HOLDS(narrow[0] == 5 + 3 * n && wide[0] == 5 + 3 * n && shorts[0] == 3 * n && shorts[1] == 77);
    HOLDS(*unsupported || (both->low == n && both->high == 2 * n));
    HOLDS(__half2float(half[0]) == 32 && __half2float(half[1]) == 0);
    HOLDS(__low2float(*halves) == 64 && __high2float(*halves) == -128);
    HOLDS(__low2float(*brains) == 128 && __high2float(*brains) == 64);
    HOLDS(vector->x == 128 && vector->y == 256 && vector->z == 384 && vector->w == 64);
}

// ---- messages -------------------------------------------------------------------------------------------------------
// The last
// block to arrive adds up what all have left.
__global__ void last_block(volatile float* parts, unsigned* arrived, float* total) {
    __shared__ bool last;
    if (threadIdx.x == 0) {
        parts[blockIdx.x] = blockIdx.x + 0.5f;
        __threadfence();
        last = atomicInc(arrived, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && threadIdx.x == 0)
        for (unsigned i = 0; i < gridDim.x; ++i) *total += parts[i];
}
// A chain of blocks: each waits for the one before it, whatever the order in which they start.
__global__ void chain(int* ticket, int* flag, int* data) {
    if (threadIdx.x != 0) return;
    const int me = atomicAdd(ticket, 1);
    cuda::atomic_ref<int, cuda::thread_scope_device> turn(*flag);
    while (turn.load(cuda::memory_order_acquire) != me) __nanosleep(20);
    data[me + 1] = data[me] + me;
    turn.store(me + 1, cuda::memory_order_release);
}
template <cuda::thread_scope scope, class T> __global__ void references(T* cells) {
    cuda::atomic_ref<T, scope> sum(cells[0]), least(cells[1]), bits(cells[2]), swapped(cells[3]), counter(cells[4]);
    const T v = static_cast<T>(threadIdx.x + 1);
    sum.fetch_add(v, cuda::memory_order_relaxed);
    least.fetch_min(v, cuda::memory_order_acq_rel);
    bits.fetch_or(static_cast<T>(1) << (threadIdx.x % 7));
    cuda::atomic_thread_fence(cuda::memory_order_seq_cst, scope);
    T expected = swapped.load();
    while (!swapped.compare_exchange_weak(expected, static_cast<T>(expected + 1), cuda::memory_order_acq_rel)) {}
    ++counter;
    counter -= static_cast<T>(1);
}
template <cuda::thread_scope scope, class T> void refer(const char* what) {
    T* cells = common<T>(5);
    cells[1] = 100;
    references<scope, T><<<1, 64>>>(cells);
    finish();
    holds(
        cells[0] == static_cast<T>(64 * 65 / 2) && cells[1] == 1 && cells[2] == 127 && cells[3] == 64 && cells[4] == 0,
        what);
}
// Dekker: each sets a flag, then looks at the other's; with sequential consistency one of them sees it.
__global__ void each_sees(int* flags, int* missed) {
    for (int i = 0; i < 200; ++i) {
        cuda::atomic_ref<int, cuda::thread_scope_system> mine(flags[2 * i + blockIdx.x]),
            other(flags[2 * i + 1 - blockIdx.x]);
        mine.store(1, cuda::memory_order_seq_cst);
        if (other.load(cuda::memory_order_seq_cst) == 0) atomicAdd(missed + i, 1);
    }
}
void messages() {
    float *parts = common<float>(50), *total = common<float>(1);
    unsigned* arrived = common<unsigned>(1);
    last_block<<<50, 32>>>(parts, arrived, total);
    int *ticket = common<int>(1), *flag = common<int>(1), *data = common<int>(41);
    chain<<<40, 32>>>(ticket, flag, data);
    int *flags = common<int>(400), *missed = common<int>(200);
    each_sees<<<2, 1>>>(flags, missed);
    finish();
    HOLDS(*total == 50 * 49 / 2 + 25 && *arrived == 0);
    HOLDS(data[40] == 40 * 39 / 2);
    bool one = true;
    for (int i = 0; i < 200; ++i) one &= missed[i] < 2;
    holds(one, "one of two sees the other");
    refer<cuda::thread_scope_block, s32>("atomic_ref<int, block>");
    refer<cuda::thread_scope_device, u64>("atomic_ref<unsigned long long, device>");
    refer<cuda::thread_scope_system, u32>("atomic_ref<unsigned, system>");
    refer<cuda::thread_scope_device, u16>("atomic_ref<unsigned short, device>");
    refer<cuda::thread_scope_system, u8>("atomic_ref<unsigned char, system>");
}

int main() {
    operations();
    exchanges();
    messages();
    return verdict();
}
