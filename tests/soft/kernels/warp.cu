// SPDX-License-Identifier: Apache-2.0
// warp.cu: lanes that exchange values, vote, match, reduce and meet; and cooperative groups made of them.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <cuda_fp16.h>

#include "suite.h"

namespace cg = cooperative_groups;
constexpr unsigned full = 0xFFFFFFFF;
constexpr int tests = 48;

// Row r of `out` is what test r gave each lane; the host computes the same with loops.
#define ROW(expression) out[32 * row++ + lane] = static_cast<u64>(expression)

template <class T> __device__ u64 word(T x) {
    u64 bits = 0;
    memcpy(&bits, &x, sizeof x);
    return bits;
}

__global__ void exchange(const u32* values, u64* out) {
    const int lane = threadIdx.x;
    int row = 0;
    const u32 v = values[lane];
    const s64 wide = static_cast<s64>(v) * 0x100000003ll;
    ROW(__shfl_sync(full, v, (lane * 5) & 31));
    ROW(__shfl_up_sync(full, v, 3));
    ROW(__shfl_down_sync(full, v, 7));
    ROW(__shfl_xor_sync(full, v, 21));
    ROW(__shfl_sync(full, v, lane + 3, 8));
    ROW(__shfl_up_sync(full, v, 2, 16));
    ROW(__shfl_down_sync(full, v, 1, 4));
    ROW(__shfl_xor_sync(full, wide, 9));
    ROW(word(__shfl_sync(full, static_cast<float>(v), 31 - lane)));
    ROW(word(__shfl_down_sync(full, static_cast<double>(v) / 3, 16)));
    ROW(word(__shfl_xor_sync(full, __floats2half2_rn(lane, -lane), 1)));
    ROW(__ballot_sync(full, v & 1));
    ROW(__any_sync(full, v % 32 == 5) + 2 * __all_sync(full, v > 10) + 4 * __all_sync(full, v != 3));
    ROW(__match_any_sync(full, v & 3));
    int same = 0;
    ROW(__match_all_sync(full, v >> 30, &same) + (static_cast<u64>(same) << 32));
    ROW(__match_any_sync(full, static_cast<u64>(v % 5) << 40));
    u64 half = 0;
    if (lane & 1) half = __ballot_sync(0xAAAAAAAA, v & 2) + (static_cast<u64>(__activemask()) << 32);
    __syncwarp();
    ROW(half);
    u64 part = 0;
    if (lane < 12) part = __shfl_sync(0xFFF, v, (lane + 1) % 12) + __popc(__match_any_sync(0xFFF, v & 1));
    __syncwarp();
    ROW(part);
}
void exchanges() {
    u32* v = common<u32>(32);
    u64* out = common<u64>(32 * tests);
    for (unsigned i = 0; i < 32; ++i) v[i] = static_cast<u32>(scramble(i)) >> (i % 4);
    exchange<<<1, 32>>>(v, out);
    finish();
    const u64* row = out;
    const auto next = [&](const char* what, auto f) { all_are(what, row, 32, f), row += 32; };
    const auto mask = [&](u32 members, auto f) {
        u64 bits = 0;
        for (int k = 0; k < 32; ++k) bits |= static_cast<u64>((members >> k & 1) && f(k)) << k;
        return bits;
    };
    const auto wide = [&](int i) { return static_cast<u64>(v[i]) * 0x100000003ull; };
    next("shfl", [&](int i) { return v[i * 5 & 31]; });
    next("shfl.up", [&](int i) { return v[i < 3 ? i : i - 3]; });
    next("shfl.down", [&](int i) { return v[i + 7 > 31 ? i : i + 7]; });
    next("shfl.bfly", [&](int i) { return v[i ^ 21]; });
    next("shfl in eights", [&](int i) { return v[(i & 24) | ((i + 3) & 7)]; });
    next("shfl.up in sixteens", [&](int i) { return v[i % 16 < 2 ? i : i - 2]; });
    next("shfl.down in fours", [&](int i) { return v[i % 4 == 3 ? i : i + 1]; });
    next("shfl of 64 bits", [&](int i) { return wide(i ^ 9); });
    next("shfl of floats", [&](int i) { return bits_of(static_cast<float>(v[31 - i])); });
    next("shfl of doubles", [&](int i) { return bits_of(static_cast<double>(v[i < 16 ? i + 16 : i]) / 3); });
    next("shfl of pairs of halves", [&](int i) {
        const __half2 h = __floats2half2_rn(i ^ 1, -(i ^ 1));
        return bits_of(h);
    });
    next("ballot", [&](int) { return mask(full, [&](int k) { return v[k] & 1; }); });
    next("any and all", [&](int) {
        return (mask(full, [&](int k) { return v[k] % 32 == 5; }) != 0) +
               2 * (mask(full, [&](int k) { return v[k] > 10; }) == full) + 4;
    });
    next("match.any", [&](int i) { return mask(full, [&](int k) { return (v[k] & 3) == (v[i] & 3); }); });
    next("match.all", [&](int) {
        const bool yes = mask(full, [&](int k) { return v[k] >> 30 == v[0] >> 30; }) == full;
        return yes ? full + (1ull << 32) : 0;
    });
    next("match.any of 64 bits", [&](int i) { return mask(full, [&](int k) { return v[k] % 5 == v[i] % 5; }); });
    next("a part of a warp",
         [&](int i) { return i & 1 ? mask(0xAAAAAAAA, [&](int k) { return v[k] & 2; }) + (0xAAAAAAAAull << 32) : 0; });
    next("another part", [&](int i) {
        return i < 12 ? v[(i + 1) % 12] + static_cast<u64>(__builtin_popcountll(
                                              mask(0xFFF, [&](int k) { return (v[k] & 1) == (v[i] & 1); })))
                      : 0;
    });
}

