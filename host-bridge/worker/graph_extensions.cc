// graph_extensions.cc: the extension commands about graphs, captures and the program's own functions in a stream.
#include <cstring>

#include "host-bridge/worker/session.h"
#include "shm-device/extensions.h"

namespace barcuda::ext {
namespace {

const Driver& driver() { return session().driver(); }

// ---- kernel nodes -------------------------------------------------------------------------------------------------
// The node's parameters point at `each`, and those into the packed run; the driver copies them before it returns.
struct Parameters {
    void* each[max_parameters];
    CUDA_KERNEL_NODE_PARAMS node{};

    CUresult point(CUfunction function, const Shape& s, const void* packed, std::size_t bytes) {
        for (std::size_t i = 0;; ++i) {
            std::size_t offset = 0, size = 0;
            if (driver().cuFuncGetParamInfo(function, i, &offset, &size) != CUDA_SUCCESS) break;
            if (i == max_parameters || offset + size > bytes) return CUDA_ERROR_INVALID_VALUE;
            each[i] = static_cast<char*>(const_cast<void*>(packed)) + offset;
        }
        node = {function,   s.grid[0],      s.grid[1], s.grid[2], s.block[0], s.block[1],
                s.block[2], s.shared_bytes, each,      nullptr,   nullptr,    nullptr};
        return CUDA_SUCCESS;
    }
};

// Attributes of plain numbers.
bool plain(CUlaunchAttributeID id) {
    switch (id) {
        case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
        case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
        case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
        case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
        case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
        case CU_LAUNCH_ATTRIBUTE_PRIORITY:
        case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
        case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
        case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT: return true;
        default: return false;
    }
}
// An access policy window has an address in it, of memory that is the client's.
CUresult admitted(CUlaunchAttributeID id, const CUlaunchAttributeValue* value) {
    if (plain(id)) return CUDA_SUCCESS;
    if (id != CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW) return CUDA_ERROR_NOT_SUPPORTED;
    if (!value || value->accessPolicyWindow.num_bytes == 0) return CUDA_SUCCESS;
    const auto address = reinterpret_cast<CUdeviceptr>(value->accessPolicyWindow.base_ptr);
    return session().reachable(address, value->accessPolicyWindow.num_bytes).ok() ? CUDA_SUCCESS
                                                                                  : CUDA_ERROR_INVALID_VALUE;
}

void* as_pointer(std::uint64_t function) { return reinterpret_cast<void*>(function); }

}  // namespace

CUresult add_kernel_node(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, std::size_t count,
                         CUfunction function, Shape shape, const void* packed, std::size_t bytes) {
    Parameters p;
    if (CUresult r = p.point(function, shape, packed, bytes); r != CUDA_SUCCESS) return r;
    if (CUresult r = driver().cuGraphAddKernelNode_v2(node, graph, after, count, &p.node); r != CUDA_SUCCESS) return r;
    if (!shape.cooperative) return CUDA_SUCCESS;
    CUlaunchAttributeValue cooperative{};
    cooperative.cooperative = 1;
    return driver().cuGraphKernelNodeSetAttribute(*node, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &cooperative);
}
CUresult set_kernel_node(CUgraphNode node, CUfunction function, Shape shape, const void* packed, std::size_t bytes) {
    Parameters p;
    const CUresult r = p.point(function, shape, packed, bytes);
    return r == CUDA_SUCCESS ? driver().cuGraphKernelNodeSetParams_v2(node, &p.node) : r;
}
CUresult exec_set_kernel_node(CUgraphExec exec, CUgraphNode node, CUfunction function, Shape shape, const void* packed,
                              std::size_t bytes) {
    Parameters p;
    const CUresult r = p.point(function, shape, packed, bytes);
    return r == CUDA_SUCCESS ? driver().cuGraphExecKernelNodeSetParams_v2(exec, node, &p.node) : r;
}

CUresult kernel_node(CUgraphNode node, CUfunction* function, Shape* shape, void* packed, std::size_t room) {
    CUDA_KERNEL_NODE_PARAMS p{};
    if (CUresult r = driver().cuGraphKernelNodeGetParams_v2(node, &p); r != CUDA_SUCCESS) return r;
    *function = p.func;
    if (!p.func)
        if (CUresult r = driver().cuKernelGetFunction(function, p.kern); r != CUDA_SUCCESS) return r;
    *shape = {.grid = {p.gridDimX, p.gridDimY, p.gridDimZ},
              .block = {p.blockDimX, p.blockDimY, p.blockDimZ},
              .shared_bytes = p.sharedMemBytes};
    const void* buffer = nullptr;
    for (void** e = p.extra; e && *e != CU_LAUNCH_PARAM_END; e += 2)
        if (*e == CU_LAUNCH_PARAM_BUFFER_POINTER) buffer = e[1];
    for (std::size_t i = 0;; ++i) {
        std::size_t offset = 0, size = 0;
        if (driver().cuFuncGetParamInfo(*function, i, &offset, &size) != CUDA_SUCCESS) return CUDA_SUCCESS;
        const void* from = p.kernelParams ? p.kernelParams[i]
                           : buffer       ? static_cast<const char*>(buffer) + offset
                                          : nullptr;
        if (!from || offset + size > room) return CUDA_ERROR_NOT_SUPPORTED;
        std::memcpy(static_cast<char*>(packed) + offset, from, size);
    }
}

CUresult node_attribute(CUgraphNode node, CUlaunchAttributeID id, CUlaunchAttributeValue* value) {
    if (CUresult r = admitted(id, nullptr); r != CUDA_SUCCESS) return r;
    return driver().cuGraphKernelNodeGetAttribute(node, id, value);
}
CUresult set_node_attribute(CUgraphNode node, CUlaunchAttributeID id, const CUlaunchAttributeValue* value) {
    if (CUresult r = admitted(id, value); r != CUDA_SUCCESS) return r;
    return driver().cuGraphKernelNodeSetAttribute(node, id, value);
}
CUresult stream_attribute(CUstream stream, CUlaunchAttributeID id, CUlaunchAttributeValue* value) {
    if (CUresult r = admitted(id, nullptr); r != CUDA_SUCCESS) return r;
    return driver().cuStreamGetAttribute(stream, id, value);
}
CUresult set_stream_attribute(CUstream stream, CUlaunchAttributeID id, const CUlaunchAttributeValue* value) {
    if (CUresult r = admitted(id, value); r != CUDA_SUCCESS) return r;
    return driver().cuStreamSetAttribute(stream, id, value);
}

// ---- functions of the program ---------------------------------------------------------------------------------------
CUresult launch_host(CUstream stream, std::uint64_t function, unsigned with_status) {
    if (with_status) return driver().cuStreamAddCallback(stream, &Calls::run_with_status, as_pointer(function), 0);
    return driver().cuLaunchHostFunc(stream, &Calls::run, as_pointer(function));
}
CUresult add_host_node(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, std::size_t count,
                       std::uint64_t function) {
    const CUDA_HOST_NODE_PARAMS p{&Calls::run, as_pointer(function)};
    return driver().cuGraphAddHostNode(node, graph, after, count, &p);
}
CUresult set_host_node(CUgraphNode node, std::uint64_t function) {
    const CUDA_HOST_NODE_PARAMS p{&Calls::run, as_pointer(function)};
    return driver().cuGraphHostNodeSetParams(node, &p);
}
CUresult exec_set_host_node(CUgraphExec exec, CUgraphNode node, std::uint64_t function) {
    const CUDA_HOST_NODE_PARAMS p{&Calls::run, as_pointer(function)};
    return driver().cuGraphExecHostNodeSetParams(exec, node, &p);
}
CUresult host_node(CUgraphNode node, std::uint64_t* function) {
    CUDA_HOST_NODE_PARAMS p{};
    const CUresult r = driver().cuGraphHostNodeGetParams(node, &p);
    if (r == CUDA_SUCCESS) *function = reinterpret_cast<std::uint64_t>(p.userData);
    return r;
}

// ---- captures and updates -------------------------------------------------------------------------------------------
CUresult capture_info(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                      CUgraphNode* nodes, std::size_t* count) {
    const CUgraphNode* found = nullptr;
    const CUgraphEdgeData* edges = nullptr;
    const std::size_t room = *count;
    *count = 0;
    const CUresult r = driver().cuStreamGetCaptureInfo_v3(stream, status, id, graph, &found, &edges, count);
    if (r != CUDA_SUCCESS) return r;
    if (*status != CU_STREAM_CAPTURE_STATUS_ACTIVE) return *graph = nullptr, *count = 0, CUDA_SUCCESS;
    if (nodes && found) std::memcpy(nodes, found, std::min(room, *count) * sizeof *nodes);
    return CUDA_SUCCESS;
}

CUresult exec_update(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo* why, CUresult* verdict) {
    *verdict = driver().cuGraphExecUpdate_v2(exec, graph, why);
    return CUDA_SUCCESS;
}

}  // namespace barcuda::ext
