// SPDX-License-Identifier: Apache-2.0
// context_calls.cc: cuCtx* and cuDevicePrimaryCtx*.
#include <algorithm>
#include <bit>

#include "soft-gpu/driver/context.h"
#include "soft-gpu/driver/driver.h"

namespace barcuda::soft::driver {
namespace {

constexpr unsigned api_version = 3020;  // of contexts; unchanged since CUDA 3.2

// Guards `retained` and `alive` of all contexts.
std::mutex& contexts_mutex() {
    static auto* const mutex = new std::mutex;  // never destroyed: see driver.h
    return *mutex;
}

// How threads wait is said by one flag at most.
void require_flags(unsigned flags) {
    require((flags & ~static_cast<unsigned>(CU_CTX_FLAGS_MASK)) == 0 && std::popcount(flags & CU_CTX_SCHED_MASK) <= 1);
    if (flags & CU_CTX_USER_COREDUMP_ENABLE) refuse("a pipe by which a user asks for a core dump");
}

// The calling thread's context, without a check for a fault: for calls that work on a broken one.
std::shared_ptr<Context> top() {
    const auto& stack = context_stack();
    if (stack.empty() || !stack.back()) fail(CUDA_ERROR_INVALID_CONTEXT);
    if (!stack.back()->alive()) fail(CUDA_ERROR_CONTEXT_IS_DESTROYED);
    return stack.back();
}

std::shared_ptr<Context> context_or_top(CUcontext context) {
    return context ? Driver::get().contexts.find(context) : top();
}

void create(CUcontext* made, unsigned flags, CUdevice device) {
    require(made);
    require_device(device);
    require_flags(flags);
    const auto context = std::make_shared<Context>(device, flags, false);
    *made = Driver::get().contexts.add(context);
    context_stack().push_back(context);
}

}  // namespace
}  // namespace barcuda::soft::driver

using namespace barcuda::soft::driver;

// ---- the primary context --------------------------------------------------------------------------------------------

CUresult cuDevicePrimaryCtxRetain(CUcontext* pctx, CUdevice dev) {
    return api([&] {
        require(pctx);
        Context& primary = *Driver::get().device(dev).primary;
        std::lock_guard lock(contexts_mutex());
        if (primary.retained++ == 0) primary.revive();
        *pctx = primary.handle();
    });
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice dev) {
    return api([&] {
        Context& primary = *Driver::get().device(dev).primary;
        std::lock_guard lock(contexts_mutex());
        require(primary.retained > 0, CUDA_ERROR_INVALID_CONTEXT);
        if (--primary.retained == 0) primary.tear_down();
    });
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice dev) {
    return api([&] {
        Context& primary = *Driver::get().device(dev).primary;
        std::lock_guard lock(contexts_mutex());
        if (!primary.alive()) return;
        primary.tear_down();
        if (primary.retained > 0) primary.revive();  // the program gets a fresh and empty context
    });
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice dev, unsigned int flags) {
    return api([&] {
        Context& primary = *Driver::get().device(dev).primary;
        require_flags(flags);
        primary.flags = flags;
    });
}

CUresult cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int* flags, int* active) {
    return api([&] {
        require(flags && active);
        const Context& primary = *Driver::get().device(dev).primary;
        *flags = primary.flags;
        *active = primary.alive();
    });
}

// ---- contexts -------------------------------------------------------------------------------------------------------

CUresult cuCtxCreate_v2(CUcontext* pctx, unsigned int flags, CUdevice dev) {
    return api([&] { create(pctx, flags, dev); });
}
CUresult cuCtxCreate_v3(CUcontext* pctx, CUexecAffinityParam* paramsArray, int numParams, unsigned int flags,
                        CUdevice dev) {
    return api([&] {
        if (paramsArray && numParams > 0) fail(CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY);
        create(pctx, flags, dev);
    });
}
CUresult cuCtxCreate_v4(CUcontext* pctx, CUctxCreateParams* ctxCreateParams, unsigned int flags, CUdevice dev) {
    return api([&] {
        if (ctxCreateParams && ctxCreateParams->numExecAffinityParams > 0) fail(CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY);
        if (ctxCreateParams && ctxCreateParams->cigParams) refuse("cuCtxCreate with CIG parameters");
        create(pctx, flags, dev);
    });
}

