// SPDX-License-Identifier: Apache-2.0
// types.cc: one row a type, in the order of the enumeration.
#include "soft-gpu/ptx/types.h"

namespace barcuda::soft {

static constexpr TypeFacts table[] = {
    {"", 0, '-'},       {"pred", 4, 'p'}, {"u8", 1, 'u'},     {"u16", 2, 'u'},   {"u32", 4, 'u'},   {"u64", 8, 'u'},
    {"s8", 1, 'i'},     {"s16", 2, 'i'},  {"s32", 4, 'i'},    {"s64", 8, 'i'},   {"b8", 1, 'b'},    {"b16", 2, 'b'},
    {"b32", 4, 'b'},    {"b64", 8, 'b'},  {"b128", 16, 'b'},  {"f16", 2, 'h'},   {"f16x2", 4, 'v'}, {"bf16", 2, 'h'},
    {"bf16x2", 4, 'v'}, {"f32", 4, 'f'},  {"f64", 8, 'f'},    {"u16x2", 4, 'w'}, {"s16x2", 4, 'w'}, {"e4m3x2", 2, 'q'},
    {"e5m2x2", 2, 'q'}, {"tf32", 4, 'b'}, {"texref", 8, 'r'},
};
static_assert(std::size(table) == static_cast<std::size_t>(Type::ref) + 1);

const TypeFacts& facts(Type type) { return table[static_cast<std::size_t>(type)]; }

std::optional<Type> type_named(std::string_view name) {
    for (std::size_t i = 1; i < std::size(table); ++i)
        if (table[i].name == name) return static_cast<Type>(i);
    if (name == "surfref" || name == "samplerref") return Type::ref;
    return std::nullopt;
}

}  // namespace barcuda::soft
