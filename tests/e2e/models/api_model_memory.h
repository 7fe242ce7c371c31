// SPDX-License-Identifier: Apache-2.0
// api_model_memory.h: what a lane of api_model.cu does with memory: in a stream's order, at once, pinned, managed.
#pragma once
#include "api_model_lane.h"

namespace {

// ---- memory
void Lane::allocate_in_order(Stream& s) {
    const unsigned n = 1 + static_cast<unsigned>(random_.below(random_.one_in(5) ? 100000 : 1000)), value = n * 7;
    unsigned* p;
    cudaMemPool_t pool = nullptr;
    if (random_.one_in(4)) {
        cudaMemPoolProps props{};
        props.allocType = cudaMemAllocationTypePinned;
        props.location.type = cudaMemLocationTypeDevice;
        CHECK(cudaMemPoolCreate(&pool, &props));
        CHECK(cudaMallocFromPoolAsync(&p, n * sizeof *p, pool, s.stream));
    } else {
        CHECK(cudaMallocAsync(&p, n * sizeof *p, s.stream));
    }
    fill<<<1, 32, 0, s.stream>>>(p, n, value);
    take(s, 0);
    Stream& other = any();
    if (&other != &s && random_.one_in(2)) {
        Event& e = event();
        record(s, e);
        CHECK(cudaStreamWaitEvent(other.stream, e.event, 0));
        expect<<<1, 32, 0, other.stream>>>(p, n, value, wrong_);
        CHECK(cudaFreeAsync(p, other.stream));
    } else {
        expect<<<1, 32, 0, s.stream>>>(p, n, value, wrong_);
        CHECK(cudaFreeAsync(p, s.stream));
    }
    launched();
    if (pool) CHECK(cudaMemPoolDestroy(pool));
}

void Lane::allocate() {
    Stream& s = any();
    const unsigned n = 1 + static_cast<unsigned>(random_.below(20000));
    unsigned* p;
    CHECK(cudaMalloc(&p, n * sizeof *p));
    fill<<<1, 32, 0, s.stream>>>(p, n, n);
    expect<<<1, 32, 0, s.stream>>>(p, n, n, wrong_);
    launched();
    const unsigned before = s.at;
    CHECK(cudaFree(p));  // waits for whatever may use it
    reached(s.count, before);
}

void Lane::allocate_host() {
    Stream& s = any();
    const unsigned n = 1 + static_cast<unsigned>(random_.below(200000));
    unsigned* p;
    CHECK(cudaHostAlloc(&p, n * sizeof *p, cudaHostAllocMapped));
    p[n - 1] = 0;
    fill<<<1, 32, 0, s.stream>>>(p, n, 5);
    launched();
    if (random_.one_in(2)) {
        CHECK(cudaStreamSynchronize(s.stream));
        if (p[n - 1] != 5 + n - 1) die("pinned memory: %u, not %u", p[n - 1], 5 + n - 1);
    }
    CHECK(cudaFreeHost(p));
}

void Lane::managed(Stream& s) {
    static const bool concurrent = [] {
        int yes = 0;
        return cudaDeviceGetAttribute(&yes, cudaDevAttrConcurrentManagedAccess, 0) == cudaSuccess && yes;
    }();
    if (!concurrent) return;
    constexpr unsigned n = 5000;
    unsigned* p;
    CHECK(cudaMallocManaged(&p, n * sizeof *p));
    for (unsigned i = 0; i < n; ++i) p[i] = i + 3;
    cudaMemLocation device{};
    device.type = cudaMemLocationTypeDevice;
    CHECK(cudaMemAdvise(p, n * sizeof *p, cudaMemAdviseSetPreferredLocation, device));
    CHECK(cudaMemPrefetchAsync(p, n * sizeof *p, device, 0, s.stream));
    expect<<<1, 32, 0, s.stream>>>(p, n, 3, wrong_);
    fill<<<1, 32, 0, s.stream>>>(p, n, 9);
    launched();
    CHECK(cudaStreamSynchronize(s.stream));
    for (unsigned i = 0; i < n; ++i)
        if (p[i] != i + 9) die("managed memory at %u: %u, not %u", i, p[i], i + 9);
    CHECK(cudaFree(p));
}

}  // namespace
