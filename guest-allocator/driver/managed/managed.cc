// SPDX-License-Identifier: Apache-2.0
// managed.cc: managed memory as programs allocate, prefetch and attach it. A large allocation has a range of its own;
// small ones share one, a chunk. If no device memory is available for it, it stays in the region: pinned memory by
// another name, which host and device both reach at its one place.
#include "guest-allocator/driver/managed.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "guest-allocator/client/command.h"
#include "guest-allocator/driver/capture.h"
#include "guest-allocator/driver/context.h"
#include "guest-allocator/driver/copy.h"
#include "guest-allocator/driver/export.h"
#include "guest-allocator/driver/fence.h"
#include "guest-allocator/driver/host_function.h"
#include "guest-allocator/driver/managed/arguments.h"
#include "guest-allocator/driver/managed/mechanism/access.h"
#include "guest-allocator/driver/managed/mechanism/backing.h"
#include "guest-allocator/driver/managed/mechanism/exclusion.h"
#include "guest-allocator/driver/managed/mechanism/migration.h"
#include "guest-allocator/driver/managed/mechanism/signals.h"
#include "guest-allocator/driver/managed/state/chunk.h"
#include "guest-allocator/driver/managed/state/state.h"
#include "guest-allocator/driver/pinned.h"
#include "guest-allocator/driver/streams.h"
#include "guest-allocator/heap/heap.h"
#include "guest-allocator/heap/settings.h"

