// commands.h: every command that a guest may send, once. A row is a driver function (or an extension), how the guest waits for
// it, and one kind per parameter; types come from the prototypes. Guest stub, host handler, dispatch table, the driver's
// function pointers, the support matrix and the fingerprint derive from it. What is not in the table cannot be asked for.
//
//   call   the guest waits for the reply
//   post   the guest goes on at once; a failure surfaces at a later synchronizing call (status.posted_error)
//
// BARCUDA_REMOTE: the guest's exported function is the command itself. BARCUDA_INNER: the command is used by a function that
// guest-allocator/driver writes by hand. BARCUDA_EXTENSIONS: rows of extensions.h.
#pragma once
#include <cudaProfiler.h>

#include <array>
#include <string_view>
#include <type_traits>
#include <utility>

#include "shm-device/extensions.h"
#include "shm-device/kinds.h"
#include "shm-device/layout.h"

// clang-format off
//    driver function                                 how   one kind per parameter
#define BARCUDA_REMOTE(X)                                                                              \
    /* devices and contexts */                                                                         \
    X(cuDeviceGetTexture1DLinearMaxWidth,             call, out, in, in, in)                           \
    X(cuDeviceCanAccessPeer,                          call, out, in, in)                               \
    X(cuDeviceGetP2PAttribute,                        call, out, in, in, in)                           \
    X(cuDevicePrimaryCtxSetFlags_v2,                  call, in, in)                                    \
    X(cuCtxGetFlags,                                  call, out)                                       \
    X(cuCtxSetFlags,                                  call, in)                                        \
    X(cuCtxGetLimit,                                  call, out, in)                                   \
    X(cuCtxSetLimit,                                  call, in, in)                                    \
    X(cuCtxGetCacheConfig,                            call, out)                                       \
    X(cuCtxSetCacheConfig,                            call, in)                                        \
    X(cuCtxGetStreamPriorityRange,                    call, maybe, maybe)                              \
    X(cuCtxResetPersistingL2Cache,                    call)                                            \
    X(cuCtxEnablePeerAccess,                          call, use, in)                                   \
    X(cuCtxDisablePeerAccess,                         call, use)                                       \
    /* modules and kernels */                                                                          \
    X(cuModuleUnload,                                 call, drop)                                      \
    X(cuModuleGetFunction,                            call, give, use, text)                           \
    X(cuModuleGetFunctionCount,                       call, out, use)                                  \
    X(cuModuleGetGlobal_v2,                           call, maybe, maybe, use, text)                   \
    X(cuLibraryUnload,                                call, drop)                                      \
    X(cuLibraryGetKernel,                             call, give, use, text)                           \
    X(cuLibraryGetKernelCount,                        call, out, use)                                  \
    X(cuLibraryGetModule,                             call, give, use)                                 \
    X(cuLibraryGetGlobal,                             call, maybe, maybe, use, text)                   \
    X(cuLibraryGetManaged,                            call, maybe, maybe, use, text)                   \
    X(cuKernelGetFunction,                            call, give, use)                                 \
    X(cuKernelGetLibrary,                             call, give, use)                                 \
    X(cuKernelGetAttribute,                           call, out, in, use, in)                          \
    X(cuKernelSetAttribute,                           call, in, in, use, in)                           \
    X(cuKernelSetCacheConfig,                         call, use, in, in)                               \
    X(cuFuncGetAttribute,                             call, out, in, use)                              \
    X(cuFuncSetAttribute,                             call, use, in, in)                               \
    X(cuFuncSetCacheConfig,                           call, use, in)                                   \
    X(cuOccupancyMaxActiveBlocksPerMultiprocessor,    call, out, use, in, in)                          \
    X(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, call, out, use, in, in, in)                \
    X(cuOccupancyAvailableDynamicSMemPerBlock,        call, out, use, in, in)                          \
    /* device memory */                                                                                \
    X(cuMemGetInfo_v2,                                call, out, out)                                  \
    X(cuMemAlloc_v2,                                  call, out, in)                                   \
    X(cuMemAllocPitch_v2,                             call, out, out, in, in, in)                      \
    X(cuMemGetAddressRange_v2,                        call, maybe, maybe, in)                          \
    X(cuMemAllocAsync,                                call, out, in, use)                              \
    X(cuMemAllocFromPoolAsync,                        call, out, in, use, use)                         \
    X(cuMemFreeAsync,                                 post, freed, use)                                \
    X(cuMemcpyDtoD_v2,                                post, device<2>, device<2>, in)                  \
    X(cuMemcpyDtoDAsync_v2,                           post, device<2>, device<2>, in, use)             \
    X(cuMemsetD8_v2,                                  post, device<2>, in, in)                         \
    X(cuMemsetD16_v2,                                 post, device16<2>, in, in)                    \
    X(cuMemsetD32_v2,                                 post, device32<2>, in, in)                    \
    X(cuMemsetD8Async,                                post, device<2>, in, in, use)                    \
    X(cuMemsetD16Async,                               post, device16<2>, in, in, use)               \
    X(cuMemsetD32Async,                               post, device32<2>, in, in, use)               \
    X(cuMemsetD2D8_v2,                                post, rows8, in, in, in, in)        \
    X(cuMemsetD2D16_v2,                               post, rows16, in, in, in, in)     \
    X(cuMemsetD2D32_v2,                               post, rows32, in, in, in, in)     \
    X(cuMemsetD2D8Async,                              post, rows8, in, in, in, in, use)   \
    X(cuMemsetD2D16Async,                             post, rows16, in, in, in, in, use) \
    X(cuMemsetD2D32Async,                             post, rows32, in, in, in, in, use) \
    /* arrays, textures, surfaces */                                                                   \
    X(cuArrayCreate_v2,                               call, make, desc)                                \
    X(cuArray3DCreate_v2,                             call, make, desc)                                \
    X(cuArrayDestroy,                                 call, drop)                                      \
    X(cuArrayGetDescriptor_v2,                        call, out, use)                                  \
    X(cuArray3DGetDescriptor_v2,                      call, out, use)                                  \
    X(cuArrayGetPlane,                                call, give, use, in)                             \
    X(cuMipmappedArrayCreate,                         call, make, desc, in)                            \
    X(cuMipmappedArrayGetLevel,                       call, give, use, in)                             \
    X(cuMipmappedArrayDestroy,                        call, drop)                                      \
    X(cuTexObjectDestroy,                             call, in)                                        \
    X(cuSurfObjectCreate,                             call, out, desc)                                 \
    X(cuSurfObjectDestroy,                            call, in)                                        \
    /* pools */                                                                                        \
    X(cuDeviceGetDefaultMemPool,                      call, give, in)                                  \
    X(cuDeviceGetMemPool,                             call, give, in)                                  \
    X(cuDeviceSetMemPool,                             call, in, use)                                   \
    X(cuDeviceGraphMemTrim,                           call, in)                                        \
    X(cuMemPoolCreate,                                call, make, desc)                                \
    X(cuMemPoolDestroy,                               call, drop)                                      \
    X(cuMemPoolTrimTo,                                call, use, in)                                   \
    X(cuMemPoolSetAccess,                             call, use, access<2>, in)       \
    /* virtual memory management */                                                                    \
    X(cuMemAddressReserve,                            call, out, in, in, in, in)                       \
    X(cuMemAddressFree,                               call, freed, in)                                 \
    X(cuMemMap,                                       call, in, in, in, use, in)                       \
    X(cuMemUnmap,                                     call, freed, in)                                 \
    X(cuMemSetAccess,                                 call, in, in, access<3>, in)    \
    X(cuMemCreate,                                    call, make, in, desc, in)                        \
    X(cuMemRelease,                                   call, drop)                                      \
    X(cuMemGetAllocationGranularity,                  call, out, desc, in)                             \
    /* streams, events, graphs */                                                                      \
    X(cuStreamWaitEvent,                              post, use, use, in)                              \
    X(cuStreamGetPriority,                            call, use, out)                                  \
    X(cuStreamGetFlags,                               call, use, out)                                  \
    X(cuStreamGetId,                                  call, use, out)                                  \
    X(cuStreamGetDevice,                              call, use, out)                                  \
    X(cuGraphCreate,                                  call, make, in)                                  \
    X(cuGraphDestroy,                                 call, drop)                                      \
    X(cuGraphInstantiateWithFlags,                    call, make, use, in)                             \
    X(cuGraphExecDestroy,                             call, drop)                                      \
    X(cuGraphUpload,                                  post, use, use)                                  \
    X(cuProfilerStart,                                call)                                            \
    X(cuProfilerStop,                                 call)

