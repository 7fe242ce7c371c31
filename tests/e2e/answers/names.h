// SPDX-License-Identifier: Apache-2.0
// names.h: which functions are found by which version of CUDA, and what errors are called.
#pragma once
#include <algorithm>
#include <set>

#include "shm-device/cuda/api.h"
#include "things.h"

namespace {

struct Named {
    const char *symbol, *name;
    int since;
};
#define FIRST(name, since, twin) {#name, #name, since},
#define LATER(symbol, name, since, twin, form) {#symbol, #name, since},
constexpr Named names[] = {BARCUDA_API(FIRST, LATER)};
#undef FIRST
#undef LATER

inline string entry(const char* name, int version, unsigned long long flags) {
    void* f = nullptr;
    auto status = static_cast<CUdriverProcAddressQueryResult>(9);
    const int rc = cuGetProcAddress(name, &f, version, flags, &status);
    return number(rc) + " " + number(status) + (f ? " found" : " none");
}
inline void entries() {
    cuInit(0);
    std::set<string> asked;
    const auto ask_once = [&](const string& name, int version) {
        const string q = name + "/" + number(version);
        if (asked.insert(q).second) question(q, [&] { return entry(name.c_str(), version, 0); });
    };
    for (const Named& n : names) {
        ask_once(n.name, n.since - 10);
        ask_once(n.name, n.since);
        ask_once(n.name, 13000);
        ask_once(n.symbol, 13000);
    }
}
inline void entries_flags() {
    cuInit(0);
    const char* const some[] = {"cuMemAlloc",
                                "cuMemAlloc_v2",
                                "cuMemcpyHtoD",
                                "cuMemcpyAsync",
                                "cuLaunchKernel",
                                "cuLaunchKernelEx",
                                "cuGraphAddNode",
                                "cuGraphInstantiate",
                                "cuStreamGetCaptureInfo",
                                "cuGetProcAddress",
                                "cuCtxCreate",
                                "cuStreamSynchronize_ptsz",
                                "cuMemcpyHtoD_v2_ptds",
                                "cuInit",
                                "cuMemAdvise",
                                "cuGreenCtxCreate",
                                "cuEventElapsedTime",
                                "nothing",
                                "",
                                "cudaMalloc",
                                "cuMemAllocAsync",
                                "cuStreamBeginCapture",
                                "cuGLInit",
                                "cuTexRefCreate",
                                "cuCtxAttach"};
    for (const char* name : some) {
        for (int version : {-1,    0,     1,     1000,  2000,  3020,  4000,  7000,  8000,  9000, 10010,
                            11000, 11030, 12000, 12040, 12080, 12090, 13000, 13010, 14000, 99000})
            for (unsigned long long flags : {0ull, 1ull, 2ull})
                question(string(name) + "/" + number(version) + "/" + number(flags),
                         [&] { return entry(name, version, flags); });
        for (unsigned long long flags : {3ull, 4ull, 8ull})
            question(string(name) + "/flags_" + number(flags), [&] { return entry(name, 13000, flags); });
    }
    question("null_name", [&] { return entry(nullptr, 13000, 0); });
    question("null_function", [&] {
        CUdriverProcAddressQueryResult s;
        return number(cuGetProcAddress("cuInit", nullptr, 13000, 0, &s));
    });
    question("null_status", [&] {
        void* f;
        return number(cuGetProcAddress("cuInit", &f, 13000, 0, nullptr));
    });
    question("null_status_absent", [&] {
        void* f;
        return number(cuGetProcAddress("cuNothing", &f, 13000, 0, nullptr));
    });
    // Which function a version means: the same as another version's or not.
    for (const char* name : some)
        for (int version : {2000, 4000, 9000, 11000, 12000})
            question(string("same/") + name + "/" + number(version), [&] {
                void *f = nullptr, *g = nullptr;
                CUdriverProcAddressQueryResult s;
                cuGetProcAddress(name, &f, version, 0, &s);
                cuGetProcAddress(name, &g, 13000, 0, &s);
                return string(!f ? "none" : f == g ? "same" : "other");
            });
}
inline void runtime_entries() {
    const char* const some[] = {"cuMemAlloc",
                                "cuMemAlloc_v2",
                                "cuMemcpyHtoD",
                                "cuLaunchKernel",
                                "cuLaunchKernelEx",
                                "cuGraphAddNode",
                                "cuCtxCreate",
                                "nothing",
                                "",
                                "cuGreenCtxCreate",
                                "cuStreamSynchronize_ptsz",
                                "cuMemAdvise",
                                "cuGLInit",
                                "cuEventElapsedTime"};
    for (const char* name : some) {
        for (unsigned long long flags : {0ull, 1ull, 2ull, 3ull, 8ull})
            question(string(name) + "/default_" + number(flags), [&] {
                void* f = nullptr;
                auto s = static_cast<cudaDriverEntryPointQueryResult>(9);
                const string r = kept(cudaGetDriverEntryPoint(name, &f, flags, &s));
                return r + " " + number(s) + (f ? " found" : " none");
            });
        for (unsigned version :
             {0u, 1000u, 2000u, 3020u, 9000u, 11000u, 12000u, 12040u, 12080u, 13000u, 13010u, 99000u})
            for (unsigned long long flags : {0ull, 1ull, 2ull, 5ull})
                question(string(name) + "/" + number(version) + "/" + number(flags), [&] {
                    void* f = nullptr;
                    auto s = static_cast<cudaDriverEntryPointQueryResult>(9);
                    const string r = kept(cudaGetDriverEntryPointByVersion(name, &f, version, flags, &s));
                    return r + " " + number(s) + (f ? " found" : " none");
                });
    }
    question("null_name", [&] {
        void* f;
        return kept(cudaGetDriverEntryPointByVersion(nullptr, &f, 13000, 0, nullptr));
    });
    question("null_function",
             [&] { return kept(cudaGetDriverEntryPointByVersion("cuInit", nullptr, 13000, 0, nullptr)); });
    question("null_status", [&] {
        void* f;
        return kept(cudaGetDriverEntryPointByVersion("cuInit", &f, 13000, 0, nullptr));
    });
    question("null_status_absent", [&] {
        void* f;
        return kept(cudaGetDriverEntryPointByVersion("cuNothing", &f, 13000, 0, nullptr));
    });
}
inline void error_names() {
    for (int code = -1; code <= 1000; ++code) {
        const char *name = nullptr, *text = nullptr;
        const bool known = cuGetErrorName(static_cast<CUresult>(code), &name) == CUDA_SUCCESS || code < 110 ||
                           code % 100 < 30 || code > 990;
        if (!known) continue;
        question("driver_" + number(code), [&] {
            const char *n = nullptr, *t = nullptr;
            const int a = cuGetErrorName(static_cast<CUresult>(code), &n),
                      b = cuGetErrorString(static_cast<CUresult>(code), &t);
            return number(a) + " " + (n ? n : "null") + " " + number(b) + " " + (t ? t : "null");
        });
        question("runtime_" + number(code), [&] {
            return string(cudaGetErrorName(static_cast<cudaError_t>(code))) + " " +
                   cudaGetErrorString(static_cast<cudaError_t>(code));
        });
    }
}

}  // namespace
