// SPDX-License-Identifier: Apache-2.0
// table.h: what there is of managed memory: the homes, the allocations in them, the streams that work on them. One lock for it
// all. A command that may touch managed memory is posted while a managed::Posting lives (client/observer.h); a CPU that touches
// a block on the device's side does so behind a Gate. Together they see to it that nothing is launched between the moment in
// which a thread has waited for the device and that in which the block is the CPU's: gates.h says how.
//
// Host functions shut no gate and wait for no stream, since their own is held until they return and others may be held with it:
// managed::Alone keeps the device from such memory while they run.
#pragma once
#include <cuda.h>

#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "guest-allocator/client/mutex.h"
#include "guest-allocator/client/observer.h"
#include "guest-allocator/driver/managed/state/advice.h"
#include "guest-allocator/driver/managed/state/gates.h"
#include "guest-allocator/driver/managed/state/range.h"

namespace barcuda::guest::managed {

// What programs have allocated: a home of its own, a part of one, or pinned memory of the region.
struct Allocation {
    std::uintptr_t begin = 0;
    std::size_t bytes = 0;
    unsigned flags = 0;
    CUcontext context = nullptr;
    Home* home = nullptr;  // null: it stays in the region
    Advice advice;
    std::uint64_t code = 0;  // of a variable: the module or library that it is in
    std::uintptr_t end() const { return begin + bytes; }
};

// A stream that has been given work which may touch managed memory; a context's default stream by its context.
struct Worker {
    CUstream stream;
    CUcontext context;
    std::uint64_t seen = 0;            // the moves that its work comes behind
    CUevent before_capture = nullptr;  // all that it was given before it was last closed to others by a capture
};

// A context's stream for moves, and the events that other streams' later work must come behind: the last move, and the last
// function of the program's (each of which comes behind the one before). Where the program has functions, the stream and the
// event of its moves are in a context of our own (migration.cc).
struct Mover {
    CUcontext where = nullptr;  // the stream's, and the event's of its moves
    CUstream stream = nullptr;
    bool own_asked = false;  // for a context of our own
    bool reaches[2] = {};    // it was seen to reach allocations; variables
    struct Behind {
        CUevent event = nullptr;
        std::uint64_t last = 0;
    } moved, called;
    CUevent turn = nullptr;  // exclusive.cc
    CUevent gone = nullptr;  // behind the work of all streams that were destroyed with some
};

struct Table {
    Mutex mutex;
    Gates<Threads> gates{fast_path};
    Calls<Threads> calls;
    std::map<std::uintptr_t, std::unique_ptr<Home>> homes;  // by their ends: upper_bound(address)
    std::map<std::uintptr_t, Allocation> allocations;       // by their beginnings
    std::vector<Home*> open;                                // of which the CPU may touch something
    std::vector<Home*> lent;                                // of which a function in a stream has touched something
    std::vector<Home*> young;                               // that nothing has worked on, but may
    std::unordered_map<std::uint64_t, Worker> workers;      // by key_of()
    std::unordered_map<CUcontext, Mover> movers;
    std::uint64_t moves = 0;                      // and functions
    std::uint64_t unknown_done = 0;               // of them, those that have been waited for
    bool any_inbound = false;                     // to some home
    std::uint64_t unnamed = 0, unnamed_done = 0;  // of unknown_streams, those that no event stands for; waited for
    std::uint64_t unknown_streams =
        0;  // how often work was given that nobody knows the stream of, or that outlives its stream

    Home* find(std::uintptr_t address) const {
        const auto at = homes.upper_bound(address);
        return at != homes.end() && address >= at->second->begin ? at->second.get() : nullptr;
    }
    Allocation* allocation(std::uintptr_t address) {
        auto at = allocations.upper_bound(address);
        if (at == allocations.begin()) return nullptr;
        --at;
        return address - at->first < at->second.bytes ? &at->second : nullptr;
    }
};
Table& table() noexcept;

// Whether an address may be managed: what lies outside is not. Without the lock.
bool near_homes(std::uintptr_t address, std::size_t bytes) noexcept;
// Under the lock. What is taken out nobody finds any more, and nothing is on its way to it.
void add_home(Home* home) noexcept;
std::unique_ptr<Home> take_out(Home* home) noexcept;
// Its blocks are not zeros on both sides any more.
void grow_up(Home& home) noexcept;

// A stream, by a number that is neither `no_memory` nor `slow_path`.
std::uint64_t key_of(CUstream real_stream, CUcontext context) noexcept;

// Shut while it lives.
class Gate {
  public:
    Gate() noexcept;
    ~Gate();
    Gate(const Gate&) = delete;
    bool is_the_only_one() const noexcept;  // under the lock
};
// One at a time: who shuts a gate, and posts or waits for others behind it. (Before the gate's lock.)
Mutex& one_by_one() noexcept;
// While it lives all that the device was given is done, functions in streams too, and nothing more is given that managed memory
// may be touched by. A worker that unmaps memory waits for its device, and does nothing else meanwhile: not even what the end of
// a function asks for, for which the device would wait.
class Stillness {
  public:
    Stillness() noexcept;  // exclusive.cc

  private:
    const std::lock_guard<Mutex> turn_{one_by_one()};
    const Gate gate_{};
};
// All that the stream was given has been waited for, as far as is known here. It is not asked: the answer would stand behind
// others' work in a queue of the hardware, and that may wait for whoever asks.
bool is_idle(CUstream stream, CUcontext context) noexcept;
// The stream as one that is given work; under the lock.
Worker& worker_of(CUstream real_stream) noexcept;

// ---- migration.cc, under the lock
// Takes blocks that the CPU may touch from it, and sends what it has written. True: something was sent.
bool close(Home& home, Run within) noexcept;
// What the device has of these blocks comes to the host, and the CPU may touch them. False: they cannot be had.
bool fetch(Home& home, Run run, bool write) noexcept;
// The device's blocks come to the host in this stream's order; the CPU may not touch them yet.
CUresult bring_in_order(Home& home, const Run& run, CUstream stream) noexcept;
// The CPU may touch blocks that need not be fetched.
bool open(Home& home, Run run, bool write) noexcept;
// A block of the device's, for the CPU to read what it had of it last.
void show_block(const Home& home, std::size_t block, bool show) noexcept;
// Whatever is given to the stream from here on comes behind all moves so far.
void order_behind_moves(Worker& worker) noexcept;
// Waits until the context's moves are done.
void finish_moves(CUcontext context) noexcept;
Mover* mover(CUcontext context) noexcept;
Mover* mover_of(const Home& home) noexcept;  // which reaches it
// Its moves are done, and the context that they had is given back, if they had one of their own.
void end_mover_context(CUcontext context) noexcept;

// ---- faults.cc
// The CPU may touch [address, address + bytes) when this returns true. False: it is not managed, or has no home any more.
bool bring(std::uintptr_t address, std::size_t bytes, bool write) noexcept;
// The same, of what it may touch already, and without a wait.
bool is_here(std::uintptr_t address, std::size_t bytes, bool write) noexcept;
// From here on faults of the CPU come to bring().
void take_faults() noexcept;

}  // namespace barcuda::guest::managed