namespace barcuda::guest::managed {
namespace {

// From here up an allocation has units of its own: it wastes less than half of them.
constexpr std::size_t large = unit / 2;

Mutex making;  // of ranges: one after another, so that a chunk is not made twice. Taken before the state's
std::vector<std::unique_ptr<Chunk>>& chunks() {
    static auto& all = *new std::vector<std::unique_ptr<Chunk>>;
    return all;
}

// For an allocation at its beginning. Null: it must stay in the region.
Range* make_and_add_range(std::size_t bytes) {
    std::unique_ptr<Range> range = make_range((bytes + unit - 1) / unit * unit);
    if (!range) return nullptr;
    range->add_part(range->begin, range->begin + bytes);
    take_faults();
    Range* const added = range.get();
    std::lock_guard lock(state().mutex);
    add_range(std::move(range));
    return added;
}

void record(std::uintptr_t address, std::size_t bytes, unsigned flags, Range* range) {
    std::lock_guard lock(state().mutex);
    if (range) {
        const Range::Part added = range->grow(address + bytes);
        // Blocks that the CPU has already, or that are on their way to it, came without this. It was never written: on
        // the device it is zeros.
        if (range->blocks.any_open() || !range->prefetches.empty())
            memset(range->alias + (added.begin - range->begin), 0, added.end - added.begin);
    }
    state().allocations.add({address, bytes, flags, owner_of(current_context()), range, {}, 0});
}

// 0: it must stay in the region.
std::uintptr_t allocate(std::size_t bytes, unsigned flags) {
    std::lock_guard lock(making);
    if (bytes >= large) {
        Range* const range = bytes > window_end - window_begin ? nullptr : make_and_add_range(bytes);
        if (range) record(range->begin, bytes, flags, range);
        return range ? range->begin : 0;
    }
    Chunk* chunk = nullptr;
    std::uintptr_t at = 0;
    const CUcontext owner = owner_of(current_context());
    for (const auto& c : chunks())
        if (c->range->context == owner && (at = c->take(bytes))) {
            chunk = c.get();
            break;
        }
    if (!at) {
        Range* const range = make_and_add_range(bytes);
        if (!range) return 0;
        range->shared = true;
        chunk = chunks().emplace_back(std::make_unique<Chunk>(range)).get();
        at = chunk->take(bytes);
    }
    record(at, bytes, flags, chunk->range);
    return at;
}

}  // namespace

bool stays_in_region() noexcept { return heap::settings.managed_stays; }

bool find(std::uintptr_t address, Found& out) noexcept {
    if (!exists() || !may_be_managed(address, 1) || forked_after_init()) return false;
    std::lock_guard lock(state().mutex);
    const Allocation* a = state().allocations.find(address);
    if (!a || !a->range) return false;
    out = {reinterpret_cast<std::byte*>(a->begin), a->bytes, a->flags | managed_mark, a->context};
    return true;
}

Extent extent_of(std::uint64_t address) noexcept {
    if (!exists() || !may_be_managed(address, 1) || forked_after_init()) return {};
    std::lock_guard lock(state().mutex);
    if (const Allocation* const a = state().allocations.find(address); a && a->range) return {a->begin, a->bytes, true};
    // What is beside variables on their pages is the driver's.
    const Range* const range = state().ranges.find(address);
    return {0, 0, range && !range->of_variables};
}

void forget_pinned(std::uintptr_t address) noexcept {
    std::lock_guard lock(state().mutex);
    state().allocations.remove(address);
}

CUresult free(std::uintptr_t address) noexcept {
    std::lock_guard making_none(making);
    std::unique_lock lock(state().mutex);
    const Allocation* const freed = state().allocations.at(address);
    if (!freed || !freed->range || freed->range->of_variables) return CUDA_ERROR_INVALID_VALUE;
    const std::size_t bytes = freed->bytes;
    Range* const range = freed->range;
    state().allocations.remove(address);
    auto& all = chunks();
    if (const auto chunk = std::ranges::find(all, range, [](const auto& c) { return c->range; }); chunk != all.end()) {
        (*chunk)->give(address, bytes);
        // One empty chunk is kept for the next allocation.
        const auto spare = [&](const auto& c) { return c->range->context == range->context && c->empty(); };
        if (!(*chunk)->empty() || std::ranges::count_if(all, spare) < 2) return CUDA_SUCCESS;
        all.erase(chunk);
    }
    lock.unlock();
    const Quiescent quiescent;
    lock.lock();
    std::unique_ptr<Range> gone = withdraw(*range);
    lock.unlock();
    release(std::move(gone));
    return CUDA_SUCCESS;
}

void context_ends(CUcontext context) noexcept {
    if (!exists() || forked_after_init()) return;
    std::lock_guard lock(state().mutex);
    end_migration_context(context);
}

void context_gone(CUcontext context) noexcept {
    if (!exists() || forked_after_init()) return;
    std::lock_guard making_none(making);
    std::vector<std::unique_ptr<Range>> gone;
    const Quiescent quiescent;
    {
        State& s = state();
        std::lock_guard lock(s.mutex);
        end_migration_context(context);  // a thread may have made it once more
        migration_streams().erase(context);
        s.epochs.forget(context);
        s.allocations.remove_if([&](const Allocation& a) { return a.range && a.range->context == context; });
        std::erase_if(chunks(), [&](const auto& c) { return c->range->context == context; });
        std::vector<Range*> its;
        s.ranges.each([&](Range& range) {
            if (range.context == context) its.push_back(&range);
        });
        for (Range* range : its) gone.push_back(withdraw(*range));
        s.gates.end_fast_path();
    }
    for (auto& range : gone) release(std::move(range));
}

void context_made(CUcontext context) noexcept {
    if (!exists()) return;
    std::lock_guard lock(state().mutex);
    const CUdevice device = device_of(context);
    state().ranges.each([&](const Range& range) {
        if (!range.of_variables && device_of(range.context) != device) let_reach(device, range);
    });
}

namespace {

// Whether the work that other streams were given is done. Only a prefetch asks.
bool others_are_idle(CUstream stream, const Range& range) {
    if (state().epochs.unknown.any()) return false;
    const std::unique_lock no_capture_begins = hold_captures();
    if (open_captures.load(std::memory_order_relaxed) > 0) return false;  // the question would invalidate a capture
    return state().epochs.all([&](const ActiveStream& other) {
        if (real(other.stream) == stream || !(range.reattached || range.attachment.concerns(real(other.stream))))
            return true;
        const InContext in(other.context);
        return bare_command<Op::cuStreamQuery>(other.stream) == CUDA_SUCCESS;
    });
}

// Blocks on the device's side are copied back in the stream's order; the CPU's first touch then waits only for that.
// Nothing is done if the copy might be out of date when it arrives, or if a host function might have to wait for what
// comes before it.
void prefetch_to_host(Range& range, std::uintptr_t begin, std::uintptr_t end, CUstream stream) {
    // Only whole blocks, except at the ends of the range: neighbours may belong to another allocation.
    const Run run = range.blocks_of(begin, end);
    if (range.untouched || host_functions_awaited() || !others_are_idle(stream, range)) return;
    ActiveStream& active = active_stream(stream);
    order_after_migrations(active);
    for (std::size_t at = run.first; at < run.last;) {
        const std::size_t first = at;
        while (at < run.last && range.blocks[at] == Side::device) ++at;
        const Run there{first, at};
        if (there.empty()) {
            ++at;
            continue;
        }
        const bool coming =
            std::ranges::any_of(range.prefetches, [&](const Prefetch& p) { return !p.run.with(there).empty(); });
        Fence* const fence = coming ? nullptr : take_fence(0);
        if (!fence) continue;
        const std::uint64_t value = fence->asked.fetch_add(1, std::memory_order_relaxed) + 1;
        const ext::Fence written{Client::current()->offset_of(fence->word), value};
        if (post_fetch(range, there, active.stream) != CUDA_SUCCESS ||
            bare_command<Op::write_fence>(active.stream, written) != CUDA_SUCCESS) {
            publish(*fence->word, value);
            return recycle_fence(fence);
        }
        state().ranges.add_prefetch(range, {there, fence, value, false});
    }
    state().gates.end_fast_path();  // the next launch must see the prefetches
}

void attach(Range& range, const Attachment& wanted) {
    if (range.shared) return;  // allocations in it may be attached in different ways: `global` is right for all
    range.reattached = true;
    range.attachment = wanted;
    state().gates.end_fast_path();
}

CUresult prefetch(CUdeviceptr p, std::size_t bytes, CUmemLocation place, CUstream stream) {
    if (!is_place(place)) return CUDA_ERROR_INVALID_DEVICE;
    stream = real(stream);
    if (capturing(stream)) return spoil_capture(stream);
    Posting posting;
    std::optional<Gate> gate;  // no thread may launch between the look at the streams and the copy
    if (place.type == CU_MEM_LOCATION_TYPE_DEVICE) posting.range(p, bytes, &stream);
    else if (may_be_managed(p, bytes)) gate.emplace();
    return with_allocation(p, bytes, [&](Allocation& a) {
        a.advice.set(p - a.begin, p - a.begin + bytes, [&](Hints& hints) { hints.prefetched = place; });
        // A thread that has shut a gate, too, has looked at the prefetches already.
        if (gate && a.range && !a.range->of_variables && gate->is_the_only_one())
            prefetch_to_host(*a.range, p, p + bytes, stream);
        return CUDA_SUCCESS;
    });
}

}  // namespace
}  // namespace barcuda::guest::managed

