// SPDX-License-Identifier: Apache-2.0
// native.h: a function as machine code, beside its prepared form.
//
// Compiled code runs the same instructions over the same warps, registers and masks as the interpreter. It begins where
// a fragment may stand, keeps the registers of a basic block in the processor, and writes back those that live on. For
// what it does not know, and for every access that is not certainly valid, it calls the interpreter's handler. So the
// two can switch at any such place, and faults, fences, barriers and counts are the same code.
//
// The compiler (compiler/) is a library of its own over LLVM, which is opened at its first use. A function has two
// forms: for a whole warp, and for the lanes of a mask.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "soft-gpu/ptx/machine.h"

namespace barcuda::soft {

enum class Went : std::uint32_t {
    left,   // ask the scheduler
    moved,  // continue at `pc`, with the lanes of the warp's mask
    lost,   // no compiled code begins at `pc`
    meets,  // the warp waits for its block at barrier 0; `pc` is after it
};

// What compiled code sees of a warp: copied in, and back. The compiler uses the same layout.
struct Running {  // NOLINT(clang-analyzer-optin.performance.Padding): the most used members come first
    std::byte* registers;
    const std::byte* constants;
    const std::byte* specials;
    const std::byte* parameters;
    std::byte* shared;
    std::uint64_t shared_bytes;
    std::byte* stacks;
    std::uint64_t stack_stride, stack_bytes;
    std::uint64_t local_window;       // where local memory begins among generic addresses
    const std::uint64_t* generation;  // of the address space now, and when the sites were found
    std::uint64_t generation_seen;
    AddressSpace::Range* sites;
    std::int64_t budget;
    std::uint64_t instructions;
    std::uint32_t pc, stop, mask;
    // Runs instruction `index` by its handler; 0: go on. `access` remembers the range that a load or store found, too.
    std::uint32_t (*step)(Running*, std::uint32_t index, std::uint32_t mask);
    std::uint32_t (*access)(Running*, std::uint32_t index, std::uint32_t mask, std::uint32_t site);
    std::byte nowhere[512];                             // lanes that do not take part read from here
    alignas(64) std::uint64_t lane_places[lane_count];  // for loads and stores that are not a row
    alignas(64) std::byte lane_data[lane_count * 32];   // lane after lane
    Warp* warp;
    const Instr* code;
    void* fault;  // std::exception_ptr: no exception passes through compiled code
};

using NativeRun = Went (*)(Running*);
enum Variant : unsigned { whole_warp, some_lanes, variants };

struct Native {
    std::atomic<NativeRun> run[variants] = {};
    std::atomic<bool> asked[variants] = {};
    std::atomic<std::uint64_t> executed[variants] = {};  // instructions of warps by the interpreter
    std::byte* memory[variants] = {};                    // in the arena
    std::uint32_t first_site = 0, sites = 0;             // of the program's; the same in both forms
    const Code* code = nullptr;
    ~Native();
};

// When kernels are compiled, set by BARCUDA_SOFT_COMPILE: 0 (never), 1 (after some time, while they run; default),
// always (before their first run); tests change it.
enum class Compiling : std::uint8_t { never, later, at_once };
extern std::atomic<Compiling> compiling;

// Whether the function has machine code for these lanes; requests it if it is worth it. `executed`: by the interpreter.
bool has_native(const Function& f, Mask mask);
void note_interpreted(const Function& f, Mask mask, std::uint64_t executed);
void run_native(Warp& w);              // until the scheduler must decide
void forget_native(const Code& code);  // called when it is destroyed
bool prepare_compiler();               // opens the compiler's library, for a process that will open no more files

// ---- the compiler's library -----------------------------------------------------------------------------------------

struct ToCompile {
    const Function* function;
    const Slot* uniform;  // special registers that are the same in all lanes of a warp
    std::size_t uniforms;
    const Slot* across;  // those that differ from lane to lane for every shape of block
    std::size_t of_across;
    Variant variant;
};
struct Compiled {
    void* receiver;
    void (*object)(void* receiver, const void* bytes,
                   std::size_t size);  // a relocatable object with one function, `run`
    std::uint32_t sites;
    char why_not[256];
};
inline constexpr char compile_name[] = "barcuda_soft_compile", compiler_library[] = "libbarcuda-ptx.so";
using Compile = bool (*)(const ToCompile*, Compiled*);

}  // namespace barcuda::soft
