// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/worker/session/recording.h"

#include <cupti.h>
#include <dlfcn.h>

#include <bit>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <new>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/log.h"
#include "shm-device/cuda/libraries.h"
#include "shm-device/queue/packet.h"

namespace barcuda {

using ext::Activity;
using ext::Did;

// CUPTI's functions that a worker uses, and that CUPTI 12 has.
// clang-format off
#define BARCUDA_CUPTI_FUNCTIONS(X)                                                                           \
    X(ActivityEnable) X(ActivityDisable) X(ActivityRegisterCallbacks) X(ActivityFlushAll)                    \
    X(ActivityGetNextRecord) X(ActivityGetNumDroppedRecords) X(ActivityPushExternalCorrelationId)            \
    X(ActivityPopExternalCorrelationId) X(GetTimestamp) X(GetVersion) X(GetContextId) X(GetStreamIdEx)       \
    X(GetGraphId) X(GetGraphNodeId)
// clang-format on
struct Recording::Cupti {
#define X(name) decltype(&::cupti##name) name = nullptr;
    BARCUDA_CUPTI_FUNCTIONS(X)
    X(GetGraphExecId)
#undef X
    std::uint32_t version = 0;
};

namespace {

constexpr const char* names_of_cupti[] = {"libcupti.so.13", "libcupti.so.12"};
constexpr std::uint32_t version_13 = 130000;  // from which on CUPTI counts as CUDA does

// A buffer that CUPTI fills; it advises 1 to 10 MB.
constexpr std::size_t buffer_bytes = 1 << 20;
// Records that wait for the client, who takes them several times a second; and calls of the worker whose client's call
// is known, of which the GPU may not have done all.
constexpr std::size_t most_records = 1 << 18, most_calls = 1 << 18;
constexpr auto own_kind = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0;

struct CuptiLibrary {
    bool tried = false;
    void* handle = nullptr;
} cupti_library;

void* find_cupti(const std::string& driver) {
    if (driver.empty()) return nullptr;  // no driver was opened
    const std::string folder(driver, 0, driver.rfind('/') + 1);
    const std::string places[] = {folder, toolkit_libraries, "/usr/local/cuda/extras/CUPTI/lib64/"};
    for (const std::string& place : places)
        for (const char* name : names_of_cupti) {
            if (!folder.empty() && place != folder) continue;
            void* handle = dlopen((place + name).c_str(), RTLD_LAZY | RTLD_LOCAL);
            if (handle && !dlsym(handle, "barcuda_guest_library")) return handle;
            log::debug("{}", handle ? place + name + " is Barcuda's own" : std::string(dlerror()));
        }
    return nullptr;
}

// What CUPTI's callbacks, which know no session, leave for the client. A worker has one client.
class RecordStore {
  public:
    void take_over(const CUpti_Activity* record, bool is_13);
    void lose(std::uint64_t records) {
        std::lock_guard lock(mutex_);
        dropped_ += records;
    }
    // All calls of the worker are known now: what has no call of the client will have none.
    void settle() {
        std::lock_guard lock(mutex_);
        settled_ = records_.size();
    }
    void write(Writer& to, ext::Taken& taken);

  private:
    struct Name {
        std::string text;
        bool sent = false;
    };
    std::uint32_t name_of(const char* text);
    void add(const Activity& record) {
        if (records_.size() >= most_records) ++dropped_;
        else records_.push_back(record);
    }

