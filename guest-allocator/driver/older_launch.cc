// SPDX-License-Identifier: Apache-2.0
// older_launch.cc: launches as CUDA 3 had them: a function's shape and its parameters are set by calls of their own,
// and wait here until a launch takes them. The worker sees one launch.
#include <string.h>

#include <mutex>
#include <span>
#include <vector>

#include "guest-allocator/client/id_table.h"
#include "guest-allocator/client/mutex.h"
#include "guest-allocator/driver/export.h"
#include "guest-allocator/driver/module.h"

namespace barcuda::guest {
namespace {

struct NextLaunch {
    unsigned block[3] = {1, 1, 1};
    unsigned shared_bytes = 0;
    std::size_t bytes = 0;  // of the parameters, as the program says
    std::vector<std::byte> parameters{};
};
Mutex one_at_a_time;  // for all of them: programs that launch so have one thread
IdTable<NextLaunch*> launches;

// Looks the function up, and calls `set` with what is set for it. As natively, a wrong number changes nothing.
template <class Set> CUresult with(CUfunction function, Set set) {
    CUresult error = CUDA_SUCCESS;
    const FunctionFacts* const f = function ? facts(function, error) : nullptr;
    if (!f) return function ? error : CUDA_ERROR_INVALID_HANDLE;
    std::lock_guard lock(one_at_a_time);
    NextLaunch** const at = launches.of(real(function));
    if (!at) return CUDA_ERROR_INVALID_HANDLE;
    if (!*at) *at = new NextLaunch;  // functions end with their modules, and no id is used again
    return set(**at, *f);
}

CUresult set_parameter(CUfunction function, int offset, std::span<const std::byte> value) {
    return with(function, [&](NextLaunch& next, const FunctionFacts&) {
        const auto from = static_cast<std::size_t>(offset);
        if (offset < 0 || value.size() > wire::most_parameter_bytes || from > wire::most_parameter_bytes - value.size())
            return CUDA_ERROR_INVALID_VALUE;
        if (next.parameters.size() < from + value.size()) next.parameters.resize(from + value.size());
        memcpy(next.parameters.data() + from, value.data(), value.size());
        return CUDA_SUCCESS;
    });
}

CUresult launch_next(CUfunction function, int width, int height, CUstream stream) {
    NextLaunch next;
    const CUresult r = with(function, [&](NextLaunch& its, const FunctionFacts&) {
        if (width < 1 || height < 1) return CUDA_ERROR_INVALID_VALUE;
        if (its.bytes > wire::most_parameter_bytes) return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
        next = its;
        return CUDA_SUCCESS;
    });
    if (r != CUDA_SUCCESS) return r;
    next.parameters.resize(next.bytes);
    void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, next.parameters.data(), CU_LAUNCH_PARAM_BUFFER_SIZE, &next.bytes,
                     CU_LAUNCH_PARAM_END};
    return cuLaunchKernel(function, static_cast<unsigned>(width), static_cast<unsigned>(height), 1, next.block[0],
                          next.block[1], next.block[2], next.shared_bytes, stream, nullptr,
                          next.bytes ? extra : nullptr);
}

}  // namespace
}  // namespace barcuda::guest

using namespace barcuda::guest;

CU cuFuncSetBlockShape(CUfunction function, int x, int y, int z) {
    return with(function, [&](NextLaunch& next, const FunctionFacts& f) {
        unsigned long long threads = 1;
        for (const int side : {x, y, z}) {
            if (side < 1 || side > 1024) return CUDA_ERROR_INVALID_VALUE;
            threads *= static_cast<unsigned>(side);
        }
        if (threads > static_cast<unsigned>(f.max_threads_per_block)) return CUDA_ERROR_INVALID_VALUE;
        next.block[0] = static_cast<unsigned>(x);
        next.block[1] = static_cast<unsigned>(y);
        next.block[2] = static_cast<unsigned>(z);
        return CUDA_SUCCESS;
    });
}

CU cuFuncSetSharedSize(CUfunction function, unsigned bytes) {
    int most = 0;
    if (function && bytes)
        if (CUresult r = cuFuncGetAttribute(&most, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, function);
            r != CUDA_SUCCESS)
            return r;
    return with(function, [&](NextLaunch& next, const FunctionFacts&) {
        if (bytes > static_cast<unsigned>(most)) return CUDA_ERROR_INVALID_VALUE;
        next.shared_bytes = bytes;
        return CUDA_SUCCESS;
    });
}

CU cuParamSetSize(CUfunction function, unsigned bytes) {
    return with(function, [&](NextLaunch& next, const FunctionFacts&) {
        next.bytes = bytes;
        return CUDA_SUCCESS;
    });
}
CU cuParamSeti(CUfunction function, int offset, unsigned value) {
    return set_parameter(function, offset, std::as_bytes(std::span(&value, 1)));
}
CU cuParamSetf(CUfunction function, int offset, float value) {
    return set_parameter(function, offset, std::as_bytes(std::span(&value, 1)));
}
CU cuParamSetv(CUfunction function, int offset, void* value, unsigned bytes) {
    if (!value) return CUDA_ERROR_INVALID_VALUE;
    return set_parameter(function, offset, {static_cast<const std::byte*>(value), bytes});
}

CU cuLaunch(CUfunction function) { return launch_next(function, 1, 1, nullptr); }
CU cuLaunchGrid(CUfunction function, int width, int height) { return launch_next(function, width, height, nullptr); }
CU cuLaunchGridAsync(CUfunction function, int width, int height, CUstream stream) {
    return launch_next(function, width, height, stream);
}
