// SPDX-License-Identifier: Apache-2.0
// posting.cc: what happens before a command is posted that may touch managed memory: what the CPU has of it goes to the device,
// and the command's stream waits for that. And the gates, by which threads that want memory back hold such commands up. table.h
// says how the two are kept apart.
#include <algorithm>
#include <iterator>
#include <utility>

#include "guest-allocator/client/command.h"
#include "guest-allocator/client/patience.h"
#include "guest-allocator/driver/capture.h"
#include "guest-allocator/driver/context.h"
#include "guest-allocator/driver/fence.h"
#include "guest-allocator/driver/host_function.h"
#include "guest-allocator/driver/managed/managed.h"
#include "guest-allocator/driver/managed/state/table.h"
#include "guest-allocator/driver/streams.h"

namespace barcuda::guest::managed {

constinit std::atomic<std::uint64_t> fast_path{no_memory};

namespace {

constinit thread_local unsigned own_gates = 0;

std::atomic<std::uintptr_t> variables_begin{UINTPTR_MAX}, variables_end{0};

// What no stream is known of comes behind the moves because they are done.
void finish_all_moves() {
    for (const auto& [context, m] : table().movers) finish_moves(context);
}

// After the lock's owner has seen to `stream`: whether its next kernels may go without a look.
void settle(const CUstream* stream) {
    Table& t = table();
    const auto concerned = [&](const Home* home) { return home->attachment.concerns(*stream); };
    if (!stream || t.gates.any_shut() || t.any_inbound || std::ranges::any_of(t.open, concerned) ||
        std::ranges::any_of(t.young, concerned) || worker_of(*stream).seen != t.moves)
        return t.gates.end_fast_path();
    t.gates.open_fast_path(key_of(*stream, current_context()));
}

// Something may change what these blocks are on the device: what is on its way to the host is not the last word.
void spoil_inbound(Home& home, const Run& run) {
    for (Inbound& in : home.inbound) in.stale |= !in.run.with(run).empty();
}

void note_worker(const CUstream* stream, bool moved) {
    if (!stream) {
        ++table().unknown_streams, ++table().unnamed;
        if (moved) finish_all_moves();
        return;
    }
    order_behind_moves(worker_of(*stream));
}

}  // namespace

Table& table() noexcept {
    static auto& t = *new Table;  // never destroyed: programs touch managed memory in static destructors
    return t;
}

bool is_idle(CUstream stream, CUcontext context) noexcept {
    return open_captures.load(std::memory_order_relaxed) == 0 && !unnamed_may_be_busy(context) &&
           !may_be_busy(context, real(stream));
}

Worker& worker_of(CUstream real_stream) noexcept {
    const CUcontext its = real_stream ? context_of(real_stream) : nullptr;
    const CUcontext context = its ? its : current_context();
    const CUstream spelled = real_stream ? real_stream : CU_STREAM_LEGACY;
    return table().workers.try_emplace(key_of(real_stream, context), Worker{spelled, context}).first->second;
}

std::uint64_t key_of(CUstream real_stream, CUcontext context) noexcept {
    return real_stream ? reinterpret_cast<std::uint64_t>(real_stream) << 2 | 2
                       : reinterpret_cast<std::uint64_t>(context) << 2 | 3;
}

void grow_up(Home& home) noexcept {
    if (std::exchange(home.young, false)) std::erase(table().young, &home);
}

void add_home(Home* home) noexcept {
    Table& t = table();
    if (home->of_variables) {
        if (home->begin < variables_begin.load()) variables_begin.store(home->begin);
        if (home->end > variables_end.load()) variables_end.store(home->end);
    }
    if (home->young) t.young.push_back(home);
    t.homes[home->end].reset(home);
    t.movers.try_emplace(home->context);
    if (host_functions_given()) mover_of(*home);  // not only in the midst of such a function, which holds up queues
    t.gates.end_fast_path();
}

std::unique_ptr<Home> take_out(Home* home) noexcept {
    Table& t = table();
    for (const Inbound& in : home->inbound) wait_until(*in.fence->word, in.value), recycle_fence(in.fence);
    finish_moves(home->context);
    std::erase(t.open, home);
    std::erase(t.young, home);
    std::erase(t.lent, home);
    const auto at = t.homes.find(home->end);
    std::unique_ptr<Home> its = std::move(at->second);
    t.homes.erase(at);
    return its;
}

bool near_homes(std::uintptr_t address, std::size_t bytes) noexcept {
    const std::uintptr_t end = address + bytes;
    return (address < window_end && end > window_begin) || (address < variables_end.load(std::memory_order_relaxed) &&
                                                            end > variables_begin.load(std::memory_order_relaxed));
}

// Kernels may touch all that their stream may. What was allocated for nobody's kernels yet is everybody's from now on.
void Posting::kernels(const CUstream* given) noexcept {
    if (forked_after_init()) return;
    CUstream stream = given ? real(*given) : nullptr;
    if (given) given = &stream;
    Table& t = table();
    if (given && t.gates.try_post(key_of(stream, current_context()))) {
        counted_ = true;
        return;
    }
    if (given && capturing(stream)) return;  // when the graph is launched
    std::unique_lock lock(t.mutex);
    t.gates.await_open(lock, own_gates);
    t.gates.begin_post();
    counted_ = true;
    bool moved = false;
    const auto concerns = [&](const Home& home) {
        return given ? home.attachment.concerns(stream) : home.attachment.mode != Attachment::host;
    };
    for (Home* home : std::vector(t.open))
        if (concerns(*home)) moved |= close(*home, home->all());
    for (Home* home : std::vector(t.young))
        if (concerns(*home)) grow_up(*home);
    if (std::exchange(t.any_inbound, false))
        for (const auto& [end, home] : t.homes) {
            if (concerns(*home)) spoil_inbound(*home, home->all());
            t.any_inbound |= std::ranges::any_of(home->inbound, [](const Inbound& in) { return !in.stale; });
        }
    note_worker(given, moved);
    settle(given);
}

void Posting::range(std::uint64_t address, std::size_t bytes, const CUstream* given) noexcept {
    if (!bytes || forked_after_init() || !near_homes(address, bytes)) return;
    CUstream stream = given ? real(*given) : nullptr;
    if (given) given = &stream;
    if (given && capturing(stream)) return;
    Table& t = table();
    std::unique_lock lock(t.mutex);
    // Whoever shuts a gate waits for commands that have counted themselves already.
    if (!counted_) t.gates.await_open(lock, own_gates);
    bool moved = false, any = false;
    for (auto at = t.homes.upper_bound(address); at != t.homes.end() && at->second->begin < address + bytes; ++at) {
        Home& home = *at->second;
        const Run run = home.blocks_of(address, address + bytes);
        any = true;
        moved |= close(home, run);
        grow_up(home);
        spoil_inbound(home, run);
    }
    if (!any) return;
    if (!counted_) t.gates.begin_post();
    counted_ = true;
    note_worker(given, moved);
    settle(given);
}

void Posting::argument(const void* p, bool written) noexcept {
    const auto at = reinterpret_cast<std::uintptr_t>(p);
    if (!near_homes(at, 1) || shown_ == std::size(arguments_) || !bring(at, 1, written)) return;
    arguments_[shown_++] = at;
}

namespace {

// For as long as the command is written the CPU may read a block that is the device's: its own copy is as it was.
void protect_arguments(const std::uintptr_t* arguments, unsigned count, bool show) {
    std::lock_guard lock(table().mutex);
    for (unsigned i = 0; i < count; ++i) {
        Home* const home = table().find(arguments[i]);
        const std::size_t block = home ? home->block_of(arguments[i]) : 0;
        if (home && home->blocks[block] == Side::device) show_block(*home, block, show);
    }
}

}  // namespace

void Posting::show_arguments() noexcept {
    if (shown_) protect_arguments(arguments_, shown_, true);
}

void Posting::end() noexcept {
    if (shown_) protect_arguments(arguments_, shown_, false);
    if (counted_) table().gates.end_post();
}

Gate::Gate() noexcept {
    {
        std::lock_guard lock(table().mutex);
        table().gates.shut();
        ++own_gates;
    }
    table().gates.await_posts([](auto done) {
        for (Patience patience; !done(); patience.wait(*Client::current()))
            if (Client::current()->ended() != CUDA_SUCCESS) return;
    });
}

bool Gate::is_the_only_one() const noexcept { return table().gates.none_but(own_gates); }

Gate::~Gate() {
    std::lock_guard lock(table().mutex);
    --own_gates;
    table().gates.open();
}

void stream_gone(CUstream stream) noexcept {
    if (!exists() || forked_after_init()) return;
    Table& t = table();
    std::lock_guard lock(t.mutex);
    // Its work may go on, and its id may be another's.
    if (const auto w = t.workers.find(key_of(stream, nullptr)); w != t.workers.end()) {
        const InContext in(w->second.context);
        Mover* const m = capturing(stream) ? nullptr : mover(w->second.context);
        if (m && m->gone) unannounced<Op::cuStreamWaitEvent>(stream, m->gone, 0u);
        else if (m) unannounced<Op::cuEventCreate>(&m->gone, unsigned{CU_EVENT_DISABLE_TIMING});
        if (m && m->gone) unannounced<Op::cuEventRecordWithFlags>(m->gone, stream, 0u);
        else ++t.unnamed;
        if (w->second.before_capture) unannounced<Op::cuEventDestroy_v2>(w->second.before_capture);
        t.workers.erase(w);
        ++t.unknown_streams;
    }
    t.gates.end_fast_path();
    for (const auto& [end, home] : t.homes)
        if (home->attachment.mode == Attachment::single && home->attachment.stream == stream) home->attachment = {};
}

}  // namespace barcuda::guest::managed
