// SPDX-License-Identifier: Apache-2.0
// fills.h: the driver's fills that are asked about, by the names that the table of answers has for them.
#pragma once
#include <cuda.h>

#include <cstddef>
#include <functional>
#include <vector>

struct Fill {
    const char* name;
    unsigned unit;                                 // bytes
    std::function<int(CUdeviceptr, size_t)> call;  // with a number of units; the driver's code
};
// `s`: for those that are asynchronous.
inline std::vector<Fill> driver_fills(CUstream s) {
    return {
        {"D8", 1, [](CUdeviceptr p, size_t n) { return cuMemsetD8(p, 1, n); }},
        {"D16", 2, [](CUdeviceptr p, size_t n) { return cuMemsetD16(p, 1, n); }},
        {"D32", 4, [](CUdeviceptr p, size_t n) { return cuMemsetD32(p, 1, n); }},
        {"D8Async", 1, [s](CUdeviceptr p, size_t n) { return cuMemsetD8Async(p, 1, n, s); }},
        {"D16Async", 2, [s](CUdeviceptr p, size_t n) { return cuMemsetD16Async(p, 1, n, s); }},
        {"D32Async", 4, [s](CUdeviceptr p, size_t n) { return cuMemsetD32Async(p, 1, n, s); }},
        {"2D8", 2, [](CUdeviceptr p, size_t n) { return cuMemsetD2D8(p, n ? n : 1, 1, n, 2); }},
        {"2D32Async", 8, [s](CUdeviceptr p, size_t n) { return cuMemsetD2D32Async(p, n ? 4 * n : 4, 1, n, 2, s); }}};
}
