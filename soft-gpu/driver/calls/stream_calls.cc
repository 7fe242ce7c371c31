// SPDX-License-Identifier: Apache-2.0
// stream_calls.cc: cuStream* and host functions. Capture (capture.cc) and values in memory (values.cc) have files of
// their own.
#include <algorithm>

#include "soft-gpu/driver/driver.h"
#include "soft-gpu/driver/operations.h"

namespace barcuda::soft::driver {

void HostCall::run(Context&) {
    in_host_function = true;  // no calls of the driver from inside; the flag belongs to the thread
    asked.fn(asked.userData);
    in_host_function = false;
}

namespace {

void create(CUstream* made, unsigned flags, int priority) {
    require(made && (flags & ~static_cast<unsigned>(CU_STREAM_NON_BLOCKING)) == 0);
    *made = Driver::get().streams.add(stream_context()->add_stream(flags, std::clamp(priority, -5, 0)));
}

// The question which device or which flags a stream has ends its capture, whatever the mode (an H100 with 580.159 does
// so; all other questions of that kind are harmless).
std::shared_ptr<Stream> askable(CUstream handle) {
    auto stream = stream_of(handle);
    refuse_while_capturing(*stream);
    return stream;
}

}  // namespace
}  // namespace barcuda::soft::driver

using namespace barcuda::soft::driver;

CUresult cuStreamCreate(CUstream* phStream, unsigned int Flags) {
    return api([&] { create(phStream, Flags, 0); });
}
CUresult cuStreamCreateWithPriority(CUstream* phStream, unsigned int flags, int priority) {
    return api([&] { create(phStream, flags, priority); });
}

CUresult cuStreamDestroy_v2(CUstream hStream) {
    return api([&] {
        const auto stream = Driver::get().streams.take(hStream);  // queued work still runs
        stream->context().drop_stream(*stream);
        stream->context().check();
    });
}

CUresult cuStreamSynchronize(CUstream hStream) {
    return api([&] {
        const auto stream = stream_of(hStream);
        for (const Mark& mark : stream->context().ends(*stream)) mark.wait();
        Driver::get().memory.collect();
        stream->context().check();
    });
}

CUresult cuStreamQuery(CUstream hStream) {
    return api([&] {
        const auto stream = stream_of(hStream);
        const auto marks = stream->context().ends(*stream);
        const bool done = std::all_of(marks.begin(), marks.end(), [](const Mark& mark) { return mark.done(); });
        stream->context().check();
        return done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
    });
}

CUresult cuLaunchHostFunc(CUstream hStream, CUhostFn fn, void* userData) {
    return api([&] {
        require(fn);
        const auto stream = stream_of(hStream);
        auto call = std::make_shared<HostCall>();
        call->asked = {fn, userData};
        stream->context().post(*stream, std::move(call));
    });
}

CUresult cuStreamAddCallback(CUstream hStream, CUstreamCallback callback, void* userData, unsigned int flags) {
    return api([&] {
        require(callback && flags == 0);
        const auto stream = stream_of(hStream);
        refuse_while_capturing(*stream);
        // Unlike a host function it is called after an error, too, and gets the error.
        const auto call = [=](Context& context) {
            in_host_function = true;
            callback(hStream, context.fault(), userData);
            in_host_function = false;
        };
        stream->context().post(*stream, std::make_shared<Action>(call, true));
    });
}

CUresult cuStreamGetPriority(CUstream hStream, int* priority) {
    return api([&] {
        require(priority);
        *priority = stream_of(hStream)->priority;
    });
}
CUresult cuStreamGetFlags(CUstream hStream, unsigned int* flags) {
    return api([&] {
        require(flags);
        *flags = askable(hStream)->flags;
    });
}
CUresult cuStreamGetId(CUstream hStream, unsigned long long* streamId) {
    return api([&] {
        require(streamId);
        *streamId = stream_of(hStream)->id;
    });
}
CUresult cuStreamGetDevice(CUstream hStream, CUdevice* device) {
    return api([&] {
        require(device);
        *device = askable(hStream)->context().device;
    });
}
CUresult cuStreamGetCtx(CUstream hStream, CUcontext* pctx) {
    return api([&] {
        require(pctx);
        *pctx = stream_of(hStream)->context().handle();
    });
}
CUresult cuStreamGetCtx_v2(CUstream hStream, CUcontext* pCtx, CUgreenCtx* pGreenCtx) {
    return api([&] {
        require(pCtx);
        const Context& its = stream_of(hStream)->context();
        *pCtx = its.whole ? its.whole->handle() : its.handle();
        if (pGreenCtx) *pGreenCtx = its.whole ? reinterpret_cast<CUgreenCtx>(its.handle()) : nullptr;
    });
}
CUresult cuStreamGetGreenCtx(CUstream hStream, CUgreenCtx* phCtx) {
    CUcontext whole;
    return cuStreamGetCtx_v2(hStream, &whole, phCtx);
}

CUresult cuStreamAttachMemAsync(CUstream hStream, CUdeviceptr dptr, size_t, unsigned int flags) {
    return api([&] {
        stream_of(hStream);
        require(flags == CU_MEM_ATTACH_GLOBAL || flags == CU_MEM_ATTACH_HOST || flags == CU_MEM_ATTACH_SINGLE);
        const auto target = Driver::get().memory.find(dptr);
        // visible to all streams at all times: there is nothing to attach
        require(target && target->kind == Allocation::Kind::managed);
    });
}

CUresult cuStreamGetAttribute(CUstream hStream, CUstreamAttrID attr, CUstreamAttrValue* value_out) {
    return api([&] {
        require(value_out);
        const auto stream = stream_of(hStream);
        switch (attr) {
            case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY: value_out->syncPolicy = stream->hints().policy; return;
            case CU_LAUNCH_ATTRIBUTE_PRIORITY: value_out->priority = stream->priority; return;
            case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
                value_out->accessPolicyWindow = stream->hints().window;
                return;
            case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN: value_out->memSyncDomain = stream->hints().domain; return;
            case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP: value_out->memSyncDomainMap = stream->hints().domains; return;
            default: fail(CUDA_ERROR_INVALID_VALUE);
        }
    });
}
CUresult cuStreamSetAttribute(CUstream hStream, CUstreamAttrID attr, const CUstreamAttrValue* value) {
    return api([&] {
        require(value);
        const auto stream = stream_of(hStream);
        const auto policy = value->syncPolicy;
        switch (attr) {
            case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
                require(policy >= CU_SYNC_POLICY_AUTO && policy <= CU_SYNC_POLICY_BLOCKING_SYNC);
                return stream->change_hints([=](StreamHints& hints) { hints.policy = policy; });
            case CU_LAUNCH_ATTRIBUTE_PRIORITY: return;
            case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
                return stream->change_hints([=](StreamHints& hints) { hints.window = value->accessPolicyWindow; });
            case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
                return stream->change_hints([=](StreamHints& hints) { hints.domain = value->memSyncDomain; });
            case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
                return stream->change_hints([=](StreamHints& hints) { hints.domains = value->memSyncDomainMap; });
            default: fail(CUDA_ERROR_INVALID_VALUE);
        }
    });
}
CUresult cuStreamCopyAttributes(CUstream dst, CUstream src) {
    return api([&] {
        const auto to = stream_of(dst);
        to->change_hints([its = stream_of(src)->hints()](StreamHints& hints) { hints = its; });
    });
}
