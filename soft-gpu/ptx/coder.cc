// SPDX-License-Identifier: Apache-2.0
// coder.cc: turns one function's text into its prepared form: lays out registers and stack, decodes every instruction,
// resolves branches.
#include "soft-gpu/ptx/coder.h"

#include <algorithm>

namespace barcuda::soft {

const Decoders& decoders() {
    static const Decoders& table = *new Decoders([] {
        Decoders t;
        for (auto add :
             {integer_instructions, bit_instructions, float_instructions, half_instructions, compare_instructions,
              convert_instructions, move_instructions, memory_instructions, atomic_instructions, barrier_instructions,
              mbarrier_instructions, warp_instructions, control_instructions, texture_instructions})
            add(t);
        return t;
    }());
    return table;
}

Coder::Coder(const ast::Function& written, Function& out, Symbols& symbols)
    : written_(written), out_(out), symbols_(symbols) {
    layout();
}

static std::uint32_t align_up(std::uint64_t value, std::uint64_t align) {
    return static_cast<std::uint32_t>((value + align - 1) / align * align);
}

// Stack variables (local memory, parameters of calls) from offset 0; register 0 is the stack base, the others follow on
// demand.
void Coder::layout() {
    out_.register_bytes = 8 * lane_count;
    slots_.assign(written_.registers.size(), nowhere);
    std::uint64_t stack = 0;
    for (const auto& v : written_.variables) {
        std::uint32_t at = 0;
        const bool kernel_parameter =
            written_.entry && std::find(written_.parameters.begin(), written_.parameters.end(),
                                        static_cast<int>(variables_.size())) != written_.parameters.end();
        if ((v.space == Space::local || v.space == Space::param) && !kernel_parameter) {
            at = align_up(stack, std::max<std::size_t>(v.align, 1));
            stack = at + v.bytes;
            if (stack > (1u << 24)) throw refused(v.line, "a stack frame of more than 16 MiB");
        }
        variables_.push_back(at);
    }
    out_.stack_bytes = align_up(stack, 16);
    if (written_.entry) {
        std::uint32_t at = 0;
        for (int p : written_.parameters) {
            const auto& v = written_.variables[static_cast<std::size_t>(p)];
            at = align_up(at, std::max<std::size_t>(v.align, 1));
            variables_[static_cast<std::size_t>(p)] = at;
            out_.parameters.push_back({false, at, static_cast<std::uint32_t>(v.bytes)});
            if (v.bytes > 65536 || at > 65536) throw refused(v.line, "parameters of more than 64 KiB");
            at += static_cast<std::uint32_t>(v.bytes);
        }
        return;
    }
    const auto formal = [&](int p) -> Place {
        const auto& v = written_.variables[static_cast<std::size_t>(p)];
        if (v.reg >= 0) return {true, slot_of(v.reg), bytes_of(v.type)};
        return {false, variables_[static_cast<std::size_t>(p)], static_cast<std::uint32_t>(v.bytes)};
    };
    for (int p : written_.parameters) out_.parameters.push_back(formal(p));
    for (int p : written_.results) out_.results.push_back(formal(p));
}

unsigned Coder::slot_bytes(int reg) const {
    const Type type = written_.registers[static_cast<std::size_t>(reg)];
    return type == Type::pred ? 4 : std::max(2u, bytes_of(type)) * lane_count;
}

Slot Coder::fresh(unsigned bytes) {
    if (bytes >= 64) out_.register_bytes = align_up(out_.register_bytes, 64);
    const Slot slot = out_.register_bytes | registers_bank;
    out_.register_bytes += align_up(bytes, 4);
    return slot;
}

Slot Coder::slot_of(int reg, bool write) {
    if (recording_)
        accesses_.push_back({static_cast<std::uint32_t>(in_ - written_.body.data()), reg, write && in_->guard < 0});
    Slot& slot = slots_[static_cast<std::size_t>(reg)];
    if (slot == nowhere) slot = fresh(slot_bytes(reg));
    return slot;
}

Slot Coder::scratch(unsigned bytes) {
    auto& pool = scratch_[bytes];
    const auto used = scratch_used_[bytes]++;
    if (used == pool.size()) pool.push_back(fresh(bytes * lane_count));
    return pool[used];
}

Slot Coder::constant(std::uint64_t bits, unsigned bytes) {
    if (bytes < 8) bits &= (std::uint64_t{1} << (8 * bytes)) - 1;
    const auto [found, fresh] = constants_.try_emplace({bits, bytes}, 0);
    if (fresh) {
        auto& bank = out_.constants;
        const auto at = bank.size();
        bank.resize(at + align_up(std::size_t{bytes} * lane_count, 32));
        std::byte value[16] = {};
        std::memcpy(value, &bits, 8);
        for (int i = 0; i < lane_count; ++i)
            std::memcpy(bank.data() + at + static_cast<std::size_t>(i) * bytes, value, bytes);
        found->second = static_cast<Slot>(at) | constants_bank;
    }
    return found->second;
}

// ---- the whole body -------------------------------------------------------------------------------------------------

// The body is decoded twice: first to find which registers live together, then with few slots for them.
void Coder::function() {
    const bool by_registers =
        std::any_of(written_.variables.begin(), written_.variables.end(), [](const auto& v) { return v.reg >= 0; });
    if (!by_registers) {
        recording_ = true;
        body();
        recording_ = false;
        allocate();
    }
    body();
}

void Coder::allocate() {
    std::vector<unsigned> bytes;
    for (std::size_t r = 0; r < slots_.size(); ++r) bytes.push_back(slot_bytes(static_cast<int>(r)));
    std::uint32_t end = 0;
    slots_ = assign(live_intervals(written_, accesses_), bytes, 8 * lane_count, &end);
    out_.register_bytes = end;
    out_.code.clear();
    out_.lines.clear();
    out_.texts.clear();
    out_.written.clear();
    out_.lists.clear();
    out_.calls.clear();
    out_.callees.clear();
    out_.constants.clear();
    constants_.clear();
    fixes_.clear();
    scratch_.clear();
    condition_code_ = nowhere;
}

void Coder::body() {
    const Decoders& table = decoders();
    std::vector<std::uint32_t> starts;  // of each written instruction
    for (const auto& in : written_.body) {
        starts.push_back(static_cast<std::uint32_t>(out_.code.size()));
        decode(in, table);
    }
    starts.push_back(static_cast<std::uint32_t>(out_.code.size()));
    // Reaching the end of the body is a return.
    static constexpr std::string_view end_text = "ret";
    ast::Instruction end;
    end.name = end_text;
    end.text = end_text;
    end.line = written_.body.empty() ? written_.line : written_.body.back().line;
    const bool recording = recording_;
    recording_ = false;
    decode(end, table);
    recording_ = recording;
    out_.written.back() = nullptr;
    out_.slots = slots_;
    out_.slot_bytes.clear();
    for (const Type type : written_.registers)
        out_.slot_bytes.push_back(static_cast<std::uint8_t>(type == Type::pred ? 4 : std::max(2u, bytes_of(type))));
    for (const auto& fix : fixes_) {
        const auto label = written_.labels.find(fix.label);
        const auto at = label == written_.labels.end() ? nowhere : starts[label->second];
        if (at == nowhere) throw invalid(out_.lines[fix.instr], "the label '" + std::string(fix.label) + "'");
        if (fix.list == nowhere) out_.code[fix.instr].target = at;
        else out_.lists[fix.list] = at;
    }
}

void Coder::decode(const ast::Instruction& in, const Decoders& table) {
    in_ = &in;
    taken_ = 0;
    scratch_used_.clear();
    const auto first = out_.code.size();
    // Families share names: "add.i", "add.f", "add.h". The last type written decides.
    Decoder decoder = nullptr;
    for (auto m = in.modifiers.rbegin(); m != in.modifiers.rend() && decoder == nullptr; ++m) {
        const auto type = type_named(*m);
        if (!type) continue;
        const char kind = facts(*type).kind;
        const char family = kind == 'u' || kind == 'i' ? 'i' : kind == 'v' ? 'h' : kind;
        const auto found = table.find(std::string(in.name) + "." + family);
        if (found != table.end()) decoder = found->second;
        break;
    }
    if (decoder == nullptr) {
        const auto found = table.find(in.name);
        if (found == table.end()) refuse();
        decoder = found->second;
    }
    decoder(*this);
    if (!left().empty()) refuse("the modifier '." + std::string(left()) + "' of '" + std::string(in.text) + "'");
    const Slot guard = in.guard < 0 ? nowhere : slot_of(in.guard);
    for (auto i = first; i < out_.code.size(); ++i) {
        out_.code[i].guard = guard;
        out_.code[i].flip = in.guard_negated ? all_lanes : 0;
    }
}

void Coder::refuse(const std::string& what) const {
    throw refused(in_->line, what.empty() ? "'" + std::string(in_->text) + "'" : what);
}

// ---- modifiers ------------------------------------------------------------------------------------------------------

bool Coder::take(std::string_view modifier) {
    for (std::size_t i = 0; i < in_->modifiers.size() && i < 64; ++i) {
        if (in_->modifiers[i] != modifier || (taken_ >> i & 1) != 0) continue;
        taken_ |= std::uint64_t{1} << i;
        return true;
    }
    return false;
}

bool Coder::has(std::string_view modifier) const {
    return std::find(in_->modifiers.begin(), in_->modifiers.end(), modifier) != in_->modifiers.end();
}

Type Coder::take_type() {
    for (std::size_t i = 0; i < in_->modifiers.size() && i < 64; ++i) {
        const auto type = type_named(in_->modifiers[i]);
        if (!type || (taken_ >> i & 1) != 0) continue;
        taken_ |= std::uint64_t{1} << i;
        return *type;
    }
    refuse();
}

std::string_view Coder::left() const {
    for (std::size_t i = 0; i < in_->modifiers.size(); ++i)
        if (i >= 64 || (taken_ >> i & 1) == 0) return in_->modifiers[i];
    return {};
}

// ---- operands -------------------------------------------------------------------------------------------------------

void Coder::count(std::size_t least, std::size_t most) const {
    const auto n = operand_count();
    if (n < least || n > most) throw invalid(in_->line, "the operands of '" + std::string(in_->text) + "'");
}

const ast::Operand& Coder::operand(std::size_t i) const {
    if (i >= operand_count()) throw invalid(in_->line, "the operands of '" + std::string(in_->text) + "'");
    return in_->operands[i];
}

// The bits of an immediate. Floating constants take the size of the type they stand for.
static std::optional<std::uint64_t> immediate(const ast::Operand& o, Type type) {
    switch (o.kind) {
        case ast::Operand::integer: return o.bits + static_cast<std::uint64_t>(o.offset);
        case ast::Operand::real32:
            if (type == Type::f64)
                return __builtin_bit_cast(
                    std::uint64_t, static_cast<double>(__builtin_bit_cast(float, static_cast<std::uint32_t>(o.bits))));
            return o.bits;
        case ast::Operand::real64:
            if (type == Type::f32)
                return __builtin_bit_cast(std::uint32_t, static_cast<float>(__builtin_bit_cast(double, o.bits)));
            return o.bits;
        default: return std::nullopt;
    }
}

std::optional<std::uint64_t> Coder::literal(const ast::Operand& o) const { return immediate(o, Type::b64); }

Slot Coder::read_wide(const ast::Operand& o, Type type, unsigned* bytes) {
    const unsigned wanted = bytes_of(type);
    *bytes = std::max(2u, wanted);
    if (o.address || o.negated || !o.items.empty()) refuse();
    if (const auto bits = immediate(o, type)) return constant(*bits, *bytes);
    if (o.kind == ast::Operand::special) {
        const Slot slot = symbols_.special(o.name_text, wanted);
        if (slot == nowhere) refuse("the special register '%" + std::string(o.name_text) + "'");
        return slot;
    }
    if (o.kind != ast::Operand::reg || o.offset != 0) refuse();
    const Type held = written_.registers[static_cast<std::size_t>(o.index)];
    if (held == Type::pred || bytes_of(held) < wanted)
        refuse("'" + std::string(in_->text) + "': a register's type does not fit");
    *bytes = std::max(2u, bytes_of(held));
    return slot_of(o.index);
}

Slot Coder::read(const ast::Operand& o, Type type) {
    unsigned bytes = 0;
    const Slot slot = read_wide(o, type, &bytes);
    if (bytes != std::max(2u, bytes_of(type)))
        refuse("'" + std::string(in_->text) + "': a register's type does not fit");
    return slot;
}

Slot Coder::write_wide(const ast::Operand& o, Type type, unsigned* bytes) {
    *bytes = std::max(2u, bytes_of(type));
    if (o.kind == ast::Operand::sink) return scratch(*bytes);
    if (o.kind != ast::Operand::reg || o.negated || o.address || o.offset != 0) refuse();
    const Type held = written_.registers[static_cast<std::size_t>(o.index)];
    if (held == Type::pred || bytes_of(held) < bytes_of(type))
        refuse("'" + std::string(in_->text) + "': a register's type does not fit");
    *bytes = std::max(2u, bytes_of(held));
    return slot_of(o.index, true);
}

Slot Coder::write(const ast::Operand& o, Type type) {
    unsigned bytes = 0;
    const Slot slot = write_wide(o, type, &bytes);
    if (bytes != std::max(2u, bytes_of(type)))
        refuse("'" + std::string(in_->text) + "': a register's type does not fit");
    return slot;
}

Slot Coder::read_predicate(const ast::Operand& o) {
    if (o.kind == ast::Operand::integer) return constant(o.bits != 0 ? all_lanes : 0, 4);
    if (o.kind != ast::Operand::reg || written_.registers[static_cast<std::size_t>(o.index)] != Type::pred) refuse();
    return slot_of(o.index);
}

Slot Coder::write_predicate(const ast::Operand& o) {
    if (o.kind == ast::Operand::sink) return scratch(4);
    if (o.negated || o.kind != ast::Operand::reg || written_.registers[static_cast<std::size_t>(o.index)] != Type::pred)
        refuse();
    return slot_of(o.index, true);
}

// The base register and offset of [x], and the state space if the symbol determines it.
Coder::Address Coder::address(const ast::Operand& o, Space& space) {
    if (!o.address) refuse();
    Address a;
    a.offset = o.offset;
    if (o.kind == ast::Operand::integer) {
        a.base = constant(o.bits, 8);
    } else if (o.kind == ast::Operand::reg) {
        const Type held = written_.registers[static_cast<std::size_t>(o.index)];
        a.bytes = bytes_of(held);
        if (held == Type::pred || (a.bytes != 4 && a.bytes != 8)) refuse();
        a.base = slot_of(o.index);
    } else if (o.kind == ast::Operand::variable) {
        const auto& v = written_.variables[static_cast<std::size_t>(o.index)];
        const auto at = static_cast<std::int64_t>(variables_[static_cast<std::size_t>(o.index)]);
        const bool formal =
            std::find(written_.parameters.begin(), written_.parameters.end(), o.index) != written_.parameters.end();
        if (v.space == Space::shared) {
            a.base = constant(symbols_.find(v.name).value, 8);
        } else if (written_.entry && formal) {  // a kernel's parameters lie in one buffer of the launch
            a.base = symbols_.special("parameters", 8);
            a.offset += at;
            if (space == Space::param || space == Space::generic) space = Space::global;
            return a;
        } else {
            a.base = stack_base();
            a.offset += at;
        }
        if (space == Space::generic || space == Space::param)
            space = v.space == Space::shared ? Space::shared : Space::local;
    } else if (o.kind == ast::Operand::name) {
        const Symbol s = symbols_.find(o.name_text);
        if (s.kind == Symbol::dynamic_shared) a.base = symbols_.special("dynamic_shared", 8);
        else if (s.kind == Symbol::address || s.kind == Symbol::shared) a.base = constant(s.value, 8);
        else refuse("the symbol '" + std::string(o.name_text) + "' as an address");
        if (space == Space::generic) space = s.kind == Symbol::address ? Space::global : Space::shared;
    } else {
        refuse();
    }
    return a;
}

Place Coder::place(const ast::Operand& o) {
    if (o.kind == ast::Operand::variable) {
        const auto& v = written_.variables[static_cast<std::size_t>(o.index)];
        if (v.space == Space::param &&
            !(written_.entry &&
              std::find(written_.parameters.begin(), written_.parameters.end(), o.index) != written_.parameters.end()))
            return {false, variables_[static_cast<std::size_t>(o.index)], static_cast<std::uint32_t>(v.bytes)};
    } else if (o.kind == ast::Operand::reg) {
        const Type held = written_.registers[static_cast<std::size_t>(o.index)];
        if (held != Type::pred) return {true, slot_of(o.index), std::max(2u, bytes_of(held))};
    }
    refuse();
}

std::uint32_t Coder::list(const std::vector<Slot>& slots) {
    const auto at = static_cast<std::uint32_t>(out_.lists.size());
    out_.lists.insert(out_.lists.end(), slots.begin(), slots.end());
    return at;
}

// ---- output ---------------------------------------------------------------------------------------------------------

Instr& Coder::emit(Handler run) {
    out_.lines.push_back(in_->line);
    out_.texts.push_back(in_->text);
    out_.written.push_back(in_);
    out_.code.emplace_back();
    out_.code.back().run = run;
    return out_.code.back();
}

Instr& Coder::emit(Handler run, Slot d, Slot a, Slot b, Slot c, Slot e) {
    Instr& i = emit(run);
    i.d = d;
    i.a = a;
    i.b = b;
    i.c = c;
    i.e = e;
    return i;
}

void Coder::branch_to(Instr& at, std::string_view label) {
    fixes_.push_back({static_cast<std::size_t>(&at - out_.code.data()), nowhere, label});
}

// A table is its length, then its targets.
std::uint32_t Coder::branch_table(std::string_view name) {
    const auto table = written_.tables.find(name);
    if (table == written_.tables.end()) throw invalid(in_->line, "the branch table '" + std::string(name) + "'");
    const auto at = static_cast<std::uint32_t>(out_.lists.size());
    out_.lists.push_back(static_cast<std::uint32_t>(table->second.size()));
    for (const auto label : table->second) {
        fixes_.push_back({out_.code.empty() ? 0 : out_.code.size() - 1, out_.lists.size(), label});
        out_.lists.push_back(nowhere);
    }
    return at;
}

}  // namespace barcuda::soft
