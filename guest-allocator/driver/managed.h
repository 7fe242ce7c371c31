// SPDX-License-Identifier: Apache-2.0
// managed.h: managed memory (cudaMallocManaged, __managed__ variables), as the rest of the driver layer uses it. (The
// moment before a command is posted: client/observer.h.) managed/ has what is behind these functions, and includes this
// header: the driver layer includes nothing of that folder.
//
//   managed.cc       allocations, prefetches, attachments
//   advise.cc        advice and attributes
//   variables.cc     __managed__ variables, which the driver has at addresses of its own
//
// managed/state/ keeps records. It makes no CUDA call and no system call, so unit tests reach all of it:
//
//   range.h          a range of addresses that has memory on both sides, the device's and the host's
//   blocks.h         on which side each block of a range is
//   habit.h          which blocks the CPU touches behind each wait
//   ranges.h         all ranges, and lists of those that are accessible to the CPU, or untouched
//   allocations.h    what programs have allocated; advice.h, chunk.h
//   epochs.h         in which order streams' work and migrations come
//   gates.h          how posts and gates exclude each other, and system calls and ends of functions
//   state.h          all of it, and its lock
//
// managed/mechanism/ acts on them:
//
//   posting.cc       a command is posted: blocks that the CPU may have written are written back, the CPU's access is
//                    invalidated
//   faults.h         the CPU touches a block of the device's side: it is fetched
//   access.h         what both do with the CPU's access (mprotect)
//   migration.h      and with the blocks (DMA), in migration streams
//   ahead.cc         the program waits: blocks come with the wait that the CPU is expected to touch then
//   exclusion.h      Gate, Quiescent; exclusive.cc: Exclusive
//   backing.h        makes and releases the memory of a range
//   signals.h        how the CPU's fault comes to faults.h; the program's own handler of SIGSEGV
//   masks.h          no thread blocks SIGSEGV
//   system_calls.cc  the program passes managed memory to the kernel
//
// Lock order: a FILE's lock (system_calls.cc); `making` (managed.cc); the exclusive turn (exclusion.h); the contexts'
// lock (driver/context.cc); the state's lock; the captures' lock (hold_captures); the functions' lock
// (driver/host_function.cc); the handlers' lock (signals.cc); locks of the layers below. A gate is shut and opened
// under the state's lock and held without it. A thread that is counted as posting shuts no gate, and a thread that
// waits for posts holds no lock that a post takes, which is the state's.
//
// The protocol. Between the moment when a thread has waited for the device and the moment when it may touch the block,
// nothing must be launched that may use the block:
//
//   Posting      (client/observer.h) shared. On the fast path a launch counts itself and compares one word: its stream
//                has nothing to wait for. Else it takes the state's lock, waits while a gate is shut, counts itself,
//                writes back and invalidates what the CPU may touch, and orders its stream after the epochs so far. At
//                the end the fast path may be open for its stream.
//   Gate         a writer's lock against posts. Shut: the fast path ends, and the thread waits until no post is
//                counted. Several threads may have gates: each wants only that no other thread posts.
//   Quiescent    the exclusive turn, a gate, and a wait for all the device's work: before memory is unmapped.
//   Exclusive    the exclusive turn and a gate while a function is given to a stream, which orders that stream after
//                all other streams' work, and their later work after it. So the function runs while nothing works on
//                managed memory. When it touches memory it neither shuts a gate nor waits for a stream: its own stream
//                is held until it returns, and others may be held with it.
//
// When a function returns, what it has touched is invalidated first. This waits for system calls on files that use the
// memory (Calls). tests/unit/guest/managed_gates_model_test.cc runs posts, gates and calls in all interleavings.
#pragma once
#include <cuda.h>

#include <cstddef>
#include <cstdint>

#include "guest-allocator/client/observer.h"

namespace barcuda::guest {
struct Fence;
}

namespace barcuda::guest::managed {

// All allocated memory stays in the region, as pinned memory by another name (BARCUDA_MANAGED=host).
bool stays_in_region() noexcept;

// The program has code for a GPU, or initializes CUDA: from now on no thread can block SIGSEGV (masks.h).
void expect_faults() noexcept;

// The allocation or variable, with a range, that holds the address.
struct Found {
    std::byte* base;
    std::size_t bytes;
    unsigned flags;
    CUcontext context;
};
bool find(std::uintptr_t address, Found& out) noexcept;
// cuMemFree. The caller has waited for the device. Memory that stays in the region is only forgotten: the caller
// releases it.
void forget_pinned(std::uintptr_t address) noexcept;
CUresult free(std::uintptr_t address) noexcept;

// Lives while a function of the program's is given to a stream, or a graph that may contain one: the protocol above.
class Exclusive {
  public:
    explicit Exclusive(CUstream stream) noexcept {
        if (exists()) [[unlikely]]
            begin(stream);
    }
    ~Exclusive() {
        if (held_) [[unlikely]]
            end();
    }
    Exclusive(const Exclusive&) = delete;

  private:
    void begin(CUstream stream) noexcept;
    void end() noexcept;
    struct Held;
    Held* held_ = nullptr;
};

// The program waits for a stream: blocks that the CPU is expected to touch then are copied behind the stream's work.
// The wait's fence will be written behind that. True: the wait ends with open_fetched(), `done`: without an error.
bool fetch_ahead(CUstream stream, Fence& fence, unsigned long long value) noexcept;
void open_fetched(const Fence& fence, unsigned long long value, bool done) noexcept;
// The only stream that may be at work, if it is in this context and such blocks might come with a wait for it.
CUstream only_busy_stream(CUcontext context) noexcept;

// A context is about to end; has ended, with its memory; is its device's first one; a stream is about to be destroyed.
void context_ends(CUcontext context) noexcept;
void context_gone(CUcontext context) noexcept;
void context_made(CUcontext context) noexcept;
void stream_gone(CUstream stream) noexcept;
// A stream is about to capture its work for a graph. Other work that must follow its work so far can only wait for an
// event, which is recorded now; `legacy`: also for the legacy stream, which the capture closes.
void capture_begins(CUstream stream, bool legacy) noexcept;
// Code is unloaded: a library's or a module's handle.
void unloaded(std::uint64_t code) noexcept;

// A variable, or other managed memory that the driver has at an address of its own: the CPU can use it there from now
// on.
CUresult adopt(CUdeviceptr address, std::size_t bytes, std::uint64_t code) noexcept;

}  // namespace barcuda::guest::managed
