// SPDX-License-Identifier: Apache-2.0
// migration.cc: memory moves between its two homes by DMA, out of and into the run of the region that is the host's. A context's
// moves have a stream of their own. Nothing that the device still works on can be on the host's side, so what goes to the device
// need not come behind a stream's earlier work: it goes at once, and the stream's later work waits for it.
//
// A driver puts the streams of a context into few queues of the hardware, and what waits for a function of the program's holds up
// all that stands behind it in its queue. A move that the function waits for must not be there. So from a program's first function
// on its moves are in a context of our own, which has queues of its own, and in which no work ever waits for the program's: what a
// move has to come behind has been waited for, by the CPU.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <utility>

#include "guest-allocator/client/command.h"
#include "guest-allocator/driver/context.h"
#include "guest-allocator/driver/fence.h"
#include "guest-allocator/driver/host_function.h"
#include "guest-allocator/driver/managed/state/table.h"
#include "guest-allocator/heap/statistics.h"

namespace barcuda::guest::managed {
namespace {

// Protects what the CPU may do with blocks. Where the process has too many mappings for one more boundary: false.
bool protect(const Home& home, const Run& run, int protection) {
    return !mprotect(home.at(run), home.bytes(run), protection);
}

// What of these blocks is copied: move(device address, alias, bytes).
template <class Move> void each_part(const Home& home, const Run& run, Move move) {
    const std::uintptr_t begin = home.start(run), end = begin + home.bytes(run);
    if (!home.of_variables) return move(begin, home.alias + (begin - home.begin), end - begin);
    for (const Home::Part& p : home.parts) {
        const std::uintptr_t first = std::max(p.begin, begin), last = std::min(p.end, end);
        if (first < last) move(first, home.alias + (first - home.begin), last - first);
    }
}

CUresult send(const Home& home, const Run& run, CUstream stream) {
    CUresult r = CUDA_SUCCESS;
    each_part(home, run, [&](CUdeviceptr there, std::byte* here, std::size_t bytes) {
        if (r != CUDA_SUCCESS) return;
        heap::statistics.managed_to_device.add(bytes);
        r = unannounced<Op::cuMemcpyHtoDAsync_v2>(there, static_cast<const void*>(here), bytes, stream);
    });
    return r;
}

// The device's work is lost with its memory (a killed worker, a fault of the GPU), and no load can fail with an error. The host has
// what it had last: of memory that kernels have only read that is all of it.
void lament(const Home& home, const Run& run) {
    static std::atomic_flag told;
    if (told.test_and_set()) return;
    char line[240];
    const int n =
        snprintf(line, sizeof line,
                 "barcuda: managed memory at %p was on the GPU, which is lost: the CPU finds there what it had "
                 "before the GPU did (so with all such memory; this is said once)\n",
                 static_cast<void*>(home.at(run)));
    if (n > 0 && write(STDERR_FILENO, line, static_cast<std::size_t>(n)) < 0) return;
}

bool read_back(Home& home, const Run& run) {
    Mover* const m = mover_of(home);
    if (!m) return false;
    const InContext in(m->where);
    return bring_in_order(home, run, m->stream) == CUDA_SUCCESS && wait_quietly(m->stream) == CUDA_SUCCESS;
}

bool make_event(CUevent& event) {
    return unannounced<Op::cuEventCreate>(&event, unsigned{CU_EVENT_DISABLE_TIMING}) == CUDA_SUCCESS;
}

// The moves are in this context from here on, behind those so far.
bool settle_in(Mover& m, CUcontext where) {
    const InContext in(where);
    CUstream stream = nullptr;
    CUevent event = nullptr;
    if (unannounced<Op::cuStreamCreateWithPriority>(&stream, unsigned{CU_STREAM_NON_BLOCKING}, 0) != CUDA_SUCCESS ||
        !make_event(event))
        return false;
    if (m.stream) {
        unannounced<Op::cuStreamWaitEvent>(stream, m.moved.event, 0u);
        unannounced<Op::cuEventRecordWithFlags>(event, stream, 0u);
        const InContext before(m.where);
        unannounced<Op::cuStreamDestroy_v2>(m.stream);
        unannounced<Op::cuEventDestroy_v2>(m.moved.event);
    }
    m.where = where, m.stream = stream, m.moved.event = event;
    return true;
}

void list(Home& home, std::vector<Home*>& where) {
    if (!home.listed) where.push_back(&home), home.listed = true;
}

}  // namespace

Mover* mover(CUcontext context) noexcept {
    Mover& m = table().movers[context];
    if (!m.turn) {
        const InContext in(context);
        CUevent called = nullptr, turn = nullptr;
        if (!make_event(called) || !make_event(turn)) return nullptr;
        m.called.event = called, m.turn = turn;
    }
    if (host_functions_given() && !std::exchange(m.own_asked, true)) {
        const CUcontext own = make_own_context(device_of(context));
        if (own && !settle_in(m, own)) end_own_context(own);
        if ((!own || m.where != own) && logs_debug())
            log_line("managed memory has no context of its own to move in: a function in a stream may wait for ever");
    }
    return m.stream || settle_in(m, context) ? &m : nullptr;
}

// Moves are posted, and one that failed would be noticed by nobody: so a byte is read first. Should a driver keep a context from
// another's memory of the same device, moves stay in the program's.
Mover* mover_of(const Home& home) noexcept {
    Mover* const m = mover(home.context);
    if (!m || m->where == home.context || m->reaches[home.of_variables]) return m;
    const CUdeviceptr some = !home.of_variables ? home.begin : home.parts.empty() ? 0 : home.parts.front().begin;
    if (!some) return m;
    std::byte read{};
    const auto reach = [&] {
        const InContext in(m->where);
        CUresult r = CUDA_ERROR_NOT_READY;
        while (r == CUDA_ERROR_NOT_READY)
            if (r = wait_quietly(m->stream); r == CUDA_SUCCESS)
                r = unannounced<Op::copy_out>(static_cast<void*>(&read), some, sizeof read, m->stream);
        return r == CUDA_SUCCESS;
    };
    if ((m->reaches[home.of_variables] = reach())) return m;
    if (logs_debug()) log_line("managed memory moves in the program's context: another one does not reach it");
    const CUcontext own = m->where;
    if (!settle_in(*m, home.context)) return m;
    end_own_context(own);
    return m;
}

void end_mover_context(CUcontext context) noexcept {
    const auto at = table().movers.find(context);
    if (at == table().movers.end() || !at->second.stream || at->second.where == context) return;
    Mover& m = at->second;
    finish_moves(context);
    end_own_context(m.where);
    m.where = nullptr, m.stream = nullptr, m.moved = {}, m.own_asked = false;
    std::ranges::fill(m.reaches, false);
}

CUresult bring_in_order(Home& home, const Run& run, CUstream stream) noexcept {
    CUresult r = CUDA_SUCCESS;
    each_part(home, run, [&](CUdeviceptr there, std::byte* here, std::size_t bytes) {
        if (r != CUDA_SUCCESS) return;
        heap::statistics.managed_to_host.add(bytes);
        r = unannounced<Op::cuMemcpyDtoHAsync_v2>(static_cast<void*>(here), there, bytes, stream);
    });
    return r;
}

bool close(Home& home, Run within) noexcept {
    if (!home.blocks.any_open()) return false;
    grow_up(home);
    bool sent = false;
    const auto shut = [&](const Run& run) { return protect(home, run, PROT_NONE); };
    const auto to_device = [&](const Run& run) {
        Mover* const m = mover_of(home);
        const InContext in(m ? m->where : nullptr);
        if (m && send(home, run, m->stream) == CUDA_SUCCESS) sent = true;
    };
    if (!home.blocks.close(within, shut, to_device)) {
        // Too many mappings: all of it needs no boundary.
        mprotect(home.at(home.all()), home.bytes(), PROT_NONE);
        home.blocks.close(
            home.all(), [](const Run&) { return true; }, to_device);
    }
    if (!home.blocks.any_open()) home.listed = false, std::erase(table().open, &home);
    if (!sent) return false;
    Mover* const m = mover(home.context);
    const InContext in(m->where);
    unannounced<Op::cuEventRecordWithFlags>(m->moved.event, m->stream, 0u);
    m->moved.last = ++table().moves;
    return true;
}

bool open(Home& home, Run run, bool write) noexcept {
    const int protection = write ? PROT_READ | PROT_WRITE : PROT_READ;
    if (!protect(home, run, protection)) {
        // Too many mappings (vm.max_map_count): all of it on one side needs no boundary.
        Run rest{run.last, home.blocks.count()};
        for (Run other : {Run{0, run.first}, rest})
            for (std::size_t i = other.first; i < other.last; ++i)
                if (home.blocks[i] == Side::device && !read_back(home, {i, i + 1})) return false;
        run = home.all(), write = true;
        if (!protect(home, run, PROT_READ | PROT_WRITE)) return false;
    }
    // All page faults at once. What the kernel cannot do, or has done before, costs as good as nothing.
    if (run.count() > 1) madvise(home.at(run), home.bytes(run), write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ);
    home.blocks.open(run, write);
    list(home, table().open);
    table().gates.end_fast_path();
    return true;
}

bool fetch(Home& home, Run run, bool write) noexcept {
    if (home.young) {
        // Zeros on both sides; but the region's pages may have been somebody's.
        memset(home.alias_of(run), 0, home.bytes(run));
    } else if (!read_back(home, run)) {
        if (Client::current()->ended() == CUDA_SUCCESS && Client::current()->take_error() == CUDA_SUCCESS) return false;
        lament(home, run);
    }
    return open(home, run, write);
}

void show_block(const Home& home, std::size_t block, bool show) noexcept {
    protect(home, {block, block + 1}, show ? PROT_READ : PROT_NONE);
}

void order_behind_moves(Worker& worker) noexcept {
    if (worker.seen == table().moves) return;
    const InContext in(worker.context);
    for (const auto& [context, m] : table().movers)
        for (const Mover::Behind& b : {m.moved, m.called})
            if (b.last > worker.seen) unannounced<Op::cuStreamWaitEvent>(worker.stream, b.event, 0u);
    worker.seen = table().moves;
}

void finish_moves(CUcontext context) noexcept {
    const auto at = table().movers.find(context);
    if (at == table().movers.end() || !at->second.stream) return;
    const InContext in(at->second.where);
    wait_quietly(at->second.stream);
}

}  // namespace barcuda::guest::managed
