// SPDX-License-Identifier: Apache-2.0
// launch.cc: launches. The parameters are packed here, as the function's own layout says, and ride in the command. A
// posted launch could only fail later: one that the driver may refuse is answered.
#include <string.h>

#include "guest-allocator/client/command.h"
#include "guest-allocator/client/log.h"
#include "guest-allocator/driver/context.h"
#include "guest-allocator/driver/export.h"
#include "guest-allocator/driver/launch.h"
#include "guest-allocator/driver/module.h"
#include "guest-allocator/driver/streams.h"

namespace barcuda::guest {

CUresult pack(const FunctionFacts& f, void** each, void** extra, std::byte* room, const void*& packed,
              std::size_t& bytes) {
    if (each && extra) return CUDA_ERROR_INVALID_VALUE;
    packed = room;
    bytes = f.parameter_bytes;
    if (extra) {
        for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
            if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER) packed = extra[1];
            else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE) bytes = *static_cast<std::size_t*>(extra[1]);
            else return CUDA_ERROR_INVALID_VALUE;
        }
        if (!packed || bytes > wire::most_parameter_bytes) return CUDA_ERROR_INVALID_VALUE;
        if (bytes >= f.parameter_bytes) return CUDA_SUCCESS;
        // Of a large structure programs give what is in use (NCCL does): what they leave out is undefined, here zeros.
        memcpy(room, packed, bytes);
        memset(room + bytes, 0, f.parameter_bytes - bytes);
        packed = room;
        bytes = f.parameter_bytes;
        return CUDA_SUCCESS;
    }
    if (f.parameter_count == 0) {
        bytes = 0;
        return CUDA_SUCCESS;
    }
    if (!each) return CUDA_ERROR_INVALID_VALUE;
    for (std::uint32_t i = 0; i < f.parameter_count; ++i) {
        const auto [offset, size] = f.parameters()[i];
        if (!each[i]) return CUDA_ERROR_INVALID_VALUE;
        memcpy(room + offset, each[i], size);
    }
    return CUDA_SUCCESS;
}

