// SPDX-License-Identifier: Apache-2.0
// functions.h: functions and launches: attributes, occupancy, parameters that are wrong.
#pragma once
#include "things.h"

namespace {

// ---- functions and launches
inline void functions() {
    Things t;
    start();
    t.make();
    cudaStream_t s = t.stream;
    ask::looks_behind = true;
    for (int a = -1; a <= 20; ++a) {
        question("get/" + number(a), [&] {
            int v = -77;
            const int rc = cuFuncGetAttribute(&v, static_cast<CUfunction_attribute>(a), t.function);
            return number(rc) + (v == -77 ? " untouched" : a >= 8 ? " " + number(v) : "");
        });
        for (int v : {-1, 0, 1, 8, 1024, 1 << 20})
            question("set/" + number(a) + "/" + number(v), [&] {
                const int rc = cuFuncSetAttribute(t.function, static_cast<CUfunction_attribute>(a), v);
                cuFuncSetAttribute(t.function, static_cast<CUfunction_attribute>(a), 0);
                return number(rc);
            });
        question("runtime/" + number(a),
                 [&] { return kept(cudaFuncSetAttribute(touch, static_cast<cudaFuncAttribute>(a), 0)); });
    }
    void* parameters[] = {&t.device};
    for (unsigned g : {0u, 1u, 65536u, 0x80000000u})
        for (unsigned b : {0u, 1u, 65u, 1024u, 1025u}) {
            question("grid_x_" + number(g) + "_block_" + number(b), [&] {
                return g > 65536 && b == 1024
                           ? ""
                           : number(cuLaunchKernel(t.function, g, 1, 1, b, 1, 1, 0, s, parameters, nullptr));
            });
            question("grid_y_" + number(g) + "_block_y_" + number(b),
                     [&] { return number(cuLaunchKernel(t.function, 1, g, 1, 1, b, 1, 0, s, parameters, nullptr)); });
            question("grid_z_" + number(g) + "_block_z_" + number(b),
                     [&] { return number(cuLaunchKernel(t.function, 1, 1, g, 1, 1, b, 0, s, parameters, nullptr)); });
            question("runtime_grid_" + number(g) + "_block_" + number(b), [&] {
                return g > 65536 ? "" : kept(cudaLaunchKernel(touch, dim3(g), dim3(b), parameters, 0, s));
            });
        }
    for (unsigned shared : {0u, 1u, 49152u, 49153u, 1u << 20, 1u << 30})
        question("shared_" + number(shared),
                 [&] { return number(cuLaunchKernel(t.function, 1, 1, 1, 1, 1, 1, shared, s, parameters, nullptr)); });
    question("null_function",
             [&] { return number(cuLaunchKernel(nullptr, 1, 1, 1, 1, 1, 1, 0, s, parameters, nullptr)); });
    question("null_parameters",
             [&] { return number(cuLaunchKernel(t.function, 1, 1, 1, 1, 1, 1, 0, s, nullptr, nullptr)); });
    question("runtime_null", [&] {
        return kept(cudaLaunchKernel(static_cast<const void*>(nullptr), dim3(1), dim3(1), parameters, 0, s));
    });
    question("runtime_no_kernel", [&] {
        return kept(cudaLaunchKernel(reinterpret_cast<const void*>(&start), dim3(1), dim3(1), parameters, 0, s));
    });
    int eight = 8;
    size_t few = 8, many = 1 << 20;
    void* extra_good[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &t.device, CU_LAUNCH_PARAM_BUFFER_SIZE, &few,
                          CU_LAUNCH_PARAM_END};
    void* extra_long[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, scratch, CU_LAUNCH_PARAM_BUFFER_SIZE, &many,
                          CU_LAUNCH_PARAM_END};
    void* extra_bad[] = {reinterpret_cast<void*>(77), &eight, CU_LAUNCH_PARAM_END};
    question("extra", [&] { return number(cuLaunchKernel(t.function, 1, 1, 1, 1, 1, 1, 0, s, nullptr, extra_good)); });
    question("extra_and_parameters",
             [&] { return number(cuLaunchKernel(t.function, 1, 1, 1, 1, 1, 1, 0, s, parameters, extra_good)); });
    question("extra_bad",
             [&] { return number(cuLaunchKernel(t.function, 1, 1, 1, 1, 1, 1, 0, s, nullptr, extra_bad)); });
    question("extra_short", [&] {
        size_t four = 4;
        void* e[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &t.device, CU_LAUNCH_PARAM_BUFFER_SIZE, &four,
                     CU_LAUNCH_PARAM_END};
        return number(cuLaunchKernel(t.function, 1, 1, 1, 1, 1, 1, 0, s, nullptr, e));
    });
    question("cooperative",
             [&] { return number(cuLaunchCooperativeKernel(t.function, 1, 1, 1, 1, 1, 1, 0, s, parameters)); });
    question("cooperative_large", [&] {
        return number(cuLaunchCooperativeKernel(t.function, 1 << 20, 1, 1, 1024, 1, 1, 0, s, parameters));
    });
    for (int id = 0; id <= 18; ++id)
        question("launch_attribute_" + number(id), [&] {
            CUlaunchConfig c{1, 1, 1, 1, 1, 1, 0, s, nullptr, 1};
            CUlaunchAttribute a{};
            a.id = static_cast<CUlaunchAttributeID>(id);
            c.attrs = &a;
            return number(cuLaunchKernelEx(&c, t.function, parameters, nullptr));
        });
    question("launch_ex_null", [&] { return number(cuLaunchKernelEx(nullptr, t.function, parameters, nullptr)); });
    for (int threads : {-1, 0, 1, 64, 1024, 1025, 4096})
        for (size_t shared : {0ul, 1024ul, 1ul << 20})
            question("occupancy_" + number(threads) + "_" + number(shared), [&] {
                int n = 77;
                const int rc = cuOccupancyMaxActiveBlocksPerMultiprocessor(&n, t.function, threads, shared);
                return number(rc);
            });
    question("occupancy_null",
             [&] { return number(cuOccupancyMaxActiveBlocksPerMultiprocessor(nullptr, t.function, 64, 0)); });
    question("occupancy_flags", [&] {
        int n;
        return number(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&n, t.function, 64, 0, 0x10));
    });
    question("occupancy_potential", [&] {
        int a, b;
        return number(cuOccupancyMaxPotentialBlockSize(&a, &b, t.function, nullptr, 0, 0));
    });
    question("occupancy_clusters", [&] {
        int n = 77;
        CUlaunchConfig c{1, 1, 1, 64, 1, 1, 0, s, nullptr, 0};
        return number(cuOccupancyMaxActiveClusters(&n, t.function, &c));
    });
    question("cache_config", [&] { return number(cuFuncSetCacheConfig(t.function, static_cast<CUfunc_cache>(9))); });
    question("param_info_0", [&] {
        size_t a = 7, b = 7;
        const int rc = cuFuncGetParamInfo(t.function, 0, &a, &b);
        return number(rc) + " " + number(a) + " " + number(b);
    });
    question("param_info_1", [&] {
        size_t a, b;
        return number(cuFuncGetParamInfo(t.function, 1, &a, &b));
    });
    question("is_loaded", [&] {
        CUfunctionLoadingState l;
        const int rc = cuFuncIsLoaded(&l, t.function);
        return number(rc) + " " + number(l);
    });
    question("name", [&] {
        const char* n = nullptr;
        const int rc = cuFuncGetName(&n, t.function);
        return number(rc) + " " + (n ? n : "null");
    });
    question("name_null", [&] { return number(cuFuncGetName(nullptr, t.function)); });
    question("module_null", [&] { return number(cuFuncGetModule(nullptr, t.function)); });
    question("attributes_null", [&] { return kept(cudaFuncGetAttributes(nullptr, touch)); });
    question("attributes_no_kernel", [&] {
        cudaFuncAttributes a;
        return kept(cudaFuncGetAttributes(&a, &start));
    });
}

}  // namespace
