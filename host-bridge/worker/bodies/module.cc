// SPDX-License-Identifier: Apache-2.0
// module.cc: code. The worker loads images from a copy of its own, and reports what a launch needs to know about a
// function. (The guest's half: guest-allocator/driver/module.cc.)
#include <algorithm>
#include <cstring>
#include <memory>
#include <string>

#include "host-bridge/worker/bodies/body.h"

namespace barcuda::ext {
namespace {

// `load` gets the options as well.
template <class Handle, class Load>
CUresult load(Handle* handle, const void* image, std::size_t bytes, Logs wanted, Load load) {
    const auto copy = std::make_shared<const LargeString>(session().code().take(image, bytes));
    session().print_search().add(copy);
    session().births().loads(*copy);
    auto log = CompilerLog::wanted(wanted);
    const char* const code = copy->c_str();  // ended by a NUL, for PTX text
    if (!log) return load(handle, code, 0, nullptr, nullptr);
    const CUresult r = load(handle, code, CompilerLog::count, log->options(), log->values());
    session().code().keep_log(std::move(log));
    return r;
}

CUresult is_loaded(CUfunction function, bool& loaded) {
    loaded = true;
    // before CUDA 12.4 all functions are loaded
    if (!driver().cuFuncIsLoaded || !driver().cuFuncLoad) return CUDA_SUCCESS;
    CUfunctionLoadingState state = CU_FUNCTION_LOADING_STATE_LOADED;
    const CUresult r = driver().cuFuncIsLoaded(&state, function);
    loaded = state == CU_FUNCTION_LOADING_STATE_LOADED;
    return r;
}

template <class Handle, class Info> CUresult describe(Handle handle, FunctionInfo* info, Info parameter) {
    *info = {};
    for (std::size_t i = 0;; ++i) {
        std::size_t offset = 0, size = 0;
        const CUresult r = parameter(handle, i, &offset, &size);
        if (r == CUDA_ERROR_INVALID_VALUE) break;
        if (r != CUDA_SUCCESS) return r;
        if (i == max_parameters || offset + size > 0x7fff) return CUDA_ERROR_NOT_SUPPORTED;
        info->parameters[i] = {static_cast<std::uint16_t>(offset), static_cast<std::uint16_t>(size)};
        info->parameter_count = static_cast<std::uint32_t>(i + 1);
        info->parameter_bytes = static_cast<std::uint32_t>(offset + size);
    }
    info->prints = session().print_search().may_print();
    return CUDA_SUCCESS;
}

template <class Handle, class Ask> CUresult name_of(Handle handle, char* name, std::size_t room, Ask ask) {
    const char* text = nullptr;
    if (!ask || room == 0) return CUDA_ERROR_NOT_SUPPORTED;
    if (CUresult r = ask(&text, handle); r != CUDA_SUCCESS) return r;
    std::strncpy(name, text, room - 1);
    return CUDA_SUCCESS;
}

}  // namespace

CUresult image_part(std::size_t place, const void* bytes, std::size_t size) {
    return session().code().add_part(place, bytes, size) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult image_begin(std::size_t bytes) {
    return session().code().begin(bytes) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
// A posted command: a piece that does not fit discards the image, and the command that loads it reports that.
CUresult image_piece(const void* bytes, std::size_t size) {
    session().code().add_piece(bytes, size);
    return CUDA_SUCCESS;
}

CUresult load_module(CUmodule* module, const void* image, std::size_t bytes, Logs wanted) {
    return load(module, image, bytes, wanted, driver().cuModuleLoadDataEx);
}

CUresult load_library(CUlibrary* library, const void* image, std::size_t bytes, Logs wanted) {
    return load(library, image, bytes, wanted,
                [](CUlibrary* l, const void* code, unsigned count, CUjit_option* options, void** values) {
                    return driver().cuLibraryLoadData(l, code, options, values, count, nullptr, nullptr, 0);
                });
}

CUresult load_log(unsigned errors, char* text, std::size_t room, std::uint64_t* used) {
    return CompilerLog::tell(session().code().log(), errors, text, room, used);
}

// A function of a list (cuModuleEnumerateFunctions) has no code on the device until it is needed. CUDA loads it for a
// launch, but until then answers questions about it with CUDA_ERROR_FUNCTION_NOT_LOADED.
CUresult describe_function(CUfunction function, FunctionInfo* info) {
    bool loaded = false;
    if (CUresult r = is_loaded(function, loaded); r != CUDA_SUCCESS) return r;
    if (CUresult r = loaded ? CUDA_SUCCESS : driver().cuFuncLoad(function); r != CUDA_SUCCESS) return r;
    if (CUresult r = describe(function, info, driver().cuFuncGetParamInfo); r != CUDA_SUCCESS) return r;
    if (CUresult r = driver().cuFuncGetAttribute(&info->max_dynamic_shared,
                                                 CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, function);
        r != CUDA_SUCCESS)
        return r;
    return driver().cuFuncGetAttribute(&info->max_threads_per_block, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function);
}

namespace {
// No question loads a function that the program has only asked for.
CUresult describe_if_loaded(CUresult found, CUfunction function, FunctionInfo* info) {
    bool loaded = false;
    const bool known = found == CUDA_SUCCESS && is_loaded(function, loaded) == CUDA_SUCCESS && loaded &&
                       describe_function(function, info) == CUDA_SUCCESS;
    if (!known) *info = {};
    return found;
}
}  // namespace

CUresult find_function(CUfunction* function, CUmodule module, const char* name, FunctionInfo* info) {
    const CUresult found = driver().cuModuleGetFunction(function, module, name);
    return describe_if_loaded(found, *function, info);
}

CUresult function_of_kernel(CUfunction* function, CUkernel kernel, FunctionInfo* info) {
    if (!driver().cuKernelGetFunction) return CUDA_ERROR_NOT_SUPPORTED;
    const CUresult found = driver().cuKernelGetFunction(function, kernel);
    return describe_if_loaded(found, *function, info);
}

CUresult describe_kernel(CUkernel kernel, FunctionInfo* info) {
    return describe(kernel, info, driver().cuKernelGetParamInfo);
}

CUresult function_name(CUfunction f, char* name, std::size_t room) {
    return name_of(f, name, room, driver().cuFuncGetName);
}
CUresult kernel_name(CUkernel k, char* name, std::size_t room) {
    return name_of(k, name, room, driver().cuKernelGetName);
}

}  // namespace barcuda::ext

namespace barcuda::body {
namespace {
// Of a variable the worker notes where it lies, whatever the client wants to know.
template <class Code, class Ask>
CUresult variable(CUdeviceptr* address, std::size_t* bytes, Code code, const char* name, Ask ask) {
    if (!ask) return CUDA_ERROR_NOT_SUPPORTED;
    CUdeviceptr its_address = 0;
    std::size_t its_bytes = 0;
    const CUresult r = ask(&its_address, &its_bytes, code, name);
    if (r != CUDA_SUCCESS) return r;
    session().addresses().note_variable(its_address, its_bytes, reinterpret_cast<std::uint64_t>(code),
                                        session().contexts().owner());
    if (address) *address = its_address;
    if (bytes) *bytes = its_bytes;
    return CUDA_SUCCESS;
}
}  // namespace
BODY(cuModuleGetGlobal_v2)(CUdeviceptr* address, std::size_t* bytes, CUmodule module, const char* name) {
    return variable(address, bytes, module, name, driver().cuModuleGetGlobal_v2);
}
BODY(cuLibraryGetGlobal)(CUdeviceptr* address, std::size_t* bytes, CUlibrary library, const char* name) {
    return variable(address, bytes, library, name, driver().cuLibraryGetGlobal);
}
BODY(cuModuleUnload)(CUmodule module) { return session().deferred().unload(module); }
BODY(cuLibraryUnload)(CUlibrary library) { return session().deferred().unload(library); }

// A driver may write as many entries as the caller says there is room for, so the worker never says more than there
// are.
BODY(cuModuleEnumerateFunctions)(CUfunction* functions, unsigned room, CUmodule module) {
    unsigned all = 0;
    if (CUresult r = driver().cuModuleGetFunctionCount(&all, module); r != CUDA_SUCCESS) return r;
    return functions ? driver().cuModuleEnumerateFunctions(functions, std::min(room, all), module) : CUDA_SUCCESS;
}
BODY(cuLibraryEnumerateKernels)(CUkernel* kernels, unsigned room, CUlibrary library) {
    unsigned all = 0;
    if (CUresult r = driver().cuLibraryGetKernelCount(&all, library); r != CUDA_SUCCESS) return r;
    return kernels ? driver().cuLibraryEnumerateKernels(kernels, std::min(room, all), library) : CUDA_SUCCESS;
}

}  // namespace barcuda::body
