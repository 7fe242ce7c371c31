// SPDX-License-Identifier: Apache-2.0
// control.cu: branches, loops, dense switches, pointers to functions, virtual functions, recursion, stacks; and threads
// of a warp that go different ways and wait for each other.
#include "suite.h"

constexpr unsigned threads = 256;

// ---- branches and loops ---------------------------------------------------------------------------------------------
__host__ __device__ static u32 dense(u32 x, u32 y) {
    switch (x % 13) {
        case 0: return y + 1;
        case 1: return y * 3;
        case 2: y ^= 0x55; [[fallthrough]];
        case 3: return y - 7;
        case 4: return y << 3;
        case 5: return ~y;
        case 6: return y / 3;
        case 7: return y % 1000;
        case 8: return y & 0xF0F0;
        case 9: return y * y;
        case 10: return y >> 5;
        case 11: return y ? 12345 / y : 1;
        default: return 99;
    }
}
__host__ __device__ static u32 sparse(s64 x) {
    switch (x) {
        case 0: return 1;
        case 100: return 2;
        case -5: return 3;
        case 0x7FFFFFFF: return 4;
        case 0x80000000ll: return 5;
        default: return x < 0 ? 6 : 7;
    }
}
__host__ __device__ static u32 collatz(u32 x) {
    u32 steps = 0;
    for (u64 n = x % 10000 + 1; n != 1; ++steps) {
        if (steps > 200) break;
        if (n % 2 == 0) {
            n /= 2;
            continue;
        }
        n = 3 * n + 1;
    }
    return steps;
}
__host__ __device__ static u32 nested(u32 a, u32 b) {
    u32 sum = 0;
    for (u32 i = 0; i < a % 9; ++i)
        for (u32 k = i; k < b % 7; k += 2) {
            if ((i ^ k) == 3) goto out;
            do sum += i * k + 1;
            while (sum % 5 == 4);
            if (sum > 60) return sum;
        }
out:
    return sum * 2;
}
__host__ __device__ static u32 gcd(u32 a, u32 b) {
    while (b != 0) {
        const u32 t = a % b;
        a = b, b = t;
    }
    return a;
}

