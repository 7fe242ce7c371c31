// SPDX-License-Identifier: Apache-2.0
// managed.h: the door to managed memory (cudaMallocManaged, __managed__ variables): the one header of this folder, and all that
// the rest of the guest knows of it, but for the moment before a command is posted (client/observer.h).
//
//   managed.cc       what programs ask for: allocations, prefetches, attachments
//   advise.cc        what they say and ask about it: advice and attributes
//   variables.cc     __managed__ variables, which the driver has at addresses of its own
//
// state/ keeps records. It makes no CUDA call and no system call, so unit tests reach all of it:
//
//   range.h          a range of addresses that has memory on both sides
//   blocks.h         on which side each block is
//   advice.h         what programs have advised
//   gates.h          how posts and gates, and system calls and functions in streams, exclude each other
//   table.h          all ranges, their lock, and which thread waits for which
//
// mechanism/ acts on them:
//
//   backing.h        makes and removes the memory of a range
//   posting.cc       before a command is posted: blocks that the CPU has go to the device
//   faults.cc        the CPU touches a block on the device: the block comes back
//   exclusive.cc     functions in streams, which nothing else may run beside
//   migration.cc     the DMA for all of them, and the CPU's access
//   signals.h        how the CPU's fault comes to faults.cc, and the program's own handler of SIGSEGV
//   masks.h          no thread blocks SIGSEGV
//   system_calls.cc  the program passes such memory to the kernel
#pragma once
#include <cuda.h>

#include <cstddef>
#include <cstdint>

#include "guest-allocator/client/observer.h"

namespace barcuda::guest::managed {

// Memory that stays in the region is pinned memory by another name: all of it, if BARCUDA_MANAGED=host says so.
bool stays_at_home() noexcept;

// The program has code for a GPU, or initializes CUDA: from here on no thread comes to block SIGSEGV (masks.h).
void expect_faults() noexcept;

// What is known of an allocation, or a variable, with two homes that holds the address.
struct Known {
    std::byte* base;
    std::size_t bytes;
    unsigned flags;
    CUcontext context;
};
bool find(std::uintptr_t address, Known& out) noexcept;
// cuMemFree: the device has been waited for. Of memory that stays in the region: it is freed elsewhere.
void forget_pinned(std::uintptr_t address) noexcept;
CUresult free(std::uintptr_t address) noexcept;

// A function of the program's is given to a stream, or a graph that may have some, while this lives. A function waits for nobody
// when it touches managed memory, so the device is to leave all such memory alone while it runs: its stream waits for what other
// streams have been given before, and what they are given behind it waits for its stream.
class Alone {
  public:
    explicit Alone(CUstream stream) noexcept {
        if (exists()) [[unlikely]]
            begin(stream);
    }
    ~Alone() {
        if (state_) [[unlikely]]
            end();
    }
    Alone(const Alone&) = delete;

  private:
    void begin(CUstream stream) noexcept;
    void end() noexcept;
    struct State;
    State* state_ = nullptr;
};
void host_function_done() noexcept;  // its stream goes on when this returns

// The context is about to end; it has ended, and its memory with it; its device has got one; a stream is destroyed; code is unloaded.
void context_ends(CUcontext context) noexcept;
void context_gone(CUcontext context) noexcept;
void context_made(CUcontext context) noexcept;
void stream_gone(CUstream stream) noexcept;
// A stream is about to note down its work for a graph: who must come behind what it was given until then waits for an event. So with
// what the legacy stream was given, if that is closed by it (`legacy`).
void capture_begins(CUstream stream, bool legacy) noexcept;
void unloaded(std::uint64_t code) noexcept;  // a library's or a module's handle

// A variable, or whatever else the driver has of managed memory at an address of its own: the program reaches it there too.
CUresult adopt(CUdeviceptr address, std::size_t bytes, std::uint64_t code) noexcept;

}  // namespace barcuda::guest::managed