#define BARCUDA_INNER(X)                                                                               \
    X(cuDevicePrimaryCtxRelease_v2,                   call, in)                                        \
    X(cuMemFree_v2,                                   call, freed)                                     \
    X(cuCtxDestroy_v2,                                call, drop)                                      \
    X(cuMemcpyHtoDAsync_v2,                           post, device<2>, region<2>, in, use)             \
    X(cuMemcpyDtoHAsync_v2,                           post, region<2>, device<2>, in, use)             \
    X(cuStreamCreateWithPriority,                     call, make, in, in)                              \
    X(cuStreamDestroy_v2,                             post, drop)                                      \
    X(cuStreamSynchronize,                            call, use)                                       \
    X(cuStreamQuery,                                  call, use)                                       \
    X(cuCtxSynchronize,                               call)                                            \
    X(cuEventCreate,                                  call, make, in)                                  \
    X(cuEventDestroy_v2,                              post, drop)                                      \
    X(cuEventElapsedTime_v2,                          call, out, use, use)                             \
    X(cuEventQuery,                                   call, use)                                       \
    X(cuTexObjectCreate,                              call, out, desc, desc, maybe_desc)               \
    X(cuGraphLaunch,                                  post, use, use)

#define BARCUDA_EXTENSIONS(X)                                                                          \
    X(create_context,                                 call, make, in, in)                              \
    X(retain_primary,                                 call, give, in)                                  \
    X(reset_primary,                                  call, in)                                        \
    X(write_fence,                                    post, use, in, in)                               \
    X(record_event,                                   post, use, use, in, in, in)                      \
    X(launch,                                         post, use, in, use, blob<4>, in)                 \
    X(copy_in,                                        post, device<2>, blob<2>, in, use)               \
    X(copy_out,                                       call, fill<2>, device<2>, in, use)               \
    X(load_module,                                    call, make, region<2>, in)                       \
    X(load_library,                                   call, make, region<2>, in)                       \
    X(describe_function,                              call, use, out)                                  \
    X(describe_kernel,                                call, use, out)                                  \
    X(function_name,                                  call, use, fill<2>, in)                          \
    X(kernel_name,                                    call, use, fill<2>, in)                          \
    X(pointer_attribute,                              call, out, in, in)                               \
    X(grant,                                          call, in, out, out)                              \
    X(give_back,                                      call, in, in)                                    \
    X(take_output,                                    call, fill<1>, in, out)
