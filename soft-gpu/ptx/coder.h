// SPDX-License-Identifier: Apache-2.0
// coder.h: what an instruction's decoder sees: the written instruction on one side, the prepared one on the other.
//
// A decoder takes every modifier it knows, turns operands into slots, and emits one Instr (rarely two). A modifier that
// no decoder took is refused: the software GPU never ignores what it does not know.
#pragma once
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>

#include "soft-gpu/ptx/allocate.h"
#include "soft-gpu/ptx/ast.h"
#include "soft-gpu/ptx/errors.h"
#include "soft-gpu/ptx/lanes.h"

namespace barcuda::soft {

class Coder;
using Decoder = void (*)(Coder&);
using Decoders = std::unordered_map<std::string_view, Decoder>;  // "add.i", "add.f", "ld"

// What the preparer knows about the module's names.
struct Symbol {
    enum Kind : std::uint8_t { none, address, shared, dynamic_shared, code, texture } kind = none;
    std::uint64_t value = 0;  // address, or offset in shared memory
    const Function* function = nullptr;
};

class Symbols {
  public:
    virtual ~Symbols() = default;
    virtual Symbol find(std::string_view name) const = 0;
    virtual Slot special(std::string_view name, unsigned bytes) = 0;  // nowhere: no such special register
    virtual const ast::Function* written(std::string_view name) const = 0;
    virtual AddressSpace::Range constants() const = 0;
};

class Coder {
  public:
    Coder(const ast::Function& written, Function& out, Symbols& symbols);
    void function();  // prepares the whole body; throws Error

    // the current instruction
    const ast::Instruction& in() const { return *in_; }
    const ast::Operand& operand(std::size_t i) const;
    std::size_t operand_count() const { return in_->operands.size(); }
    void count(std::size_t least, std::size_t most) const;

    // modifiers
    bool take(std::string_view modifier);
    void ignore(std::initializer_list<std::string_view> modifiers) {
        for (auto m : modifiers) take(m);
    }
    Type take_type();  // the first remaining type
    bool has(std::string_view modifier) const;
    std::string_view left() const;  // the first modifier that was not taken; empty if none

    // operands
    Slot read(const ast::Operand& o, Type type);                        // a register of the type's size, or a constant
    Slot read_wide(const ast::Operand& o, Type type, unsigned* bytes);  // a register at least that wide
    Slot read_predicate(const ast::Operand& o);                         // not negated
    Slot write(const ast::Operand& o, Type type);
    Slot write_wide(const ast::Operand& o, Type type, unsigned* bytes);
    Slot write_predicate(const ast::Operand& o);
    Slot constant(std::uint64_t bits, unsigned bytes);
    Slot scratch(unsigned bytes);          // for an unused result
    Slot fresh(unsigned bytes);            // a slot that nothing shares
    Slot stack_base() const { return 0; }  // a 64-bit register: where the frame's stack begins
    Slot condition_code() {
        return condition_code_ == nowhere ? condition_code_ = fresh(4 * lane_count) : condition_code_;
    }  // of add.cc
    Slot parameters_base() { return symbols_.special("parameters", 8); }
    std::size_t parameter_bytes() const {
        return out_.parameters.empty() ? 0 : out_.parameters.back().at + out_.parameters.back().bytes;
    }
    struct Address {
        Slot base = 0;
        unsigned bytes = 8;
        std::int64_t offset = 0;
    };
    Address address(const ast::Operand& o, Space& space);  // resolves a symbol's space
    std::optional<std::uint64_t> literal(const ast::Operand& o) const;
    Place place(const ast::Operand& o);  // of an argument or a result of a call
    std::uint32_t list(const std::vector<Slot>& slots);

    // output
    Instr& emit(Handler run);
    Instr& emit(Handler run, Slot d, Slot a = nowhere, Slot b = nowhere, Slot c = nowhere, Slot e = nowhere);
    void branch_to(Instr& at, std::string_view label);  // fixed when the body is complete
    std::uint32_t branch_table(std::string_view name);
    Function& function_out() { return out_; }
    const ast::Function& written() const { return written_; }
    Symbols& symbols() { return symbols_; }
    [[noreturn]] void refuse(const std::string& what = {}) const;

  private:
    struct Fix {
        std::size_t instr;
        std::size_t list;
        std::string_view label;
    };
    Slot slot_of(int reg, bool write = false);
    void body();
    void allocate();
    unsigned slot_bytes(int reg) const;
    void layout();
    void decode(const ast::Instruction& in, const Decoders& decoders);

    const ast::Function& written_;
    Function& out_;
    Symbols& symbols_;
    const ast::Instruction* in_ = nullptr;
    std::uint64_t taken_ = 0;               // bit per modifier
    std::vector<Slot> slots_;               // by register
    std::vector<std::uint32_t> variables_;  // stack or shared offset, by variable
    std::map<std::pair<std::uint64_t, unsigned>, Slot> constants_;
    std::vector<Fix> fixes_;
    Slot condition_code_ = nowhere;
    std::vector<Access> accesses_;  // of the first pass
    bool recording_ = false;
    std::map<unsigned, std::vector<Slot>> scratch_;  // by size; free again with every instruction
    std::map<unsigned, std::size_t> scratch_used_;
};

// Every family adds its decoders.
void integer_instructions(Decoders&);
void bit_instructions(Decoders&);
void float_instructions(Decoders&);
void half_instructions(Decoders&);
void compare_instructions(Decoders&);
void convert_instructions(Decoders&);
void move_instructions(Decoders&);
void memory_instructions(Decoders&);
void atomic_instructions(Decoders&);
void barrier_instructions(Decoders&);
void mbarrier_instructions(Decoders&);
void warp_instructions(Decoders&);
void control_instructions(Decoders&);
void texture_instructions(Decoders&);
const Decoders& decoders();

}  // namespace barcuda::soft
