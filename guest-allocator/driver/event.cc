// event.cc: events. A record is posted as the driver's own record (for its time) and a fence that the GPU writes behind
// it: query and synchronize look at the fence. Fences lie in the heap's staging memory, 512 to a page.
#include <mutex>
#include <thread>

#include "guest-allocator/command.h"
#include "guest-allocator/driver/capture.h"
#include "guest-allocator/driver/export.h"
#include "guest-allocator/fence.h"
#include "guest-allocator/heap/heap.h"
#include "guest-allocator/id_table.h"
#include "shm-device/sync.h"

namespace barcuda {
namespace {

struct Event {
    unsigned long long* fence;         // null: the region was full, the worker is asked instead
    std::atomic<bool> in_graph;        // last recorded by a graph: the worker is asked instead
    std::atomic<std::uint64_t> value;  // of the last record; grows for ever, across reuses of the id
};
IdTable<Event> events;

unsigned long long* new_fence() {
    static std::mutex mutex;
    static unsigned long long* page = nullptr;
    static unsigned used = 0;
    std::lock_guard lock(mutex);
    if (!page || used == 512) {
        page = static_cast<unsigned long long*>(heap::staging_alloc(4096));
        if (!page) return nullptr;
        for (used = 0; used < 512; ++used) page[used] = 0;
        used = 0;
    }
    return &page[used++];
}

CUresult record(CUevent event, CUstream stream, unsigned flags) {
    Event* e = events.of(event);
    if (!event || !e) return CUDA_ERROR_INVALID_HANDLE;
    if (capturing(stream)) {
        e->in_graph.store(true, std::memory_order_relaxed);
        return command<Op::cuEventRecordWithFlags>(event, stream, flags);
    }
    e->in_graph.store(false, std::memory_order_relaxed);
    const std::uint64_t value = e->value.fetch_add(1, std::memory_order_relaxed) + 1;
    return command<Op::record_event>(event, stream, flags, e->fence ? Client::current()->offset_of(e->fence) : 0,
                                     value);
}

}  // namespace

void recorded_by_graph(CUevent event) noexcept {
    if (Event* e = events.of(event); event && e) e->in_graph.store(true, std::memory_order_relaxed);
}

}  // namespace barcuda

using namespace barcuda;

CU cuEventCreate(CUevent* event, unsigned flags) {
    if (!current_context()) return CUDA_ERROR_INVALID_CONTEXT;
    if (CUresult r = command<Op::cuEventCreate>(event, flags); r != CUDA_SUCCESS) return r;
    Event* e = events.of(*event);
    if (!e) return CUDA_ERROR_OUT_OF_MEMORY;
    e->in_graph.store(false, std::memory_order_relaxed);
    if (!e->fence) e->fence = new_fence();
    if (e->fence) publish(*e->fence, e->value.load());  // what an earlier event of this id recorded has happened
    return CUDA_SUCCESS;
}

CU cuEventDestroy_v2(CUevent event) {
    return event ? command<Op::cuEventDestroy_v2>(event) : CUDA_ERROR_INVALID_HANDLE;
}
CU cuEventRecord(CUevent event, CUstream stream) { return record(event, stream, CU_EVENT_RECORD_DEFAULT); }
CU cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned flags) { return record(event, stream, flags); }

CU cuEventQuery(CUevent event) {
    Client* client = Client::current();
    if (!event || !client || !client->knows(reinterpret_cast<std::uint64_t>(event))) return CUDA_ERROR_INVALID_HANDLE;
    Event* e = events.of(event);
    if (!e->fence || e->in_graph.load(std::memory_order_relaxed)) return command<Op::cuEventQuery>(event);
    if (observe(*e->fence) < e->value.load(std::memory_order_relaxed)) {
        const CUresult ended = client->ended();
        return ended == CUDA_SUCCESS ? CUDA_ERROR_NOT_READY : ended;
    }
    return client->take_error();
}

CU cuEventSynchronize(CUevent event) {
    Client* client = Client::current();
    if (!event || !client || !client->knows(reinterpret_cast<std::uint64_t>(event))) return CUDA_ERROR_INVALID_HANDLE;
    Event* e = events.of(event);
    if (!e->fence || e->in_graph.load(std::memory_order_relaxed)) {
        CUresult r = CUDA_ERROR_NOT_READY;
        while (r == CUDA_ERROR_NOT_READY) r = command<Op::cuEventQuery>(event), std::this_thread::yield();
        return r;
    }
    if (CUresult r = wait_until(*e->fence, e->value.load(std::memory_order_relaxed)); r != CUDA_SUCCESS) return r;
    if (may_print()) show_output();
    return client->take_error();
}

CU cuEventElapsedTime_v2(float* milliseconds, CUevent start, CUevent end) {
    return command<Op::cuEventElapsedTime_v2>(milliseconds, start, end);
}
