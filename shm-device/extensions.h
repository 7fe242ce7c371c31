// extensions.h: calls between library and worker that are not the driver's own, or not in a form that can travel: a
// launch with its parameters packed, a copy whose bytes ride in the command, an extent. Prototypes only: the table in
// commands.h declares how each travels, host-bridge/worker/extensions.cc says what it does.
#pragma once
#include <cuda.h>

#include <cstddef>
#include <cstdint>

namespace barcuda::ext {

struct Shape {  // of a launch, in threads and blocks
    unsigned grid[3], block[3];
    unsigned shared_bytes;     // dynamic shared memory of a block
    unsigned cooperative = 0;  // 1: cuLaunchCooperativeKernel
    unsigned cluster[3] = {};  // blocks that run together; zeros: none
    unsigned spread = 0;       // CUclusterSchedulingPolicy
    bool clustered() const { return cluster[0] || cluster[1] || cluster[2]; }
};

// cuTensorMapEncodeTiled and its kin: a description as the program gives it, of up to five dimensions.
struct TensorMap {
    CUtensorMapDataType type;
    unsigned rank;
    CUdeviceptr address;
    std::uint64_t dimensions[5] = {}, strides[4] = {};  // strides in bytes, of all dimensions but the first
    unsigned box[5] = {}, element_strides[5] = {};
    int lower[3] = {}, upper[3] = {};  // im2col: corners of the box, of all dimensions but the first and the last
    unsigned channels = 0, pixels = 0;
    CUtensorMapInterleave interleave;
    CUtensorMapSwizzle swizzle;
    CUtensorMapL2promotion promotion;
    CUtensorMapFloatOOBfill fill;
};

constexpr unsigned max_parameters =
    1024;              // more than 32,764 bytes of parameters hold in practice; checked, not assumed
struct FunctionInfo {  // what the guest needs to pack a launch and to refuse a bad one
    std::uint32_t parameter_count;
    std::uint32_t parameter_bytes;  // offset + size of the last one
    std::int32_t max_threads_per_block;
    std::int32_t max_dynamic_shared;  // bytes of a block, as far as nobody raises it
    std::int32_t prints;              // its module may print: synchronizing calls must collect output
    struct {
        std::uint16_t offset, size;
    } parameters[max_parameters];
};

// A 64-bit word of the region, and what the GPU writes there when all earlier work of the stream is done.
struct Fence {
    std::uint64_t offset;  // 0: none
    std::uint64_t value;   // more than any that was asked of this word before
};
CUresult write_fence(CUstream stream, Fence fence);
CUresult record_event(CUevent event, CUstream stream, unsigned flags, Fence fence);

// cuIpc*: what a process shows to others of its region. The driver's own handle stays with the bridge; programs pass on a
// token for it, which nobody can guess.
CUresult share_memory(CUipcMemHandle* token, CUdeviceptr address);
CUresult open_memory(CUdeviceptr* address, CUipcMemHandle token, unsigned flags);
CUresult close_memory(CUdeviceptr address);
CUresult share_event(CUipcEventHandle* token, CUevent event);
CUresult open_event(CUevent* event, CUipcEventHandle token);

CUresult launch(CUfunction function, Shape shape, CUstream stream, const void* parameters, std::size_t bytes);
// The same, answered: a launch that the driver may refuse.
CUresult try_launch(CUfunction function, Shape shape, CUstream stream, const void* parameters, std::size_t bytes);

// cuOccupancyMaxActiveClusters and cuOccupancyMaxPotentialClusterSize.
CUresult active_clusters(int* clusters, CUfunction function, Shape shape);
CUresult cluster_size(int* blocks, CUfunction function, Shape shape);
CUresult encode_tiled(CUtensorMap* map, TensorMap tensor);
CUresult encode_im2col(CUtensorMap* map, TensorMap tensor);
CUresult replace_address(CUtensorMap* map, CUdeviceptr address);

// Copies whose host side is not in the region: the bytes ride in the command or in its reply.
CUresult copy_in(CUdeviceptr to, const void* bytes, std::size_t size, CUstream stream);
// To the host: CUDA_ERROR_NOT_READY while the stream is at work.
CUresult copy_out(void* bytes, CUdeviceptr from, std::size_t size, CUstream stream);
// The same of boxes, packed without gaps. Of the description only the device's side counts; it stands on both.
CUresult box_in(const CUDA_MEMCPY3D* box, const void* bytes, std::size_t size, CUstream stream);
CUresult box_out(const CUDA_MEMCPY3D* box, void* bytes, std::size_t size, CUstream stream);

CUresult create_context(CUcontext* context, unsigned flags,
                        CUdevice device);  // cuCtxCreate without its parameter block
// The primary context, with the client's memory registered in it; and its reset, after which it has to be retained
// again.
CUresult retain_primary(CUcontext* context, CUdevice device);
CUresult reset_primary(CUdevice device);

// cuStreamSynchronize where there is nothing to wait for (it shows what kernels have printed), or where it is an error
// (in a capture); else CUDA_ERROR_NOT_READY: the worker waits for no GPU.
CUresult settle(CUstream stream);
CUresult settle_event(CUevent event);  // cuEventSynchronize, likewise

// cuMemAlloc: memory of that size which has just been freed, if there is.
CUresult allocate(CUdeviceptr* address, std::size_t bytes);
// cuMemFree, as soon as the GPU has nothing to do: then nobody has to wait for it.
CUresult free_idle(CUdeviceptr address);
// The same of code, and of pools.
CUresult unload_module(CUmodule module);
CUresult unload_library(CUlibrary library);
CUresult destroy_pool(CUmemoryPool pool);

// The image lies in the region; the worker copies it out before the driver parses it. Where the region is full, `image`
// is null, and the image was sent in parts before, each at its place, the one at 0 first.
CUresult image_part(std::size_t place, const void* bytes, std::size_t size);
enum Logs : unsigned { no_logs, logs, verbose_logs };  // what is wanted of the driver's compiler
CUresult load_module(CUmodule* module, const void* image, std::size_t bytes, Logs wanted);
CUresult load_library(CUlibrary* library, const void* image, std::size_t bytes, Logs wanted);
// What the compiler said at the last load that wanted logs: about errors or, if `errors` is 0, all else. `used` bytes.
CUresult load_log(unsigned errors, char* text, std::size_t room, std::uint64_t* used);
CUresult describe_function(CUfunction function, FunctionInfo* info);
CUresult describe_kernel(CUkernel kernel, FunctionInfo* info);

CUresult function_name(CUfunction function, char* name, std::size_t room);
CUresult kernel_name(CUkernel kernel, char* name, std::size_t room);

// cuPointerGetAttribute of device memory, for attributes of at most eight bytes that hold no handle.
CUresult pointer_attribute(std::uint64_t* value, CUpointer_attribute attribute, CUdeviceptr address);

// Heap memory of the client: a run of granules, zero-filled, registered with the GPU.
CUresult grant(std::size_t bytes, std::uint64_t* offset, std::uint64_t* granted);
CUresult give_back(std::uint64_t offset, std::uint64_t bytes);

// Functions of the program: the stream (or the graph) waits until the client has run the one that it calls `function`.
// `with_status`: as cuStreamAddCallback does it.
CUresult launch_host(CUstream stream, std::uint64_t function, unsigned with_status);
CUresult add_host_node(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, std::size_t count,
                       std::uint64_t function);
CUresult set_host_node(CUgraphNode node, std::uint64_t function);
CUresult exec_set_host_node(CUgraphExec exec, CUgraphNode node, std::uint64_t function);
CUresult host_node(CUgraphNode node, std::uint64_t* function);

// Kernel nodes: their parameters travel packed, as a launch's do.
CUresult add_kernel_node(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, std::size_t count,
                         CUfunction function, Shape shape, const void* parameters, std::size_t bytes);
CUresult set_kernel_node(CUgraphNode node, CUfunction function, Shape shape, const void* parameters, std::size_t bytes);
CUresult exec_set_kernel_node(CUgraphExec exec, CUgraphNode node, CUfunction function, Shape shape,
                              const void* parameters, std::size_t bytes);
CUresult kernel_node(CUgraphNode node, CUfunction* function, Shape* shape, void* parameters, std::size_t room);

// Attributes that hold neither handles nor addresses; others are refused.
CUresult node_attribute(CUgraphNode node, CUlaunchAttributeID id, CUlaunchAttributeValue* value);
CUresult set_node_attribute(CUgraphNode node, CUlaunchAttributeID id, const CUlaunchAttributeValue* value);
CUresult stream_attribute(CUstream stream, CUlaunchAttributeID id, CUlaunchAttributeValue* value);
CUresult set_stream_attribute(CUstream stream, CUlaunchAttributeID id, const CUlaunchAttributeValue* value);

CUresult capture_info(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                      CUgraphNode* nodes, std::size_t* count);
// cuGraphExecUpdate: the driver's own verdict is a value, because it comes with reasons.
CUresult exec_update(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo* why, CUresult* verdict);

CUresult enumerate_functions(CUfunction* functions, std::size_t* count, CUmodule module);
CUresult enumerate_kernels(CUkernel* kernels, std::size_t* count, CUlibrary library);

// Attributes of four or eight bytes, as one word.
CUresult pool_attribute(CUmemoryPool pool, CUmemPool_attribute attribute, std::uint64_t* value);
CUresult set_pool_attribute(CUmemoryPool pool, CUmemPool_attribute attribute, std::uint64_t value);
CUresult graph_memory_attribute(CUdevice device, CUgraphMem_attribute attribute, std::uint64_t* value);
CUresult set_graph_memory_attribute(CUdevice device, CUgraphMem_attribute attribute, std::uint64_t value);

// Linking: inputs and the finished image lie in the region while they cross.
CUresult link_create(CUlinkState* state, Logs wanted);
CUresult link_add(CUlinkState state, CUjitInputType type, const void* image, std::size_t bytes, const char* name);
CUresult link_complete(CUlinkState state, std::size_t* bytes);
CUresult link_fetch(CUlinkState state, void* to, std::size_t bytes);
CUresult link_log(CUlinkState state, unsigned errors, char* text, std::size_t room, std::uint64_t* used);

// What kernels have printed since the last call, or, with `errors`, what a driver has said of a failed assert; `used`
// bytes of `text` (at most `room`).
CUresult take_output(unsigned errors, char* text, std::size_t room, std::uint64_t* used);

}  // namespace barcuda::ext
