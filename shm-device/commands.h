// commands.h: every command that a guest may send, once. A row is a driver function (or an extension), how the guest waits for
// it, and one kind per parameter; types come from the prototypes. Guest stub, host handler, dispatch table, the driver's
// function pointers, and the identities by which builds recognize each other's rows (identity.h) derive from it. What is not
// in the table cannot be asked for.
//
//   call   the guest waits for the reply
//   post   the guest goes on at once; a failure surfaces at a later synchronizing call (status.posted_error)
//
// BARCUDA_REMOTE: the guest's exported function is the command itself. BARCUDA_INNER: the command is used by a function that
// guest-allocator/driver writes by hand. BARCUDA_EXTENSIONS: rows of extensions.h. library_commands.h has the rows of NVIDIA's math
// libraries.
#pragma once
#include <cudaProfiler.h>

#include <array>
#include <string_view>
#include <type_traits>
#include <utility>

#include "shm-device/extensions.h"
#include "shm-device/array_kinds.h"
#include "shm-device/layout.h"
#include "shm-device/library_commands.h"

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
    X(cuModuleGetFunction,                            call, part<1>, use, text)                           \
    X(cuModuleGetFunctionCount,                       call, out, use)                                  \
    X(cuModuleGetGlobal_v2,                           call, maybe, maybe, use, text)                   \
    X(cuLibraryGetKernelCount,                        call, out, use)                                  \
    X(cuLibraryGetModule,                             call, part<1>, use)                                 \
    X(cuLibraryGetGlobal,                             call, maybe, maybe, use, text)                   \
    X(cuKernelGetFunction,                            call, part<1>, use)                                 \
    X(cuKernelGetLibrary,                             call, give, use)                                 \
    X(cuKernelGetAttribute,                           call, out, in, use, in)                          \
    X(cuKernelSetCacheConfig,                         call, use, in, in)                               \
    X(cuFuncGetAttribute,                             call, out, in, use)                              \
    X(cuFuncSetCacheConfig,                           call, use, in)                                   \
    X(cuFuncGetModule,                              call, give, use) \
    X(cuFuncIsLoaded,                               call, out, use) \
    X(cuFuncLoad,                                   call, use) \
    X(cuOccupancyMaxActiveBlocksPerMultiprocessor,    call, out, use, in, in)                          \
    X(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, call, out, use, in, in, in)                \
    X(cuOccupancyAvailableDynamicSMemPerBlock,        call, out, use, in, in)                          \
    /* device memory */                                                                                \
    X(cuMemGetInfo_v2,                                call, out, out)                                  \
    X(cuMemAllocPitch_v2,                             call, out, out, in, in, in)                      \
    X(cuMemGetAddressRange_v2,                        call, maybe, maybe, in)                          \
    X(cuMemAllocAsync,                                call, out, in, use)                              \
    X(cuMemAllocFromPoolAsync,                        call, out, in, use, use)                         \
    X(cuMemFreeAsync,                                 post, freed, use)                                \
    X(cuMemcpyDtoD_v2,                                post, device<2>, device<2>, in)                  \
    X(cuMemcpyDtoDAsync_v2,                           post, device<2>, device<2>, in, use)             \
    X(cuMemsetD8Async,                                post, device<2>, in, in, use)                    \
    X(cuMemsetD16Async,                               post, device16<2>, in, in, use)               \
    X(cuMemsetD32Async,                               post, device32<2>, in, in, use)               \
    X(cuMemsetD2D8Async,                              post, rows8, in, in, in, in, use)   \
    X(cuMemsetD2D16Async,                             post, rows16, in, in, in, in, use) \
    X(cuMemsetD2D32Async,                             post, rows32, in, in, in, in, use) \
    /* arrays, textures, surfaces */                                                                   \
    X(cuArrayCreate_v2,                               call, make, desc)                                \
    X(cuArray3DCreate_v2,                             call, make, desc)                                \
    X(cuArrayDestroy,                                 call, drop)                                      \
    X(cuArrayGetDescriptor_v2,                        call, out, use)                                  \
    X(cuArray3DGetDescriptor_v2,                      call, out, use)                                  \
    X(cuArrayGetPlane,                                call, part<1>, use, in)                             \
    X(cuMipmappedArrayCreate,                         call, make, desc, in)                            \
    X(cuMipmappedArrayGetLevel,                       call, part<1>, use, in)                             \
    X(cuMipmappedArrayDestroy,                        call, drop)                                      \
    X(cuTexObjectDestroy,                             call, buried)                                        \
    X(cuSurfObjectCreate,                             call, born, desc)                                 \
    X(cuSurfObjectDestroy,                            call, buried)                                        \
    X(cuTexObjectCreate,                            call, born, desc, desc, maybe_desc) \
    X(cuTexObjectGetResourceDesc,                   call, told, known) \
    X(cuTexObjectGetTextureDesc,                    call, told, known) \
    X(cuTexObjectGetResourceViewDesc,               call, told, known) \
    X(cuSurfObjectGetResourceDesc,                  call, told, known) \
    X(cuArrayGetMemoryRequirements,                 call, out, use, in) \
    X(cuMipmappedArrayGetMemoryRequirements,        call, out, use, in) \
    X(cuArrayGetSparseProperties,                   call, out, use) \
    X(cuMipmappedArrayGetSparseProperties,          call, out, use) \
    /* pools */                                                                                        \
    X(cuDeviceGetDefaultMemPool,                      call, give, in)                                  \
    X(cuDeviceGetMemPool,                             call, give, in)                                  \
    X(cuDeviceSetMemPool,                             call, in, use)                                   \
    X(cuDeviceGraphMemTrim,                           call, in)                                        \
    X(cuMemPoolCreate,                                call, make, desc)                                \
    X(cuMemPoolTrimTo,                                call, use, in)                                   \
    X(cuMemPoolGetAccess,                           call, out, use, desc) \
    X(cuMemGetDefaultMemPool,                       call, give, desc, in) \
    X(cuMemGetMemPool,                              call, give, desc, in) \
    X(cuMemSetMemPool,                              call, desc, in, use) \
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
    X(cuStreamGetPriority,                            call, use, out)                                  \
    X(cuStreamGetFlags,                               call, use, out)                                  \
    X(cuStreamGetDevice,                              call, use, out)                                  \
    X(cuGraphCreate,                                  call, make, in)                                  \
    X(cuGraphInstantiateWithFlags,                    call, make, use, in)                             \
    X(cuGraphExecGetFlags,                          call, use, out) \
    X(cuGraphClone,                                 call, make, use) \
    X(cuGraphNodeFindInClone,                       call, part<2>, use, use) \
    X(cuGraphNodeGetType,                           call, use, out) \
    X(cuGraphNodeSetEnabled,                        call, use, use, in) \
    X(cuGraphNodeGetEnabled,                        call, use, use, out) \
    X(cuGraphChildGraphNodeGetGraph,                call, use, part<0>) \
    X(cuGraphExecChildGraphNodeSetParams,           call, use, use, use) \
    X(cuGraphEventRecordNodeGetEvent,               call, use, give) \
    X(cuGraphEventWaitNodeGetEvent,                 call, use, give) \
    X(cuGraphEventWaitNodeSetEvent,                 call, use, use) \
    X(cuGraphExecEventWaitNodeSetEvent,             call, use, use, use) \
    X(cuGraphMemsetNodeGetParams,                   call, use, out) \
    X(cuGraphMemsetNodeSetParams,                   call, use, desc) \
    X(cuGraphMemAllocNodeGetParams,                 call, use, told) \
    X(cuGraphMemFreeNodeGetParams,                  call, use, out) \
    X(cuGraphKernelNodeCopyAttributes,              call, use, use) \
    X(cuStreamCopyAttributes,                       call, use, use) \
    X(cuGraphUpload,                                  post, use, use)                                  \
    X(cuStreamWaitValue32_v2,                         post, use, device_word<4>, in, in)               \
    X(cuStreamWaitValue64_v2,                         post, use, device_word<8>, in, in)               \
    X(cuStreamWriteValue32_v2,                        post, use, device_word<4>, in, in)               \
    X(cuStreamWriteValue64_v2,                        post, use, device_word<8>, in, in)               \
    X(cuStreamBatchMemOp_v2,                          post, use, in, memory_operations<1>, in)         \
    X(cuProfilerStart,                                call)                                            \
    X(cuProfilerStop,                                 call)

