// SPDX-License-Identifier: Apache-2.0
// activity.cc: CUPTI's activity interface. Kinds that are made here are the calls of the program and the ids that it
// pushes; what the GPU does comes from the host's CUPTI (gpu.h). Kinds without records are listed where a profiler
// enables them with others and lives without them; all others are refused.
#include <cstring>
#include <mutex>

#include "guest-allocator/client/mutex.h"
#include "guest-allocator/cupti/asked.h"
#include "guest-allocator/cupti/export.h"
#include "guest-allocator/cupti/gpu.h"
#include "guest-allocator/cupti/records.h"

using namespace barcuda::guest;
using namespace barcuda::guest::cupti;

namespace {

constexpr std::uint64_t call_kinds = bit_of(CUPTI_ACTIVITY_KIND_DRIVER) | bit_of(CUPTI_ACTIVITY_KIND_RUNTIME);
constexpr std::uint64_t ids_kinds = bit_of(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION);
// Time that CUPTI itself takes: here there is none to tell of.
constexpr std::uint64_t empty_kinds = bit_of(CUPTI_ACTIVITY_KIND_OVERHEAD);

Mutex mutex;

constexpr CUpti_CallbackDomain domain_of(CUpti_ActivityKind kind) {
    return kind == CUPTI_ACTIVITY_KIND_RUNTIME ? CUPTI_CB_DOMAIN_RUNTIME_API : CUPTI_CB_DOMAIN_DRIVER_API;
}

CUptiResult set_kind(CUpti_ActivityKind kind, bool on) {
    if (kind <= CUPTI_ACTIVITY_KIND_INVALID || kind >= CUPTI_ACTIVITY_KIND_COUNT) return CUPTI_ERROR_INVALID_KIND;
    static_assert(CUPTI_ACTIVITY_KIND_COUNT <= 64);
    const std::uint64_t bit = bit_of(kind);
    if (!(bit & (gpu_kinds | call_kinds | ids_kinds | empty_kinds)))
        return on ? CUPTI_ERROR_NOT_SUPPORTED : CUPTI_SUCCESS;
    std::lock_guard lock(mutex);
    const std::uint64_t before = asked.kinds.load();
    asked.kinds = on ? before | bit : before & ~bit;
    if (bit & call_kinds) asked.recorded.set_all(domain_of(kind), on);
    CUptiResult r = CUPTI_SUCCESS;
    if (bit & gpu_kinds) r = ask_worker();
    if (r != CUPTI_SUCCESS) asked.kinds = before;
    look_at_calls();
    return r;
}

CUptiResult set_call(CUpti_CallbackDomain domain, CUpti_CallbackId id, bool on) {
    if (!name_of(domain, id)) return CUPTI_ERROR_INVALID_PARAMETER;
    std::lock_guard lock(mutex);
    asked.recorded.set(domain, id, on);
    look_at_calls();
    return CUPTI_SUCCESS;
}

// Sizes of buffers that the driver of a GPU has; the host's CUPTI chooses its own.
struct Attribute {
    CUpti_ActivityAttribute name;
    std::size_t bytes;
    std::uint64_t value;
};
Attribute attributes[] = {
    {CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_SIZE, sizeof(std::size_t), 3200000},
    {CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_SIZE_CDP, sizeof(std::size_t), 8 << 20},
    {CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_POOL_LIMIT, sizeof(std::size_t), 250},
    {CUPTI_ACTIVITY_ATTR_PROFILING_SEMAPHORE_POOL_SIZE, sizeof(std::size_t), 25000},
    {CUPTI_ACTIVITY_ATTR_PROFILING_SEMAPHORE_POOL_LIMIT, sizeof(std::size_t), 250},
    {CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER, sizeof(std::uint8_t), 0},
    {CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_PRE_ALLOCATE_VALUE, sizeof(std::size_t), 3},
    {CUPTI_ACTIVITY_ATTR_PROFILING_SEMAPHORE_PRE_ALLOCATE_VALUE, sizeof(std::size_t), 3},
    {CUPTI_ACTIVITY_ATTR_MEM_ALLOCATION_TYPE_HOST_PINNED, sizeof(std::uint8_t), 0},
    {CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER, sizeof(std::uint8_t), 0},
    {CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_SIZE_DEVICE_GRAPHS, sizeof(std::size_t), 16 << 20},
};

CUptiResult attribute(CUpti_ActivityAttribute name, std::size_t* bytes, void* value, bool set) {
    if (!bytes || !value) return CUPTI_ERROR_INVALID_PARAMETER;
    std::lock_guard lock(mutex);
    for (Attribute& a : attributes) {
        if (a.name != name) continue;
        if (*bytes < a.bytes) return CUPTI_ERROR_PARAMETER_SIZE_NOT_SUFFICIENT;
        *bytes = a.bytes;
        if (set) std::memcpy(&a.value, value, a.bytes);
        else std::memcpy(value, &a.value, a.bytes);
        return CUPTI_SUCCESS;
    }
    return CUPTI_ERROR_INVALID_PARAMETER;
}

CUptiResult flush(std::uint32_t flag) {
    fetch(flag & CUPTI_ACTIVITY_FLAG_FLUSH_FORCED ? Flush::all : Flush::complete);
    records().deliver(true);
    return CUPTI_SUCCESS;
}

}  // namespace

