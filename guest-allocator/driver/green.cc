// SPDX-License-Identifier: Apache-2.0
// green.cc: device resources and green contexts: parts of a device's multiprocessors, and contexts that work there. A
// CUdevResource of a guest says how it was come by (ext::Split), in the bytes that programs do not look at; a
// description is a list of those, which the worker hands to the driver when a green context is made. (The worker's
// half: host-bridge/worker/bodies/green.cc.)
#include <string.h>

#include <algorithm>
#include <deque>
#include <map>
#include <mutex>

#include "guest-allocator/client/command.h"
#include "guest-allocator/client/mutex.h"
#include "guest-allocator/driver/context.h"
#include "guest-allocator/driver/export.h"
#include "guest-allocator/driver/managed.h"
#include "guest-allocator/driver/streams.h"

namespace barcuda::guest {
namespace {

// What a CUdevResource holds behind its type.
struct Origin {
    std::uint32_t mark;  // of ours; what the program has made up has none
    ext::Split of;
    unsigned which;  // of its groups
    static constexpr std::uint32_t ours = 0x70617274;
    static constexpr unsigned several = ~0u - 1;  // a green context's, of several groups: nothing is made of it
};
static_assert(sizeof(Origin) <= sizeof CUdevResource{}._internal_padding);

CUdevResource resource(const ext::Split& of, unsigned which, const CUdevSmResource& sm) {
    CUdevResource made{};
    if (sm.smCount == 0) return made;  // nothing remained
    const Origin origin{Origin::ours, of, which};
    memcpy(made._internal_padding, &origin, sizeof origin);
    made.type = CU_DEV_RESOURCE_TYPE_SM;
    made.sm = sm;
    return made;
}
bool origin_of(const CUdevResource& resource, Origin& origin) {
    memcpy(&origin, resource._internal_padding, sizeof origin);
    return resource.type == CU_DEV_RESOURCE_TYPE_SM && origin.mark == Origin::ours;
}

// No function of CUDA ends a description.
struct Descriptions {
    Mutex mutex;
    std::deque<ext::Parts> all;
    std::map<CUcontext, ext::Parts> of;  // green contexts

    const ext::Parts* find(CUdevResourceDesc description) {
        const auto at = std::ranges::find_if(all, [&](const ext::Parts& parts) {
            return reinterpret_cast<CUdevResourceDesc>(const_cast<ext::Parts*>(&parts)) == description;
        });
        return at == all.end() ? nullptr : &*at;
    }
};
Descriptions& descriptions() {
    static auto* const its = new Descriptions;
    return *its;
}

CUcontext context_in(CUgreenCtx green) { return reinterpret_cast<CUcontext>(green); }
CUgreenCtx green_of(CUcontext context) { return is_green(context) ? reinterpret_cast<CUgreenCtx>(context) : nullptr; }

CUresult its_resource(CUcontext context, CUdevResource* to) {
    CUdevSmResource sm{};
    if (CUresult r = command<Op::context_resource>(context, &sm); r != CUDA_SUCCESS) return r;
    ext::Parts parts{};
    parts.of.device = device_of(context);
    Descriptions& all = descriptions();
    std::lock_guard lock(all.mutex);
    if (const auto at = all.of.find(context); at != all.of.end() && is_green(context)) parts = at->second;
    *to = resource(parts.of, parts.count > 1 ? Origin::several : parts.which[0], sm);
    return CUDA_SUCCESS;
}

}  // namespace
}  // namespace barcuda::guest

using namespace barcuda::guest;

CU cuDeviceGetDevResource(CUdevice device, CUdevResource* to, CUdevResourceType type) {
    if (!to) return CUDA_ERROR_INVALID_VALUE;
    if (!Client::initialized()) return CUDA_ERROR_NOT_INITIALIZED;
    if (!Client::current()->device(device)) return CUDA_ERROR_INVALID_DEVICE;
    if (type != CU_DEV_RESOURCE_TYPE_SM) return CUDA_ERROR_INVALID_RESOURCE_TYPE;
    CUdevSmResource all{};
    if (CUresult r = command<Op::device_resource>(device, &all); r != CUDA_SUCCESS) return r;
    *to = resource({device, 0, 0, 0}, 0, all);
    return CUDA_SUCCESS;
}

