// SPDX-License-Identifier: Apache-2.0
// module_calls.cc: cuModule* and cuFunc*.
#include <cstring>
#include <fstream>
#include <iterator>

#include "soft-gpu/driver/driver.h"
#include "soft-gpu/driver/function.h"
#include "soft-gpu/driver/operations.h"
#include "soft-gpu/image.h"

namespace barcuda::soft::driver {

std::string read_file(const char* name) {
    require(name);
    std::ifstream file(name, std::ios::binary);
    if (!file) fail(CUDA_ERROR_FILE_NOT_FOUND);
    return {std::istreambuf_iterator<char>(file), {}};
}

std::string ptx_of_file(const char* name) {
    const std::string text = read_file(name);
    return ptx_of_bytes(std::as_bytes(std::span(text)), Driver::get().settings.compute_capability());
}

std::string ptx_of(const void* image, JitLog& log) {
    require(image);
    try {
        return ptx_of_image(image, Driver::get().settings.compute_capability());
    } catch (const Error& error) {
        log.error(error.message);
        throw;
    }
}

int attribute_of(const Function& function, CUfunction_attribute attribute) {
    const KernelInfo& info = function.info;
    switch (attribute) {
        case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: return info.max_threads_per_block;
        case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES: return static_cast<int>(info.static_shared_bytes);
        case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES: return static_cast<int>(info.const_bytes);
        case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES: return static_cast<int>(info.local_bytes);
        case CU_FUNC_ATTRIBUTE_NUM_REGS: return info.registers;
        case CU_FUNC_ATTRIBUTE_PTX_VERSION: return function.module.program->target();
        case CU_FUNC_ATTRIBUTE_BINARY_VERSION: return Driver::get().settings.compute_capability();
        case CU_FUNC_ATTRIBUTE_CACHE_MODE_CA: return 0;
        case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
            require(function.loaded,
                    CUDA_ERROR_FUNCTION_NOT_LOADED);  // NVIDIA's driver answers the others in this state, too
            return function.max_dynamic_shared();
        case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT: return function.carveout;
        case CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET: return 0;
        case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
        case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
        case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH: return 0;
        case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED: return function.non_portable_cluster;
        case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE: return function.cluster_policy;
        default: fail(CUDA_ERROR_INVALID_VALUE);
    }
}

void set_attribute(Function& function, CUfunction_attribute attribute, int value, SetFor whom) {
    switch (attribute) {
        case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: {
            int most = 0;
            cuDeviceGetAttribute(&most, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 0);
            require(value >= 0 && value <= most - static_cast<int>(function.info.static_shared_bytes));
            (whom == SetFor::kernel ? function.kernel_dynamic_shared : function.own_dynamic_shared) = value;
            return;
        }
        case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
            require(value >= -1 && value <= 100);
            function.carveout = value;
            return;
        case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED: function.non_portable_cluster = value; return;
        case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
            require(value >= CU_CLUSTER_SCHEDULING_POLICY_DEFAULT &&
                    value <= CU_CLUSTER_SCHEDULING_POLICY_LOAD_BALANCING);
            function.cluster_policy = value;
            return;
        case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
        case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
        case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
            require(value >= 0);
            if (value > 1) refuse("a required cluster size");
            return;
        default: fail(CUDA_ERROR_INVALID_VALUE);
    }
}

void parameter_info(const Function& function, std::size_t index, std::size_t* offset, std::size_t* size) {
    require(offset && index < function.info.parameters.size());
    *offset = function.info.parameters[index].offset;
    if (size) *size = function.info.parameters[index].size;
}

std::shared_ptr<Function> function_named(const Module& module, const char* name) {
    require(name);
    const auto found = module.functions.find(std::string_view(name));
    require(found != module.functions.end(), CUDA_ERROR_NOT_FOUND);
    found->second->loaded = true;
    return found->second;
}

void global_named(const Module& module, const char* name, CUdeviceptr* address, std::size_t* size) {
    require(name && (address || size));
    const auto found = module.globals.find(std::string_view(name));
    require(found != module.globals.end() && !found->second.reference, CUDA_ERROR_NOT_FOUND);
    if (address) *address = found->second.address;
    if (size) *size = found->second.size;
}

namespace {

void load(CUmodule* made, const std::string& ptx, JitLog& log) {
    require(made);
    *made = load_module(ptx, current_context(), log)->handle();
}

CUresult load_image(CUmodule* module, const void* image, unsigned count, CUjit_option* options, void** values,
                    const char* name) {
    return api(
        [&] {
            require(module && (count == 0 || (options && values)));
            current_context();
            JitLog log(count, options, values);
            load(module, ptx_of(image, log), log);
        },
        name);
}

}  // namespace
}  // namespace barcuda::soft::driver

