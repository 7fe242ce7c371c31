// SPDX-License-Identifier: Apache-2.0
// module.h: rows of modules, libraries, functions, kernels, and the linker. (What a row says:
// shm-device/rows/commands.h.)
#pragma once
#include <cuda.h>

#include <cstddef>
#include <cstdint>

namespace barcuda::ext {

constexpr unsigned max_parameters =
    1024;              // more than 32,764 bytes of parameters hold in practice; checked, not assumed
struct FunctionInfo {  // what the guest needs to pack a launch and to refuse a bad one
    std::uint32_t parameter_count;
    std::uint32_t parameter_bytes;  // offset + size of the last one
    std::int32_t max_threads_per_block;
    std::int32_t max_dynamic_shared;  // bytes of a block, unless the program raises it
    std::int32_t prints;              // its module may print: synchronizing calls must collect output
    struct {
        std::uint16_t offset, size;
    } parameters[max_parameters];
};

// The image lies in the region; the worker copies it out before the driver parses it. Where the region is full, `image`
// is null, and the image was sent in parts before, each at its place, the one at 0 first.
CUresult image_part(std::size_t place, const void* bytes, std::size_t size);
// The same without a wait for each: how many bytes will come, for which there must be memory, and then they.
CUresult image_begin(std::size_t bytes);
CUresult image_piece(const void* bytes, std::size_t size);
enum Logs : unsigned { no_logs, logs, verbose_logs };  // what is wanted of the driver's compiler
CUresult load_module(CUmodule* module, const void* image, std::size_t bytes, Logs wanted);
CUresult load_library(CUlibrary* library, const void* image, std::size_t bytes, Logs wanted);
// What the compiler said at the last load that wanted logs: about errors or, if `errors` is 0, all else. `used` bytes.
CUresult load_log(unsigned errors, char* text, std::size_t room, std::uint64_t* used);
// cuModuleGetFunction and cuKernelGetFunction with the facts, which a first launch would ask for by another command.
// All of them are 0 if the function is not loaded yet, or the driver refuses to tell: then that launch does ask.
CUresult find_function(CUfunction* function, CUmodule module, const char* name, FunctionInfo* info);
CUresult function_of_kernel(CUfunction* function, CUkernel kernel, FunctionInfo* info);
CUresult describe_function(CUfunction function, FunctionInfo* info);
CUresult describe_kernel(CUkernel kernel, FunctionInfo* info);
CUresult function_name(CUfunction function, char* name, std::size_t room);
CUresult kernel_name(CUkernel kernel, char* name, std::size_t room);

// Linking: inputs and the finished image lie in the region while they cross.
CUresult link_create(CUlinkState* state, Logs wanted);
CUresult link_add(CUlinkState state, CUjitInputType type, const void* image, std::size_t bytes, const char* name);
CUresult link_complete(CUlinkState state, std::size_t* bytes);
CUresult link_fetch(CUlinkState state, void* to, std::size_t bytes);
CUresult link_log(CUlinkState state, unsigned errors, char* text, std::size_t room, std::uint64_t* used);

}  // namespace barcuda::ext

