// SPDX-License-Identifier: Apache-2.0
// translator.h: one prepared function becomes one function of LLVM's.
//
//   analysis.cc    where blocks begin, what lives, how numbers lie
//   flow.cc        where code may be entered and left, the two forms of a block, branches, handlers' calls
//   registers.cc   the registers of a block as values; what is written back, and when
//   arithmetic.cc  what is computed (approximations.cc: two functions of it), moves.cc what moves
//   memory.cc      loads and stores, scattered.cc those of lanes that each go their own way
#pragma once
#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "soft-gpu/compiler/ir.h"
#include "soft-gpu/ptx/native.h"

namespace barcuda::soft::compiler {

// A warp's value, in the forms that were requested so far.
struct Value {
    unsigned bytes = 0;  // of a lane; 0: a predicate
    V bits = nullptr;    // 32 integers; of a predicate 32 bits in one number
    V reals = nullptr;   // the same as floating-point numbers; of a predicate 32 truths
    V scalar = nullptr;  // an integer: the value of all lanes, if known
    V origin = nullptr;  // a vector that differs from this one by the same number in all lanes
    bool open = false;   // f32: may be any NaN; arithmetic does not mind, everything else must use PTX's
    bool dirty = false;  // newer than the register in memory
};

// A written instruction and its prepared instructions.
struct Group {
    const ast::Instruction* in;
    std::uint32_t first, last;  // [first, last)
};

bool stays(std::string_view name);  // whether this instruction neither parks lanes nor changes which lanes run

class Translator {
  public:
    Translator(Ir& ir, const ToCompile& what);
    bool translate();  // false: not worth it
    std::uint32_t sites() const { return static_cast<std::uint32_t>(sites_.size()); }

  private:
    // flow.cc
    void find_leaders();
    void find_live();
    void find_live_within(std::uint32_t leader);
    std::pair<std::set<Slot>, std::set<Slot>> touches(const Group& g) const;  // reads, writes
    void block(std::uint32_t from);
    void unless(V fine, std::uint32_t index);
    void group(const Group& g);
    void branch(const Instr& in, std::uint32_t index);
    void edge(std::uint32_t to, bool back);  // ends the block
    void count();
    void leave(V how);
    void leaving(std::uint32_t index, const ast::Instruction* written);
    bool meets(const Group& g);
    void handler(const Group& g);
    V call_step(std::uint32_t index, V mask);
    void leave_unless_fine(V result);
    std::set<Slot> named(const Group& g) const;

    // registers.cc
    V field(std::size_t offset, T type, unsigned align = 8) { return ir_.load(field_address(offset), type, align); }
    void set_field(std::size_t offset, V value) { ir_.store(field_address(offset), value, 4); }
    V field_address(std::size_t offset) { return ir_.add(running_, ir_.number(offset, 8)); }
    Value& value(Slot slot, unsigned bytes);
    V bits(Slot slot, unsigned bytes);
    V scalar(Slot slot, unsigned bytes);  // null if the lanes may differ
    V origin(Slot slot, unsigned bytes);
    V reals(Slot slot, unsigned bytes, bool any_nan = false);
    V truths(Slot slot);
    V predicate(Slot slot);  // 32 bits
    void write(Slot slot, Value v);
    void write_bits(Slot slot, V v, unsigned bytes) {
        write(slot, {bytes, v, nullptr, nullptr, nullptr, false, false});
    }
    void write_reals(Slot slot, V v, unsigned bytes, bool open = false) {
        write(slot, {bytes, nullptr, v, nullptr, nullptr, open, false});
    }
    void write_truths(Slot slot, V v) { write(slot, {0, nullptr, v, nullptr, nullptr, false, false}); }
    void write_predicate(Slot slot, V v) { write(slot, {0, v, nullptr, nullptr, nullptr, false, false}); }
    V address(Slot slot);  // of a register in memory
    void put(Slot slot, Value& v);
    void write_back(const std::set<Slot>& slots);  // into memory; they stay known
    void forget(const std::set<Slot>& slots);
    V closed(V x, unsigned bytes);  // the one NaN of f32
    V known_constant(Slot slot, unsigned bytes, V* scalar);
    V truths_of(V mask) { return ir_.as(mask, ir_.of(ir_.bit())); }
    V bits_of(V truths) { return ir_.as(truths, ir_.integer(4)); }
    V mask() { return whole_ ? ir_.number(~0u, 4) : mask_; }           // of the fragment
    V active() { return guard_ ? ir_.both(guard_, mask()) : mask(); }  // of the instruction