using namespace barcuda::guest;

CU cuMemAllocManaged(CUdeviceptr* p, size_t bytes, unsigned flags) {
    if (!p) return CUDA_ERROR_INVALID_VALUE;
    *p = 0;  // as NVIDIA's driver does (580)
    if (!bytes || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST)) return CUDA_ERROR_INVALID_VALUE;
    if (!current_context()) return CUDA_ERROR_INVALID_CONTEXT;
    if (!managed::stays_in_region() && (*p = managed::allocate(bytes, flags))) return CUDA_SUCCESS;
    const CUresult r = allocate_pinned(reinterpret_cast<void**>(p), bytes, flags | managed_mark);
    if (r == CUDA_SUCCESS) managed::record(*p, bytes, flags, nullptr);
    return r;
}

CU cuMemPrefetchAsync_v2(CUdeviceptr p, size_t bytes, CUmemLocation place, unsigned flags, CUstream stream) {
    const bool known =
        place.type >= CU_MEM_LOCATION_TYPE_DEVICE && place.type <= CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
    if (flags || !known) return CUDA_ERROR_INVALID_VALUE;
    const InStreamsContext in{stream};
    return in.error ? in.error : managed::prefetch(p, bytes, place, stream);
}

// No bytes: all of the allocation, as documented. A part of one is refused.
CU cuStreamAttachMemAsync(CUstream stream, CUdeviceptr p, size_t bytes, unsigned flags) {
    using namespace managed;
    Attachment wanted;
    switch (flags) {
        case CU_MEM_ATTACH_GLOBAL: break;
        case CU_MEM_ATTACH_HOST: wanted.mode = Attachment::host; break;
        case CU_MEM_ATTACH_SINGLE:
            wanted.mode = Attachment::single;
            wanted.stream = real(stream);
            break;
        default: return CUDA_ERROR_INVALID_VALUE;
    }
    const InStreamsContext in{stream};
    if (in.error) return in.error;
    if (wanted.mode == Attachment::single && !wanted.stream) return CUDA_ERROR_INVALID_VALUE;
    return with_allocation(p, bytes ? bytes : 1, [&](Allocation& a) {
        if (p != a.begin || (bytes && bytes != a.bytes)) return CUDA_ERROR_INVALID_VALUE;
        if (a.range) attach(*a.range, wanted);
        return CUDA_SUCCESS;
    });
}

