// SPDX-License-Identifier: Apache-2.0
// documented.h: what CUDA's documentation says: arrays, attributes of streams, primary contexts.
#pragma once
#include <tuple>

#include "things.h"

namespace {

// A context is retained and released; a reset releases nothing; what was in it has gone.
inline void releases() {
    cuInit(0);
    CUcontext c = nullptr;
    CUdeviceptr p = 0;
    const auto state = [] {
        unsigned flags = 0;
        int active = -1;
        cuDevicePrimaryCtxGetState(0, &flags, &active);
        return number(active);
    };
    question("retained_twice", [&] {
        const int a = cuDevicePrimaryCtxRetain(&c, 0), b = cuDevicePrimaryCtxRetain(&c, 0);
        cuCtxSetCurrent(c);
        return number(a) + " " + number(b) + " " + state();
    });
    question("released_once", [&] {
        const int a = cuDevicePrimaryCtxRelease(0), b = cuMemAlloc(&p, room);
        return number(a) + " " + number(b) + " " + state();
    });
    question("reset", [&] {
        const int a = cuDevicePrimaryCtxReset(0), b = cuDevicePrimaryCtxRelease(0), d = cuDevicePrimaryCtxRelease(0);
        return number(a) + " " + number(b) + " " + number(d);
    });
    question("reset_current", [&] { return number(cuMemAlloc(&p, room)); });
    question("retained_again", [&] {
        const int a = cuDevicePrimaryCtxRetain(&c, 0), b = cuCtxSetCurrent(c), d = cuMemAlloc(&p, room);
        const int e = cuMemsetD8(p, 1, room);
        return number(a) + " " + number(b) + " " + number(d) + " " + number(e);
    });
    question("released", [&] {
        const int a = cuDevicePrimaryCtxRelease(0);
        return number(a) + " " + state();
    });
    question("released_current", [&] { return number(cuMemAlloc(&p, room)); });
    question("released_too_often", [&] { return number(cuDevicePrimaryCtxRelease(0)); });
    question("memory_of_released", [&] {
        cuDevicePrimaryCtxRetain(&c, 0);
        cuCtxSetCurrent(c);
        return number(cuMemFree(p));
    });
}

inline void documented() {
    start();
    cudaStream_t s = nullptr, other = nullptr;
    cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);
    cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);

    // A copy may not go past the end of an array, as its source or as its target.
    const cudaChannelFormatDesc words = cudaCreateChannelDesc<float>();
    cudaMipmappedArray_t levels = nullptr;
    cudaArray_t whole = nullptr, level = nullptr;
    cudaMallocArray(&whole, &words, 16, 16);
    cudaMallocMipmappedArray(&levels, &words, make_cudaExtent(16, 16, 0), 3);
    cudaGetMipmappedArrayLevel(&level, levels, 1);
    for (const auto& [name, array, side] : {std::tuple("whole", whole, 16u), std::tuple("level", level, 8u)}) {
        const auto to = [&](size_t x, size_t y, size_t width, size_t rows) {
            return kept(cudaMemcpy2DToArray(array, x, y, scratch, 64, width, rows, cudaMemcpyHostToDevice));
        };
        const size_t width = side * 4;
        question(string("array/") + name, [&] { return to(0, 0, width, side); });
        question(string("array/") + name + "_wide", [&] { return to(4, 0, width, 1); });
        question(string("array/") + name + "_high", [&] { return to(0, 1, 4, side); });
        question(string("array/") + name + "_back", [&] {
            return kept(cudaMemcpy2DFromArray(scratch, 64, array, 0, side - 1, 4, 2, cudaMemcpyDeviceToHost));
        });
        question(string("array/") + name + "_later", [&] { return kept(cudaDeviceSynchronize()); });
    }
    question("array/made_again", [&] {  // the handle may be the first one's
        cudaFreeArray(whole);
        cudaMallocArray(&whole, &words, 8, 4);
        const string a = kept(cudaMemcpy2DToArray(whole, 0, 0, scratch, 32, 32, 4, cudaMemcpyHostToDevice));
        return a + " " + kept(cudaMemcpy2DToArray(whole, 0, 0, scratch, 32, 32, 5, cudaMemcpyHostToDevice));
    });

    question("hints", [&] {
        cudaStreamAttrValue v{}, own{}, copied{};
        v.syncPolicy = cudaSyncPolicySpin;
        const string a = kept(cudaStreamSetAttribute(s, cudaStreamAttributeSynchronizationPolicy, &v));
        const string b = kept(cudaStreamCopyAttributes(other, s));
        cudaStreamGetAttribute(s, cudaStreamAttributeSynchronizationPolicy, &own);
        cudaStreamGetAttribute(other, cudaStreamAttributeSynchronizationPolicy, &copied);
        return a + " " + b + " " + number(own.syncPolicy) + " " + number(copied.syncPolicy);
    });
    question("freed_twice_in_graph", [&] {
        CUgraph graph = nullptr;
        CUgraphNode made, node;
        CUDA_MEM_ALLOC_NODE_PARAMS wanted{};
        wanted.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
        wanted.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
        wanted.bytesize = room;
        cuGraphCreate(&graph, 0);
        cuGraphAddMemAllocNode(&made, graph, nullptr, 0, &wanted);
        const int a = cuGraphAddMemFreeNode(&node, graph, &made, 1, wanted.dptr);
        return number(a) + " " + number(cuGraphAddMemFreeNode(&node, graph, &made, 1, wanted.dptr));
    });
}

}  // namespace
