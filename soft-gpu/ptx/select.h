// SPDX-License-Identifier: Apache-2.0
// select.h: from a written type to a C++ type, for decoders that pick a template's instance.
#pragma once
#include "soft-gpu/ptx/coder.h"

namespace barcuda::soft {

template <class F> Handler by_integer(Coder& c, Type type, F f) {
    switch (type) {
        case Type::u16: return f.template operator()<std::uint16_t>();
        case Type::s16: return f.template operator()<std::int16_t>();
        case Type::u32: return f.template operator()<std::uint32_t>();
        case Type::s32: return f.template operator()<std::int32_t>();
        case Type::u64: return f.template operator()<std::uint64_t>();
        case Type::s64: return f.template operator()<std::int64_t>();
        default: c.refuse();
    }
}

template <class F> Handler by_size(Coder& c, unsigned bytes, F f) {
    switch (bytes) {
        case 1:
        case 2: return f.template operator()<std::uint16_t>();
        case 4: return f.template operator()<std::uint32_t>();
        case 8: return f.template operator()<std::uint64_t>();
        default: c.refuse();
    }
}

}  // namespace barcuda::soft
