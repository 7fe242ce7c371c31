// SPDX-License-Identifier: Apache-2.0
// cupti.cc: the software GPU's CUPTI: the activity interface, over what its driver (libcuda.so.1, beside it) tells of
// calls and of work (soft-gpu/driver/tracing.h). It has no counters, no callbacks, and no records of other kinds.
#include <cupti.h>
#include <cupti_names.h>
#include <pthread.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "soft-gpu/driver/tracing.h"

#define CUPTI extern "C" [[gnu::visibility("default")]] CUptiResult CUPTIAPI

using barcuda::soft::driver::tracing::Work;

// The driver's.
extern "C" {
void barcuda_soft_trace(barcuda::soft::driver::tracing::Tracer* tracer);
std::uint64_t barcuda_soft_number_of_context(CUcontext context);
std::uint64_t barcuda_soft_number_of_stream(CUstream stream);
std::uint64_t barcuda_soft_number_of_graph(CUgraph graph);
std::uint64_t barcuda_soft_number_of_exec(CUgraphExec exec);
std::uint64_t barcuda_soft_number_of_node(CUgraphNode node);
}

namespace barcuda::soft {
namespace {

thread_local std::vector<std::uint64_t> ids[CUPTI_EXTERNAL_CORRELATION_KIND_SIZE];

struct Numbered {
    CUpti_CallbackId id;
    std::string_view name;
};
constexpr Numbered functions[] = {
#define X(id, name) {id, #name},
    BARCUDA_DRIVER_CALLS(X)
#undef X
};
CUpti_CallbackId number_of(const char* function) {
    static const std::map<std::string_view, CUpti_CallbackId> all = [] {
        std::map<std::string_view, CUpti_CallbackId> made;
        for (const auto& [id, name] : functions) made.emplace(name, id);
        return made;
    }();
    const auto found = all.find(function);
    return found == all.end() ? 0 : found->second;
}

std::size_t size_of(const CUpti_Activity& record) {
    switch (record.kind) {
        case CUPTI_ACTIVITY_KIND_KERNEL:
        case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: return sizeof(CUpti_ActivityKernel10);
        case CUPTI_ACTIVITY_KIND_MEMCPY: return sizeof(CUpti_ActivityMemcpy6);
        case CUPTI_ACTIVITY_KIND_MEMCPY2: return sizeof(CUpti_ActivityMemcpyPtoP4);
        case CUPTI_ACTIVITY_KIND_MEMSET: return sizeof(CUpti_ActivityMemset4);
        case CUPTI_ACTIVITY_KIND_DRIVER: return sizeof(CUpti_ActivityAPI);
        case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION: return sizeof(CUpti_ActivityExternalCorrelation);
        default: return 0;
    }
}

template <class Record> Record blank(CUpti_ActivityKind kind) {
    Record record;
    std::memset(static_cast<void*>(&record), 0, sizeof record);
    record.kind = kind;
    return record;
}
template <class Record> Record of_work(CUpti_ActivityKind kind, const Work& work) {
    auto record = blank<Record>(kind);
    record.start = work.start;
    record.end = work.end;
    record.deviceId = static_cast<std::uint32_t>(work.device);
    record.contextId = static_cast<std::uint32_t>(work.context);
    record.streamId = static_cast<std::uint32_t>(work.stream);
    record.correlationId = work.call;
    record.graphId = static_cast<std::uint32_t>(work.graph);
    record.graphNodeId = work.node;
    return record;
}

std::uint8_t memory_kind(Work::Memory memory) {
    switch (memory) {
        case Work::Memory::device: return CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
        case Work::Memory::pageable: return CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE;
        case Work::Memory::pinned: return CUPTI_ACTIVITY_MEMORY_KIND_PINNED;
        case Work::Memory::array: return CUPTI_ACTIVITY_MEMORY_KIND_ARRAY;
    }
    return CUPTI_ACTIVITY_MEMORY_KIND_UNKNOWN;
}
std::uint8_t copy_kind(Work::Memory from, Work::Memory to) {
    const auto side = [](Work::Memory memory) {
        return memory == Work::Memory::device ? 1 : memory == Work::Memory::array ? 2 : 0;
    };
    constexpr std::uint8_t kinds[3][3] = {
        {CUPTI_ACTIVITY_MEMCPY_KIND_HTOH, CUPTI_ACTIVITY_MEMCPY_KIND_HTOD, CUPTI_ACTIVITY_MEMCPY_KIND_HTOA},
        {CUPTI_ACTIVITY_MEMCPY_KIND_DTOH, CUPTI_ACTIVITY_MEMCPY_KIND_DTOD, CUPTI_ACTIVITY_MEMCPY_KIND_DTOA},
        {CUPTI_ACTIVITY_MEMCPY_KIND_ATOH, CUPTI_ACTIVITY_MEMCPY_KIND_ATOD, CUPTI_ACTIVITY_MEMCPY_KIND_ATOA}};
    return kinds[side(from)][side(to)];
}

class Activity final : public driver::tracing::Tracer {
  public:
    void call_ends(const char* function, std::uint32_t call, std::uint64_t start, CUresult result) override {
        const std::uint64_t end = driver::tracing::now();
        std::lock_guard lock(mutex_);
        if (!kinds_.contains(CUPTI_ACTIVITY_KIND_DRIVER)) return;
        if (kinds_.contains(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION))
            for (int kind = 0; kind < CUPTI_EXTERNAL_CORRELATION_KIND_SIZE; ++kind) {
                if (ids[kind].empty()) continue;
                auto record = blank<CUpti_ActivityExternalCorrelation>(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION);
                record.externalKind = static_cast<CUpti_ExternalCorrelationKind>(kind);
                record.externalId = ids[kind].back();
                record.correlationId = call;
                add(record);
            }
        auto record = blank<CUpti_ActivityAPI>(CUPTI_ACTIVITY_KIND_DRIVER);
        record.cbid = number_of(function);
        record.start = start;
        record.end = end;
        record.processId = static_cast<std::uint32_t>(getpid());
        record.threadId = static_cast<std::uint32_t>(pthread_self());
        record.correlationId = call;
        record.returnValue = static_cast<std::uint32_t>(result);
        add(record);
    }

