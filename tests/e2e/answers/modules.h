// SPDX-License-Identifier: Apache-2.0
// modules.h: modules, libraries and the linker.
#pragma once
#include "things.h"

namespace {

// ---- modules, libraries, linking
inline void modules() {
    start();
    CUmodule m = nullptr;
    cuModuleLoadData(&m, tiny);
    CUfunction f = nullptr;
    question("load_null", [&] {
        CUmodule n;
        return number(cuModuleLoadData(&n, nullptr));
    });
    question("load_null_module", [&] { return number(cuModuleLoadData(nullptr, tiny)); });
    question("load_garbage", [&] {
        CUmodule n;
        return number(cuModuleLoadData(&n, "garbage"));
    });
    question("load_empty", [&] {
        CUmodule n;
        return number(cuModuleLoadData(&n, ""));
    });
    question("load_bad_ptx", [&] {
        CUmodule n;
        return number(cuModuleLoadData(&n, ".version 6.4\n.target sm_50\n.address_size 64\nnonsense\n"));
    });
    question("load_new_ptx", [&] {
        CUmodule n;
        return number(cuModuleLoadData(&n, ".version 99.0\n.target sm_50\n.address_size 64\n"));
    });
    question("load_new_target", [&] {
        CUmodule n;
        return number(cuModuleLoadData(&n, ".version 6.4\n.target sm_999\n.address_size 64\n"));
    });
    question("load_file_absent", [&] {
        CUmodule n;
        return number(cuModuleLoad(&n, "/nonexistent"));
    });
    question("load_file_null", [&] {
        CUmodule n;
        return number(cuModuleLoad(&n, nullptr));
    });
    question("load_file_folder", [&] {
        CUmodule n;
        return number(cuModuleLoad(&n, "/"));
    });
    question("unload_null", [&] { return number(cuModuleUnload(nullptr)); });
    question("function", [&] { return number(cuModuleGetFunction(&f, m, "k")); });
    question("function_absent", [&] { return number(cuModuleGetFunction(&f, m, "absent")); });
    question("function_null", [&] { return number(cuModuleGetFunction(nullptr, m, "k")); });
    question("function_name_null", [&] { return number(cuModuleGetFunction(&f, m, nullptr)); });
    question("function_module_null", [&] { return number(cuModuleGetFunction(&f, nullptr, "k")); });
    question("global", [&] {
        CUdeviceptr p;
        size_t n = 0;
        const int rc = cuModuleGetGlobal(&p, &n, m, "w");
        return number(rc) + " " + number(n);
    });
    question("global_absent", [&] {
        CUdeviceptr p;
        size_t n;
        return number(cuModuleGetGlobal(&p, &n, m, "absent"));
    });
    question("global_nulls", [&] { return number(cuModuleGetGlobal(nullptr, nullptr, m, "w")); });
    question("global_name_null", [&] {
        CUdeviceptr p;
        return number(cuModuleGetGlobal(&p, nullptr, m, nullptr));
    });
    question("count", [&] {
        unsigned n = 7;
        const int rc = cuModuleGetFunctionCount(&n, m);
        return number(rc) + " " + number(n);
    });
    question("count_null", [&] { return number(cuModuleGetFunctionCount(nullptr, m)); });
    question("enumerate", [&] {
        CUfunction g[2];
        return number(cuModuleEnumerateFunctions(g, 2, m));
    });
    question("texture", [&] {
        CUtexref r;
        return number(cuModuleGetTexRef(&r, m, "absent"));
    });
    question("surface", [&] {
        CUsurfref r;
        return number(cuModuleGetSurfRef(&r, m, "absent"));
    });
    for (int option = -1; option <= 40; ++option)
        question("option_" + number(option), [&] {
            CUmodule n = nullptr;
            CUjit_option o[] = {static_cast<CUjit_option>(option)};
            void* v[] = {nullptr};
            const int rc = cuModuleLoadDataEx(&n, tiny, 1, o, v);
            if (!rc) cuModuleUnload(n);
            return number(rc);
        });
    question("options_null", [&] {
        CUmodule n;
        return number(cuModuleLoadDataEx(&n, tiny, 1, nullptr, nullptr));
    });
    CUlibrary l = nullptr;
    cuLibraryLoadData(&l, tiny, nullptr, nullptr, 0, nullptr, nullptr, 0);
    CUkernel k = nullptr;
    question("library_null", [&] {
        CUlibrary n;
        return number(cuLibraryLoadData(&n, nullptr, nullptr, nullptr, 0, nullptr, nullptr, 0));
    });
    question("library_garbage", [&] {
        CUlibrary n;
        return number(cuLibraryLoadData(&n, "garbage", nullptr, nullptr, 0, nullptr, nullptr, 0));
    });
    question("library_file", [&] {
        CUlibrary n;
        return number(cuLibraryLoadFromFile(&n, "/nonexistent", nullptr, nullptr, 0, nullptr, nullptr, 0));
    });
    for (int option = 0; option < 3; ++option)
        question("library_option_" + number(option), [&] {
            CUlibrary n;
            CUlibraryOption o[] = {static_cast<CUlibraryOption>(option)};
            void* v[] = {nullptr};
            return number(cuLibraryLoadData(&n, tiny, nullptr, nullptr, 0, o, v, 1));
        });
    question("kernel", [&] { return number(cuLibraryGetKernel(&k, l, "k")); });
    if (!k) cuLibraryGetKernel(&k, l, "k");
    question("kernel_absent", [&] {
        CUkernel n;
        return number(cuLibraryGetKernel(&n, l, "absent"));
    });
    question("kernel_null", [&] { return number(cuLibraryGetKernel(nullptr, l, "k")); });
    question("library_global", [&] {
        CUdeviceptr p;
        size_t n = 0;
        const int rc = cuLibraryGetGlobal(&p, &n, l, "w");
        return number(rc) + " " + number(n);
    });
    question("library_global_absent", [&] {
        CUdeviceptr p;
        return number(cuLibraryGetGlobal(&p, nullptr, l, "absent"));
    });
    question("library_managed", [&] {
        CUdeviceptr p;
        return number(cuLibraryGetManaged(&p, nullptr, l, "w"));
    });
    question("library_unified", [&] {
        void* p;
        return number(cuLibraryGetUnifiedFunction(&p, l, "k"));
    });
    question("library_module", [&] {
        CUmodule n;
        return number(cuLibraryGetModule(&n, l));
    });
    question("library_count", [&] {
        unsigned n = 7;
        const int rc = cuLibraryGetKernelCount(&n, l);
        return number(rc) + " " + number(n);
    });
    question("library_count_null", [&] { return number(cuLibraryGetKernelCount(nullptr, l)); });
    question("kernel_name", [&] {
        const char* n = nullptr;
        const int rc = cuKernelGetName(&n, k);
        return number(rc) + " " + (n ? n : "null");
    });
    question("kernel_library", [&] {
        CUlibrary n = nullptr;
        const int rc = cuKernelGetLibrary(&n, k);
        return number(rc) + (n == l ? " it" : " other");
    });
    question("kernel_function", [&] {
        CUfunction n = nullptr;
        return number(cuKernelGetFunction(&n, k));
    });
    question("kernel_param", [&] {
        size_t a, b;
        return number(cuKernelGetParamInfo(k, 0, &a, &b));
    });
    for (int a = -1; a <= 17; ++a) {
        question("kernel_get_" + number(a), [&] {
            int v = 0;
            return number(cuKernelGetAttribute(&v, static_cast<CUfunction_attribute>(a), k, 0));
        });
        question("kernel_set_" + number(a),
                 [&] { return number(cuKernelSetAttribute(static_cast<CUfunction_attribute>(a), 0, k, 0)); });
        question("kernel_get_device_" + number(a), [&] {
            int v = 0;
            return number(cuKernelGetAttribute(&v, static_cast<CUfunction_attribute>(a), k, 99));
        });
    }
    question("library_unload_null", [&] { return number(cuLibraryUnload(nullptr)); });
    CUlinkState link = nullptr;
    question("link", [&] { return number(cuLinkCreate(0, nullptr, nullptr, &link)); });
    question("link_null", [&] { return number(cuLinkCreate(0, nullptr, nullptr, nullptr)); });
    for (int type = 0; type <= 7; ++type)
        question("link_add_" + number(type), [&] {
            CUlinkState x = nullptr;
            cuLinkCreate(0, nullptr, nullptr, &x);
            const int rc = cuLinkAddData(x, static_cast<CUjitInputType>(type), const_cast<char*>(tiny), sizeof tiny,
                                         "k", 0, nullptr, nullptr);
            cuLinkDestroy(x);
            return number(rc);
        });
    question("link_complete_empty", [&] {
        CUlinkState x = nullptr;
        cuLinkCreate(0, nullptr, nullptr, &x);
        void* p;
        size_t n;
        const int rc = cuLinkComplete(x, &p, &n);
        cuLinkDestroy(x);
        return number(rc);
    });
    question("link_file", [&] {
        CUlinkState x = nullptr;
        cuLinkCreate(0, nullptr, nullptr, &x);
        const int rc = cuLinkAddFile(x, CU_JIT_INPUT_PTX, "/nonexistent", 0, nullptr, nullptr);
        cuLinkDestroy(x);
        return number(rc);
    });
    void* p = nullptr;
    size_t n = 0;
    static int no_symbol;
    question("symbol_address", [&] { return kept(cudaGetSymbolAddress(&p, symbol)); });
    question("symbol_address_bad", [&] { return kept(cudaGetSymbolAddress(&p, &no_symbol)); });
    question("symbol_address_null", [&] { return kept(cudaGetSymbolAddress(&p, static_cast<const void*>(nullptr))); });
    question("symbol_size", [&] {
        const string a = kept(cudaGetSymbolSize(&n, symbol));
        return a + " " + number(n);
    });
    question("symbol_size_bad", [&] { return kept(cudaGetSymbolSize(&n, &no_symbol)); });
    for (size_t off : {0ul, 4ul, 4096ul, 4097ul})
        for (size_t count : {0ul, 4ul, 4096ul, 4097ul}) {
            question("to_symbol_" + number(off) + "_" + number(count), [&] {
                static char from[8192];
                return kept(cudaMemcpyToSymbol(symbol, from, count, off));
            });
            question("from_symbol_" + number(off) + "_" + number(count), [&] {
                static char to[8192];
                return kept(cudaMemcpyFromSymbol(to, symbol, count, off));
            });
        }
    for (int kind : {0, 1, 2, 3, 4, 9}) {
        question("to_symbol_kind_" + number(kind),
                 [&] { return kept(cudaMemcpyToSymbol(word, scratch, 4, 0, static_cast<cudaMemcpyKind>(kind))); });
        question("from_symbol_kind_" + number(kind),
                 [&] { return kept(cudaMemcpyFromSymbol(scratch, word, 4, 0, static_cast<cudaMemcpyKind>(kind))); });
    }
    question("function_by_symbol", [&] {
        cudaFunction_t g;
        return kept(cudaGetFuncBySymbol(&g, reinterpret_cast<const void*>(touch)));
    });
    question("function_by_symbol_bad", [&] {
        cudaFunction_t g;
        return kept(cudaGetFuncBySymbol(&g, &no_symbol));
    });
    question("kernel_by_symbol", [&] {
        cudaKernel_t g;
        return kept(cudaGetKernel(&g, reinterpret_cast<const void*>(touch)));
    });
    question("kernel_by_symbol_bad", [&] {
        cudaKernel_t g;
        return kept(cudaGetKernel(&g, &no_symbol));
    });
}

}  // namespace