// clang-format on
#define BARCUDA_DRIVER_ROWS(X) BARCUDA_REMOTE(X) BARCUDA_INNER(X)

namespace barcuda {

enum class Op : std::uint32_t {
#define X(name, ...) name,
    BARCUDA_DRIVER_ROWS(X) BARCUDA_EXTENSIONS(X)
#undef X
        count
};

inline constexpr std::array op_names{
#define X(name, ...) std::string_view{#name},
    BARCUDA_DRIVER_ROWS(X) BARCUDA_EXTENSIONS(X)
#undef X
};

enum class How { call, post };

// A row, taken apart: one life per parameter. A row whose kinds and prototype disagree does not compile.
template <class Prototype, How how, class... Kinds> struct Row;
template <class... P, How way, class... Kinds> struct Row<CUresult(P...), way, Kinds...> {
    static_assert(sizeof...(P) == sizeof...(Kinds), "one kind per parameter");
    using Arguments = std::tuple<P...>;
    template <class Sequence> struct Lives;
    template <std::size_t... I> struct Lives<std::index_sequence<I...>> {
        using type = std::tuple<typename Kinds::template As<P, I>...>;
    };
    using Parameters = typename Lives<std::index_sequence_for<P...>>::type;
    static constexpr How how = way;
    static constexpr std::size_t count = sizeof...(P);
};

namespace kind {  // where rows find their kinds
template <Op> struct RowOf;
#define X(name, how, ...) \
    template <> struct RowOf<Op::name> : Row<decltype(::name), How::how __VA_OPT__(, ) __VA_ARGS__> {};
BARCUDA_DRIVER_ROWS(X)
#undef X
#define X(name, how, ...) \
    template <> struct RowOf<Op::name> : Row<decltype(ext::name), How::how __VA_OPT__(, ) __VA_ARGS__> {};
BARCUDA_EXTENSIONS(X)
#undef X

}  // namespace kind
using kind::RowOf;

// FNV-1a over every row's text, every parameter's size and the layout's numbers: two builds that agree on it can talk.
constexpr std::uint64_t fingerprint() {
    std::uint64_t hash = 0xcbf29ce484222325;
    const auto mix = [&](std::uint64_t v) {
        for (int i = 0; i < 8; ++i, v >>= 8) hash = (hash ^ (v & 0xff)) * 0x100000001b3;
    };
    const auto text = [&](std::string_view s) {
        for (char c : s) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    };
    const auto sizes = [&]<class... P>(std::type_identity<std::tuple<P...>>) { (mix(sizeof(P)), ...); };
#define X(name, how, ...) \
    text(#name " " #how " " #__VA_ARGS__), sizes(std::type_identity<RowOf<Op::name>::Arguments>{});
    BARCUDA_DRIVER_ROWS(X)
    BARCUDA_EXTENSIONS(X)
#undef X
    const std::uint64_t numbers[] = {BARCUDA_LAYOUT,         BARCUDA_CHANNEL_SIZE,   BARCUDA_GRANULE,    BARCUDA_QUEUE_SIZE,
                                     sizeof(barcuda_header), sizeof(barcuda_status), sizeof(ext::Shape), sizeof(ext::FunctionInfo)};
    for (std::uint64_t n : numbers) mix(n);
    return hash;
}

}  // namespace barcuda