    void did(const Work& work) override {
        std::lock_guard lock(mutex_);
        switch (work.kind) {
            case Work::Kind::kernel: return kernel(work);
            case Work::Kind::copy: return copy(work);
            case Work::Kind::fill:
                if (!kinds_.contains(CUPTI_ACTIVITY_KIND_MEMSET)) return;
                auto record = of_work<CUpti_ActivityMemset4>(CUPTI_ACTIVITY_KIND_MEMSET, work);
                record.value = work.value;
                record.bytes = work.bytes;
                record.flags = work.asynchronous ? CUPTI_ACTIVITY_FLAG_MEMSET_ASYNC : CUPTI_ACTIVITY_FLAG_NONE;
                record.memoryKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
                return add(record);
        }
    }

    CUptiResult set(CUpti_ActivityKind kind, bool on) {
        if (!size_of({kind}))
            return kind > CUPTI_ACTIVITY_KIND_INVALID && kind < CUPTI_ACTIVITY_KIND_COUNT ? CUPTI_ERROR_NOT_SUPPORTED
                                                                                          : CUPTI_ERROR_INVALID_KIND;
        {
            std::lock_guard lock(mutex_);
            if (on) kinds_.insert(kind);
            else kinds_.erase(kind);
        }
        if (on) barcuda_soft_trace(this);
        return CUPTI_SUCCESS;
    }
    void give_to(CUpti_BuffersCallbackRequestFunc request, CUpti_BuffersCallbackCompleteFunc complete) {
        std::lock_guard lock(mutex_);
        request_ = request;
        complete_ = complete;
    }

    // Fills buffers that the program gives, and gives them back. They are never kept between two flushes.
    void flush() {
        std::lock_guard turn(flushing_);
        std::vector<std::byte> ready;
        {
            std::lock_guard lock(mutex_);
            if (!request_ || !complete_) return;
            ready.swap(records_);
        }
        std::size_t at = 0;
        while (at < ready.size()) {
            std::uint8_t* buffer = nullptr;
            std::size_t size = 0, most = 0, used = 0, count = 0;
            request_(&buffer, &size, &most);
            while (buffer && at < ready.size() && (most == 0 || count < most)) {
                const std::size_t bytes = size_of(*reinterpret_cast<const CUpti_Activity*>(&ready[at]));
                if (bytes > size - used) break;
                std::memcpy(buffer + used, &ready[at], bytes);
                used += bytes;
                at += bytes;
                ++count;
            }
            if (buffer) complete_(nullptr, 0, buffer, size, used);
            if (used == 0) return drop(ready, at);
        }
    }
    std::size_t dropped() {
        std::lock_guard lock(mutex_);
        return std::exchange(dropped_, 0);
    }

