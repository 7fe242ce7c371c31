// extensions.h: calls between library and worker that are not the driver's own, or not in a form that can travel: a
// launch with its parameters packed, a copy whose bytes ride in the command, an extent. Prototypes only: the table in
// commands.h declares how each travels, host-bridge/extensions.cc says what it does.
#pragma once
#include <cuda.h>

#include <cstddef>
#include <cstdint>

namespace barcuda::ext {

struct Shape {  // of a launch, in threads and blocks
    unsigned grid[3], block[3];
    unsigned shared_bytes;  // dynamic shared memory of a block
    unsigned cooperative;   // 1: cuLaunchCooperativeKernel
};

constexpr unsigned max_parameters =
    1024;              // more than 32,764 bytes of parameters hold in practice; checked, not assumed
struct FunctionInfo {  // what the guest needs to pack a launch and to refuse a bad one
    std::uint32_t parameter_count;
    std::uint32_t parameter_bytes;  // offset + size of the last one
    std::int32_t max_threads_per_block;
    std::int32_t prints;  // its module may print: synchronizing calls must collect output
    struct {
        std::uint16_t offset, size;
    } parameters[max_parameters];
};

// `offset` and `value`: a 64-bit fence in the region, and what the GPU writes there when all earlier work of the stream
// is done.
CUresult write_fence(CUstream stream, std::uint64_t offset, std::uint64_t value);
CUresult record_event(CUevent event, CUstream stream, unsigned flags, std::uint64_t offset, std::uint64_t value);

CUresult launch(CUfunction function, Shape shape, CUstream stream, const void* parameters, std::size_t bytes);

// Copies whose host side is not in the region: the bytes ride in the command or in its reply.
CUresult copy_in(CUdeviceptr to, const void* bytes, std::size_t size, CUstream stream);
CUresult copy_out(void* bytes, CUdeviceptr from, std::size_t size, CUstream stream);

CUresult create_context(CUcontext* context, unsigned flags,
                        CUdevice device);  // cuCtxCreate without its parameter block
// The primary context, with the client's memory registered in it; and its reset, after which it has to be retained again.
CUresult retain_primary(CUcontext* context, CUdevice device);
CUresult reset_primary(CUdevice device);

// The image lies in the region; the worker copies it out before the driver parses it.
CUresult load_module(CUmodule* module, const void* image, std::size_t bytes);
CUresult load_library(CUlibrary* library, const void* image, std::size_t bytes);
CUresult describe_function(CUfunction function, FunctionInfo* info);
CUresult describe_kernel(CUkernel kernel, FunctionInfo* info);

CUresult function_name(CUfunction function, char* name, std::size_t room);
CUresult kernel_name(CUkernel kernel, char* name, std::size_t room);

// cuPointerGetAttribute of device memory, for attributes of at most eight bytes that hold no handle.
CUresult pointer_attribute(std::uint64_t* value, CUpointer_attribute attribute, CUdeviceptr address);

// Heap memory of the client: a run of granules, zero-filled, registered with the GPU.
CUresult grant(std::size_t bytes, std::uint64_t* offset, std::uint64_t* granted);
CUresult give_back(std::uint64_t offset, std::uint64_t bytes);

// What kernels have printed since the last call; `used` bytes of `text` (at most `room`).
CUresult take_output(char* text, std::size_t room, std::uint64_t* used);

}  // namespace barcuda::ext