namespace {

CUresult check_batch(const CUdeviceptr* starts, const size_t* bytes, size_t count, unsigned long long flags) {
    if (!starts || !bytes || count == 0 || flags) return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; ++i)
        if (CUresult r = managed::with_allocation(starts[i], bytes[i], [](auto&) { return CUDA_SUCCESS; });
            r != CUDA_SUCCESS)
            return r;
    return CUDA_SUCCESS;
}

// Place k is for the ranges from indices[k] on.
CUresult check_places(const CUmemLocation* places, const size_t* indices, size_t count, size_t ranges) {
    if (!places || !indices || count == 0 || count > ranges || indices[0] != 0) return CUDA_ERROR_INVALID_VALUE;
    for (size_t k = 1; k < count; ++k)
        if (indices[k] <= indices[k - 1] || indices[k] >= ranges) return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

}  // namespace

CU cuMemPrefetchBatchAsync(CUdeviceptr* starts, size_t* bytes, size_t count, CUmemLocation* places, size_t* indices,
                           size_t place_count, unsigned long long flags, CUstream stream) {
    if (CUresult r = check_batch(starts, bytes, count, flags); r != CUDA_SUCCESS) return r;
    if (CUresult r = check_places(places, indices, place_count, count); r != CUDA_SUCCESS) return r;
    for (size_t i = 0, k = 0; i < count; ++i) {
        while (k + 1 < place_count && indices[k + 1] <= i) ++k;
        if (CUresult r = managed::prefetch(starts[i], bytes[i], places[k], stream); r != CUDA_SUCCESS) return r;
    }
    return CUDA_SUCCESS;
}
// Discarded memory may have any contents, so also what it had.
CU cuMemDiscardBatchAsync(CUdeviceptr* starts, size_t* bytes, size_t count, unsigned long long flags, CUstream) {
    return check_batch(starts, bytes, count, flags);
}
CU cuMemDiscardAndPrefetchBatchAsync(CUdeviceptr* starts, size_t* bytes, size_t count, CUmemLocation* places,
                                     size_t* indices, size_t place_count, unsigned long long flags, CUstream stream) {
    return cuMemPrefetchBatchAsync(starts, bytes, count, places, indices, place_count, flags, stream);
}
