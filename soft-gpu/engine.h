// SPDX-License-Identifier: Apache-2.0
// engine.h: the software GPU's execution engine, as its driver sees it.
//
//   fat binary -> PTX text -> [Program: parse, prepare] -> [launch: execute] -> memory
//
// The driver half (driver/) owns contexts, streams, modules and allocations; the engine half owns PTX. This header is
// all that each knows of the other. Device addresses are plain addresses of this process: a kernel's pointer is a
// pointer.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace barcuda::soft {

// What kernels may touch. Every load and store of a kernel lies in exactly one range, or is an illegal address.
class AddressSpace {
  public:
    struct Range {
        std::uintptr_t base = 0;
        std::size_t size = 0;
        bool writable = true;
    };
    void add(Range range);  // ranges never overlap
    void remove(std::uintptr_t base);
    Range find(std::uintptr_t address) const;  // size 0 if there is none
    // Grows with every remove(): code that caches a Range drops it when the generation has changed.
    std::uint64_t generation() const { return generation_.load(std::memory_order_acquire); }
    const std::uint64_t* generation_place() const {  // for compiled code, which checks it, too
        static_assert(sizeof generation_ == sizeof(std::uint64_t) && decltype(generation_)::is_always_lock_free);
        return reinterpret_cast<const std::uint64_t*>(&generation_);
    }

  private:
    mutable std::shared_mutex mutex_;
    std::map<std::uintptr_t, Range> ranges_;
    std::atomic<std::uint64_t> generation_{0};
};

struct Parameter {
    std::size_t offset = 0, size = 0;
};

// Static facts of a kernel, as cuFuncGetAttribute and cuFuncGetParamInfo report them (bytes).
struct KernelInfo {
    std::string name;
    std::vector<Parameter> parameters;
    std::size_t parameter_bytes = 0;  // offset + size of the last one
    std::size_t static_shared_bytes = 0;
    std::size_t local_bytes = 0;  // per thread
    std::size_t const_bytes = 0;
    int registers = 0;                  // an honest estimate: 32-bit registers a thread needs
    int max_threads_per_block = 1024;   // less if .maxntid / .reqntid says so
    int required_block[3] = {0, 0, 0};  // .reqntid, else zeros
    bool uses_grid_sync = false;
};

struct GlobalInfo {
    std::string name;
    std::uintptr_t address = 0;
    std::size_t size = 0;  // bytes
    bool constant = false, managed = false;
    bool reference = false;  // of a texture or a surface: 8 bytes for the handle of an object
};

struct Limits {
    int compute_capability = 90;  // major*10+minor, as PTX ".target sm_XX" counts
    int multiprocessors = 2;
    int max_shared_bytes_per_block = 227 * 1024;
    std::size_t stack_bytes = 64 * 1024;  // per thread: local memory of calls and recursion
    std::size_t printf_fifo_bytes = 1 << 20;
    std::size_t malloc_heap_bytes = 8 << 20;
};

// The driver half creates texture and surface objects, the engine executes tex/suld/sust with them.
struct TextureObject;  // texture.h

// One loaded module: parsed, resolved and prepared for execution; its globals are allocated (by `allocate`) and
// initialized.
class Program {
  public:
    // Throws Error (below) with a message that names the line and the unsupported instruction, directive or function.
    // `shared`: a program of the same text that lives longer; this one uses its managed variables.
    static std::unique_ptr<Program> load(std::string_view ptx, const Limits& limits, AddressSpace& space,
                                         const Program* shared = nullptr);
    virtual ~Program() = default;  // removes its globals from the address space
    virtual std::vector<std::string> kernel_names() const = 0;
    virtual const KernelInfo* kernel(std::string_view name) const = 0;
    virtual std::vector<GlobalInfo> globals() const = 0;
    virtual void restart() = 0;      // sets its own globals to their initial values; none of its kernels may run
    virtual int target() const = 0;  // the number of its .target: 75 for sm_75
};

struct Error {  // thrown; `code` is a CUresult value
    int code;
    std::string message;
};

struct LaunchConfig {
    unsigned grid[3] = {1, 1, 1}, block[3] = {1, 1, 1};
    std::size_t dynamic_shared_bytes = 0;
    std::span<const std::byte> parameters;  // laid out as KernelInfo::parameters says
    bool cooperative = false;               // all blocks are resident: grid sync makes progress
    int multiprocessors = 0;                // of the context it runs in; 0: as when the program was loaded
};

// Runs a grid to its end on the calling thread and the engine's pool of host threads. Thread-safe: concurrent grids
// share the pool. Throws Error{CUDA_ERROR_ILLEGAL_ADDRESS | MISALIGNED_ADDRESS | ASSERT | ILLEGAL_INSTRUCTION |
// LAUNCH_FAILED, message} where the message names the kernel, block, thread, instruction and address; that of an assert
// is CUDA's text. `print` receives device printf.
void execute(const Program& program, const KernelInfo& kernel, const LaunchConfig& config, AddressSpace& space,
             const std::function<void(std::string_view)>& print);

// What all launches of this process have executed so far: instructions of warps, and of their active threads.
struct Executed {
    std::uint64_t warp_instructions, thread_instructions;
};
Executed executed();

// Number of blocks of this shape that one multiprocessor can hold at once (occupancy), by threads, shared memory and
// block limits.
int max_active_blocks(const Limits& limits, const KernelInfo& kernel, int block_threads,
                      std::size_t dynamic_shared_bytes);

}  // namespace barcuda::soft
