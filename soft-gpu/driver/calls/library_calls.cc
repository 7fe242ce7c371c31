// SPDX-License-Identifier: Apache-2.0
// library_calls.cc: cuLibrary*, cuKernel* and cuLink*. A library needs no context; its kernels are functions of all
// contexts.
#include "soft-gpu/driver/context.h"
#include "soft-gpu/driver/driver.h"
#include "soft-gpu/driver/function.h"

namespace barcuda::soft::driver {
namespace {

CUkernel handle_of(const Kernel& kernel) { return Handles<CUkernel, Kernel>::handle_of(kernel); }

void load(CUlibrary* made, const std::string& ptx, JitLog& log) {
    auto library = std::make_shared<Library>();
    library->ptx = ptx;
    library->module = load_module(ptx, *Driver::get().device(0).primary, nullptr, log);
    for (const auto& [name, function] : library->module->functions) {
        const auto kernel = std::make_shared<Kernel>(*library, name);
        Driver::get().kernels.add(kernel);
        library->kernels.emplace(name, kernel);
    }
    *made = Driver::get().libraries.add(library);
    library->module->library = *made;
}

// The library's module in the calling thread's context.
std::shared_ptr<Module> module_here(CUlibrary handle) {
    return Driver::get().libraries.find(handle)->in(context_here());
}

// The context whose functions have a kernel's attributes on a device.
std::shared_ptr<Context> context_on(CUdevice device) {
    auto here = context_here();
    return here->device == device ? here : Driver::get().device(device).primary;
}

}  // namespace
}  // namespace barcuda::soft::driver

using namespace barcuda::soft::driver;

CUresult cuLibraryLoadData(CUlibrary* library, const void* code, CUjit_option* jitOptions, void** jitOptionsValues,
                           unsigned int numJitOptions, CUlibraryOption* libraryOptions, void** libraryOptionValues,
                           unsigned int numLibraryOptions) {
    (void)libraryOptions;
    (void)libraryOptionValues;  // lifetimes of host tables and of the image: neither is kept
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
        Driver::get().synchronize();
        for (const auto& [name, kernel] : gone->kernels) Driver::get().kernels.drop(handle_of(*kernel));
        for (const auto& module : gone->all()) unload_module(module);
    });
}

CUresult cuLibraryGetKernel(CUkernel* pKernel, CUlibrary library, const char* name) {
    return api([&] {
        require(pKernel && name);
        const auto found = Driver::get().libraries.find(library);
        const auto kernel = found->kernels.find(std::string_view(name));
        require(kernel != found->kernels.end(), CUDA_ERROR_NOT_FOUND);
        *pKernel = handle_of(*kernel->second);
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
        for (const auto& [name, kernel] : library->kernels) {
            if (numKernels-- == 0) break;
            *kernels++ = handle_of(*kernel);
        }
    });
}
CUresult cuLibraryGetModule(CUmodule* pMod, CUlibrary library) {
    return api([&] {
        require(pMod);
        *pMod = module_here(library)->handle();
    });
}
CUresult cuLibraryGetGlobal(CUdeviceptr* dptr, size_t* bytes, CUlibrary library, const char* name) {
    return api([&] { global_named(*module_here(library), name, dptr, bytes); });
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
        *pFunc = handle_of(*kernel_of(kernel)->in(current_context()));
    });
}
CUresult cuKernelGetLibrary(CUlibrary* pLib, CUkernel kernel) {
    return api([&] {
        require(pLib);
        *pLib = kernel_of(kernel)->library.module->library;
    });
}
CUresult cuKernelGetAttribute(int* pi, CUfunction_attribute attrib, CUkernel kernel, CUdevice dev) {
    return api([&] {
        require(pi);
        require_device(dev);
        const auto function = kernel_of(kernel)->in(context_on(dev));
        *pi = attrib == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES ? function->kernel_dynamic_shared.load()
                                                                        : attribute_of(*function, attrib);
    });
}
CUresult cuKernelSetAttribute(CUfunction_attribute attrib, int val, CUkernel kernel, CUdevice dev) {
    return api([&] {
        require_device(dev);
        set_attribute(*kernel_of(kernel)->in(context_on(dev)), attrib, val, SetFor::kernel);
    });
}
CUresult cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice dev) {
    return api([&] {
        require_device(dev);
        kernel_of(kernel);
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