    std::mutex mutex_;
    std::deque<Activity> records_;  // with CUPTI's correlation ids, which are the worker's
    std::size_t settled_ = 0;       // of them, the first
    std::uint64_t dropped_ = 0;
    std::unordered_map<std::uint32_t, std::uint32_t> calls_;  // of the client, by CUPTI's id of the worker's
    std::deque<std::uint32_t> order_;                         // in which they came
    std::unordered_map<std::string_view, std::uint32_t> numbers_;
    std::deque<Name> names_;  // by number, from 1
};
RecordStore& record_store() {
    static RecordStore& s = *new RecordStore;  // CUPTI's thread lives as long as the process
    return s;
}

std::uint32_t RecordStore::name_of(const char* text) {
    const std::string_view name = text ? text : "";
    if (const auto known = numbers_.find(name); known != numbers_.end()) return known->second;
    names_.push_back({std::string(name)});
    const auto number = static_cast<std::uint32_t>(names_.size());
    numbers_.emplace(names_.back().text, number);
    return number;
}

// The fields that CUPTI 12 and 13 have at the same places; and one of 13.
void copy_from(Activity& to, const CUpti_ActivityKernel10& k, bool is_13) {
    to.device = k.deviceId;
    to.context = k.contextId;
    to.stream = k.streamId;
    to.graph = k.graphId;
    to.channel = k.channelID;
    to.channel_type = static_cast<std::uint32_t>(k.channelType);
    to.on_device = is_13 ? k.isDeviceLaunched : 0;
    to.registers = k.registersPerThread;
    to.completed = k.completed;
    to.queued = k.queued;
    to.submitted = k.submitted;
    to.graph_node = k.graphNodeId;
    to.grid_id = static_cast<std::uint64_t>(k.gridId);
    to.local_total = k.localMemoryTotal_v2;
    const int grid[] = {k.gridX, k.gridY, k.gridZ}, block[] = {k.blockX, k.blockY, k.blockZ};
    const std::uint32_t cluster[] = {k.clusterX, k.clusterY, k.clusterZ};
    for (int i = 0; i < 3; ++i) {
        to.grid[i] = static_cast<std::uint32_t>(grid[i]);
        to.block[i] = static_cast<std::uint32_t>(block[i]);
        to.cluster[i] = cluster[i];
    }
    to.static_shared = static_cast<std::uint32_t>(k.staticSharedMemory);
    to.dynamic_shared = static_cast<std::uint32_t>(k.dynamicSharedMemory);
    to.shared_executed = k.sharedMemoryExecuted;
    to.local_per_thread = k.localMemoryPerThread;
    to.cluster_policy = k.clusterSchedulingPolicy;
    to.most_cluster = k.maxPotentialClusterSize;
    to.active_clusters = k.maxActiveClusters;
    to.cache_config = k.cacheConfig.both;
    to.shared_config = k.sharedMemoryConfig;
    to.launch_type = k.launchType;
    to.carveout_asked = k.isSharedMemoryCarveoutRequested;
    to.carveout = k.sharedMemoryCarveoutRequested;
    to.cache_asked = static_cast<std::uint8_t>(k.partitionedGlobalCacheRequested);
    to.cache_executed = static_cast<std::uint8_t>(k.partitionedGlobalCacheExecuted);
    to.shared_limit = static_cast<std::uint8_t>(k.shmemLimitConfig);
}
template <class Copy> void copy_common(Activity& to, const Copy& c) {
    to.device = c.deviceId;
    to.context = c.contextId;
    to.stream = c.streamId;
    to.graph = c.graphId;
    to.channel = c.channelID;
    to.channel_type = static_cast<std::uint32_t>(c.channelType);
    to.flags = c.flags;
    to.bytes = c.bytes;
    to.graph_node = c.graphNodeId;
}

void RecordStore::take_over(const CUpti_Activity* record, bool is_13) {
    std::lock_guard lock(mutex_);
    const auto as = [&]<class T>(const T*) -> const T& { return *reinterpret_cast<const T*>(record); };
    Activity to{};
    to.kind = static_cast<Did>(record->kind);
    const auto times = [&](const auto& from) {
        to.correlation = from.correlationId;
        to.start = from.start;
        to.end = from.end;
    };
    switch (record->kind) {
        case CUPTI_ACTIVITY_KIND_KERNEL:
        case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
            const auto& k = as(static_cast<const CUpti_ActivityKernel10*>(nullptr));
            times(k);
            copy_from(to, k, is_13);
            to.name = name_of(k.name);
            return add(to);
        }
        case CUPTI_ACTIVITY_KIND_MEMCPY: {
            const auto& c = as(static_cast<const CUpti_ActivityMemcpy6*>(nullptr));
            times(c);
            copy_common(to, c);
            to.copy_kind = c.copyKind;
            to.from_kind = c.srcKind;
            to.to_kind = c.dstKind;
            to.copies = is_13 ? c.copyCount : 1;
            return add(to);
        }
        case CUPTI_ACTIVITY_KIND_MEMCPY2: {
            const auto& c = as(static_cast<const CUpti_ActivityMemcpyPtoP4*>(nullptr));
            times(c);
            copy_common(to, c);
            to.copy_kind = c.copyKind;
            to.from_kind = c.srcKind;
            to.to_kind = c.dstKind;
            to.from_device = c.srcDeviceId;
            to.from_context = c.srcContextId;
            to.to_device = c.dstDeviceId;
            to.to_context = c.dstContextId;
            return add(to);
        }
        case CUPTI_ACTIVITY_KIND_MEMSET: {
            const auto& f = as(static_cast<const CUpti_ActivityMemset4*>(nullptr));
            times(f);
            copy_common(to, f);
            to.value = f.value;
            to.to_kind = static_cast<std::uint8_t>(f.memoryKind);
            return add(to);
        }
        case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION: {
            const auto& e = as(static_cast<const CUpti_ActivityExternalCorrelation*>(nullptr));
            if (e.externalKind != own_kind) return;
            if (!calls_.emplace(e.correlationId, static_cast<std::uint32_t>(e.externalId)).second) return;
            order_.push_back(e.correlationId);
            if (order_.size() <= most_calls) return;
            calls_.erase(order_.front());
            order_.pop_front();
            return;
        }
        default: return;  // the worker's own calls
    }
}

void RecordStore::write(Writer& to, ext::Taken& taken) {
    std::lock_guard lock(mutex_);
    const auto begun = to.used();
    while (!records_.empty()) {
        Activity record = records_.front();
        const auto call = calls_.find(record.correlation);
        // CUPTI may complete the buffer that has its call later. What is older than many others has none: it was given
        // to the GPU before anything was recorded.
        constexpr std::size_t many = 1 << 13;
        if (call == calls_.end() && settled_ == 0 && records_.size() < many) break;
        record.correlation = call == calls_.end() ? 0 : call->second;
        Writer after = to;
        if (record.name && !names_[record.name - 1].sent) {
            const std::string& text = names_[record.name - 1].text;
            Activity name{};
            name.kind = Did::name;
            name.name = record.name;
            name.bytes = text.size();
            after.put(name);
            after.put_bytes(text.data(), text.size());
        }
        after.put(record);
        if (!after.ok()) break;
        to = after;
        if (record.name) names_[record.name - 1].sent = true;
        records_.pop_front();
        if (settled_) --settled_;
    }
    taken.used = to.used() - begun;
    taken.more = !records_.empty() && taken.used != 0;
    taken.dropped = std::exchange(dropped_, 0);
}

const void* current_cupti = nullptr;  // Recording::Cupti, for the callbacks; set once

void CUPTIAPI give_buffer(std::uint8_t** buffer, std::size_t* size, std::size_t* records) {
    *buffer = static_cast<std::uint8_t*>(std::malloc(buffer_bytes));  // for no memory CUPTI drops records
    *size = *buffer ? buffer_bytes : 0;
    *records = 0;
}

}  // namespace

