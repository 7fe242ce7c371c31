// SPDX-License-Identifier: Apache-2.0
// memory.cc: ld, st and prefetch of every space, and the messages for illegal addresses.
#include "soft-gpu/ptx/memory.h"

#include <cinttypes>
#include <cstdio>

#include "soft-gpu/ptx/coder.h"
#include "soft-gpu/ptx/memory_decode.h"

namespace barcuda::soft {

static std::string hex(std::uint64_t value) {
    char text[32];
    std::snprintf(text, sizeof text, "0x%" PRIx64, value);
    return text;
}

void misaligned(int lane, std::uint64_t address, unsigned bytes) {
    throw Fault{CUDA_ERROR_MISALIGNED_ADDRESS,
                "address " + hex(address) + " is not a multiple of " + std::to_string(bytes), lane};
}

void out_of_bounds(Warp& w, int lane, Space space, std::uint64_t address, unsigned bytes) {
    const bool shared = space == Space::shared;
    throw Fault{shared ? CUDA_ERROR_ILLEGAL_INSTRUCTION : CUDA_ERROR_ILLEGAL_ADDRESS,  // as an H100 says
                std::to_string(bytes) + " bytes at " + hex(address) + " are outside the " +
                    std::to_string(shared ? w.block->shared_bytes : w.block->stack_bytes) + " bytes of " +
                    (shared ? "shared memory" : "local memory"),
                lane};
}

void find_range(Warp& w, int lane, std::uint64_t address, unsigned bytes, bool write) {
    Block& b = *w.block;
    for (auto& older : b.older_ranges)
        if (within(older, address, bytes, write)) return std::swap(older, b.range);
    const Grid& g = *b.grid;
    AddressSpace::Range range = g.space->find(address);
    const AddressSpace::Range parameters{reinterpret_cast<std::uintptr_t>(g.parameters), g.parameter_bytes, false};
    const AddressSpace::Range workspace{g.workspace, g.workspace_bytes, true};
    if (within(parameters, address, 1, false)) range = parameters;
    if (within(workspace, address, 1, false)) range = workspace;
    if (!within(range, address, bytes, write)) {
        const char* const what = range.size == 0            ? "outside any allocation"
                                 : range.writable || !write ? "not within one allocation"
                                                            : "read-only";
        throw Fault{CUDA_ERROR_ILLEGAL_ADDRESS, std::to_string(bytes) + " bytes at " + hex(address) + " are " + what,
                    lane};
    }
    b.older_ranges[b.oldest++ % b.older_ranges.size()] = b.range;
    b.range = range;
}

namespace {

// ---- loads ----------------------------------------------------------------------------------------------------------

// Where each lane's bytes are. Not inlined: what differs between the types of memory and registers is small beside it.
using Places = std::byte* [lane_count];
template <Space space, class A>
[[gnu::noinline]] void find_places(Warp& w, const Instr& in, Mask mask, unsigned bytes, bool write, Places& at) {
    if constexpr (space == Space::global || space == Space::generic) refresh_ranges(*w.block);
    const A* const a = w.at<A>(in.a);
    for (Mask m = mask; m != 0; m &= m - 1) {
        const int i = __builtin_ctz(m);
        at[i] = resolve<space>(w, i, a[i] + static_cast<A>(in.imm), bytes, bytes, write);
    }
}

template <class T, class R> [[gnu::noinline]] void gather(const Places& at, R* d, Mask mask) {
    for (Mask m = mask; m != 0; m &= m - 1) {
        const int i = __builtin_ctz(m);
        T value;
        std::memcpy(&value, at[i], sizeof value);
        d[i] = static_cast<R>(value);
    }
}

// For volatile, relaxed and acquire loads: they must see what other threads write, in one piece.
template <class T, class R> [[gnu::noinline]] void gather_strongly(const Places& at, R* d, Mask mask) {
    for (Mask m = mask; m != 0; m &= m - 1) {
        const int i = __builtin_ctz(m);
        d[i] = static_cast<R>(__atomic_load_n(reinterpret_cast<T*>(at[i]), __ATOMIC_ACQUIRE));
    }
}

// lists[target...] are the destinations, in.e their number.
template <class T, class R>
[[gnu::noinline]] void gather_vectors(Warp& w, const Instr& in, const Places& at, Mask mask) {
    const unsigned n = in.e;
    const Slot* const list = w.frame->function->lists.data() + in.target;
    R* d[8];
    for (unsigned k = 0; k < n; ++k) d[k] = w.at<R>(list[k]);
    for (Mask m = mask; m != 0; m &= m - 1) {
        const int i = __builtin_ctz(m);
        T values[8];
        std::memcpy(values, at[i], n * sizeof(T));
        for (unsigned k = 0; k < n; ++k) d[k][i] = static_cast<R>(values[k]);
    }
}

// In memory T, in a register R (as wide or wider: extended by T's sign), an address register A; n elements.
template <Space space, class T, class R, class A> struct Load {
    static Step body(Warp& w, const Instr& in, Mask mask) {
        Places at;
        find_places<space, A>(w, in, mask, sizeof(T), false, at);
        gather<T>(at, w.at<R>(in.d), mask);
        return Step::go;
    }
    // Half a warp reads a row of memory, or all of it one place: most loads of most kernels.
    template <bool is_wide>
    [[gnu::always_inline]] static inline bool half(Warp& w, const A* a, R* d, std::int64_t offset) {
        const Pattern pattern = pattern_of<is_wide, A>(a, sizeof(T));
        const A first = a[0] + static_cast<A>(offset);
        if (pattern == Pattern::scattered || (first & (sizeof(T) - 1)) != 0) return false;
        const std::byte* const at =
            try_resolve<space>(w, first, pattern == Pattern::row ? sizeof(T) * half_warp : sizeof(T), false);
        if (at == nullptr) return false;
        if (pattern == Pattern::row) {
            for (int i = 0; i < half_warp; ++i) {
                T value;
                std::memcpy(&value, at + static_cast<std::size_t>(i) * sizeof(T), sizeof value);
                d[i] = static_cast<R>(value);
            }
        } else {
            T value;
            std::memcpy(&value, at, sizeof value);
            for (int i = 0; i < half_warp; ++i) d[i] = static_cast<R>(value);
        }
        return true;
    }
    template <bool is_wide> [[gnu::always_inline]] static inline Step fast(Warp& w, const Instr& in, Mask mask) {
        if constexpr (space == Space::local) return body(w, in, mask);
        if constexpr (space == Space::global || space == Space::generic) refresh_ranges(*w.block);
        for (int h = 0; h < lane_count; h += half_warp)
            if ((mask >> h & 0xFFFF) == 0xFFFF && half<is_wide>(w, w.at<A>(in.a) + h, w.at<R>(in.d) + h, in.imm))
                mask &= ~(Mask{0xFFFF} << h);
        return mask == 0 ? Step::go : body(w, in, mask);
    }
    static Step one(Warp& w, const Instr& in, Mask mask) { return fast<false>(w, in, mask); }
    BARCUDA_WIDE static Step wide(Warp& w, const Instr& in, Mask mask) { return fast<true>(w, in, mask); }
    static Step strong(Warp& w, const Instr& in, Mask mask) {
        Places at;
        find_places<space, A>(w, in, mask, sizeof(T), false, at);
        gather_strongly<T>(at, w.at<R>(in.d), mask);
        looked(w);
        return Step::go;
    }
    static Step several(Warp& w, const Instr& in, Mask mask) {
        Places at;
        find_places<space, A>(w, in, mask, in.e * sizeof(T), false, at);
        gather_vectors<T, R>(w, in, at, mask);
        return Step::go;
    }
};

// ---- stores ---------------------------------------------------------------------------------------------------------

template <class T, class R> [[gnu::noinline]] void scatter(const Places& at, const R* b, Mask mask) {
    for (Mask m = mask; m != 0; m &= m - 1) {
        const int i = __builtin_ctz(m);
        const T value = static_cast<T>(b[i]);
        std::memcpy(at[i], &value, sizeof value);
    }
}

template <class T, class R> [[gnu::noinline]] void scatter_strongly(const Places& at, const R* b, Mask mask) {
    for (Mask m = mask; m != 0; m &= m - 1) {
        const int i = __builtin_ctz(m);
        __atomic_store_n(reinterpret_cast<T*>(at[i]), static_cast<T>(b[i]), __ATOMIC_RELEASE);
    }
}

template <class T, class R>
[[gnu::noinline]] void scatter_vectors(Warp& w, const Instr& in, const Places& at, Mask mask) {
    const unsigned n = in.e;
    const Slot* const list = w.frame->function->lists.data() + in.target;
    const R* b[8];
    for (unsigned k = 0; k < n; ++k) b[k] = w.at<R>(list[k]);
    for (Mask m = mask; m != 0; m &= m - 1) {
        const int i = __builtin_ctz(m);
        T values[8];
        for (unsigned k = 0; k < n; ++k) values[k] = static_cast<T>(b[k][i]);
        std::memcpy(at[i], values, n * sizeof(T));
    }
}

template <Space space, class T, class R, class A> struct Store {
    template <bool is_wide> [[gnu::always_inline]] static inline Step body(Warp& w, const Instr& in, Mask mask) {
        if constexpr (space == Space::global || space == Space::generic) refresh_ranges(*w.block);
        const A* const a = w.at<A>(in.a);
        const R* const b = w.at<R>(in.b);
        for (int h = 0; space != Space::local && h < lane_count; h += half_warp) {
            const A first = a[h] + static_cast<A>(in.imm);
            if ((mask >> h & 0xFFFF) != 0xFFFF || (first & (sizeof(T) - 1)) != 0 ||
                pattern_of<is_wide, A>(a + h, sizeof(T)) != Pattern::row)
                continue;
            std::byte* const at = try_resolve<space>(w, first, sizeof(T) * half_warp, true);
            if (at == nullptr) continue;
            T values[half_warp];
            for (int i = 0; i < half_warp; ++i) values[i] = static_cast<T>(b[h + i]);
            std::memcpy(at, values, sizeof values);
            mask &= ~(Mask{0xFFFF} << h);
        }
        if (mask == 0) return Step::go;
        Places at;
        find_places<space, A>(w, in, mask, sizeof(T), true, at);
        scatter<T>(at, b, mask);
        return Step::go;
    }
    static Step one(Warp& w, const Instr& in, Mask mask) { return body<false>(w, in, mask); }
    BARCUDA_WIDE static Step wide(Warp& w, const Instr& in, Mask mask) { return body<true>(w, in, mask); }
    static Step strong(Warp& w, const Instr& in, Mask mask) {
        Places at;
        find_places<space, A>(w, in, mask, sizeof(T), true, at);
        scatter_strongly<T>(at, w.at<R>(in.b), mask);
        return Step::go;
    }
    static Step several(Warp& w, const Instr& in, Mask mask) {
        Places at;
        find_places<space, A>(w, in, mask, in.e * sizeof(T), true, at);
        scatter_vectors<T, R>(w, in, at, mask);
        return Step::go;
    }
};

// A kernel's parameter: the same for every lane.
template <class T, class R> Step parameter(Warp& w, const Instr& in, Mask mask) {
    const Grid& g = *w.block->grid;
    T value;
    std::memcpy(&value, g.parameters + in.imm, sizeof(T));
    R* const d = w.at<R>(in.d);
    each(
        mask, [&](int i) __attribute__((always_inline)) { d[i] = static_cast<R>(value); });
    return Step::go;
}

// ---- decoding -------------------------------------------------------------------------------------------------------

enum class Form : std::uint8_t { one, strong, several };

template <template <Space, class, class, class> class Op, class T, class R, class A>
Handler by_space(Space space, Form form) {
    const auto pick = [&]<Space s>() -> Handler {
        return form == Form::one      ? (wide_cpu ? Op<s, T, R, A>::wide : Op<s, T, R, A>::one)
               : form == Form::strong ? Op<s, T, R, A>::strong
                                      : Op<s, T, R, A>::several;
    };
    switch (space) {
        case Space::shared: return pick.template operator()<Space::shared>();
        case Space::local: return pick.template operator()<Space::local>();
        case Space::global: return pick.template operator()<Space::global>();
        default: return pick.template operator()<Space::generic>();
    }
}

template <template <Space, class, class, class> class Op, class T, class R>
Handler by_address(Space space, Form form, unsigned address) {
    return address == 4 ? by_space<Op, T, R, std::uint32_t>(space, form)
                        : by_space<Op, T, R, std::uint64_t>(space, form);
}

// A type of memory and a register at least as wide.
template <class F> auto by_type(Coder& c, Type type, unsigned reg, F f) {
    // The sign matters only for extended values: one handler less to compile.
    const auto with = [&]<class T, class R>() {
        return f.template operator()<std::conditional_t<sizeof(T) == sizeof(R), std::make_unsigned_t<T>, T>, R>();
    };
    const auto wide = [&]<class T>() {
        if constexpr (sizeof(T) <= 2)
            if (reg == 2) return with.template operator()<T, std::uint16_t>();
        if constexpr (sizeof(T) <= 4)
            if (reg == 4) return with.template operator()<T, std::uint32_t>();
        if constexpr (sizeof(T) <= 8)
            if (reg == 8) return with.template operator()<T, std::uint64_t>();
        c.refuse();
    };
    switch (type) {
        case Type::s8: return wide.template operator()<std::int8_t>();
        case Type::s16: return wide.template operator()<std::int16_t>();
        case Type::s32: return wide.template operator()<std::int32_t>();
        default: break;
    }
    switch (bytes_of(type)) {
        case 1: return wide.template operator()<std::uint8_t>();
        case 2: return wide.template operator()<std::uint16_t>();
        case 4: return wide.template operator()<std::uint32_t>();
        case 8: return wide.template operator()<std::uint64_t>();
        default: c.refuse();
    }
}

// 128-bit registers move as two halves of 64 bits: rare, so they take the generic path byte by byte.
template <bool load> Step move_128(Warp& w, const Instr& in, Mask mask) {
    refresh_ranges(*w.block);
    for (Mask m = mask; m != 0; m &= m - 1) {
        const int i = __builtin_ctz(m);
        const std::uint64_t address = (in.e == 4 ? w.at<std::uint32_t>(in.a)[i] : w.at<std::uint64_t>(in.a)[i]) +
                                      static_cast<std::uint64_t>(in.imm);
        std::byte* at = nullptr;
        switch (static_cast<Space>(in.target)) {
            case Space::shared: at = resolve<Space::shared>(w, i, address, 16, 16, !load); break;
            case Space::local: at = resolve<Space::local>(w, i, address, 16, 16, !load); break;
            case Space::global: at = resolve<Space::global>(w, i, address, 16, 16, !load); break;
            default: at = resolve<Space::generic>(w, i, address, 16, 16, !load); break;
        }
        std::byte* const reg = w.at<std::byte>(load ? in.d : in.b) + static_cast<std::size_t>(i) * 16;
        std::memcpy(load ? reg : at, load ? at : reg, 16);
    }
    return Step::go;
}

void load(Coder& c) {
    bool strong = take_order(c);
    Space space = take_space(c);
    c.ignore({"nc", "ca", "cg", "cs", "lu", "cv"});
    take_hints(c);
    const unsigned n = take_vector(c);
    const Type type = c.take_type();
    c.count(2, 3);  // a third operand is a cache policy
    const auto a = c.address(c.operand(1), space);
    const auto& target = c.operand(0);
    if (type == Type::b128) {
        if (n != 1) c.refuse();
        auto& in = c.emit(move_128<true>, c.write(target, type), a.base, nowhere, nowhere, a.bytes);
        in.imm = a.offset;
        in.target = static_cast<std::uint32_t>(space);
        return;
    }
    if (n == 1) {
        if (target.kind == ast::Operand::list) c.refuse();
        unsigned reg = 0;
        const Slot d = c.write_wide(target, type, &reg);
        const bool uniform = a.base == c.parameters_base() && space == Space::global;
        const Handler run = by_type(c, type, reg, [&]<class T, class R>() -> Handler {
            return uniform ? parameter<T, R>
                           : by_address<Load, T, R>(space, strong ? Form::strong : Form::one, a.bytes);
        });
        if (uniform && (a.offset < 0 || static_cast<std::size_t>(a.offset) + bytes_of(type) > c.parameter_bytes()))
            c.refuse();
        c.emit(run, d, a.base).imm = a.offset;
        return;
    }
    if (target.kind != ast::Operand::list || target.items.size() != n) c.refuse();
    unsigned reg = 0;
    for (const auto& item : target.items) {
        if (item.kind != ast::Operand::sink) c.write_wide(item, type, &reg);
    }
    if (reg == 0) reg = std::max(2u, bytes_of(type));
    std::vector<Slot> slots;
    for (const auto& item : target.items) {
        unsigned bytes = reg;
        slots.push_back(item.kind == ast::Operand::sink ? c.scratch(reg) : c.write_wide(item, type, &bytes));
        if (bytes != reg) c.refuse();
    }
    const Handler run = by_type(
        c, type, reg, [&]<class T, class R>() { return by_address<Load, T, R>(space, Form::several, a.bytes); });
    auto& in = c.emit(run, nowhere, a.base, nowhere, nowhere, n);
    in.imm = a.offset;
    in.target = c.list(slots);
}

void store(Coder& c) {
    bool strong = take_order(c);
    Space space = take_space(c);
    c.ignore({"wb", "cg", "cs", "wt"});
    take_hints(c);
    const unsigned n = take_vector(c);
    const Type type = c.take_type();
    c.count(2, 3);
    const auto a = c.address(c.operand(0), space);
    const auto& source = c.operand(1);
    if (type == Type::b128) {
        if (n != 1) c.refuse();
        auto& in = c.emit(move_128<false>, nowhere, a.base, c.read(source, type), nowhere, a.bytes);
        in.imm = a.offset;
        in.target = static_cast<std::uint32_t>(space);
        return;
    }
    if (n == 1) {
        unsigned reg = 0;
        const Slot b = c.read_wide(source, type, &reg);
        const Handler run = by_type(c, type, reg, [&]<class T, class R>() {
            return by_address<Store, std::make_unsigned_t<T>, R>(space, strong ? Form::strong : Form::one, a.bytes);
        });
        c.emit(run, nowhere, a.base, b).imm = a.offset;
        return;
    }
    if (source.kind != ast::Operand::list || source.items.size() != n) c.refuse();
    unsigned reg = 0;
    for (const auto& item : source.items)
        if (item.kind == ast::Operand::reg) c.read_wide(item, type, &reg);
    if (reg == 0) reg = std::max(2u, bytes_of(type));
    std::vector<Slot> slots;
    for (const auto& item : source.items) {
        unsigned bytes = 0;
        const auto bits = c.literal(item);
        slots.push_back(bits && item.kind == ast::Operand::integer ? c.constant(*bits, bytes = reg)
                                                                   : c.read_wide(item, type, &bytes));
        if (bytes != reg) c.refuse();
    }
    const Handler run = by_type(c, type, reg, [&]<class T, class R>() {
        return by_address<Store, std::make_unsigned_t<T>, R>(space, Form::several, a.bytes);
    });
    auto& in = c.emit(run, nowhere, a.base, nowhere, nowhere, n);
    in.imm = a.offset;
    in.target = c.list(slots);
}

Step nothing(Warp&, const Instr&, Mask) { return Step::go; }

void prefetch(Coder& c) {  // a hint
    take_space(c);
    c.ignore({"L1", "L2", "L2::evict_last", "L2::evict_normal", "tensormap"});
    c.emit(nothing);
}

void discard(Coder& c) {  // memory that it may destroy, it may also keep
    take_space(c);
    c.ignore({"L2"});
    c.emit(nothing);
}

}  // namespace

void memory_instructions(Decoders& t) {
    t["ld"] = load;
    t["ldu"] = load;
    t["st"] = store;
    t["prefetch"] = prefetch;
    t["prefetchu"] = prefetch;
    t["applypriority"] = prefetch;
    t["discard"] = discard;
}

}  // namespace barcuda::soft