namespace {

bool may_be_refused(const FunctionFacts& f, const ext::Shape& s) {
    std::uint64_t threads = 1;
    for (unsigned b : s.block)
        if (b == 0 || b > 1024) return true;
        else threads *= b;
    return threads > static_cast<std::uint64_t>(f.max_threads_per_block) || s.block[2] > 64 || !s.grid[0] ||
           s.grid[0] > 0x7fffffff || !s.grid[1] || s.grid[1] > 65535 || !s.grid[2] || s.grid[2] > 65535 ||
           !f.shared.allows(s.shared_bytes) || s.cooperative ||  // whose blocks all have to run at once
           (s.clustered() && !f.clusters.allows(s));
}

// A kernel of a library runs where its stream belongs, whatever context is current.
CUcontext place_of(CUfunction function, CUstream stream) {
    return several_contexts() && is_kernel(function) ? context_of(stream) : nullptr;
}

CUresult launch(CUfunction function, const ext::Shape& shape, CUstream stream, void** each, void** extra) {
    CUresult error = CUDA_ERROR_INVALID_CONTEXT;
    const InContext place(place_of(function, stream));
    const InStreamsContext in{stream};
    if (in.error) return in.error;
    const FunctionFacts* f = facts(function, error);
    if (!f) return error;
    alignas(16) std::byte room[wire::most_parameter_bytes];
    const void* packed = nullptr;
    std::size_t bytes = 0;
    if (CUresult r = pack(*f, each, extra, room, packed, bytes); r != CUDA_SUCCESS) return r;
    // Whether a stream of another context may have it is the driver's to say, and what it does to captures.
    if (!may_be_refused(*f, shape) && context_of(stream) == current_context() && is_posted<Op::launch>()) [[likely]]
        return command<Op::launch>(function, shape, stream, packed, bytes);
    const SharedLimit::Time before = SharedLimit::now();
    const CUresult r = command<Op::try_launch>(function, shape, stream, packed, bytes);
    if (r == CUDA_SUCCESS && shape.clustered()) f->clusters.learn(shape);
    if (r == CUDA_SUCCESS && !f->shared.allows(shape.shared_bytes)) f->shared.learn(before, shape.shared_bytes);
    return r;
}

struct LaunchEvent {
    CUevent event;
    int flags;
};
LaunchEvent event_of(const CUlaunchAttribute& a) {
    if (a.id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT)
        return {a.value.programmaticEvent.event, a.value.programmaticEvent.flags};
    if (a.id == CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT)
        return {a.value.launchCompletionEvent.event, a.value.launchCompletionEvent.flags};
    return {nullptr, 0};
}

// Events that a kernel itself may let happen before it ends, or when it has begun. CUDA promises no more than that they
// have happened when it has ended: so they are recorded behind it.
CUresult record_events(const CUlaunchConfig& config) {
    for (unsigned i = 0; i < config.numAttrs; ++i)
        if (const auto [event, flags] = event_of(config.attrs[i]); event)
            if (CUresult r = cuEventRecordWithFlags(event, config.hStream, static_cast<unsigned>(flags));
                r != CUDA_SUCCESS)
                return r;
    return CUDA_SUCCESS;
}

CUresult shape_of(const CUlaunchConfig* config, ext::Shape& shape) {
    if (!config || (config->numAttrs && !config->attrs)) return CUDA_ERROR_INVALID_VALUE;
    shape = {.grid = {config->gridDimX, config->gridDimY, config->gridDimZ},
             .block = {config->blockDimX, config->blockDimY, config->blockDimZ},
             .shared_bytes = config->sharedMemBytes};
    for (unsigned i = 0; i < config->numAttrs; ++i) {
        const auto& [id, pad, value] = config->attrs[i];
        switch (id) {
            case CU_LAUNCH_ATTRIBUTE_IGNORE:
            case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:  // hints: a launch without them computes the same
            case CU_LAUNCH_ATTRIBUTE_PRIORITY:
            case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
            case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:
            case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
            case CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING:
            case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
            case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP: break;
            case CU_LAUNCH_ATTRIBUTE_COOPERATIVE: shape.cooperative = value.cooperative != 0; break;
            case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
                shape.cluster[0] = value.clusterDim.x;
                shape.cluster[1] = value.clusterDim.y;
                shape.cluster[2] = value.clusterDim.z;
                break;
            case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
                shape.spread = value.clusterSchedulingPolicyPreference;
                break;
            case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT:
            case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT:  // see record_events
                if (!event_of(config->attrs[i]).event) return CUDA_ERROR_INVALID_HANDLE;
                if (event_of(config->attrs[i]).flags) return CUDA_ERROR_INVALID_VALUE;
                break;
            case CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE:
                if (logs_debug()) log_line("a launch with attribute %d is not supported yet", static_cast<int>(id));
                return CUDA_ERROR_NOT_SUPPORTED;
            default: return CUDA_ERROR_INVALID_VALUE;
        }
    }
    return CUDA_SUCCESS;
}

}  // namespace
}  // namespace barcuda::guest

using namespace barcuda::guest;

CU cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                  unsigned shared, CUstream stream, void** parameters, void** extra) {
    return launch(f, {.grid = {gx, gy, gz}, .block = {bx, by, bz}, .shared_bytes = shared}, stream, parameters, extra);
}

CU cuLaunchCooperativeKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                             unsigned shared, CUstream stream, void** parameters) {
    return launch(f, {.grid = {gx, gy, gz}, .block = {bx, by, bz}, .shared_bytes = shared, .cooperative = 1}, stream,
                  parameters, nullptr);
}

CU cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction f, void** parameters, void** extra) {
    ext::Shape shape{};
    if (CUresult r = shape_of(config, shape); r != CUDA_SUCCESS) return r;
    const CUresult r = launch(f, shape, config->hStream, parameters, extra);
    return r == CUDA_SUCCESS ? record_events(*config) : r;
}

CU cuOccupancyMaxActiveClusters(int* clusters, CUfunction f, const CUlaunchConfig* config) {
    ext::Shape shape{};
    if (CUresult r = shape_of(config, shape); r != CUDA_SUCCESS) return r;
    return command<Op::active_clusters>(clusters, f, shape);
}

CU cuOccupancyMaxPotentialClusterSize(int* blocks, CUfunction f, const CUlaunchConfig* config) {
    ext::Shape shape{};
    if (CUresult r = shape_of(config, shape); r != CUDA_SUCCESS) return r;
    return command<Op::cluster_size>(blocks, f, shape);
}