// clang-format off
//    CUDA's function                                      how         traits, one kind per parameter
#define BARCUDA_MODULE_ROWS(X)                                                                          \
    X(cuModuleGetFunction,                                  inner_call, plain, part<1>, use, text)      \
    X(cuModuleGetFunctionCount,                             call,       asks,  out, use)                \
    X(cuModuleGetGlobal_v2,                                 inner_call, hosted, maybe, maybe, use, text) \
    X(cuLibraryGetKernel,                                   inner_call, plain, part<1>, use, text)      \
    X(cuLibraryGetKernelCount,                              call,       asks,  out, use)                \
    X(cuLibraryGetModule,                                   call,       may_load, part<1>, use)         \
    X(cuLibraryGetGlobal,                                   inner_call, hosted|may_load, maybe, maybe, use, text) \
    X(cuKernelGetFunction,                                  inner_call, may_load, part<1>, use)         \
    X(cuKernelGetLibrary,                                   call,       plain, give, use)               \
    X(cuKernelGetAttribute,                                 call,       asks,  out, in, use, in)        \
    X(cuKernelSetCacheConfig,                               call,       configures|lasts, use, in, in)  \
    X(cuFuncGetAttribute,                                   call,       asks,  out, in, use)            \
    X(cuFuncSetCacheConfig,                                 call,       configures|lasts, use, in)      \
    X(cuFuncGetModule,                                      call,       plain, give, use)               \
    X(cuFuncIsLoaded,                                       call,       asks,  out, use)                \
    X(cuFuncLoad,                                           call,       lasts, use)                     \
    X(cuKernelSetAttribute,                                 inner_call, configures|lasts, in, in, use, in) \
    X(cuFuncSetAttribute,                                   inner_call, configures|lasts, use, in, in)  \
    X(cuLibraryGetManaged,                                  inner_call, plain, maybe, maybe, use, text) \
    X(cuLinkDestroy,                                        inner_call, plain, drop)                    \
    X(cuModuleUnload,                                       inner_call, hosted, drop)                   \
    X(cuLibraryUnload,                                      inner_call, hosted, drop)                   \
    X(cuModuleEnumerateFunctions,                           call,       hosted, functions, in, use)     \
    X(cuLibraryEnumerateKernels,                            inner_call, hosted, functions, in, use)     \
    X(cuFuncGetName,                                        guest,      plain)                          \
    X(cuFuncGetParamInfo,                                   guest,      plain)                          \
    X(cuKernelGetName,                                      guest,      plain)                          \
    X(cuKernelGetParamInfo,                                 guest,      plain)                          \
    X(cuLibraryLoadData,                                    guest,      loads)                          \
    X(cuLibraryLoadFromFile,                                guest,      plain)                          \
    X(cuLinkAddData_v2,                                     guest,      plain)                          \
    X(cuLinkAddFile_v2,                                     guest,      plain)                          \
    X(cuLinkComplete,                                       guest,      plain)                          \
    X(cuLinkCreate_v2,                                      guest,      plain)                          \
    X(cuModuleGetLoadingMode,                               guest,      plain)                          \
    X(cuModuleLoad,                                         guest,      plain)                          \
    X(cuModuleLoadData,                                     guest,      plain)                          \
    X(cuModuleLoadDataEx,                                   guest,      loads)                          \
    X(cuModuleLoadFatBinary,                                guest,      plain)

//    ours
#define BARCUDA_MODULE_OWN_ROWS(X)                                                                          \
    X(image_part,                                           call,       lasts, in, blob<2>, in)             \
    X(image_begin,                                          call,       lasts, in)                          \
    X(image_piece,                                          post,       lasts, blob<1>, in)                 \
    X(load_module,                                          call,       current, make, image<2>, in, in)      \
    X(load_library,                                         call,       plain, make, image<2>, in, in)      \
    X(load_log,                                             call,       asks,  in, fill<2>, in, out)        \
    X(find_function,                                        call,       plain, part<1>, use, text, out)     \
    X(function_of_kernel,                                   call,       may_load, part<1>, use, out)        \
    X(describe_function,                                    call,       asks,  use, out)                    \
    X(describe_kernel,                                      call,       asks,  use, out)                    \
    X(function_name,                                        call,       asks,  use, fill<2>, in)            \
    X(kernel_name,                                          call,       asks,  use, fill<2>, in)            \
    X(link_create,                                          call,       current, make, in)                    \
    X(link_add,                                             call,       lasts, use, in, image<3>, in, text) \
    X(link_complete,                                        call,       lasts, use, out)                    \
    X(link_fetch,                                           call,       asks,  use, region<2>, in)          \
    X(link_log,                                             call,       asks,  use, in, fill<3>, in, out)
// clang-format on