    // arithmetic.cc
    bool compute(const Group& g);
    bool integers(const Group& g);
    bool floats(const Group& g);
    bool compares(const Group& g);
    V flushed(V x);
    V exp2_of(V x);  // approximations.cc
    V log2_of(V x);

    // moves.cc
    bool converts(const Group& g);
    bool moves(const Group& g);
    bool exchanges(const Group& g);

    // memory.cc
    bool accesses(const Group& g);
    unsigned register_bytes(int reg) const { return f_.slot_bytes[static_cast<std::size_t>(reg)]; }
    struct Access;
    bool read_access(const Group& g, Access& a, bool& parameter) const;
    std::pair<std::int64_t, std::int64_t> offsets_ahead(const Group& g, const Access& a) const;
    void fast_and_slow(const Group& g, const Access& a);
    void locally(const Group& g, const Access& a);
    void slowly(const Group& g, const Access& a, const std::vector<V>& data, B behind,
                std::vector<std::pair<std::vector<V>, B>> ways);
    void finish(const Access& a, const std::vector<V>& loaded, bool one_place);
    V places(const Access& a, V lanes, V* fine);
    std::uint32_t site_of(std::uint32_t index) { return sites_.emplace(index, sites()).first->second; }
    V copy_lanes(bool load, unsigned bytes);
    V in_order_of_memory(std::vector<V> of, unsigned lanes);
    std::vector<V> copied(const Access& a, V where, V lanes, const std::vector<V>& data);
    V extended(const Access& a, V x);
    void look();
    struct Range {
        V base, size, writable;
    };
    Range range_of(const Access& a);
    struct Half {
        V fine, row, address;
    };
    enum class Shape { any, same, row };  // of half a warp's addresses
    Shape expected_shape(int reg, bool load) const;
    void find_shapes();
    Half half(const Access& a, std::int64_t low, std::int64_t high, unsigned h, const Range& range, Shape shape);
    struct Span {  // of offsets that are checked together
        std::int64_t low = 0, high = 0;
        std::uint32_t site = 0;
        V fine = nullptr, seen = nullptr;  // seen: the generation
        Half halves[2] = {};
    };

    Ir& ir_;
    const Function& f_;
    const bool whole_;
    std::set<Slot> uniform_, across_;
    V running_ = nullptr, registers_ = nullptr, constants_ = nullptr, specials_ = nullptr;
    V shared_ = nullptr, shared_bytes_ = nullptr, sites_at_ = nullptr, generation_ = nullptr;
    B lost_ = nullptr;
    std::map<std::pair<bool, unsigned>, V> copy_lanes_;                      // functions, by load and bytes
    std::map<std::tuple<V, unsigned, bool, bool, bool, V>, Span> spans_;     // by addresses, bytes, kind and guard
    std::map<std::tuple<V, unsigned, unsigned>, std::pair<V, V>> patterns_;  // row, same: by origin, step and half
    std::map<std::uint32_t, B> blocks_;                                      // by leader
    std::vector<Group> groups_;
    std::map<std::uint32_t, std::set<Slot>> live_in_;  // by leader
    std::set<Slot> live_out_;                          // of the block at hand
    std::map<std::uint32_t, std::set<Slot>> live_at_;  // by load or store
    std::map<std::uint32_t, B> careful_at_;  // by load or store: where blocks continue with all paths of access
    std::map<int, unsigned> lane_shapes_;    // registers: 0 the same in half a warp, 1 a row, 2 neither
    std::map<Slot, Value> known_;
    V mask_ = nullptr, guard_ = nullptr, guard_truths_ = nullptr;
    std::uint32_t counted_ = 0, block_end_ = 0;
    std::map<std::uint32_t, std::uint32_t> sites_;  // by load or store: found by the careful form for the quick form
    bool ended_ = false, careful_ = false;
};

// Tracks the modifiers that were taken, as the interpreter's decoders do: a remaining one is unknown.
class Modifiers {
  public:
    explicit Modifiers(const ast::Instruction& in) : left_(in.modifiers) {}
    bool take(std::string_view name) {
        const auto at = std::ranges::find(left_, name);
        if (at == left_.end()) return false;
        left_.erase(at);
        return true;
    }
    void ignore(std::initializer_list<std::string_view> names) {
        for (const auto n : names) take(n);
    }
    Type type() {
        const auto at = std::ranges::find_if(left_, [](std::string_view n) { return type_named(n).has_value(); });
        if (at == left_.end()) return Type::none;
        const Type type = *type_named(*at);
        left_.erase(at);
        return type;
    }
    bool done() const { return left_.empty(); }
    const std::vector<std::string_view>& left() const { return left_; }

  private:
    std::vector<std::string_view> left_;
};

}  // namespace barcuda::soft::compiler
