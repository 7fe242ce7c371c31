// SPDX-License-Identifier: Apache-2.0
// managed.cc: managed memory as programs allocate, prefetch and attach it. A large allocation has a home of its own; small ones
// share one, a chunk. Where there can be no home on the device, memory stays in the region: pinned memory by another name, which
// host and device both reach where it lies.
#include "guest-allocator/driver/managed/managed.h"

#include <algorithm>
#include <bitset>
#include <optional>

#include "guest-allocator/client/command.h"
#include "guest-allocator/driver/capture.h"
#include "guest-allocator/driver/context.h"
#include "guest-allocator/driver/copy.h"
#include "guest-allocator/driver/export.h"
#include "guest-allocator/driver/fence.h"
#include "guest-allocator/driver/host_function.h"
#include "guest-allocator/driver/managed/arguments.h"
#include "guest-allocator/driver/managed/mechanism/backing.h"
#include "guest-allocator/driver/managed/state/table.h"
#include "guest-allocator/driver/pinned.h"
#include "guest-allocator/driver/streams.h"
#include "guest-allocator/heap/heap.h"
#include "guest-allocator/heap/settings.h"

namespace barcuda::guest::managed {
namespace {

// From here up an allocation has units of its own: it wastes less than half of them.
constexpr std::size_t large = unit / 2;

// A unit in pieces as small as CUDA aligns allocations.
class Chunk {
  public:
    explicit Chunk(Home* its_home) : home(its_home) {}
    Home* const home;
    std::uintptr_t take(std::size_t bytes) {
        const std::size_t wanted = pieces(bytes);
        for (std::size_t at = bytes > last_refused_ ? all : 0, run = 0; at < all; ++at) {
            run = used_[at] ? 0 : run + 1;
            if (run < wanted) continue;
            const std::size_t first = at + 1 - wanted;
            for (std::size_t i = first; i <= at; ++i) used_.set(i);
            return home->begin + first * piece;
        }
        last_refused_ = std::min(last_refused_, bytes - 1);
        return 0;
    }
    void give(std::uintptr_t address, std::size_t bytes) {
        const std::size_t first = (address - home->begin) / piece;
        for (std::size_t i = first; i < first + pieces(bytes); ++i) used_.reset(i);
        last_refused_ = SIZE_MAX;
    }
    bool empty() const { return used_.none(); }

