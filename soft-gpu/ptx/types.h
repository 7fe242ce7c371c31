// SPDX-License-Identifier: Apache-2.0
// types.h: PTX's scalar types and state spaces, with the parser's names and the preparer's facts.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace barcuda::soft {

enum class Type : std::uint8_t {
    none,
    pred,
    u8,
    u16,
    u32,
    u64,
    s8,
    s16,
    s32,
    s64,
    b8,
    b16,
    b32,
    b64,
    b128,
    f16,
    f16x2,
    bf16,
    bf16x2,
    f32,
    f64,
    u16x2,
    s16x2,
    e4m3x2,
    e5m2x2,
    tf32,
    ref,
};

enum class Space : std::uint8_t { generic, reg, param, local, shared, global, constant, texture };

struct TypeFacts {
    std::string_view name;  // as PTX writes it, without the dot
    unsigned bytes;
    char kind;  // 'p' predicate, 'i' signed, 'u' unsigned, 'b' bits, 'f' f32/f64, 'h' half, 'v' packed half, 'r'
                // reference
};

const TypeFacts& facts(Type type);
std::optional<Type> type_named(std::string_view name);
inline unsigned bytes_of(Type type) { return facts(type).bytes; }
inline bool is_signed(Type type) { return facts(type).kind == 'i'; }
inline bool is_integer(Type type) { return facts(type).kind == 'i' || facts(type).kind == 'u'; }
inline bool is_float(Type type) { return facts(type).kind == 'f'; }
inline bool is_half(Type type) { return facts(type).kind == 'h' || facts(type).kind == 'v'; }

}  // namespace barcuda::soft