// ---- functions ------------------------------------------------------------------------------------------------------
__host__ __device__ __noinline__ static u32 fibonacci(u32 n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
__host__ __device__ __noinline__ static u32 ackermann(u32 m, u32 n) {
    return m == 0 ? n + 1 : n == 0 ? ackermann(m - 1, 1) : ackermann(m - 1, ackermann(m, n - 1));
}
__host__ __device__ static bool odd(u32 n);
__host__ __device__ __noinline__ static bool even(u32 n) { return n == 0 || odd(n - 1); }
__host__ __device__ __noinline__ static bool odd(u32 n) { return n != 0 && even(n - 1); }
// Every level has an array of its own, and gives its caller a pointer to it.
__host__ __device__ __noinline__ static u32 towers(u32 depth, const u32* below) {
    u32 mine[8];
    for (u32 i = 0; i < 8; ++i) mine[i] = (below ? below[(i + 1) % 8] : i) + depth;
    if (depth == 0) return mine[3] * 1000 + mine[5];
    const u32 above = towers(depth - 1, mine);
    return above + mine[depth % 8];
}
struct Pair {
    u64 a;
    u32 b;
};
__host__ __device__ __noinline__ static Pair twisted(Pair p, u32 n) {
    if (n == 0) return p;
    return twisted({p.b + p.a * 3, static_cast<u32>(p.a >> 7)}, n - 1);
}
__host__ __device__ static u32 twice(u32 a, u32 b) {
    const Pair p = twisted({a, b}, a % 6);
    return static_cast<u32>(p.a ^ p.a >> 32) + p.b;
}

using Operation = u32 (*)(u32, u32);
__host__ __device__ static u32 add(u32 a, u32 b) { return a + b; }
__host__ __device__ static u32 subtract(u32 a, u32 b) { return a - b; }
__host__ __device__ static u32 multiply(u32 a, u32 b) { return a * b; }
__host__ __device__ static u32 mix(u32 a, u32 b) { return a << 7 ^ b >> 3; }
__device__ Operation operations[4] = {add, subtract, multiply, mix};
__host__ __device__ static u32 chosen(u32 a, u32 b) {
#ifdef __CUDA_ARCH__
    return operations[a & 3](a, b);
#else
    const Operation all[4] = {add, subtract, multiply, mix};
    return all[a & 3](a, b);
#endif
}

struct Shape {
    u32 size;
    __host__ __device__ explicit Shape(u32 s) : size(s) {}
    __host__ __device__ virtual u32 area() const { return 0; }
    __host__ __device__ virtual u32 twice() const { return 2 * area(); }
    __host__ __device__ virtual ~Shape() {}
};
struct Square : Shape {
    using Shape::Shape;
    __host__ __device__ u32 area() const override { return size * size; }
};
struct Rectangle final : Square {
    u32 other;
    __host__ __device__ Rectangle(u32 a, u32 b) : Square(a), other(b) {}
    __host__ __device__ u32 area() const override { return size * other + Square::area() % 3; }
    __host__ __device__ u32 twice() const override { return Shape::twice() + 1; }
};
__host__ __device__ static u32 shapes(u32 a, u32 b) {
    Square square(b);
    Rectangle rectangle(a, b);
    Shape plain(a);
    const Shape* all[] = {&square, &rectangle, &plain};
    return all[a % 3]->area() + all[b % 3]->twice();
}
struct Mixer {
    u32 a, b;
    __host__ __device__ u32 operator()(u32 sum, u32 i) const { return sum * a + (i ^ b); }
};
template <class F> __host__ __device__ u32 applied(F f, u32 n) {
    u32 sum = 0;
    for (u32 i = 0; i < n; ++i) sum = f(sum, i);
    return sum;
}

void forms() {
    SAME(u32, dense(a, b), u32, u32);
    SAME(u32, sparse(a), s64);
    SAME(u32, collatz(a), u32);
    SAME(u32, nested(a, b), u32, u32);
    SAME(u32, gcd(a, b), u32, u32);
    SAME(u32, fibonacci(a % 13), u32);
    SAME(u32, ackermann(a % 3, b % 5), u32, u32);
    SAME(u32, even(a % 40), u32);
    SAME(u32, towers(a % 12, nullptr), u32);
    SAME(u32, twice(a, b), u32, u32);
    SAME(u32, chosen(a, b), u32, u32);
    SAME(u32, shapes(a, b), u32, u32);
    SAME(u32, applied(Mixer{a, b}, a % 20), u32, u32);
}

// ---- threads of a warp that differ ----------------------------------------------------------------------------------
__device__ int lock, guarded;
// A spin lock among the lanes of one warp: each holder must make progress while its neighbours spin.
__global__ void contend(int rounds) {
    for (int i = 0; i < rounds; ++i) {
        while (atomicCAS(&lock, 0, 1) != 0) {}
        __threadfence();
        *const_cast<volatile int*>(&guarded) = *const_cast<volatile int*>(&guarded) + 1;
        __threadfence();
        atomicExch(&lock, 0);
    }
}
// One lane produces for another of its warp, without a barrier.
__global__ void ping_pong(volatile int* ball, int* count) {
    const int me = threadIdx.x;
    for (int i = 0; i < 20; ++i) {
        while (*ball != 2 * i + me) {}
        ++count[me];
        __threadfence();
        *ball = 2 * i + me + 1;
    }
}
__global__ void early(int* out) {
    const int i = threadIdx.x;
    if (i % 3 == 0) return;
    __shared__ int seen;
    if (i == 1) seen = 0;
    __syncthreads();  // those that are gone are not waited for
    if (i % 3 == 1) atomicAdd(&seen, 1);
    else if (i % 5 == 0) atomicAdd(&seen, 1000);
    __syncthreads();
    out[i] = seen;
}
void divergence() {
    contend<<<4, 64>>>(3);
    int total;
    CHECK(cudaMemcpyFromSymbol(&total, guarded, sizeof total));
    HOLDS(total == 4 * 64 * 3);
    int *ball = common<int>(1), *count = common<int>(2), *out = common<int>(threads);
    ping_pong<<<1, 2>>>(ball, count);
    early<<<1, threads>>>(out);
    finish();
    HOLDS(count[0] == 20 && count[1] == 20 && *ball == 40);
    int ones = 0, thousands = 0;
    for (unsigned i = 0; i < threads; ++i) ones += i % 3 == 1, thousands += i % 3 == 2 && i % 5 == 0;
    all_are("a barrier behind an early return", out, threads,
            [&](int i) { return i % 3 == 0 ? 0 : ones + 1000 * thousands; });
}

int main() {
    CHECK(cudaDeviceSetLimit(cudaLimitStackSize, 16384));
    forms();
    divergence();
    return verdict();
}