CUresult cuCtxDestroy_v2(CUcontext ctx) {
    return api([&] {
        const auto context = Driver::get().contexts.find(ctx);
        require(!context->primary && !context->whole, CUDA_ERROR_INVALID_CONTEXT);
        {
            std::lock_guard lock(contexts_mutex());
            if (!context->alive()) fail(CUDA_ERROR_CONTEXT_IS_DESTROYED);
            context->tear_down();
        }
        Driver::get().contexts.take(ctx);
        auto& stack = context_stack();
        if (!stack.empty() && stack.back() == context) stack.pop_back();
    });
}
CUresult cuCtxDetach(CUcontext ctx) { return cuCtxDestroy_v2(ctx); }
CUresult cuCtxAttach(CUcontext* pctx, unsigned int flags) {
    return api([&] {
        require(pctx && flags == 0);
        *pctx = top()->handle();
    });
}

CUresult cuCtxPushCurrent_v2(CUcontext ctx) {
    return api([&] {
        const auto context = Driver::get().contexts.find(ctx);
        context_stack().push_back(context);
    });
}

CUresult cuCtxPopCurrent_v2(CUcontext* pctx) {
    return api([&] {
        auto& stack = context_stack();
        require(!stack.empty() && stack.back(), CUDA_ERROR_INVALID_CONTEXT);
        if (pctx) *pctx = stack.back()->handle();
        stack.pop_back();
    });
}

CUresult cuCtxSetCurrent(CUcontext ctx) {
    return api([&] {
        auto& stack = context_stack();
        if (!ctx) {
            if (!stack.empty()) stack.pop_back();
            return;
        }
        auto context = Driver::get().contexts.find(ctx);
        if (stack.empty()) stack.push_back(std::move(context));
        else stack.back() = std::move(context);
    });
}

CUresult cuCtxGetCurrent(CUcontext* pctx) {
    return api([&] {
        require(pctx);
        const auto& stack = context_stack();
        *pctx = stack.empty() ? nullptr : stack.back()->handle();
    });
}

CUresult cuCtxGetDevice(CUdevice* device) {
    return api([&] {
        require(device);
        *device = top()->device;
    });
}
CUresult cuCtxGetDevice_v2(CUdevice* device, CUcontext ctx) {
    return api([&] {
        require(device);
        *device = context_or_top(ctx)->device;
    });
}

CUresult cuCtxGetFlags(unsigned int* flags) {
    return api([&] {
        require(flags);
        *flags = top()->flags;
    });
}
CUresult cuCtxSetFlags(unsigned int flags) {
    return api([&] {
        require_flags(flags);
        top()->flags = flags;
    });
}

CUresult cuCtxGetId(CUcontext ctx, unsigned long long* ctxId) {
    return api([&] {
        require(ctxId);
        *ctxId = context_or_top(ctx)->id;
    });
}

CUresult cuCtxGetApiVersion(CUcontext ctx, unsigned int* version) {
    return api([&] {
        require(version);
        context_or_top(ctx);
        *version = api_version;
    });
}

