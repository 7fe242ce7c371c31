// SPDX-License-Identifier: Apache-2.0
// machine.h: the prepared form of a program and the state of what runs it.
//
//   Function   a dense array of Instr: a handler and resolved operands, no names
//   Warp       32 lanes in lockstep. Registers lie lane after lane (slot * 32 + lane), so that handlers are short loops
//   Fragment   lanes of a warp that stand at one instruction of one frame; a divergent warp has several
//   Frame      the registers and stack of one call; the lanes that made the call together share it
//   Block      its warps, shared memory and barriers, driven by one host thread at a time
//   Grid       one launch
#pragma once
#include <array>
#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "soft-gpu/engine.h"
#include "soft-gpu/ptx/ast.h"
#include "soft-gpu/ptx/types.h"

namespace barcuda::soft {

using Mask = std::uint32_t;  // one bit a lane
inline constexpr int lane_count = 32;
inline constexpr Mask all_lanes = ~Mask{0};
inline constexpr std::uint32_t nowhere = ~std::uint32_t{0};

struct Warp;
struct Instr;
struct Function;
struct Block;
struct Grid;
enum class Step : bool { go, leave };  // leave: the fragment cannot continue directly; ask the scheduler
using Handler = Step (*)(Warp&, const Instr&, Mask);

// An operand is a byte offset into one of a warp's banks; its two low bits select the bank.
enum Bank : std::uint32_t { registers_bank, constants_bank, specials_bank };
using Slot = std::uint32_t;

struct Instr {
    Handler run = nullptr;
    Slot guard = nowhere;  // predicate register
    Mask flip = 0;         // xor of the guard: all ones for @!p
    Slot d = nowhere, a = nowhere, b = nowhere, c = nowhere;
    Slot e = nowhere;                // a second destination or a fourth source
    std::uint32_t target = nowhere;  // of a branch; or a place in Function::lists
    std::int64_t imm = 0;
};

// Where a formal parameter or an argument lies: in the frame's stack, or in a register.
struct Place {
    bool in_register = false;
    std::uint32_t at = 0, bytes = 0;  // stack offset, or slot
};

struct Code;  // module.h: the whole program

struct Call {                          // one call site
    const Function* callee = nullptr;  // null: indirect
    std::vector<Place> arguments, results;
};

struct Native;  // native.h: a function's machine code

struct Function {
    std::string name;
    unsigned index = 0;
    bool entry = false;
    std::vector<Instr> code;
    std::vector<int> lines;  // of each instruction, in the PTX text
    std::vector<std::string_view> texts;
    std::vector<const ast::Instruction*> written;  // each instruction's origin; null of the return that ends a body
    std::vector<Slot> slots;                       // by register of the text
    std::vector<std::uint8_t> slot_bytes;          // of a lane; a predicate's are 4
    std::vector<std::uint32_t> lists;              // vector operands, branch tables
    std::vector<Call> calls;
    std::vector<Place> parameters, results;
    std::vector<std::byte> constants;  // 32 copies of each: the constants bank
    std::uint32_t register_bytes = 0;  // of a frame
    std::uint32_t stack_bytes = 0;     // of a frame, a lane
    std::uint32_t stack_limit = 0;     // an entry: of its whole call tree, a lane
    std::string refusal;               // why it cannot run; empty if it can
    int refusal_code = 0;
    std::vector<const Function*> callees;
    bool calls_indirectly = false;
    std::shared_ptr<Native> native;
};

struct Frame {
    const Function* function = nullptr;
    Frame* caller = nullptr;
    const Call* call = nullptr;
    std::uint32_t return_pc = 0;
    Mask live = 0;
    std::uint32_t stack_base = 0;  // the same in all of its lanes
    unsigned depth = 0;
    std::byte* registers = nullptr;
};

struct Fragment {
    enum State : std::uint8_t { ready, at_barrier, at_sync };
    Frame* frame = nullptr;
    std::uint32_t pc = 0;
    Mask mask = 0;
    State state = ready;
    std::uint8_t barrier = 0;
    Mask members = 0;        // at_sync: the lanes that it waits for
    std::uint64_t turn = 0;  // when it last ran: the fragment with the lowest value is starved most
};

struct Warp {
    std::byte* bank[3] = {};
    std::uint32_t pc = 0, stop = nowhere;
    Mask mask = 0;  // the running fragment
    Frame* frame = nullptr;
    Block* block = nullptr;
    std::int64_t budget = 0;          // instructions until other warps run
    std::vector<Fragment> fragments;  // those that are not running
    Mask exited = 0;                  // including lanes that never existed
    unsigned index = 0;
    bool meets = false;  // all of its threads are in the running fragment, and wait at barrier 0: it is in no list
    std::uint64_t turn = 0, instructions = 0;
    std::byte* stacks = nullptr;  // lane i at stacks + i * stack_stride
    std::vector<std::byte> specials;

