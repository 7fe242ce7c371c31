// SPDX-License-Identifier: Apache-2.0
// green_calls.cc: cuGreenCtx* and the resources that such contexts have: some of a device's multiprocessors, which are
// this machine's cores. A green context and what cuCtxFromGreenCtx makes of it have one handle, as in NVIDIA's driver.
#include <algorithm>
#include <cstring>

#include "soft-gpu/driver/context.h"
#include "soft-gpu/driver/driver.h"

namespace barcuda::soft::driver {
namespace {

// In a resource, where only the driver looks.
struct Origin {
    char mark[8] = "softsms";
    int device = 0;
    unsigned split = 0;  // the number of the split that made it; 0: all of the device's
};
std::atomic<unsigned> splits{0};

CUdevResource resource(int device, unsigned count, unsigned split) {
    CUdevResource made{};
    if (count == 0) return made;
    const Origin origin{.device = device, .split = split};
    std::memcpy(made._internal_padding, &origin, sizeof origin);
    made.type = CU_DEV_RESOURCE_TYPE_SM;
    made.sm.smCount = count;
    if (!split) made.sm.minSmPartitionSize = made.sm.smCoscheduledAlignment = 1;
    return made;
}
Origin origin_of(const CUdevResource& resource) {
    Origin origin;
    require(resource.type == CU_DEV_RESOURCE_TYPE_SM &&
                std::memcmp(resource._internal_padding, origin.mark, sizeof origin.mark) == 0,
            CUDA_ERROR_INVALID_RESOURCE_TYPE);
    std::memcpy(&origin, resource._internal_padding, sizeof origin);
    return origin;
}

// No function ends one.
struct Description {
    int device;
    unsigned multiprocessors;
};
Handles<CUdevResourceDesc, Description>& descriptions() {
    static auto* const all = new Handles<CUdevResourceDesc, Description>(CUDA_ERROR_INVALID_VALUE);
    return *all;
}

std::shared_ptr<Context> green_of(CUgreenCtx green) {
    auto context = Driver::get().contexts.find(reinterpret_cast<CUcontext>(green));
    require(context->whole != nullptr, CUDA_ERROR_INVALID_CONTEXT);
    return context;
}

}  // namespace
}  // namespace barcuda::soft::driver

using namespace barcuda::soft::driver;

CUresult cuDeviceGetDevResource(CUdevice device, CUdevResource* resource, CUdevResourceType type) {
    return api([&] {
        require(resource);
        require_device(device);
        require(type == CU_DEV_RESOURCE_TYPE_SM, CUDA_ERROR_INVALID_RESOURCE_TYPE);
        *resource = barcuda::soft::driver::resource(device, static_cast<unsigned>(Driver::get().settings.cores), 0);
    });
}

CUresult cuCtxGetDevResource(CUcontext hCtx, CUdevResource* resource, CUdevResourceType type) {
    return api([&] {
        require(resource);
        const auto context = Driver::get().contexts.find(hCtx);
        require(type == CU_DEV_RESOURCE_TYPE_SM, CUDA_ERROR_INVALID_RESOURCE_TYPE);
        *resource = barcuda::soft::driver::resource(
            context->device, static_cast<unsigned>(context->limits.multiprocessors), context->whole ? ~0u : 0);
        resource->sm.minSmPartitionSize = resource->sm.smCoscheduledAlignment = 1;
    });
}
CUresult cuGreenCtxGetDevResource(CUgreenCtx hCtx, CUdevResource* resource, CUdevResourceType type) {
    return api([&] { return cuCtxGetDevResource(green_of(hCtx)->handle(), resource, type); });
}

CUresult cuDevSmResourceSplitByCount(CUdevResource* result, unsigned int* nbGroups, const CUdevResource* input,
                                     CUdevResource* remaining, unsigned int, unsigned int minCount) {
    return api([&] {
        require(nbGroups && input);
        const Origin origin = origin_of(*input);
        const unsigned each = std::max(minCount, 1u), all = input->sm.smCount;
        require(origin.split == 0 && each <= all, CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
        const unsigned groups = result ? std::min(*nbGroups, all / each) : all / each;
        const unsigned split = ++splits;
        for (unsigned i = 0; result && i < groups; ++i) result[i] = resource(origin.device, each, split);
        if (remaining) *remaining = resource(origin.device, all - groups * each, split);
        *nbGroups = groups;
    });
}

CUresult cuDevResourceGenerateDesc(CUdevResourceDesc* phDesc, CUdevResource* resources, unsigned int nbResources) {
    return api([&] {
        require(phDesc && resources && nbResources);
        const Origin first = origin_of(resources[0]);
        unsigned all = 0;
        for (unsigned i = 0; i < nbResources; ++i) {
            const Origin its = origin_of(resources[i]);
            require(its.device == first.device && its.split == first.split && (i == 0 || its.split),
                    CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
            all += resources[i].sm.smCount;
        }
        *phDesc = descriptions().add(std::make_shared<Description>(Description{first.device, all}));
    });
}

CUresult cuGreenCtxCreate(CUgreenCtx* phCtx, CUdevResourceDesc desc, CUdevice dev, unsigned int flags) {
    return api([&] {
        require(phCtx);
        require_device(dev);
        require(flags == CU_GREEN_CTX_DEFAULT_STREAM);
        const auto description = descriptions().find(desc);
        require(description->device == dev, CUDA_ERROR_INVALID_DEVICE);
        CUcontext primary = nullptr;
        if (const CUresult r = cuDevicePrimaryCtxRetain(&primary, dev); r != CUDA_SUCCESS) fail(r);
        *phCtx = reinterpret_cast<CUgreenCtx>(Driver::get().contexts.add(std::make_shared<Context>(
            Driver::get().device(dev).primary, static_cast<int>(description->multiprocessors))));
    });
}

CUresult cuGreenCtxDestroy(CUgreenCtx hCtx) {
    return api([&] {
        const auto context = green_of(hCtx);
        Driver::get().contexts.take(context->handle());
        context->tear_down();
        cuDevicePrimaryCtxRelease_v2(context->device);
    });
}

CUresult cuCtxFromGreenCtx(CUcontext* pContext, CUgreenCtx hCtx) {
    return api([&] {
        require(pContext);
        *pContext = green_of(hCtx)->handle();
    });
}

CUresult cuGreenCtxGetId(CUgreenCtx greenCtx, unsigned long long* greenCtxId) {
    return api([&] {
        require(greenCtxId);
        *greenCtxId = green_of(greenCtx)->id;
    });
}

CUresult cuGreenCtxStreamCreate(CUstream* phStream, CUgreenCtx greenCtx, unsigned int flags, int priority) {
    return api([&] {
        require(phStream && flags == CU_STREAM_NON_BLOCKING);
        *phStream = Driver::get().streams.add(green_of(greenCtx)->add_stream(flags, std::clamp(priority, -5, 0)));
    });
}

CUresult cuGreenCtxRecordEvent(CUgreenCtx hCtx, CUevent hEvent) {
    return api([&] { return cuCtxRecordEvent(green_of(hCtx)->handle(), hEvent); });
}
CUresult cuGreenCtxWaitEvent(CUgreenCtx hCtx, CUevent hEvent) {
    return api([&] { return cuCtxWaitEvent(green_of(hCtx)->handle(), hEvent); });
}