CUPTI cuptiActivityEnable(CUpti_ActivityKind kind) { return set_kind(kind, true); }
CUPTI cuptiActivityDisable(CUpti_ActivityKind kind) { return set_kind(kind, false); }
// Of one context: others are recorded, too. Each record says which it is of.
CUPTI cuptiActivityEnableContext(CUcontext context, CUpti_ActivityKind kind) {
    return context ? set_kind(kind, true) : CUPTI_ERROR_INVALID_CONTEXT;
}
CUPTI cuptiActivityDisableContext(CUcontext context, CUpti_ActivityKind kind) {
    return context ? set_kind(kind, false) : CUPTI_ERROR_INVALID_CONTEXT;
}
CUPTI cuptiActivityEnableDriverApi(CUpti_CallbackId id, std::uint8_t enable) {
    return set_call(CUPTI_CB_DOMAIN_DRIVER_API, id, enable);
}
CUPTI cuptiActivityEnableRuntimeApi(CUpti_CallbackId id, std::uint8_t enable) {
    return set_call(CUPTI_CB_DOMAIN_RUNTIME_API, id, enable);
}

CUPTI cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request,
                                     CUpti_BuffersCallbackCompleteFunc complete) {
    if (!request || !complete) return CUPTI_ERROR_INVALID_PARAMETER;
    records().give_to(request, complete);
    return CUPTI_SUCCESS;
}
CUPTI cuptiActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc clock) {
    asked.clock = clock;
    return CUPTI_SUCCESS;
}

CUPTI cuptiActivityGetNextRecord(std::uint8_t* buffer, std::size_t bytes, CUpti_Activity** record) {
    if (!buffer || !record) return CUPTI_ERROR_INVALID_PARAMETER;
    auto* at = reinterpret_cast<std::uint8_t*>(*record);
    if (!at) {
        at = buffer;
    } else {
        if (at < buffer || at >= buffer + bytes) return CUPTI_ERROR_INVALID_PARAMETER;
        const std::size_t size = size_of(**record);
        if (size == 0) return CUPTI_ERROR_INVALID_KIND;
        at += size;
    }
    if (at >= buffer + bytes) return CUPTI_ERROR_MAX_LIMIT_REACHED;
    *record = reinterpret_cast<CUpti_Activity*>(at);
    return size_of(**record) ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_KIND;
}
CUPTI cuptiActivityGetNumDroppedRecords(CUcontext, std::uint32_t, std::size_t* dropped) {
    if (!dropped) return CUPTI_ERROR_INVALID_PARAMETER;
    *dropped = records().lost();
    return CUPTI_SUCCESS;
}

CUPTI cuptiActivityFlushAll(std::uint32_t flag) { return flush(flag); }
CUPTI cuptiActivityFlush(CUcontext, std::uint32_t, std::uint32_t flag) { return flush(flag); }
// The library's own thread looks ten times a second, and gives back what is full.
CUPTI cuptiActivityFlushPeriod(std::uint32_t) { return CUPTI_SUCCESS; }

CUPTI cuptiActivityPushExternalCorrelationId(CUpti_ExternalCorrelationKind kind, std::uint64_t id) {
    return push_id(kind, id);
}
CUPTI cuptiActivityPopExternalCorrelationId(CUpti_ExternalCorrelationKind kind, std::uint64_t* last) {
    return pop_id(kind, last);
}

CUPTI cuptiActivityGetAttribute(CUpti_ActivityAttribute name, std::size_t* bytes, void* value) {
    return attribute(name, bytes, value, false);
}
CUPTI cuptiActivitySetAttribute(CUpti_ActivityAttribute name, std::size_t* bytes, void* value) {
    return attribute(name, bytes, value, true);
}
// Fields that these turn on stay zero, which means that they are unknown.
CUPTI cuptiActivityEnableLatencyTimestamps(std::uint8_t) { return CUPTI_SUCCESS; }
CUPTI cuptiActivityEnableLaunchAttributes(std::uint8_t) { return CUPTI_SUCCESS; }
CUPTI cuptiActivityConfigureUnifiedMemoryCounter(CUpti_ActivityUnifiedMemoryCounterConfig*, std::uint32_t) {
    return CUPTI_ERROR_UM_PROFILING_NOT_SUPPORTED;
}

CUPTI cuptiGetTimestamp(std::uint64_t* time) {
    if (!time) return CUPTI_ERROR_INVALID_PARAMETER;
    *time = now();
    return CUPTI_SUCCESS;
}
CUPTI cuptiSetThreadIdType(CUpti_ActivityThreadIdType type) {
    if (type != CUPTI_ACTIVITY_THREAD_ID_TYPE_DEFAULT && type != CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM)
        return CUPTI_ERROR_INVALID_PARAMETER;
    asked.thread_ids = type;
    return CUPTI_SUCCESS;
}
CUPTI cuptiGetThreadIdType(CUpti_ActivityThreadIdType* type) {
    if (!type) return CUPTI_ERROR_INVALID_PARAMETER;
    *type = asked.thread_ids;
    return CUPTI_SUCCESS;
}

// All that the program has asked for ends; it may ask again.
CUPTI cuptiFinalize() {
    {
        std::lock_guard lock(mutex);
        asked.kinds = 0;
        for (const CUpti_CallbackDomain domain : {CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_CB_DOMAIN_RUNTIME_API}) {
            asked.recorded.set_all(domain, false);
            asked.heard.set_all(domain, false);
        }
        asked.subscriber = nullptr;
        ask_worker();
        look_at_calls();
    }
    return CUPTI_SUCCESS;
}