    template <class T> T* at(Slot slot) { return reinterpret_cast<T*>(bank[slot & 3] + (slot & ~Slot{3})); }
    Mask& predicate(Slot slot) { return *at<Mask>(slot); }
};

struct Barrier {
    unsigned expected = 0, arrived = 0;              // expected 0: every live thread of the block
    unsigned population = 0, result_population = 0;  // bar.red: collected so far, and of the last phase
    bool all = true, any = false, result_all = true, result_any = false;
};

struct Block {
    Grid* grid = nullptr;
    unsigned index[3] = {};
    std::uint64_t linear = 0;
    std::vector<Warp> warps;
    std::byte* shared = nullptr;
    std::size_t shared_bytes = 0;
    std::size_t stack_bytes = 0, stack_stride = 0;
    std::array<Barrier, 16> barriers;
    unsigned live = 0;               // threads
    std::uint64_t instructions = 0;  // executed by warps
    std::uint64_t lane_instructions = 0;
    AddressSpace::Range range, other_range;           // the ranges found last
    std::array<AddressSpace::Range, 6> older_ranges;  // and earlier ones, for kernels with many arrays
    unsigned oldest = 0;
    std::uint64_t generation = ~std::uint64_t{0};
    std::vector<AddressSpace::Range> sites;  // by site, a load or store of a compiled function: the range found last
    const Code* sites_of = nullptr;
    std::uint64_t sites_seen = 0;                  // the generation
    std::vector<std::vector<Frame*>> free_frames;  // by function
    std::vector<std::unique_ptr<Frame>> frames;
    std::vector<std::unique_ptr<std::byte[]>> storage;
};

struct Grid {
    const Code* code = nullptr;
    const Function* entry = nullptr;
    LaunchConfig config;
    AddressSpace* space = nullptr;
    const std::function<void(std::string_view)>* print = nullptr;
    const std::byte* parameters = nullptr;
    std::size_t parameter_bytes = 0;
    std::uint64_t blocks = 0, id = 0;
    unsigned threads = 0;             // of a block
    std::size_t shared_bytes = 0;     // static and dynamic
    std::size_t reserved_shared = 0;  // where the system's part begins, if there is one
    std::uintptr_t workspace = 0;     // of grid-wide barriers
    std::size_t workspace_bytes = 0;
    std::atomic<std::uint64_t> next{0}, done{0};
    std::atomic<bool> failed{false};
    std::mutex mutex;  // error, print
    Error error{0, {}};
};

// A fault of a lane; the scheduler adds its location.
struct Fault {
    int code;
    std::string what;
    int lane;
};

// The generic addresses of shared and local memory: a reserved, inaccessible window of this process.
struct Window {
    std::uintptr_t base = 0;
    static constexpr std::size_t shared_size = std::size_t{16} << 20, size = std::size_t{64} << 20;
    std::uintptr_t shared() const { return base; }
    std::uintptr_t local() const { return base + shared_size; }
};
extern const Window window;

// scheduling services of handlers (schedule.cc)
void park(Warp& w, Mask lanes, std::uint32_t pc, Fragment::State state, unsigned barrier, Mask members);
void leave_threads(Warp& w, Mask lanes);  // they exit
void enter(Warp& w, const Function& callee, const Call& call, Mask lanes);
void leave_call(Warp& w, Mask lanes);

// Every lane of the mask, in order. All 32: a loop of constant length that vectorizes.
template <class F> [[gnu::always_inline]] inline void each(Mask mask, F&& f) {
    if (mask == all_lanes) {
#if !defined(__clang__)  // clang checks at run time that lanes do not overlap
#pragma GCC ivdep
#endif
        for (int i = 0; i < lane_count; ++i) f(i);
    } else {
        for (; mask != 0; mask &= mask - 1) f(__builtin_ctz(mask));
    }
}

}  // namespace barcuda::soft