Recording::Recording(const std::string& driver) : driver_(driver) {}
Recording::~Recording() = default;

void Recording::open(const std::string& driver) {
    if (!std::exchange(cupti_library.tried, true)) cupti_library.handle = find_cupti(driver);
}

const Recording::Cupti* Recording::cupti() {
    static const std::optional<Cupti> functions = [&]() -> std::optional<Cupti> {
        open(driver_);
        if (!cupti_library.handle) {
            log::warn("a client's profiler asks for CUPTI: there is no {} for this device", names_of_cupti[0]);
            return {};
        }
        Cupti made;
        bool all = true;
        const auto find = [&](auto& function, const char* name) {
            function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(cupti_library.handle, name));
            return function != nullptr;
        };
#define X(name) all &= find(made.name, "cupti" #name);
        BARCUDA_CUPTI_FUNCTIONS(X)
#undef X
        find(made.GetGraphExecId, "cuptiGetGraphExecId");
        if (!all || made.GetVersion(&made.version) != CUPTI_SUCCESS) {
            log::warn("a client's profiler asks for CUPTI: the host's is too old");
            return {};
        }
        return made;
    }();
    if (functions) current_cupti = &*functions;
    return functions ? &*functions : nullptr;
}

CUresult Recording::record(std::uint64_t kinds, std::uint32_t& said) {
    said = CUPTI_SUCCESS;
    if (kinds == kinds_) return CUDA_SUCCESS;
    const Cupti* const c = cupti();
    if (!c) return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;
    if (kinds_ == 0) {
        const auto completed = [](CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t valid) {
            const auto& its = *static_cast<const Cupti*>(current_cupti);
            CUpti_Activity* each = nullptr;
            std::size_t lost = 0;
            try {
                while (valid && its.ActivityGetNextRecord(buffer, valid, &each) == CUPTI_SUCCESS)
                    record_store().take_over(each, its.version >= version_13);
            } catch (const std::bad_alloc&) { ++lost; }
            std::free(buffer);
            std::size_t dropped = 0;
            if (its.ActivityGetNumDroppedRecords(nullptr, 0, &dropped) == CUPTI_SUCCESS) lost += dropped;
            if (lost) record_store().lose(lost);
        };
        if (const auto r = c->ActivityRegisterCallbacks(give_buffer, completed); r != CUPTI_SUCCESS) {
            said = r;
            return CUDA_SUCCESS;
        }
    }
    // An external id has a record where a call has one.
    constexpr std::uint64_t calls =
        std::uint64_t{1} << CUPTI_ACTIVITY_KIND_DRIVER | std::uint64_t{1} << CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION;
    const std::uint64_t before = kinds_ ? kinds_ | calls : 0, wanted = kinds ? kinds | calls : 0;
    const auto each = [](std::uint64_t bits, const auto& body) {
        for (; bits; bits &= bits - 1) body(static_cast<CUpti_ActivityKind>(std::countr_zero(bits)));
    };
    std::uint64_t enabled = 0;
    each(wanted & ~before, [&](CUpti_ActivityKind kind) {
        if (said != CUPTI_SUCCESS) return;
        said = c->ActivityEnable(kind);
        if (said == CUPTI_SUCCESS) enabled |= std::uint64_t{1} << kind;
    });
    each(said == CUPTI_SUCCESS ? before & ~wanted : enabled,
         [&](CUpti_ActivityKind kind) { c->ActivityDisable(kind); });
    if (said == CUPTI_SUCCESS) kinds_ = kinds;
    return CUDA_SUCCESS;
}