CU cuCtxGetDevResource(CUcontext context, CUdevResource* to, CUdevResourceType type) {
    if (!to) return CUDA_ERROR_INVALID_VALUE;
    if (!Client::initialized()) return CUDA_ERROR_NOT_INITIALIZED;
    if (!context) return CUDA_ERROR_INVALID_CONTEXT;
    if (type != CU_DEV_RESOURCE_TYPE_SM) return CUDA_ERROR_INVALID_RESOURCE_TYPE;
    return its_resource(context, to);
}
CU cuGreenCtxGetDevResource(CUgreenCtx green, CUdevResource* to, CUdevResourceType type) {
    if (!to) return CUDA_ERROR_INVALID_VALUE;
    if (!is_green(context_in(green))) return CUDA_ERROR_INVALID_CONTEXT;
    return cuCtxGetDevResource(context_in(green), to, type);
}

// A part is not split again, as an H100's driver (580) refuses it.
CU cuDevSmResourceSplitByCount(CUdevResource* groups, unsigned* count, const CUdevResource* whole, CUdevResource* rest,
                               unsigned flags, unsigned least) {
    if (!count || !whole) return CUDA_ERROR_INVALID_VALUE;
    if (!Client::initialized()) return CUDA_ERROR_NOT_INITIALIZED;
    Origin origin{};
    if (!origin_of(*whole, origin)) return CUDA_ERROR_INVALID_RESOURCE_TYPE;
    if (origin.of.groups) return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
    ext::Split split{origin.of.device, groups ? *count : 1, flags, least};
    if (groups && *count == 0) return CUDA_SUCCESS;
    CUdevSmResource remaining{};
    std::vector<CUdevSmResource> found(groups ? *count : 0);
    if (CUresult r = command<Op::split_resource>(split, groups ? found.data() : nullptr, count, &remaining);
        r != CUDA_SUCCESS)
        return r;
    for (unsigned i = 0; groups && i < std::min<std::size_t>(*count, found.size()); ++i)
        groups[i] = resource(split, i, found[i]);
    if (groups && rest) *rest = resource(split, ext::Parts::rest, remaining);
    return CUDA_SUCCESS;
}

CU cuDevResourceGenerateDesc(CUdevResourceDesc* description, CUdevResource* resources, unsigned count) {
    if (!description || !resources || count == 0) return CUDA_ERROR_INVALID_VALUE;
    if (!Client::initialized()) return CUDA_ERROR_NOT_INITIALIZED;
    ext::Parts parts{};
    if (count > std::size(parts.which)) return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
    for (unsigned i = 0; i < count; ++i) {
        Origin origin{};
        if (!origin_of(resources[i], origin)) return CUDA_ERROR_INVALID_RESOURCE_TYPE;
        if (i == 0) parts.of = origin.of;
        const bool same_split = memcmp(&parts.of, &origin.of, sizeof parts.of) == 0;
        if (!same_split || origin.which == Origin::several || (count > 1 && !origin.of.groups))
            return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
        if (origin.of.groups) parts.which[parts.count++] = origin.which;
    }
    Descriptions& all = descriptions();
    std::lock_guard lock(all.mutex);
    *description = reinterpret_cast<CUdevResourceDesc>(&all.all.emplace_back(parts));
    return CUDA_SUCCESS;
}

