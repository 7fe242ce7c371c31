// SPDX-License-Identifier: Apache-2.0
// activity.h: rows of what the GPU has done for a client, as the host's CUPTI tells it to the worker. (What a row says:
// shm-device/rows/commands.h. What the guest makes of it: guest-allocator/cupti.)
#pragma once
#include <cuda.h>

#include <cstddef>
#include <cstdint>

namespace barcuda::ext {

// Kinds of activity by CUPTI's own numbers (CUpti_ActivityKind), and those that a worker records: a bit each.
enum class Did : std::uint32_t { name = 0, copy = 1, fill = 2, serial_kernel = 3, kernel = 10, peer_copy = 22 };
constexpr std::uint64_t bit_of(Did kind) { return std::uint64_t{1} << static_cast<std::uint32_t>(kind); }
inline constexpr std::uint64_t recorded_kinds =
    bit_of(Did::copy) | bit_of(Did::fill) | bit_of(Did::serial_kernel) | bit_of(Did::kernel) | bit_of(Did::peer_copy);

// One thing that the GPU did. Fields have CUPTI's meanings, times are nanoseconds of the worker's CUPTI. What a kind
// does not have is zero. A name is a record too, of which only `kind`, `name` and `bytes` count: that many bytes of
// text follow it, padded to 8.
struct Activity {
    Did kind;
    std::uint32_t name;         // of a kernel; the record of the name came before
    std::uint32_t correlation;  // which call of the client gave it to the GPU (packet.h); 0: none that is known
    std::uint32_t device, context, stream, graph, channel, channel_type;
    std::uint32_t value;                                    // of a fill
    std::uint8_t copy_kind, from_kind, to_kind, on_device;  // to_kind: of a fill, too
    std::uint16_t flags, registers;
    std::uint64_t start, end, completed, queued, submitted;
    std::uint64_t bytes, copies, graph_node, grid_id, local_total;
    std::uint32_t grid[3], block[3], cluster[3];
    std::uint32_t static_shared, dynamic_shared, shared_executed, local_per_thread;
    std::uint32_t cluster_policy, most_cluster, active_clusters;
    std::uint32_t from_device, from_context, to_device, to_context;  // of a peer's copy
    std::uint8_t cache_config, shared_config, launch_type, carveout_asked;
    std::uint8_t carveout, cache_asked, cache_executed, shared_limit;
};
static_assert(sizeof(Activity) == 216 && alignof(Activity) == 8, "no padding crosses");

struct Taken {
    std::uint64_t used;     // bytes of records
    std::uint64_t dropped;  // records since the last time, for which the worker had no room
    std::uint64_t now;      // the time of the worker's CUPTI
    std::uint32_t more;     // records are left
    std::uint32_t said;     // CUptiResult of a flush
};

// From now on the worker records these kinds and no others; none: it stops. `said`: the host's CUptiResult. Without
// CUPTI on the host: CUDA_ERROR_SHARED_OBJECT_INIT_FAILED.
CUresult record_activity(std::uint64_t kinds, std::uint32_t* said);
// Whole records, in the order in which CUPTI gave them. `flush`: 0, none; 1, those that CUPTI has complete; 2, all.
CUresult take_activity(std::uint32_t flush, char* records, std::size_t room, Taken* taken);
// Numbers by which records name these.
CUresult activity_context(CUcontext context, std::uint32_t* number);
CUresult activity_stream(CUcontext context, CUstream stream, std::uint32_t* number);
CUresult activity_graph(CUgraph graph, std::uint32_t* number);
CUresult activity_exec(CUgraphExec exec, std::uint32_t* number);
CUresult activity_node(CUgraphNode node, std::uint64_t* number);

}  // namespace barcuda::ext

// clang-format off
//    ours
#define BARCUDA_ACTIVITY_OWN_ROWS(X)                                                                   \
    X(record_activity,                                      call,       anywhere|asks, in, out)        \
    X(take_activity,                                        call,       anywhere|asks, in, fill<2>, in, out) \
    X(activity_context,                                     call,       anywhere|asks, use, out)       \
    X(activity_stream,                                      call,       asks,  use, use, out)          \
    X(activity_graph,                                       call,       anywhere|asks, use, out)       \
    X(activity_exec,                                        call,       anywhere|asks, use, out)       \
    X(activity_node,                                        call,       anywhere|asks, use, out)
// clang-format on