  private:
    template <class Record> void add(const Record& record) {
        constexpr std::size_t most = std::size_t{64} << 20;  // where no program flushes
        if (records_.size() + sizeof record > most) {
            ++dropped_;
            return;
        }
        const auto* const bytes = reinterpret_cast<const std::byte*>(&record);
        records_.insert(records_.end(), bytes, bytes + sizeof record);
    }
    void drop(const std::vector<std::byte>& ready, std::size_t at) {
        std::lock_guard lock(mutex_);
        for (; at < ready.size(); at += size_of(*reinterpret_cast<const CUpti_Activity*>(&ready[at]))) ++dropped_;
    }

    void kernel(const Work& work) {
        const bool serial = kinds_.contains(CUPTI_ACTIVITY_KIND_KERNEL);
        if (!serial && !kinds_.contains(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL)) return;
        auto record = of_work<CUpti_ActivityKernel10>(
            serial ? CUPTI_ACTIVITY_KIND_KERNEL : CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, work);
        record.completed = work.end;
        record.registersPerThread = static_cast<std::uint16_t>(work.registers);
        record.gridX = static_cast<int>(work.grid[0]);
        record.gridY = static_cast<int>(work.grid[1]);
        record.gridZ = static_cast<int>(work.grid[2]);
        record.blockX = static_cast<int>(work.block[0]);
        record.blockY = static_cast<int>(work.block[1]);
        record.blockZ = static_cast<int>(work.block[2]);
        record.staticSharedMemory = static_cast<int>(work.static_shared);
        record.dynamicSharedMemory = static_cast<int>(work.dynamic_shared);
        record.localMemoryPerThread = static_cast<std::uint32_t>(work.local);
        record.gridId = ++last_grid_;
        record.name = names_.emplace(work.name).first->c_str();
        record.launchType = work.cooperative ? CUPTI_ACTIVITY_LAUNCH_TYPE_COOPERATIVE_SINGLE_DEVICE
                                             : CUPTI_ACTIVITY_LAUNCH_TYPE_REGULAR;
        add(record);
    }
    void copy(const Work& work) {
        const std::uint8_t flags = work.asynchronous ? CUPTI_ACTIVITY_FLAG_MEMCPY_ASYNC : CUPTI_ACTIVITY_FLAG_NONE;
        const auto fill = [&](auto record) {
            record.bytes = work.bytes;
            record.srcKind = memory_kind(work.from);
            record.dstKind = memory_kind(work.to);
            record.flags = flags;
            return record;
        };
        if (work.from_context == work.to_context) {
            if (!kinds_.contains(CUPTI_ACTIVITY_KIND_MEMCPY)) return;
            auto record = fill(of_work<CUpti_ActivityMemcpy6>(CUPTI_ACTIVITY_KIND_MEMCPY, work));
            record.copyKind = copy_kind(work.from, work.to);
            record.copyCount = 1;
            return add(record);
        }
        if (!kinds_.contains(CUPTI_ACTIVITY_KIND_MEMCPY2)) return;
        auto record = fill(of_work<CUpti_ActivityMemcpyPtoP4>(CUPTI_ACTIVITY_KIND_MEMCPY2, work));
        record.copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_PTOP;
        record.srcDeviceId = static_cast<std::uint32_t>(work.from_device);
        record.srcContextId = static_cast<std::uint32_t>(work.from_context);
        record.dstDeviceId = static_cast<std::uint32_t>(work.to_device);
        record.dstContextId = static_cast<std::uint32_t>(work.to_context);
        add(record);
    }

    std::mutex mutex_, flushing_;
    std::set<CUpti_ActivityKind> kinds_;
    std::set<std::string> names_;
    std::vector<std::byte> records_;
    std::size_t dropped_ = 0;
    std::int64_t last_grid_ = 0;
    CUpti_BuffersCallbackRequestFunc request_ = nullptr;
    CUpti_BuffersCallbackCompleteFunc complete_ = nullptr;
};
Activity& activity() {
    static Activity& one = *new Activity;  // the driver's threads live as long as the process
    return one;
}

template <class T> CUptiResult give(std::uint64_t number, T* to, CUptiResult otherwise) {
    if (!to || !number) return to ? otherwise : CUPTI_ERROR_INVALID_PARAMETER;
    *to = static_cast<T>(number);
    return CUPTI_SUCCESS;
}

}  // namespace
}  // namespace barcuda::soft

