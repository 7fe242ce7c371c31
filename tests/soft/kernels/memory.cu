// SPDX-License-Identifier: Apache-2.0
// memory.cu: loads and stores of every width, each state space and pointers into them, cache hints, parameters,
// symbols, malloc in kernels, and host memory.
#include "suite.h"

constexpr unsigned threads = 256;

// ---- widths ---------------------------------------------------------------------------------------------------------
template <class T> __global__ void copy(T* to, const T* from) { to[threadIdx.x] = from[threads - 1 - threadIdx.x]; }
template <class T> __global__ void copy_read_only(T* __restrict__ to, const T* __restrict__ from) {
    to[threadIdx.x] = from[threads - 1 - threadIdx.x];
}

template <class T> void width(const char* what) {
    u8* from = common<u8>(threads * sizeof(T));
    T *to = common<T>(threads), *again = common<T>(threads);
    for (u64 i = 0; i < threads * sizeof(T); ++i) from[i] = static_cast<u8>(scramble(i));
    copy<T><<<1, threads>>>(to, reinterpret_cast<T*>(from));
    copy_read_only<T><<<1, threads>>>(again, reinterpret_cast<T*>(from));
    finish();
    bool right = true;
    for (unsigned i = 0; i < threads; ++i) {
        right &= std::memcmp(to + i, from + (threads - 1 - i) * sizeof(T), sizeof(T)) == 0;
        right &= std::memcmp(again + i, from + (threads - 1 - i) * sizeof(T), sizeof(T)) == 0;
    }
    holds(right, what);
}
struct Odd {
    u8 bytes[7];
};
struct __align__(16) Mixed {
    u8 a;
    u16 b;
    float c;
    double d;
    s64 e;
};
void widths() {
    width<u8>("copies of bytes");
    width<s16>("copies of 16 bits");
    width<u64>("copies of 64 bits");
    width<uchar4>("copies of uchar4");
    width<char3>("copies of char3");
    width<ushort4>("copies of ushort4");
    width<int2>("copies of int2");
    width<int3>("copies of int3");
    width<float4>("copies of float4");
    width<double2>("copies of double2");
    width<ulonglong2>("copies of ulonglong2");
    width<longlong4_32a>("copies of longlong4_32a");
    width<Odd>("copies of a structure of 7 bytes");
    width<Mixed>("copies of a mixed structure");
}

// ---- spaces ---------------------------------------------------------------------------------------------------------
__constant__ int table[64];
__constant__ float4 vectors[4] = {{1, 2, 3, 4}, {5, 6, 7, 8}, {9, 10, 11, 12}, {13, 14, 15, 16}};
__device__ int numbers[8] = {3, 1, 4, 1, 5, 9, 2, 6};
__device__ int* into_numbers = numbers + 4;
__device__ const int* const tables[2] = {table, numbers};
__device__ char letters[] = "a string in global memory";
__managed__ int ours[32];
__device__ double counter;

__global__ void spaces(int* out, int which) {
    __shared__ int fixed[64];
    extern __shared__ int4 dynamic[];
    int local[64];
    const int i = threadIdx.x;
    fixed[i] = i * 3;
    dynamic[i] = make_int4(i, i + 1, i + 2, i + 3);
    for (int k = 0; k < 64; ++k) local[k] = k * i;
    __syncthreads();
    // A pointer whose space is not known
    const int* p = which == 0 ? fixed : which == 1 ? local : which == 2 ? table : which == 3 ? &dynamic[0].x : numbers;
    const int n = which == 4 ? 8 : 64;
    int sum = 0;
    for (int k = 0; k < 64; ++k) sum += p[(k + i) % n] * (k & 3);
    out[i] = sum + (__isShared(p) ? 1000000 : 0) + (__isLocal(p) ? 2000000 : 0) +
             (__isGlobal(p) && which != 2 ? 4000000 : 0) + (__isConstant(p) ? 8000000 : 0);
    __syncthreads();
    fixed[i] = local[(i * 7) & 63];
    __syncthreads();
    out[64 + i] = fixed[63 - i] + static_cast<int>(vectors[i & 3].z) + into_numbers[i & 3] + tables[i & 1][i & 7] +
                  letters[i % 26];
    ours[i & 31] = i & 31;
    if (i == 0) counter += 0.5;
}