#define BARCUDA_INNER(X)                                                                               \
    X(cuCtxDestroy_v2,                                call, drop)                                      \
    X(cuLibraryGetKernel,                             call, part<1>, use, text)                           \
    X(cuKernelSetAttribute,                           call, in, in, use, in)                           \
    X(cuFuncSetAttribute,                             call, use, in, in)                               \
    X(cuLibraryGetManaged,                            call, maybe, maybe, use, text)                   \
    X(cuMemcpyHtoDAsync_v2,                           post, device<2>, region<2>, in, use)             \
    X(cuMemcpyDtoHAsync_v2,                           post, region<2>, device<2>, in, use)             \
    X(cuStreamCreateWithPriority,                     call, make, in, in)                              \
    X(cuStreamDestroy_v2,                             post, drop)                                      \
    X(cuStreamQuery,                                  call, use)                                       \
    X(cuEventCreate,                                  call, make, in)                                  \
    X(cuEventDestroy_v2,                              post, drop)                                      \
    X(cuEventElapsedTime_v2,                          call, out, use, use)                             \
    X(cuEventQuery,                                   call, use)                                       \
    X(cuStreamBeginCapture_v2,                      call, use, captures) \
    X(cuStreamBeginCaptureToGraph,                  call, use, use, nodes<4>, edges<4>, in, captures) \
    X(cuStreamEndCapture,                           call, use, give) \
    X(cuStreamIsCapturing,                          call, use, out) \
    X(cuStreamUpdateCaptureDependencies_v2,         call, use, nodes<3>, edges<3>, in, in) \
    X(cuStreamWaitEvent,                            post, use, use, in) \
    X(cuEventRecordWithFlags,                       post, use, use, in) \
    X(cuMemsetD8_v2,                                  post, device<2>, in, in)                         \
    X(cuMemsetD16_v2,                                 post, device16<2>, in, in)                    \
    X(cuMemsetD32_v2,                                 post, device32<2>, in, in)                    \
    X(cuMemsetD2D8_v2,                                post, rows8, in, in, in, in)        \
    X(cuMemsetD2D16_v2,                               post, rows16, in, in, in, in)     \
    X(cuMemsetD2D32_v2,                               post, rows32, in, in, in, in)     \
    X(cuMemcpy3DAsync_v2,                           post, desc, use) \
    X(cuGraphGetNodes,                              call, use, all<2>, inout) \
    X(cuGraphGetRootNodes,                          call, use, all<2>, inout) \
    X(cuGraphGetEdges_v2,                           call, use, all<4>, all<4>, all<4>, inout) \
    X(cuGraphNodeGetDependencies_v2,                call, use, all<3>, all<3>, inout) \
    X(cuGraphNodeGetDependentNodes_v2,              call, use, all<3>, all<3>, inout) \
    X(cuGraphAddDependencies_v2,                    call, use, nodes<4>, nodes<4>, edges<4>, in) \
    X(cuGraphRemoveDependencies_v2,                 call, use, nodes<4>, nodes<4>, edges<4>, in) \
    X(cuGraphDestroyNode,                           call, drop) \
    X(cuGraphAddEmptyNode,                          call, part<1>, use, nodes<3>, in) \
    X(cuGraphAddChildGraphNode,                     call, part<1>, use, nodes<3>, in, use) \
    X(cuGraphAddEventRecordNode,                    call, part<1>, use, nodes<3>, in, use) \
    X(cuGraphAddEventWaitNode,                      call, part<1>, use, nodes<3>, in, use) \
    X(cuGraphEventRecordNodeSetEvent,               call, use, use) \
    X(cuGraphExecEventRecordNodeSetEvent,           call, use, use, use) \
    X(cuGraphAddMemAllocNode,                       call, part<1>, use, nodes<3>, in, answered) \
    X(cuGraphAddMemFreeNode,                        call, part<1>, use, nodes<3>, in, in) \
    X(cuLinkDestroy,                                call, drop) \
    X(cuGraphAddMemcpyNode,                         call, part<1>, use, nodes<3>, in, desc, use) \
    X(cuGraphMemcpyNodeGetParams,                   call, use, told) \
    X(cuGraphMemcpyNodeSetParams,                   call, use, desc) \
    X(cuGraphExecMemcpyNodeSetParams,               call, use, use, desc, use) \
    X(cuGraphAddMemsetNode,                         call, part<1>, use, nodes<3>, in, desc, use) \
    X(cuGraphExecMemsetNodeSetParams,               call, use, use, desc, use) \
    X(cuGraphExecDestroy,                           call, drop) \
    X(cuGraphDestroy,                               call, drop) \
    X(cuGraphLaunch,                                post, use, use)

