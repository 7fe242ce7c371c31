// SPDX-License-Identifier: Apache-2.0
// green.cc: parts of a device's multiprocessors, and the green contexts that have them. (The guest's half:
// guest-allocator/driver/green.cc.)
#include <algorithm>
#include <array>
#include <vector>

#include "host-bridge/worker/bodies/body.h"

namespace barcuda::ext {
namespace {

constexpr CUdevResourceType sm = CU_DEV_RESOURCE_TYPE_SM;
constexpr unsigned most_groups = 1024;  // more than any device has multiprocessors

CUresult all_of(CUdevice device, CUdevResource& all) {
    const auto ask = driver().cuDeviceGetDevResource;
    return ask ? ask(device, &all, sm) : CUDA_ERROR_NOT_SUPPORTED;  // a driver before CUDA 12.4
}

// What the driver makes of the split: `groups` has room for as many as were asked for, and is as long as there are.
CUresult split(const Split& how, std::vector<CUdevResource>& groups, CUdevResource& rest) {
    CUdevResource all{};
    if (how.groups == 0 || how.groups > most_groups) return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
    if (CUresult r = all_of(how.device, all); r != CUDA_SUCCESS) return r;
    groups.resize(how.groups);
    unsigned count = how.groups;
    const CUresult r = driver().cuDevSmResourceSplitByCount(groups.data(), &count, &all, &rest, how.flags, how.least);
    groups.resize(r == CUDA_SUCCESS ? std::min(count, how.groups) : 0);
    return r;
}

CUresult parts_of(const Parts& parts, std::vector<CUdevResource>& resources) {
    if (parts.count == 0) return all_of(parts.of.device, resources.emplace_back());
    if (parts.count > Parts::most) return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
    std::vector<CUdevResource> groups;
    CUdevResource rest{};
    if (CUresult r = split(parts.of, groups, rest); r != CUDA_SUCCESS) return r;
    for (unsigned i = 0; i < parts.count; ++i) {
        const unsigned which = parts.which[i];
        if (which != Parts::rest && which >= groups.size()) return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
        resources.push_back(which == Parts::rest ? rest : groups[which]);
    }
    return CUDA_SUCCESS;
}

}  // namespace

CUresult device_resource(CUdevice device, CUdevSmResource* all) {
    CUdevResource its{};
    const CUresult r = all_of(device, its);
    if (r == CUDA_SUCCESS) *all = its.sm;
    return r;
}

CUresult context_resource(CUcontext context, CUdevSmResource* its) {
    CUdevResource resource{};
    if (!driver().cuCtxGetDevResource) return CUDA_ERROR_NOT_SUPPORTED;
    const CUresult r = driver().cuCtxGetDevResource(context, &resource, sm);
    if (r == CUDA_SUCCESS) *its = resource.sm;
    return r;
}

// Without room it says how many there would be.
CUresult split_resource(Split how, CUdevSmResource* groups, unsigned* count, CUdevSmResource* rest) {
    CUdevResource all{}, remaining{};
    if (!groups) {
        if (CUresult r = all_of(how.device, all); r != CUDA_SUCCESS) return r;
        *count = 0;
        return driver().cuDevSmResourceSplitByCount(nullptr, count, &all, nullptr, how.flags, how.least);
    }
    std::vector<CUdevResource> found;
    how.groups = *count;
    if (CUresult r = split(how, found, remaining); r != CUDA_SUCCESS) return r;
    *count = static_cast<unsigned>(found.size());
    std::ranges::transform(found, groups, [](const CUdevResource& group) { return group.sm; });
    *rest = remaining.type == sm ? remaining.sm : CUdevSmResource{};
    return CUDA_SUCCESS;
}

CUresult create_green(CUcontext* context, Parts parts, unsigned flags, CUdevice device) {
    Contexts& contexts = session().contexts();
    const Contexts::Living* const primary = device >= 0 ? contexts.primary(device) : nullptr;
    if (!primary) return CUDA_ERROR_INVALID_CONTEXT;  // the guest has retained it
    const CUcontext whole = primary->context;
    std::vector<CUdevResource> resources;
    if (CUresult r = parts_of(parts, resources); r != CUDA_SUCCESS) return r;
    CUdevResourceDesc description = nullptr;
    CUgreenCtx green = nullptr;
    CUresult r =
        driver().cuDevResourceGenerateDesc(&description, resources.data(), static_cast<unsigned>(resources.size()));
    if (r == CUDA_SUCCESS) r = driver().cuGreenCtxCreate(&green, description, device, flags);
    if (r != CUDA_SUCCESS) return r;
    r = driver().cuCtxFromGreenCtx(context, green);
    if (r == CUDA_SUCCESS) r = contexts.ready({*context, Contexts::not_primary, true, green, whole}, device);
    if (r != CUDA_SUCCESS) driver().cuGreenCtxDestroy(green);
    return r;
}

}  // namespace barcuda::ext

namespace barcuda::body {

BODY(cuCtxRecordEvent)(CUcontext context, CUevent event) {
    const Contexts::Living* const its = session().contexts().find(context);
    return its && its->green ? driver().cuGreenCtxRecordEvent(its->green, event)
                             : driver().cuCtxRecordEvent(context, event);
}
BODY(cuCtxWaitEvent)(CUcontext context, CUevent event) {
    const Contexts::Living* const its = session().contexts().find(context);
    return its && its->green ? driver().cuGreenCtxWaitEvent(its->green, event)
                             : driver().cuCtxWaitEvent(context, event);
}

}  // namespace barcuda::body