CU cuGreenCtxCreate(CUgreenCtx* green, CUdevResourceDesc description, CUdevice device, unsigned flags) {
    if (!green) return CUDA_ERROR_INVALID_VALUE;
    if (!Client::initialized()) return CUDA_ERROR_NOT_INITIALIZED;
    if (!Client::current()->device(device)) return CUDA_ERROR_INVALID_DEVICE;
    if (flags != CU_GREEN_CTX_DEFAULT_STREAM) return CUDA_ERROR_INVALID_VALUE;
    ext::Parts parts{};
    Descriptions& all = descriptions();
    {
        std::lock_guard lock(all.mutex);
        const ext::Parts* const known = all.find(description);
        if (!known) return CUDA_ERROR_INVALID_VALUE;
        parts = *known;
    }
    if (parts.of.device != device) return CUDA_ERROR_INVALID_DEVICE;
    CUcontext primary = nullptr, context = nullptr;
    if (CUresult r = cuDevicePrimaryCtxRetain(&primary, device); r != CUDA_SUCCESS) return r;
    CUresult r = CUDA_SUCCESS;
    {
        const InContext in(primary);
        r = command<Op::create_green>(&context, parts, flags, device);
    }
    if (r == CUDA_SUCCESS && !note_green(context, device)) {
        end_own_context(context);
        r = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (r != CUDA_SUCCESS) {
        cuDevicePrimaryCtxRelease_v2(device);
        return r;
    }
    managed::context_made(context);
    std::lock_guard lock(all.mutex);
    all.of[context] = parts;
    *green = reinterpret_cast<CUgreenCtx>(context);
    return CUDA_SUCCESS;
}

CU cuGreenCtxDestroy(CUgreenCtx green) {
    const CUdevice device = device_of(context_in(green));
    if (CUresult r = end_green(context_in(green)); r != CUDA_SUCCESS) return r;
    Descriptions& all = descriptions();
    {
        std::lock_guard lock(all.mutex);
        all.of.erase(context_in(green));
    }
    cuDevicePrimaryCtxRelease_v2(device);
    return CUDA_SUCCESS;
}

CU cuCtxFromGreenCtx(CUcontext* context, CUgreenCtx green) {
    if (!context) return CUDA_ERROR_INVALID_VALUE;
    if (!is_green(context_in(green))) return CUDA_ERROR_INVALID_CONTEXT;
    *context = context_in(green);
    return CUDA_SUCCESS;
}

CU cuGreenCtxGetId(CUgreenCtx green, unsigned long long* id) {
    return is_green(context_in(green)) ? cuCtxGetId(context_in(green), id) : CUDA_ERROR_INVALID_CONTEXT;
}

CU cuGreenCtxStreamCreate(CUstream* stream, CUgreenCtx green, unsigned flags, int priority) {
    if (!is_green(context_in(green))) return CUDA_ERROR_INVALID_CONTEXT;
    if (!stream || flags != CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
    const InContext in(context_in(green));
    return cuStreamCreateWithPriority(stream, flags, priority);
}

CU cuGreenCtxRecordEvent(CUgreenCtx green, CUevent event) {
    return is_green(context_in(green)) ? cuCtxRecordEvent(context_in(green), event) : CUDA_ERROR_INVALID_CONTEXT;
}
CU cuGreenCtxWaitEvent(CUgreenCtx green, CUevent event) {
    return is_green(context_in(green)) ? cuCtxWaitEvent(context_in(green), event) : CUDA_ERROR_INVALID_CONTEXT;
}

CU cuStreamGetGreenCtx(CUstream stream, CUgreenCtx* green) {
    if (!green) return CUDA_ERROR_INVALID_VALUE;
    CUcontext context = nullptr;
    if (CUresult r = cuStreamGetCtx(stream, &context); r != CUDA_SUCCESS) return r;
    *green = green_of(context);
    return CUDA_SUCCESS;
}
// Its first form tells a part of a context from the whole; this one has the whole, and the part beside it.
CU cuStreamGetCtx_v2(CUstream stream, CUcontext* context, CUgreenCtx* green) {
    if (!context || !green) return CUDA_ERROR_INVALID_VALUE;
    CUcontext its = nullptr;
    if (CUresult r = cuStreamGetCtx(stream, &its); r != CUDA_SUCCESS) return r;
    *green = green_of(its);
    *context = owner_of(its);
    return CUDA_SUCCESS;
}