void state_spaces() {
    int values[64];
    for (int i = 0; i < 64; ++i) values[i] = i * i - 7;
    CHECK(cudaMemcpyToSymbol(table, values, sizeof values));
    int* out = common<int>(128);
    static const int digits[] = {3, 1, 4, 1, 5, 9, 2, 6};
    for (int which = 0; which < 5; ++which) {
        spaces<<<1, 64, 64 * sizeof(int4)>>>(out, which);
        finish();
        const int bits[] = {1000000, 2000000, 8000000, 1000000, 4000000};
        all_are("a sum through a generic pointer", out, 64, [&](int i) {
            int sum = bits[which];
            for (int k = 0; k < 64; ++k) {
                const int at = (k + i) % 64;
                sum += (k & 3) * (which == 0   ? at * 3
                                  : which == 1 ? at * i
                                  : which == 2 ? values[at]
                                  : which == 3 ? at / 4 + at % 4
                                               : digits[at % 8]);
            }
            return sum;
        });
    }
    all_are("shared, local, constant and global together", out + 64, 64, [&](int i) {
        return ((63 - i) * 7 & 63) * (63 - i) + 3 + 4 * (i & 3) + digits[4 + (i & 3)] +
               (i & 1 ? digits[i & 7] : values[i & 7]) + "a string in global memory"[i % 26];
    });
    int copied[32];
    CHECK(cudaMemcpy(copied, ours, sizeof copied, cudaMemcpyDefault));
    all_are("managed memory", copied, 32, [](int i) { return i; });
    double halves;
    CHECK(cudaMemcpyFromSymbol(&halves, counter, sizeof halves));
    HOLDS(halves == 2.5);
    void* at;
    CHECK(cudaGetSymbolAddress(&at, numbers));
    int four;
    CHECK(cudaMemcpy(&four, static_cast<int*>(at) + 2, sizeof four, cudaMemcpyDeviceToHost));
    HOLDS(four == 4);
}

// ---- hints, windows and what must not be optimized away -------------------------------------------------------------
__global__ void hinted(int* out, const int* in, volatile int* open) {
    const int i = threadIdx.x;
    int v = __ldg(in + i) + 2 * __ldca(in + i) + 4 * __ldcg(in + i) + 8 * __ldcs(in + i) + 16 * __ldlu(in + i) +
            32 * __ldcv(in + i);
    const float4 f = __ldcg(reinterpret_cast<const float4*>(in) + i / 4);
    v += __float_as_int(f.x) + __ldg(reinterpret_cast<const short2*>(in) + i).x;
    __stwb(out + i, v), __stcg(out + threads + i, v), __stcs(out + 2 * threads + i, v),
        __stwt(out + 3 * threads + i, v);
    open[i] = i;
    open[i] = open[i] + open[i];
    asm volatile("prefetch.global.L1 [%0];" ::"l"(in + i));
    __shared__ int cell[threads];
    const unsigned window = static_cast<unsigned>(__cvta_generic_to_shared(cell + i));
    asm volatile("st.shared.u32 [%0], %1;" ::"r"(window), "r"(i * 5) : "memory");
    int back;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(back) : "r"(window) : "memory");
    out[4 * threads + i] = back + *static_cast<int*>(__cvta_shared_to_generic(window));
}
void hints() {
    int *in = common<int>(threads), *out = common<int>(5 * threads), *open = common<int>(threads);
    for (int i = 0; i < int(threads); ++i) in[i] = i * 11;
    hinted<<<1, threads>>>(out, in, open);
    finish();
    for (int k = 0; k < 4; ++k)
        all_are("loads and stores with hints", out + k * threads, threads,
                [](int i) { return 63 * 11 * i + i / 4 * 44 + 11 * i; });
    all_are("a window of shared memory", out + 4 * threads, threads, [](int i) { return 10 * i; });
    all_are("volatile memory", open, threads, [](int i) { return 2 * i; });
}

