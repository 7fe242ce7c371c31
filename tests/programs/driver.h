// SPDX-License-Identifier: Apache-2.0
// driver.h: for programs that also call the driver: its functions, found by name and version of CUDA, and a check.
#pragma once
#include <cuda.h>

#include "check.h"

#define DRIVER(call) REQUIRE((call) == CUDA_SUCCESS)

template <class F> static F entry(const char* name, unsigned version = 12000) {
    void* p = nullptr;
    cudaDriverEntryPointQueryResult found;
    CHECK(cudaGetDriverEntryPointByVersion(name, &p, version, cudaEnableDefault, &found));
    if (!p || found != cudaDriverEntryPointSuccess) printf("%s of %u: %d\n", name, version, (int)found);
    REQUIRE(p && found == cudaDriverEntryPointSuccess);
    return reinterpret_cast<F>(p);
}