__global__ void reductions(const u32* values, u64* out) {
    const int lane = threadIdx.x;
    const u32 v = values[lane];
    int row = 0;
#if __CUDA_ARCH__ >= 800
    ROW(__reduce_add_sync(full, v));
    ROW(static_cast<u32>(__reduce_min_sync(full, static_cast<s32>(v))));
    ROW(__reduce_max_sync(full, v));
    ROW(__reduce_and_sync(full, v | 0xFF00));
    ROW(__reduce_or_sync(full, v & 0xFF));
    ROW(__reduce_xor_sync(full, v));
#else
    row += 6;
#endif
    auto tile = cg::tiled_partition<8>(cg::this_thread_block());
    ROW(cg::reduce(tile, v, cg::plus<u32>()));
    ROW(cg::reduce(tile, static_cast<s64>(v) << 7, cg::greater<s64>()));
    ROW(cg::inclusive_scan(tile, v, cg::plus<u32>()));
    ROW(cg::exclusive_scan(tile, v));
    ROW(tile.thread_rank() + 100 * tile.meta_group_rank() + 10000 * tile.meta_group_size());
    ROW(tile.shfl_down(v, 2) + tile.ballot(v & 1));
    u64 gathered = 0;
    if (v & 1) {
        auto group = cg::coalesced_threads();
        gathered = group.size() * 100 + group.thread_rank() + static_cast<u64>(group.shfl(v, 0)) * 10000;
    }
    ROW(gathered);
    auto labeled = cg::labeled_partition(cg::coalesced_threads(), static_cast<int>(v % 3));
    ROW(labeled.size() * 100 + labeled.thread_rank());
    auto binary = cg::binary_partition(cg::tiled_partition<32>(cg::this_thread_block()), v % 2 == 0);
    ROW(binary.size());
}
void reductions_and_groups() {
    u32* v = common<u32>(32);
    u64* out = common<u64>(32 * tests);
    for (unsigned i = 0; i < 32; ++i) v[i] = static_cast<u32>(scramble(i + 77)) >> (i % 4);
    reductions<<<1, 32>>>(v, out);
    finish();
    const u64* row = out;
    const auto next = [&](const char* what, auto f) { all_are(what, row, 32, f), row += 32; };
    const auto fold = [&](auto start, int from, int to, auto f) {
        auto x = start;
        for (int k = from; k < to; ++k) x = f(x, v[k]);
        return x;
    };
    cudaFuncAttributes made;
    CHECK(cudaFuncGetAttributes(&made, reductions));
    if (made.ptxVersion >= 80) {
        next("redux.add", [&](int) { return fold(0u, 0, 32, [](u32 x, u32 y) { return x + y; }); });
        next("redux.min", [&](int) {
            return static_cast<u32>(
                fold(INT32_MAX, 0, 32, [](s32 x, u32 y) { return std::min(x, static_cast<s32>(y)); }));
        });
        next("redux.max", [&](int) { return fold(0u, 0, 32, [](u32 x, u32 y) { return std::max(x, y); }); });
        next("redux.and", [&](int) { return fold(~0u, 0, 32, [](u32 x, u32 y) { return x & (y | 0xFF00); }); });
        next("redux.or", [&](int) { return fold(0u, 0, 32, [](u32 x, u32 y) { return x | (y & 0xFF); }); });
        next("redux.xor", [&](int) { return fold(0u, 0, 32, [](u32 x, u32 y) { return x ^ y; }); });
    } else {
        row += 6 * 32;
    }
    const auto plus = [](u32 x, u32 y) { return x + y; };
    next("a tile's sum", [&](int i) { return fold(0u, i & 24, (i & 24) + 8, plus); });
    next("a tile's maximum", [&](int i) {
        return fold(s64(0), i & 24, (i & 24) + 8, [](s64 x, u32 y) { return std::max(x, static_cast<s64>(y) << 7); });
    });
    next("an inclusive scan", [&](int i) { return fold(0u, i & 24, i + 1, plus); });
    next("an exclusive scan", [&](int i) { return fold(0u, i & 24, i, plus); });
    next("a tile's ranks", [&](int i) { return i % 8 + 100 * (i / 8) + 40000; });
    next("a tile's shuffle and vote", [&](int i) {
        u32 ballot = 0;
        for (int k = 0; k < 8; ++k) ballot |= (v[(i & 24) + k] & 1) << k;
        return v[i % 8 + 2 > 7 ? i : i + 2] + ballot;
    });
    int odd = 0, first = -1;
    for (int i = 0; i < 32; ++i)
        if (v[i] & 1) odd++, first = first < 0 ? i : first;
    next("coalesced threads", [&](int i) {
        int rank = 0;
        for (int k = 0; k < i; ++k) rank += v[k] & 1;
        return v[i] & 1 ? odd * 100 + rank + static_cast<u64>(v[first]) * 10000 : 0;
    });
    next("a labeled partition", [&](int i) {
        int size = 0, rank = 0;
        for (int k = 0; k < 32; ++k) size += v[k] % 3 == v[i] % 3, rank += k < i && v[k] % 3 == v[i] % 3;
        return size * 100 + rank;
    });
    next("a binary partition", [&](int i) { return v[i] & 1 ? odd : 32 - odd; });
}

int main() {
    exchanges();
    reductions_and_groups();
    return verdict();
}