void Recording::begin(std::uint64_t call) { cupti()->ActivityPushExternalCorrelationId(own_kind, call); }
void Recording::end() { cupti()->ActivityPopExternalCorrelationId(own_kind, nullptr); }

CUresult Recording::take(std::uint32_t flush, std::span<std::byte> room, ext::Taken& taken) {
    taken = {};
    const Cupti* const c = static_cast<const Cupti*>(current_cupti);
    if (!c) return CUDA_ERROR_INVALID_VALUE;  // nothing was ever recorded
    if (flush) {
        taken.said = c->ActivityFlushAll(flush > 1 ? CUPTI_ACTIVITY_FLAG_FLUSH_FORCED : 0);
        if (flush > 1) record_store().settle();
    }
    Writer to(room);
    record_store().write(to, taken);
    c->GetTimestamp(&taken.now);
    return CUDA_SUCCESS;
}

namespace {
template <class Function, class... P> CUresult answer_of(const void* cupti, Function function, P... p) {
    if (!cupti || !function) return CUDA_ERROR_NOT_SUPPORTED;
    return function(p...) == CUPTI_SUCCESS ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
}  // namespace

CUresult Recording::number_of(CUcontext context, std::uint32_t& number) {
    const Cupti* const c = cupti();
    return answer_of(c, c ? c->GetContextId : nullptr, context, &number);
}
CUresult Recording::number_of(CUcontext context, CUstream stream, std::uint32_t& number) {
    const Cupti* const c = cupti();
    return answer_of(c, c ? c->GetStreamIdEx : nullptr, context, stream, std::uint8_t{0}, &number);
}
CUresult Recording::number_of(CUgraph graph, std::uint32_t& number) {
    const Cupti* const c = cupti();
    return answer_of(c, c ? c->GetGraphId : nullptr, graph, &number);
}
CUresult Recording::number_of(CUgraphExec exec, std::uint32_t& number) {
    const Cupti* const c = cupti();
    return answer_of(c, c ? c->GetGraphExecId : nullptr, exec, &number);
}
CUresult Recording::number_of(CUgraphNode node, std::uint64_t& number) {
    const Cupti* const c = cupti();
    return answer_of(c, c ? c->GetGraphNodeId : nullptr, node, &number);
}

}  // namespace barcuda