using namespace barcuda::soft::driver;

// ---- modules --------------------------------------------------------------------------------------------------------

CUresult cuModuleLoad(CUmodule* module, const char* fname) {
    return api([&] {
        current_context();
        JitLog log(0, nullptr, nullptr);
        load(module, ptx_of_file(fname), log);
    });
}
CUresult cuModuleLoadData(CUmodule* module, const void* image) {
    return load_image(module, image, 0, nullptr, nullptr, "cuModuleLoadData");
}
CUresult cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned int numOptions, CUjit_option* options,
                            void** optionValues) {
    return load_image(module, image, numOptions, options, optionValues, "cuModuleLoadDataEx");
}
CUresult cuModuleLoadFatBinary(CUmodule* module, const void* fatCubin) {
    return load_image(module, fatCubin, 0, nullptr, nullptr, "cuModuleLoadFatBinary");
}
CUresult cuModuleUnload(CUmodule hmod) {
    return api([&] {
        const auto module = Driver::get().modules.find(hmod);
        require(!module->library, CUDA_ERROR_NOT_PERMITTED);  // a library's module ends with the library
        unload_module(module);
    });
}

CUresult cuModuleGetFunction(CUfunction* hfunc, CUmodule hmod, const char* name) {
    return api([&] {
        require(hfunc);
        *hfunc = handle_of(*function_named(*Driver::get().modules.find(hmod), name));
    });
}
CUresult cuModuleGetFunctionCount(unsigned int* count, CUmodule mod) {
    return api([&] {
        require(count);
        *count = static_cast<unsigned>(Driver::get().modules.find(mod)->functions.size());
    });
}
CUresult cuModuleEnumerateFunctions(CUfunction* functions, unsigned int numFunctions, CUmodule mod) {
    return api([&] {
        require(functions || numFunctions == 0);
        const auto module = Driver::get().modules.find(mod);
        for (const auto& [name, function] : module->functions) {
            if (numFunctions-- == 0) break;
            *functions++ = handle_of(*function);
        }
    });
}
CUresult cuModuleGetGlobal_v2(CUdeviceptr* dptr, size_t* bytes, CUmodule hmod, const char* name) {
    return api([&] { global_named(*Driver::get().modules.find(hmod), name, dptr, bytes); });
}
CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode* mode) {
    return api([&] {
        require(mode);
        *mode = CU_MODULE_LAZY_LOADING;
    });
}

// ---- functions ------------------------------------------------------------------------------------------------------

CUresult cuFuncGetAttribute(int* pi, CUfunction_attribute attrib, CUfunction hfunc) {
    return api([&] {
        require(pi);
        *pi = attribute_of(*function_of(hfunc), attrib);
    });
}
CUresult cuFuncSetAttribute(CUfunction hfunc, CUfunction_attribute attrib, int value) {
    return api([&] { set_attribute(*function_of(hfunc), attrib, value, SetFor::function); });
}
CUresult cuFuncSetCacheConfig(CUfunction hfunc, CUfunc_cache config) {
    return api([&] {
        function_of(hfunc);
        require(config <= CU_FUNC_CACHE_PREFER_EQUAL);  // a preference: shared memory is separate here
    });
}
CUresult cuFuncSetSharedMemConfig(CUfunction hfunc, CUsharedconfig) {
    return api([&] { function_of(hfunc); });
}
CUresult cuFuncGetModule(CUmodule* hmod, CUfunction hfunc) {
    return api([&] {
        require(hmod);
        *hmod = function_of(hfunc)->module.handle();
    });
}
CUresult cuFuncGetName(const char** name, CUfunction hfunc) {
    return api([&] {
        require(name);
        *name = function_of(hfunc)->info.name.c_str();
    });
}
CUresult cuFuncGetParamInfo(CUfunction func, size_t paramIndex, size_t* paramOffset, size_t* paramSize) {
    return api([&] { parameter_info(*function_of(func), paramIndex, paramOffset, paramSize); });
}
CUresult cuFuncIsLoaded(CUfunctionLoadingState* state, CUfunction function) {
    return api([&] {
        require(state);
        *state = function_of(function)->loaded ? CU_FUNCTION_LOADING_STATE_LOADED : CU_FUNCTION_LOADING_STATE_UNLOADED;
    });
}
CUresult cuFuncLoad(CUfunction function) {
    return api([&] { function_of(function)->loaded = true; });
}
