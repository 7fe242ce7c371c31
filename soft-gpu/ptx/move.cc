// SPDX-License-Identifier: Apache-2.0
// move.cc: mov with packing and unpacking, addresses of symbols, clocks, cvta and isspacep.
#include <chrono>

#include "soft-gpu/ptx/coder.h"
#include "soft-gpu/ptx/memory_decode.h"
#include "soft-gpu/ptx/select.h"

namespace barcuda::soft {
namespace {

using u64 = std::uint64_t;
struct alignas(8) WideValue {
    u64 low, high;
};  // a 128-bit register's lane

template <class T> Handler copy() {
    return lanes<T, T>([](T a) { return a; });
}
Handler copy_of(Coder& c, unsigned bytes) {
    switch (bytes) {
        case 1:
        case 2: return copy<std::uint16_t>();
        case 4: return copy<std::uint32_t>();
        case 8: return copy<u64>();
        case 16: return copy<WideValue>();
        default: c.refuse();
    }
}

Step move_predicate(Warp& w, const Instr& in, Mask mask) {
    Mask& d = w.predicate(in.d);
    d = (d & ~mask) | ((w.predicate(in.a) ^ (in.imm != 0 ? all_lanes : 0)) & mask);
    return Step::go;
}

// A register from its parts, lowest first; lists[target...] are the parts, imm their bytes, e their number.
Step pack(Warp& w, const Instr& in, Mask mask) {
    const Slot* const list = w.frame->function->lists.data() + in.target;
    const auto part = static_cast<std::size_t>(in.imm), whole = part * in.e;
    for (Mask m = mask; m != 0; m &= m - 1) {
        const auto i = static_cast<std::size_t>(__builtin_ctz(m));
        std::byte value[16];
        for (unsigned k = 0; k < in.e; ++k) std::memcpy(value + k * part, w.at<std::byte>(list[k]) + i * part, part);
        std::memcpy(w.at<std::byte>(in.d) + i * whole, value, whole);
    }
    return Step::go;
}

Step unpack(Warp& w, const Instr& in, Mask mask) {
    const Slot* const list = w.frame->function->lists.data() + in.target;
    const auto part = static_cast<std::size_t>(in.imm), whole = part * in.e;
    for (Mask m = mask; m != 0; m &= m - 1) {
        const auto i = static_cast<std::size_t>(__builtin_ctz(m));
        std::byte value[16];
        std::memcpy(value, w.at<std::byte>(in.a) + i * whole, whole);
        for (unsigned k = 0; k < in.e; ++k) std::memcpy(w.at<std::byte>(list[k]) + i * part, value + k * part, part);
    }
    return Step::go;
}

Type bits_of(unsigned bytes) {
    return bytes == 1 ? Type::b8 : bytes == 2 ? Type::b16 : bytes == 4 ? Type::b32 : Type::b64;
}

void decode_pack(Coder& c, Type type, bool packing) {
    const auto& parts = c.operand(packing ? 1 : 0).items;
    const auto n = static_cast<unsigned>(parts.size());
    const unsigned bytes = n == 0 ? 0 : bytes_of(type) / n;
    if (n < 2 || n > 4 || bytes < 2 || bytes * n != bytes_of(type)) c.refuse();
    std::vector<Slot> slots;
    for (const auto& item : parts)
        slots.push_back(packing ? c.read(item, bits_of(bytes)) : c.write(item, bits_of(bytes)));
    const Slot whole = packing ? c.write(c.operand(0), type) : c.read(c.operand(1), type);
    auto& in = packing ? c.emit(pack, whole, nowhere, nowhere, nowhere, n)
                       : c.emit(unpack, nowhere, whole, nowhere, nowhere, n);
    in.imm = bytes;
    in.target = c.list(slots);
}

template <class T> Step clock(Warp& w, const Instr& in, Mask mask) {  // a cycle counts as a nanosecond
    const auto now = static_cast<u64>((in.imm != 0 ? std::chrono::system_clock::now().time_since_epoch()
                                                   : std::chrono::steady_clock::now().time_since_epoch())
                                          .count());
    const T value = static_cast<T>(in.target == 1 ? now >> 32 : now);
    T* const d = w.at<T>(in.d);
    each(
        mask, [&](int i) __attribute__((always_inline)) { d[i] = value; });
    w.budget -= 16;  // a lane that reads the time may be waiting
    return Step::go;
}

bool decode_clock(Coder& c, Type type) {
    const auto name = c.operand(1).name_text;
    const bool global = name.starts_with("globaltimer");
    if (!global && name != "clock" && name != "clock64" && name != "clock_hi") return false;
    const bool high = name.ends_with("_hi");
    auto& in = c.emit(bytes_of(type) == 8 ? clock<u64> : clock<std::uint32_t>, c.write(c.operand(0), type));
    in.imm = global;
    in.target = high ? 1 : 0;
    return true;
}

Handler add_offset(unsigned bytes) {
    return bytes == 4 ? lanes<std::uint32_t, u64, u64>([](u64 a, u64 b) { return a + b; })
                      : lanes<u64, u64, u64>([](u64 a, u64 b) { return a + b; });
}

// d = the address of a variable or a function, in its own space
void decode_symbol(Coder& c, Type type) {
    const auto& o = c.operand(1);
    const Slot d = c.write(c.operand(0), type);
    if (bytes_of(type) < 4) c.refuse();
    if (o.kind == ast::Operand::name) {
        const Symbol s = c.symbols().find(o.name_text);
        if (s.kind == Symbol::code)
            return void(c.emit(copy_of(c, bytes_of(type)), d, c.constant(s.value, bytes_of(type))));
        if (s.kind == Symbol::none || s.kind == Symbol::texture)
            c.refuse("the symbol '" + std::string(o.name_text) + "'");
        if (s.kind == Symbol::address && bytes_of(type) < 8) c.refuse();
    }
    ast::Operand address = o;
    address.address = true;
    Space space = Space::generic;
    const auto a = c.address(address, space);
    c.emit(add_offset(bytes_of(type)), d, a.base, c.constant(static_cast<u64>(a.offset), 8));
}

void decode_mov(Coder& c) {
    const Type type = c.take_type();
    c.count(2, 2);
    const auto &d = c.operand(0), &a = c.operand(1);
    if (type == Type::pred) {
        const Slot to = c.write_predicate(d);
        c.emit(move_predicate, to, c.read_predicate(a)).imm = a.negated;
        return;
    }
    if (a.kind == ast::Operand::list) return decode_pack(c, type, true);
    if (d.kind == ast::Operand::list) return decode_pack(c, type, false);
    if (a.kind == ast::Operand::special && decode_clock(c, type)) return;
    if (a.kind == ast::Operand::variable || a.kind == ast::Operand::name) return decode_symbol(c, type);
    const Slot to = c.write(d, type);
    c.emit(copy_of(c, bytes_of(type)), to, c.read(a, type));
}

// Shared and local addresses gain or lose the window's base; the other spaces are generic already.
void decode_cvta(Coder& c) {
    const bool to = c.take("to");
    Space space = Space::generic;
    if (c.take("param") || c.take("param::entry")) space = Space::global;
    else space = take_space(c);
    const Type type = c.take_type();
    c.count(2, 2);
    if (bytes_of(type) != 8 || space == Space::generic) c.refuse();
    const Slot d = c.write(c.operand(0), type);
    u64 base = space == Space::shared ? window.shared() : space == Space::local ? window.local() : 0;
    if (to) base = 0 - base;
    const auto& o = c.operand(1);
    if (o.kind == ast::Operand::variable || o.kind == ast::Operand::name) {
        ast::Operand address = o;
        address.address = true;
        Space found = Space::generic;
        const auto a = c.address(address, found);
        c.emit(add_offset(8), d, a.base, c.constant(base + static_cast<u64>(a.offset), 8));
        return;
    }
    const Slot a = c.read(o, type);
    if (base == 0) c.emit(copy<u64>(), d, a);
    else c.emit(add_offset(8), d, a, c.constant(base, 8));
}

void decode_isspacep(Coder& c) {
    const bool parameter = c.take("param") || c.take("param::entry");
    const Space space = parameter ? Space::param : c.take("const") ? Space::constant : take_space(c);
    c.count(2, 2);
    const Slot d = c.write_predicate(c.operand(0)), a = c.read(c.operand(1), Type::u64);
    AddressSpace::Range range{window.base, Window::size};
    switch (space) {
        case Space::shared: range.size = Window::shared_size; break;
        case Space::local: range = {window.local(), Window::size - Window::shared_size}; break;
        case Space::constant: range = c.symbols().constants(); break;
        case Space::param:
            if (!c.function_out().entry) c.refuse();
            range.size = c.parameter_bytes();
            break;
        default: break;
    }
    const Slot at = parameter ? c.parameters_base() : c.constant(range.base, 8), bytes = c.constant(range.size, 8);
    if (space == Space::global)
        c.emit(lanes_to_bits<u64, u64, u64>([](u64 x, u64 b, u64 n) { return x - b >= n; }), d, a, at, bytes);
    else c.emit(lanes_to_bits<u64, u64, u64>([](u64 x, u64 b, u64 n) { return x - b < n; }), d, a, at, bytes);
}

// The address of another block's shared memory in the cluster: a cluster is one block.
void decode_mapa(Coder& c) {
    c.take("shared::cluster");
    const Type type = c.take_type();
    c.count(3, 3);
    const Slot d = c.write(c.operand(0), type), a = c.read(c.operand(1), type);
    c.read(c.operand(2), Type::u32);
    c.emit(copy_of(c, bytes_of(type)), d, a);
}

}  // namespace

void move_instructions(Decoders& t) {
    t["mov"] = decode_mov;
    t["cvta"] = decode_cvta;
    t["isspacep"] = decode_isspacep;
    t["mapa"] = decode_mapa;
}

}  // namespace barcuda::soft
