// library_calls.cc: cuLibrary*, cuKernel* and cuLink*. A library needs no context; its kernels are functions of all.
#include "host-bridge/soft-gpu/driver/context.h"
#include "host-bridge/soft-gpu/driver/driver.h"
#include "host-bridge/soft-gpu/driver/function.h"

namespace barcuda::soft::driver {
namespace {

CUkernel kernel_handle(const Function& function) { return reinterpret_cast<CUkernel>(handle_of(function)); }

void load(CUlibrary* made, const std::string& ptx, JitLog& log) {
    auto library = std::make_shared<Library>();
    library->module = load_module(ptx, nullptr, log);
    *made = Driver::get().libraries.add(library);
    library->module->library = *made;
}

}  // namespace
}  // namespace barcuda::soft::driver

using namespace barcuda::soft::driver;

CUresult cuLibraryLoadData(CUlibrary* library, const void* code, CUjit_option* jitOptions, void** jitOptionsValues,
                           unsigned int numJitOptions, CUlibraryOption* libraryOptions, void** libraryOptionValues,
                           unsigned int numLibraryOptions) {
    (void)libraryOptions,
        (void)libraryOptionValues;  // lifetimes of host tables and of the image: nothing is kept of either
    return api([&] {
        require(library && code && (numJitOptions == 0 || (jitOptions && jitOptionsValues)));
        require(numLibraryOptions == 0 || (libraryOptions && libraryOptionValues));
        JitLog log(numJitOptions, jitOptions, jitOptionsValues);
        load(library, ptx_of(code, log), log);
    });
}
CUresult cuLibraryLoadFromFile(CUlibrary* library, const char* fileName, CUjit_option* jitOptions,
                               void** jitOptionsValues, unsigned int numJitOptions, CUlibraryOption*, void**,
                               unsigned int) {
    return api([&] {
        require(library && fileName && (numJitOptions == 0 || (jitOptions && jitOptionsValues)));
        JitLog log(numJitOptions, jitOptions, jitOptionsValues);
        load(library, ptx_of_file(fileName), log);
    });
}
CUresult cuLibraryUnload(CUlibrary library) {
    return api([&] {
        const auto gone = Driver::get().libraries.take(library);
        if (Driver::get().primary->alive()) Driver::get().primary->synchronize();
        unload_module(gone->module);
    });
}

CUresult cuLibraryGetKernel(CUkernel* pKernel, CUlibrary library, const char* name) {
    return api([&] {
        require(pKernel);
        *pKernel = kernel_handle(*function_named(*Driver::get().libraries.find(library)->module, name));
    });
}
CUresult cuLibraryGetKernelCount(unsigned int* count, CUlibrary lib) {
    return api([&] {
        require(count);
        *count = static_cast<unsigned>(Driver::get().libraries.find(lib)->module->functions.size());
    });
}
CUresult cuLibraryEnumerateKernels(CUkernel* kernels, unsigned int numKernels, CUlibrary lib) {
    return api([&] {
        require(kernels || numKernels == 0);
        const auto library = Driver::get().libraries.find(lib);
        for (const auto& [name, function] : library->module->functions) {
            if (numKernels-- == 0) break;
            *kernels++ = kernel_handle(*function);
        }
    });
}
CUresult cuLibraryGetModule(CUmodule* pMod, CUlibrary library) {
    return api([&] {
        require(pMod);
        *pMod = Driver::get().libraries.find(library)->module->handle();
    });
}
CUresult cuLibraryGetGlobal(CUdeviceptr* dptr, size_t* bytes, CUlibrary library, const char* name) {
    return api([&] { global_named(*Driver::get().libraries.find(library)->module, name, dptr, bytes); });
}
CUresult cuLibraryGetManaged(CUdeviceptr* dptr, size_t* bytes, CUlibrary library, const char* name) {
    return api([&] {
        const auto found = Driver::get().libraries.find(library);
        require(name);
        const auto global = found->module->globals.find(std::string_view(name));
        require(global != found->module->globals.end() && global->second.managed, CUDA_ERROR_NOT_FOUND);
        global_named(*found->module, name, dptr, bytes);
    });
}

// ---- kernels --------------------------------------------------------------------------------------------------------

CUresult cuKernelGetFunction(CUfunction* pFunc, CUkernel kernel) {
    return api([&] {
        require(pFunc);
        *pFunc = handle_of(*function_of(kernel));
    });
}
CUresult cuKernelGetLibrary(CUlibrary* pLib, CUkernel kernel) {
    return api([&] {
        require(pLib);
        const CUlibrary library = function_of(kernel)->module.library;
        require(library, CUDA_ERROR_INVALID_HANDLE);
        *pLib = library;
    });
}
CUresult cuKernelGetAttribute(int* pi, CUfunction_attribute attrib, CUkernel kernel, CUdevice dev) {
    return api([&] {
        require(pi);
        require_device(dev);
        *pi = attribute_of(*function_of(kernel), attrib);
    });
}
CUresult cuKernelSetAttribute(CUfunction_attribute attrib, int val, CUkernel kernel, CUdevice dev) {
    return api([&] {
        require_device(dev);
        set_attribute(*function_of(kernel), attrib, val);
    });
}
CUresult cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice dev) {
    return api([&] {
        require_device(dev);
        function_of(kernel);
        require(config <= CU_FUNC_CACHE_PREFER_EQUAL);
    });
}
CUresult cuKernelGetName(const char** name, CUkernel hfunc) {
    return api([&] {
        require(name);
        *name = function_of(hfunc)->info.name.c_str();
    });
}
CUresult cuKernelGetParamInfo(CUkernel kernel, size_t paramIndex, size_t* paramOffset, size_t* paramSize) {
    return api([&] { parameter_info(*function_of(kernel), paramIndex, paramOffset, paramSize); });
}