#define BARCUDA_EXTENSIONS(X)                                                                          \
    X(create_context,                                 call, make, in, in)                              \
    X(retain_primary,                                 call, give, in)                                  \
    X(reset_primary,                                  call, in)                                        \
    X(write_fence,                                    post, use, fence)                                \
    X(record_event,                                   post, use, use, in, fence)                       \
    X(launch,                                         post, use, in, use, blob<4>, in)                 \
    X(try_launch,                                     call, use, in, use, blob<4>, in)                 \
    X(active_clusters,                                call, out, use, in)                              \
    X(cluster_size,                                   call, out, use, in)                              \
    X(encode_tiled,                                   call, out, in)                                   \
    X(encode_im2col,                                  call, out, in)                                   \
    X(replace_address,                                call, inout, in)                                 \
    X(settle,                                         call, use)                                       \
    X(settle_event,                                   call, use)                                       \
    X(share_memory,                                   call, out, device_word<1>)                       \
    X(open_memory,                                    call, out, in, in)                               \
    X(close_memory,                                   call, freed)                                     \
    X(share_event,                                    call, out, use)                                  \
    X(open_event,                                     call, make, in)                                  \
    X(allocate,                                       call, out, in)                                   \
    X(free_idle,                                      post, freed)                                     \
    X(unload_module,                                  call, drop)                                      \
    X(unload_library,                                 call, drop)                                      \
    X(destroy_pool,                                   call, drop)                                      \
    X(copy_in,                                        post, device<2>, blob<2>, in, use)               \
    X(copy_out,                                       call, fill<2>, device<2>, in, use)               \
    X(box_in,                                         post, desc, blob<2>, in, use)                    \
    X(box_out,                                        call, desc, fill<2>, in, use)                    \
    X(image_part,                                     call, in, blob<2>, in)                           \
    X(load_module,                                    call, make, image<2>, in, in)                    \
    X(load_library,                                   call, make, image<2>, in, in)                    \
    X(load_log,                                       call, in, fill<2>, in, out)                      \
    X(describe_function,                              call, use, out)                                  \
    X(describe_kernel,                                call, use, out)                                  \
    X(function_name,                                  call, use, fill<2>, in)                          \
    X(kernel_name,                                    call, use, fill<2>, in)                          \
    X(pointer_attribute,                              call, out, in, in)                               \
    X(grant,                                          call, in, out, out)                              \
    X(give_back,                                      post, in, in)                                    \
    X(launch_host,                                  post, use, in, in) \
    X(capture_info,                                 call, use, out, out, give, heads, inout) \
    X(add_kernel_node,                              call, part<1>, use, nodes<3>, in, use, in, blob<7>, in) \
    X(set_kernel_node,                              call, use, use, in, blob<4>, in) \
    X(exec_set_kernel_node,                         call, use, use, use, in, blob<5>, in) \
    X(kernel_node,                                  call, use, give, out, fill<4>, in) \
    X(node_attribute,                               call, use, in, out) \
    X(set_node_attribute,                           call, use, in, desc) \
    X(stream_attribute,                             call, use, in, out) \
    X(set_stream_attribute,                         call, use, in, desc) \
    X(add_host_node,                                call, part<1>, use, nodes<3>, in, in) \
    X(set_host_node,                                call, use, in) \
    X(exec_set_host_node,                           call, use, use, in) \
    X(host_node,                                    call, use, out) \
    X(exec_update,                                  call, use, use, told, out) \
    X(enumerate_functions,                          call, functions, inout, use) \
    X(enumerate_kernels,                            call, functions, inout, use) \
    X(pool_attribute,                               call, use, in, out) \
    X(set_pool_attribute,                           call, use, in, in) \
    X(graph_memory_attribute,                       call, in, in, out) \
    X(set_graph_memory_attribute,                   call, in, in, in) \
    X(link_create,                                  call, make, in) \
    X(link_add,                                     call, use, in, image<3>, in, text) \
    X(link_complete,                                call, use, out) \
    X(link_fetch,                                   call, use, region<2>, in) \
    X(link_log,                                     call, use, in, fill<3>, in, out) \
    X(take_output,                                    call, in, fill<2>, in, out)
