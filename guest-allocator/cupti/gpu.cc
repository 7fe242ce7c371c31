// SPDX-License-Identifier: Apache-2.0
#include "guest-allocator/cupti/gpu.h"

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/os/thread.h"
#include "guest-allocator/client/command.h"
#include "guest-allocator/client/log.h"
#include "guest-allocator/cupti/clock.h"
#include "guest-allocator/cupti/records.h"

namespace barcuda::guest::cupti {
namespace {

using ext::Activity;
using ext::Did;

constexpr std::chrono::milliseconds between_fetches{100};
constexpr std::uint64_t narrow_enough = 100'000;  // ns between a question about the clock and its answer

struct Fetcher {
    Mutex mutex;
    Distance distance;
    OtherClock other;
    std::vector<const char*> names;  // by the worker's numbers; they live forever, as CUPTI's do
    std::uint64_t recorded = 0;      // kinds that the worker was asked for last
    bool ever = false, threaded = false;
    std::condition_variable_any wanted;
    alignas(8) char room[max_result_bytes];
};
Fetcher& fetcher() {
    static Fetcher& f = *new Fetcher;  // its thread waits until the process ends
    return f;
}

template <class Record> Record record_of(const Activity& from) noexcept {
    Record to;
    std::memset(static_cast<void*>(&to), 0, sizeof to);
    to.kind = static_cast<CUpti_ActivityKind>(from.kind);
    to.deviceId = from.device;
    to.contextId = from.context;
    to.streamId = from.stream;
    to.correlationId = from.correlation;
    to.graphNodeId = from.graph_node;
    to.graphId = from.graph;
    to.channelID = from.channel;
    to.channelType = static_cast<CUpti_ChannelType>(from.channel_type);
    return to;
}

void add(Fetcher& f, const Activity& from) noexcept {
    const auto time = [&](std::uint64_t there) { return there ? f.other.of(f.distance.here(there)) : 0; };
    switch (from.kind) {
        case Did::kernel:
        case Did::serial_kernel: {
            auto to = record_of<CUpti_ActivityKernel10>(from);
            to.start = time(from.start);
            to.end = time(from.end);
            to.completed = time(from.completed);
            to.queued = time(from.queued);
            to.submitted = time(from.submitted);
            to.name = from.name && from.name < f.names.size() && f.names[from.name] ? f.names[from.name] : "?";
            to.cacheConfig.both = from.cache_config;
            to.sharedMemoryConfig = from.shared_config;
            to.registersPerThread = from.registers;
            to.partitionedGlobalCacheRequested =
                static_cast<CUpti_ActivityPartitionedGlobalCacheConfig>(from.cache_asked);
            to.partitionedGlobalCacheExecuted =
                static_cast<CUpti_ActivityPartitionedGlobalCacheConfig>(from.cache_executed);
            to.gridX = static_cast<int>(from.grid[0]);
            to.gridY = static_cast<int>(from.grid[1]);
            to.gridZ = static_cast<int>(from.grid[2]);
            to.blockX = static_cast<int>(from.block[0]);
            to.blockY = static_cast<int>(from.block[1]);
            to.blockZ = static_cast<int>(from.block[2]);
            to.clusterX = from.cluster[0];
            to.clusterY = from.cluster[1];
            to.clusterZ = from.cluster[2];
            to.staticSharedMemory = static_cast<int>(from.static_shared);
            to.dynamicSharedMemory = static_cast<int>(from.dynamic_shared);
            to.sharedMemoryExecuted = from.shared_executed;
            to.localMemoryPerThread = from.local_per_thread;
            to.localMemoryTotal = static_cast<std::uint32_t>(std::min<std::uint64_t>(from.local_total, UINT32_MAX));
            to.localMemoryTotal_v2 = from.local_total;
            to.gridId = static_cast<std::int64_t>(from.grid_id);
            to.launchType = from.launch_type;
            to.isSharedMemoryCarveoutRequested = from.carveout_asked;
            to.sharedMemoryCarveoutRequested = from.carveout;
            to.shmemLimitConfig = static_cast<CUpti_FuncShmemLimitConfig>(from.shared_limit);
            to.clusterSchedulingPolicy = from.cluster_policy;
            to.maxPotentialClusterSize = from.most_cluster;
            to.maxActiveClusters = from.active_clusters;
            to.isDeviceLaunched = from.on_device;
            return records().add(to);
        }
        case Did::copy: {
            auto to = record_of<CUpti_ActivityMemcpy6>(from);
            to.start = time(from.start);
            to.end = time(from.end);
            to.copyKind = from.copy_kind;
            to.srcKind = from.from_kind;
            to.dstKind = from.to_kind;
            to.flags = static_cast<std::uint8_t>(from.flags);
            to.bytes = from.bytes;
            to.copyCount = from.copies;
            return records().add(to);
        }
        case Did::peer_copy: {
            auto to = record_of<CUpti_ActivityMemcpyPtoP4>(from);
            to.start = time(from.start);
            to.end = time(from.end);
            to.copyKind = from.copy_kind;
            to.srcKind = from.from_kind;
            to.dstKind = from.to_kind;
            to.flags = static_cast<std::uint8_t>(from.flags);
            to.bytes = from.bytes;
            to.srcDeviceId = from.from_device;
            to.srcContextId = from.from_context;
            to.dstDeviceId = from.to_device;
            to.dstContextId = from.to_context;
            return records().add(to);
        }
        case Did::fill: {
            auto to = record_of<CUpti_ActivityMemset4>(from);
            to.start = time(from.start);
            to.end = time(from.end);
            to.value = from.value;
            to.bytes = from.bytes;
            to.flags = from.flags;
            to.memoryKind = from.to_kind;
            return records().add(to);
        }
        case Did::name: return;
    }
}

void take_in(Fetcher& f, std::size_t bytes) {
    Reader reader(std::as_bytes(std::span(f.room, bytes)));
    Activity from{};
    while (reader.left() && reader.get(from)) {
        if (from.kind != Did::name) {
            add(f, from);
            continue;
        }
        const auto* const text = reinterpret_cast<const char*>(reader.skip(from.bytes));
        constexpr std::uint32_t most_names = 1 << 20;
        if (!text || from.name >= most_names) return;
        if (f.names.size() <= from.name) f.names.resize(from.name + 1);
        if (!f.names[from.name]) f.names[from.name] = strndup(text, from.bytes);
    }
}

// Under the lock. One answer of the worker's.
CUresult ask(Fetcher& f, Flush flush, std::size_t room, ext::Taken& taken) noexcept {
    const std::uint64_t before = system_time();
    const CUresult r = command<Op::take_activity>(static_cast<std::uint32_t>(flush), f.room, room, &taken);
    if (r == CUDA_SUCCESS) f.distance.learn(before, taken.now, system_time());
    return r;
}

void learn_clocks(Fetcher& f) noexcept {
    ext::Taken taken{};
    const int least = 4, most = f.distance.settled() ? least : 64;  // beside other load most answers come late
    for (int i = 0; i < least || (i < most && f.distance.width() > narrow_enough); ++i)
        if (ask(f, Flush::none, 0, taken) != CUDA_SUCCESS) return;
    f.distance.settle(taken.now);
    const auto clock = asked.clock.load();
    if (!clock) return f.other.forget();
    const std::uint64_t before = system_time(), its = clock(), after = system_time();
    f.other.learn(before + (after - before) / 2, its);
}

// Takes records so often that the worker has room for more, and gives the program its full buffers.
void fetch_often() noexcept {
    for (Fetcher& f = fetcher();;) {
        {
            std::unique_lock lock(f.mutex);
            f.wanted.wait(lock, [&] { return f.recorded != 0; });
        }
        std::this_thread::sleep_for(between_fetches);
        fetch(Flush::none);
        if (records().many_wait()) records().deliver(false);
    }
}

void say_what_is_missing() noexcept {
    static std::atomic<bool> told{false};
    if (!told.exchange(true))
        log_line(
            "a profiler asks for the GPU's activity, and the host has no CUPTI for it: install libcupti.so.13 there "
            "(CUDA toolkit, package cuda-cupti-13-0), in /usr/local/cuda or in the bridge's LD_LIBRARY_PATH");
}

}  // namespace

CUptiResult ask_worker() noexcept {
    if (!Client::initialized()) return CUPTI_SUCCESS;
    Fetcher& f = fetcher();
    std::lock_guard lock(f.mutex);
    const std::uint64_t kinds = asked.kinds.load() & gpu_kinds;
    if (kinds == f.recorded) return CUPTI_SUCCESS;
    std::uint32_t said = CUPTI_SUCCESS;
    const CUresult r = command<Op::record_activity>(kinds, &said);
    if (r == CUDA_ERROR_SHARED_OBJECT_INIT_FAILED) say_what_is_missing();
    if (r != CUDA_SUCCESS) return CUPTI_ERROR_NOT_INITIALIZED;
    if (said != CUPTI_SUCCESS) return static_cast<CUptiResult>(said);
    f.recorded = kinds;
    f.ever = true;
    learn_clocks(f);
    if (kinds && !f.threaded) {
        f.threaded = true;
        const os::SignalsBlocked blocked;
        std::thread(fetch_often).detach();
    }
    f.wanted.notify_one();
    return CUPTI_SUCCESS;
}

void cuda_is_there() noexcept { ask_worker(); }

void fetch(Flush flush) noexcept {
    Fetcher& f = fetcher();
    std::lock_guard lock(f.mutex);
    if (!f.ever) return;
    learn_clocks(f);
    ext::Taken taken{};
    do {
        if (ask(f, flush, sizeof f.room, taken) != CUDA_SUCCESS) return;
        if (taken.used <= sizeof f.room) take_in(f, taken.used);
        if (taken.dropped) records().lose(taken.dropped);
        flush = Flush::none;
    } while (taken.more);
}

}  // namespace barcuda::guest::cupti