  private:
    static constexpr std::size_t piece = 256, all = unit / piece;
    static std::size_t pieces(std::size_t bytes) { return (bytes + piece - 1) / piece; }
    std::bitset<all> used_;
    std::size_t last_refused_ = SIZE_MAX;  // what is longer than this it has no room for
};
Mutex making;  // of homes: one after another, so that a chunk is not made twice. Taken before the table's
std::vector<std::unique_ptr<Chunk>>& chunks() {
    static auto& all = *new std::vector<std::unique_ptr<Chunk>>;
    return all;
}

Home* settle_in(std::size_t bytes) {
    Home* const home = make_home((bytes + unit - 1) / unit * unit);
    if (!home) return nullptr;
    take_faults();
    std::lock_guard lock(table().mutex);
    add_home(home);
    return home;
}

void note(std::uintptr_t address, std::size_t bytes, unsigned flags, Home* home) {
    std::lock_guard lock(table().mutex);
    table().allocations[address] = {address, bytes, flags, current_context(), home, {}, 0};
}

// 0: it has to stay in the region.
std::uintptr_t allocate(std::size_t bytes, unsigned flags) {
    std::lock_guard lock(making);
    if (bytes >= large) {
        Home* const home = bytes > window_end - window_begin ? nullptr : settle_in(bytes);
        if (home) note(home->begin, bytes, flags, home);
        return home ? home->begin : 0;
    }
    Chunk* chunk = nullptr;
    std::uintptr_t at = 0;
    for (const auto& c : chunks())
        if (c->home->context == current_context() && (at = c->take(bytes))) {
            chunk = c.get();
            break;
        }
    if (!at) {
        Home* const home = settle_in(unit);
        if (!home) return 0;
        home->shared = true;
        chunk = chunks().emplace_back(std::make_unique<Chunk>(home)).get();
        at = chunk->take(bytes);
    }
    note(at, bytes, flags, chunk->home);
    return at;
}

}  // namespace

bool stays_at_home() noexcept { return heap::settings.managed_stays; }

bool find(std::uintptr_t address, Known& out) noexcept {
    if (!exists() || !near_homes(address, 1) || forked_after_init()) return false;
    std::lock_guard lock(table().mutex);
    const Allocation* a = table().allocation(address);
    if (!a || !a->home) return false;
    out = {reinterpret_cast<std::byte*>(a->begin), a->bytes, a->flags | managed_mark, a->context};
    return true;
}

void forget_pinned(std::uintptr_t address) noexcept {
    std::lock_guard lock(table().mutex);
    table().allocations.erase(address);
}

CUresult free(std::uintptr_t address) noexcept {
    std::lock_guard making_none(making);
    std::unique_lock lock(table().mutex);
    const auto at = table().allocations.find(address);
    if (at == table().allocations.end() || !at->second.home || at->second.home->of_variables)
        return CUDA_ERROR_INVALID_VALUE;
    const std::size_t bytes = at->second.bytes;
    Home* const home = at->second.home;
    table().allocations.erase(at);
    auto& all = chunks();
    if (const auto chunk = std::ranges::find(all, home, [](const auto& c) { return c->home; }); chunk != all.end()) {
        (*chunk)->give(address, bytes);
        // One that is empty is kept for the next allocation.
        const auto spare = [&](const auto& c) { return c->home->context == home->context && c->empty(); };
        if (!(*chunk)->empty() || std::ranges::count_if(all, spare) < 2) return CUDA_SUCCESS;
        all.erase(chunk);
    }
    lock.unlock();
    const Stillness nothing_works;
    lock.lock();
    std::unique_ptr<Home> gone = take_out(home);
    lock.unlock();
    remove_home(gone.release());
    return CUDA_SUCCESS;
}

void context_ends(CUcontext context) noexcept {
    if (!exists() || forked_after_init()) return;
    std::lock_guard lock(table().mutex);
    end_mover_context(context);
}

void context_gone(CUcontext context) noexcept {
    if (!exists() || forked_after_init()) return;
    std::lock_guard making_none(making);
    std::vector<std::unique_ptr<Home>> gone;
    const Stillness nothing_works;
    {
        Table& t = table();
        std::lock_guard lock(t.mutex);
        end_mover_context(context);  // a thread may have made it once more
        t.movers.erase(context);     // its streams are gone
        std::erase_if(t.workers, [&](const auto& w) { return w.second.context == context; });
        std::erase_if(t.allocations, [&](const auto& a) { return a.second.home && a.second.home->context == context; });
        std::erase_if(chunks(), [&](const auto& c) { return c->home->context == context; });
        std::vector<Home*> its;
        for (const auto& [end, home] : t.homes)
            if (home->context == context) its.push_back(home.get());
        for (Home* home : its) gone.push_back(take_out(home));
        table().gates.end_fast_path();
    }
    for (auto& home : gone) remove_home(home.release());
}

void context_made(CUcontext context) noexcept {
    if (!exists()) return;
    std::lock_guard lock(table().mutex);
    for (const auto& [end, home] : table().homes)
        if (!home->of_variables && device_of(home->context) != device_of(context)) let_reach(device_of(context), *home);
}

namespace {

// Whether all that other streams were given is done. It is asked for a prefetch alone.
bool others_are_idle(CUstream stream, const Home& home) {
    if (table().unknown_streams != table().unknown_done) return false;
    const std::unique_lock no_capture_begins = hold_captures();
    if (open_captures.load(std::memory_order_relaxed) > 0) return false;  // which the question would spoil
    for (const auto& [key, w] : table().workers) {
        if (real(w.stream) == stream || !(home.reattached || home.attachment.concerns(real(w.stream)))) continue;
        const InContext in(w.context);
        if (unannounced<Op::cuStreamQuery>(w.stream) != CUDA_SUCCESS) return false;
    }
    return true;
}

// What the device has is copied back in the stream's order; the CPU's first touch then waits for that. It is not done where
// nobody could say that what came is the last word, or where a host function might have to wait for what comes behind it.
void fetch_ahead(Home& home, std::uintptr_t begin, std::uintptr_t end, CUstream stream) {
    // Whole blocks alone, but at the ends of what is there: the neighbours may belong to somebody else.
    const Run run = home.blocks_of(begin, end);
    if (home.young || host_functions_awaited() || !others_are_idle(stream, home)) return;
    Worker& w = table()
                    .workers
                    .try_emplace(key_of(stream, current_context()),
                                 Worker{stream ? stream : CU_STREAM_LEGACY, current_context()})
                    .first->second;
    order_behind_moves(w);
    for (std::size_t at = run.first; at < run.last;) {
        const std::size_t first = at;
        while (at < run.last && home.blocks[at] == Side::device) ++at;
        const Run there{first, at};
        if (there.empty()) {
            ++at;
            continue;
        }
        const bool coming =
            std::ranges::any_of(home.inbound, [&](const Inbound& in) { return !in.run.with(there).empty(); });
        Fence* const fence = coming ? nullptr : take_fence(0);
        if (!fence) continue;
        const std::uint64_t value = fence->asked.fetch_add(1, std::memory_order_relaxed) + 1;
        if (bring_in_order(home, there, w.stream) != CUDA_SUCCESS ||
            unannounced<Op::write_fence>(w.stream, ext::Fence{Client::current()->offset_of(fence->word), value}) !=
                CUDA_SUCCESS)
            return publish(*fence->word, value), recycle_fence(fence);
        home.inbound.push_back({there, fence, value, false});
        table().any_inbound = true;
    }
    table().gates.end_fast_path();  // the next launch must know of it
}

// From here on other streams' work is none of the memory's, or again.
void attach(Home& home, const Attachment& wanted) {
    if (home.shared) return;  // with allocations that are attached otherwise: everybody's is right for all
    home.reattached = true;
    home.attachment = wanted;
    table().gates.end_fast_path();
}

CUresult prefetch(CUdeviceptr p, std::size_t bytes, CUmemLocation place, CUstream stream) {
    if (!is_place(place)) return CUDA_ERROR_INVALID_DEVICE;
    stream = real(stream);
    if (capturing(stream)) return spoil_capture(stream);
    Posting posting;
    std::optional<Gate> gate;  // nobody may launch between the look at the streams and the copy
    if (place.type == CU_MEM_LOCATION_TYPE_DEVICE) posting.range(p, bytes, &stream);
    else if (near_homes(p, bytes)) gate.emplace();
    return with_range(p, bytes, [&](Allocation& a) {
        a.advice.say(p - a.begin, p - a.begin + bytes, [&](Said& said) { said.prefetched = place; });
        // A thread that wants memory back has seen already what is on its way.
        if (gate && a.home && !a.home->of_variables && gate->is_the_only_one())
            fetch_ahead(*a.home, p, p + bytes, stream);
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
    if (!managed::stays_at_home() && (*p = managed::allocate(bytes, flags))) return CUDA_SUCCESS;
    const CUresult r = allocate_pinned(reinterpret_cast<void**>(p), bytes, flags | managed_mark);
    if (r == CUDA_SUCCESS) managed::note(*p, bytes, flags, nullptr);
    return r;
}

CU cuMemPrefetchAsync_v2(CUdeviceptr p, size_t bytes, CUmemLocation place, unsigned flags, CUstream stream) {
    return flags ? CUDA_ERROR_INVALID_VALUE : managed::prefetch(p, bytes, place, stream);
}

// Of nothing: all of the allocation, as the documentation has it; a part of one is refused.
CU cuStreamAttachMemAsync(CUstream stream, CUdeviceptr p, size_t bytes, unsigned flags) {
    using namespace managed;
    Attachment wanted;
    switch (flags) {
        case CU_MEM_ATTACH_GLOBAL: break;
        case CU_MEM_ATTACH_HOST: wanted.mode = Attachment::host; break;
        case CU_MEM_ATTACH_SINGLE: wanted.mode = Attachment::single, wanted.stream = real(stream); break;
        default: return CUDA_ERROR_INVALID_VALUE;
    }
    if (wanted.mode == Attachment::single && !wanted.stream) return CUDA_ERROR_INVALID_VALUE;
    return with_range(p, bytes ? bytes : 1, [&](Allocation& a) {
        if (p != a.begin || (bytes && bytes != a.bytes)) return CUDA_ERROR_INVALID_VALUE;
        if (a.home) attach(*a.home, wanted);
        return CUDA_SUCCESS;
    });
}

namespace {

CUresult check_batch(const CUdeviceptr* starts, const size_t* bytes, size_t count, unsigned long long flags) {
    if (!starts || !bytes || count == 0 || flags) return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; ++i)
        if (CUresult r = managed::with_range(starts[i], bytes[i], [](auto&) { return CUDA_SUCCESS; });
            r != CUDA_SUCCESS)
            return r;
    return CUDA_SUCCESS;
}

// Place k is that of the ranges from indices[k] on.
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
// What is discarded may be anything, so also what it was.
CU cuMemDiscardBatchAsync(CUdeviceptr* starts, size_t* bytes, size_t count, unsigned long long flags, CUstream) {
    return check_batch(starts, bytes, count, flags);
}
CU cuMemDiscardAndPrefetchBatchAsync(CUdeviceptr* starts, size_t* bytes, size_t count, CUmemLocation* places,
                                     size_t* indices, size_t place_count, unsigned long long flags, CUstream stream) {
    return cuMemPrefetchBatchAsync(starts, bytes, count, places, indices, place_count, flags, stream);
}