// clang-format on
#define BARCUDA_DRIVER_ROWS(X) BARCUDA_REMOTE(X) BARCUDA_INNER(X)
#define BARCUDA_BLAS(X) BARCUDA_BLAS_INNER(X) BARCUDA_BLAS_REMOTE(X)
#define BARCUDA_RANDOM(X) BARCUDA_RANDOM_INNER(X) BARCUDA_RANDOM_REMOTE(X)
#define BARCUDA_LIBRARY_ROWS(X) BARCUDA_BLAS(X) BARCUDA_BLAS_WORK(X) BARCUDA_RANDOM(X)
#define BARCUDA_ROWS(X) BARCUDA_DRIVER_ROWS(X) BARCUDA_EXTENSIONS(X) BARCUDA_LIBRARY_ROWS(X)

namespace barcuda {

enum class Op : std::uint32_t {
#define X(name, ...) name,
    BARCUDA_ROWS(X)
#undef X
        count
};

inline constexpr std::array<std::string_view, static_cast<std::size_t>(Op::count)> op_names{
#define X(name, ...) #name,
    BARCUDA_ROWS(X)
#undef X
};

enum class How { call, post };

constexpr bool is_library(Op op) { return op >= Op::cublasCreate_v2; }

// Whether a command gives the GPU something to do: all that is posted does, but for what only looks or tidies up. (What is
// called has ended when its reply is there, but for a launch, and whatever a math library does.)
constexpr bool is_work(Op op, How how) {
    if (how != How::post) return op == Op::try_launch || is_library(op);
    switch (op) {
        case Op::cublasSetStream_v2:
        case Op::write_fence:
        case Op::cuStreamDestroy_v2:
        case Op::cuEventDestroy_v2:
        case Op::free_idle:
        case Op::give_back: return false;
        default: return true;
    }
}

// Whether a command changes how launches behind it are to be made, other than by what they say themselves, or takes something
// away that a launch before it had.
constexpr bool configures(Op op) {
    switch (op) {
        case Op::cuCtxSetLimit:
        case Op::cuCtxSetCacheConfig:
        case Op::cuFuncSetAttribute:
        case Op::cuFuncSetCacheConfig:
        case Op::cuKernelSetAttribute:
        case Op::cuKernelSetCacheConfig:
        case Op::cuStreamCopyAttributes:
        case Op::set_stream_attribute:
        case Op::cuCtxDestroy_v2:
        case Op::reset_primary: return true;
        default: return false;
    }
}

// Whether a command asks what memory there is: what has been given back must not be there any more.
constexpr bool counts_memory(Op op) {
    return op == Op::cuMemGetInfo_v2 || op == Op::cuMemGetAddressRange_v2 || op == Op::pointer_attribute;
}

// A row, taken apart: one life per parameter. A row whose kinds and prototype disagree does not compile.
template <class Prototype, How how, class... Kinds> struct Row;
template <class R, class... P, How way, class... Kinds> struct Row<R(P...), way, Kinds...> {
    static_assert(sizeof...(P) == sizeof...(Kinds), "one kind per parameter");
    using Result = R;
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
#define X(name, how, ...) \
    template <> struct RowOf<Op::name> : Row<decltype(::name), How::how __VA_OPT__(, ) __VA_ARGS__> {};
BARCUDA_BLAS(X)
BARCUDA_RANDOM(X)
#undef X
#define X(name, how, ...) \
    template <> struct RowOf<Op::name> : Row<decltype(::name##_64), How::how __VA_OPT__(, ) __VA_ARGS__> {};
BARCUDA_BLAS_WORK(X)
#undef X

}  // namespace kind
using kind::RowOf;

}  // namespace barcuda