CUresult cuCtxSynchronize() {
    return api([] {
        const auto context = stream_context();
        if (context->capturing_anywhere()) fail(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        context->synchronize();
        Driver::get().memory.collect();
        context->check();
    });
}
CUresult cuCtxSynchronize_v2(CUcontext ctx) {
    return api([&] {
        const auto context = context_or_top(ctx);
        context->check();
        context->synchronize();
        Driver::get().memory.collect();
        context->check();
    });
}

// ---- limits and preferences -----------------------------------------------------------------------------------------

static constexpr std::size_t most_persisting = std::size_t{1} << 32;  // far more than any device has

CUresult cuCtxSetLimit(CUlimit limit, size_t value) {
    return api([&] {
        const auto context = current_context();
        std::lock_guard lock(context->limits_mutex);
        switch (limit) {
            case CU_LIMIT_STACK_SIZE:
                require(value <= (512u << 10));
                context->limits.stack_bytes = std::max<std::size_t>((value + 15) / 16 * 16, 1024);
                return;
            case CU_LIMIT_PRINTF_FIFO_SIZE: context->limits.printf_fifo_bytes = value; return;
            case CU_LIMIT_MALLOC_HEAP_SIZE: context->limits.malloc_heap_bytes = value; return;
            case CU_LIMIT_MAX_L2_FETCH_GRANULARITY:
                require(value <= 128);
                context->other_limits[limit] = value;
                return;
            case CU_LIMIT_PERSISTING_L2_CACHE_SIZE: require(value <= most_persisting); return;  // there is none
            case CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT: context->other_limits[limit] = value; return;
            case CU_LIMIT_SHMEM_SIZE:
            case CU_LIMIT_CIG_ENABLED: fail(CUDA_ERROR_NOT_PERMITTED);  // set when a context is made
            default: fail(limit < 0 || limit >= CU_LIMIT_MAX ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_UNSUPPORTED_LIMIT);
        }
    });
}

CUresult cuCtxGetLimit(size_t* pvalue, CUlimit limit) {
    return api([&] {
        require(pvalue);
        const auto context = current_context();
        std::lock_guard lock(context->limits_mutex);
        const auto other = [&](std::size_t initial) {
            const auto found = context->other_limits.find(limit);
            return found == context->other_limits.end() ? initial : found->second;
        };
        switch (limit) {
            case CU_LIMIT_STACK_SIZE: *pvalue = context->limits.stack_bytes; return;
            case CU_LIMIT_PRINTF_FIFO_SIZE: *pvalue = context->limits.printf_fifo_bytes; return;
            case CU_LIMIT_MALLOC_HEAP_SIZE: *pvalue = context->limits.malloc_heap_bytes; return;
            case CU_LIMIT_MAX_L2_FETCH_GRANULARITY: *pvalue = other(64); return;
            case CU_LIMIT_PERSISTING_L2_CACHE_SIZE: *pvalue = 0; return;
            case CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT: *pvalue = other(2048); return;
            case CU_LIMIT_SHMEM_SIZE:
            case CU_LIMIT_CIG_ENABLED: *pvalue = 0; return;
            default: fail(limit < 0 || limit >= CU_LIMIT_MAX ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_UNSUPPORTED_LIMIT);
        }
    });
}

CUresult cuCtxGetCacheConfig(CUfunc_cache* pconfig) {
    return api([&] {
        require(pconfig);
        *pconfig = static_cast<CUfunc_cache>(current_context()->cache_config.load());
    });
}
CUresult cuCtxSetCacheConfig(CUfunc_cache config) {
    return api([&] {
        require(config <= CU_FUNC_CACHE_PREFER_EQUAL);
        current_context()->cache_config = config;
    });
}
CUresult cuCtxGetSharedMemConfig(CUsharedconfig* pConfig) {
    return api([&] {
        require(pConfig);
        *pConfig = static_cast<CUsharedconfig>(current_context()->shared_config.load());
    });
}
CUresult cuCtxSetSharedMemConfig(CUsharedconfig) {
    return api([] { current_context(); });  // fixed, as on all current hardware
}

CUresult cuCtxGetStreamPriorityRange(int* leastPriority, int* greatestPriority) {
    return api([&] {
        current_context();
        if (leastPriority) *leastPriority = 0;
        if (greatestPriority) *greatestPriority = -5;
    });
}

CUresult cuCtxResetPersistingL2Cache() {
    return api([] { current_context(); });  // there are no persisting lines to reset
}

// A context has all multiprocessors.
CUresult cuCtxGetExecAffinity(CUexecAffinityParam* pExecAffinity, CUexecAffinityType type) {
    return api([&] {
        require(pExecAffinity);
        require(type == CU_EXEC_AFFINITY_TYPE_SM_COUNT, CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY);
        pExecAffinity->type = type;
        pExecAffinity->param.smCount.val = static_cast<unsigned>(Driver::get().settings.cores);
    });
}

// All devices can access all memory: what is opened here was never closed. But programs get the results of hardware.
CUresult cuCtxEnablePeerAccess(CUcontext peerContext, unsigned int Flags) {
    return api([&] {
        require(Flags == 0);
        require(peerContext, CUDA_ERROR_INVALID_CONTEXT);
        const auto peer = Driver::get().contexts.find(peerContext), context = current_context();
        require(peer->device != context->device, CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
        std::lock_guard lock(context->limits_mutex);
        require(context->peers.insert(peerContext).second, CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
    });
}
CUresult cuCtxDisablePeerAccess(CUcontext peerContext) {
    return api([&] {
        const auto peer = Driver::get().contexts.find(peerContext), context = current_context();
        std::lock_guard lock(context->limits_mutex);
        require(context->peers.erase(peerContext) == 1, CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
    });
}