using namespace barcuda::soft;

CUPTI cuptiActivityEnable(CUpti_ActivityKind kind) { return activity().set(kind, true); }
CUPTI cuptiActivityDisable(CUpti_ActivityKind kind) { return activity().set(kind, false); }
CUPTI cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request,
                                     CUpti_BuffersCallbackCompleteFunc complete) {
    if (!request || !complete) return CUPTI_ERROR_INVALID_PARAMETER;
    activity().give_to(request, complete);
    return CUPTI_SUCCESS;
}
CUPTI cuptiActivityFlushAll(std::uint32_t) {
    activity().flush();
    return CUPTI_SUCCESS;
}
CUPTI cuptiActivityGetNextRecord(std::uint8_t* buffer, std::size_t bytes, CUpti_Activity** record) {
    if (!buffer || !record) return CUPTI_ERROR_INVALID_PARAMETER;
    std::uint8_t* const at = *record ? reinterpret_cast<std::uint8_t*>(*record) + size_of(**record) : buffer;
    if (at >= buffer + bytes) return CUPTI_ERROR_MAX_LIMIT_REACHED;
    *record = reinterpret_cast<CUpti_Activity*>(at);
    return CUPTI_SUCCESS;
}
CUPTI cuptiActivityGetNumDroppedRecords(CUcontext, std::uint32_t, std::size_t* dropped) {
    if (!dropped) return CUPTI_ERROR_INVALID_PARAMETER;
    *dropped = activity().dropped();
    return CUPTI_SUCCESS;
}
CUPTI cuptiActivityPushExternalCorrelationId(CUpti_ExternalCorrelationKind kind, std::uint64_t id) {
    if (kind <= CUPTI_EXTERNAL_CORRELATION_KIND_INVALID || kind >= CUPTI_EXTERNAL_CORRELATION_KIND_SIZE)
        return CUPTI_ERROR_INVALID_PARAMETER;
    ids[kind].push_back(id);
    return CUPTI_SUCCESS;
}
CUPTI cuptiActivityPopExternalCorrelationId(CUpti_ExternalCorrelationKind kind, std::uint64_t* last) {
    if (kind <= CUPTI_EXTERNAL_CORRELATION_KIND_INVALID || kind >= CUPTI_EXTERNAL_CORRELATION_KIND_SIZE)
        return CUPTI_ERROR_INVALID_PARAMETER;
    if (ids[kind].empty()) return CUPTI_ERROR_QUEUE_EMPTY;
    if (last) *last = ids[kind].back();
    ids[kind].pop_back();
    return CUPTI_SUCCESS;
}
CUPTI cuptiGetTimestamp(std::uint64_t* time) {
    if (!time) return CUPTI_ERROR_INVALID_PARAMETER;
    *time = driver::tracing::now();
    return CUPTI_SUCCESS;
}
CUPTI cuptiGetVersion(std::uint32_t* version) {
    if (!version) return CUPTI_ERROR_INVALID_PARAMETER;
    *version = CUPTI_API_VERSION;
    return CUPTI_SUCCESS;
}
CUPTI cuptiGetContextId(CUcontext context, std::uint32_t* id) {
    return give(barcuda_soft_number_of_context(context), id, CUPTI_ERROR_INVALID_CONTEXT);
}
CUPTI cuptiGetStreamIdEx(CUcontext, CUstream stream, std::uint8_t per_thread, std::uint32_t* id) {
    return give(barcuda_soft_number_of_stream(!stream && per_thread ? CU_STREAM_PER_THREAD : stream), id,
                CUPTI_ERROR_INVALID_STREAM);
}
CUPTI cuptiGetGraphId(CUgraph graph, std::uint32_t* id) {
    return give(barcuda_soft_number_of_graph(graph), id, CUPTI_ERROR_INVALID_PARAMETER);
}
CUPTI cuptiGetGraphExecId(CUgraphExec exec, std::uint32_t* id) {
    return give(barcuda_soft_number_of_exec(exec), id, CUPTI_ERROR_INVALID_PARAMETER);
}
CUPTI cuptiGetGraphNodeId(CUgraphNode node, std::uint64_t* id) {
    return give(barcuda_soft_number_of_node(node), id, CUPTI_ERROR_INVALID_PARAMETER);
}