// ---- parameters -----------------------------------------------------------------------------------------------------
struct Large {
    int numbers[1000];
    double scale;
};
__device__ __noinline__ double weigh(const Large& l, int i) { return l.numbers[i] * l.scale; }
__device__ __noinline__ Mixed turned(Mixed m, u8 by) {
    m.a += by, m.b ^= m.a, m.c = -m.c, m.d += m.e, m.e *= 3;
    return m;
}
__global__ void with_parameters(u8 a, u16 b, Large l, s64 c, float3 d, const __grid_constant__ Large e, bool yes,
                                Mixed m, double* out) {
    const int i = threadIdx.x;
    l.numbers[i] += a;
    m = turned(m, static_cast<u8>(i));
    out[i] = l.numbers[(i * 3) % 256] * l.scale + b + c + d.x * d.y - d.z + weigh(e, i) + weigh(l, i) +
             (yes ? 0.5 : 0) + m.a + m.b + m.c + m.d + m.e;
}
void parameters() {
    static Large l, e;
    for (int i = 0; i < 1000; ++i) l.numbers[i] = i * 2, e.numbers[i] = 7 - i;
    l.scale = 0.25, e.scale = 3;
    double* out = common<double>(threads);
    const Mixed m = {200, 0x1234, 1.5f, 2.5, 1000000000000};
    with_parameters<<<1, threads>>>(200, 60000, l, -(1ll << 40), make_float3(1.5f, 4, 2), e, true, m, out);
    finish();
    all_are("parameters", out, threads, [&](int i) {
        const u8 a = static_cast<u8>(200 + i);
        const auto number = [&](int k) { return k * 2 + (k == i ? 200 : 0); };
        return number(i * 3 % 256) * 0.25 + 60000 - std::ldexp(1.0, 40) + 4 + (7 - i) * 3.0 + number(i) * 0.25 + 0.5 +
               a + (0x1234 ^ a) - 1.5 + (2.5 + 1e12) + 3e12;
    });
}

// ---- malloc, new and the host's memory ------------------------------------------------------------------------------
struct Node {
    Node* next;
    u64 value;
};
__device__ Node* list;
__global__ void build(int* failed) {
    Node* node = threadIdx.x % 2 ? new Node : static_cast<Node*>(malloc(sizeof(Node)));
    if (node == nullptr) {
        *failed = 1;
        return;
    }
    node->value = threadIdx.x;
    node->next = reinterpret_cast<Node*>(atomicExch(reinterpret_cast<u64*>(&list), reinterpret_cast<u64>(node)));
}
__global__ void take_apart(u64* sum) {
    for (Node* node = list; node != nullptr;) {
        Node* next = node->next;
        *sum += node->value;
        free(node);
        node = next;
    }
    void* huge = malloc(1ull << 40);
    if (huge != nullptr) *sum = 0;
}
__global__ void touch_host(int* memory) { memory[threadIdx.x] = memory[threadIdx.x] * 2 + 1; }
void heaps() {
    int* failed = common<int>(1);
    u64* sum = common<u64>(1);
    build<<<1, threads>>>(failed);
    take_apart<<<1, 1>>>(sum);
    finish();
    HOLDS(*failed == 0 && *sum == threads * (threads - 1) / 2);
    int *pinned, *mapped;
    CHECK(cudaHostAlloc(&pinned, threads * sizeof(int), cudaHostAllocMapped));
    for (unsigned i = 0; i < threads; ++i) pinned[i] = i;
    CHECK(cudaHostGetDevicePointer(&mapped, pinned, 0));
    touch_host<<<1, threads>>>(mapped);
    finish();
    all_are("mapped memory", pinned, threads, [](int i) { return 2 * i + 1; });
}

int main() {
    widths();
    state_spaces();
    hints();
    parameters();
    heaps();
    return verdict();
}
