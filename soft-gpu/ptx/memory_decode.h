// SPDX-License-Identifier: Apache-2.0
// memory_decode.h: the modifiers that memory instructions share.
#pragma once
#include "soft-gpu/ptx/coder.h"

namespace barcuda::soft {

// The state space, generic if none is written. A cluster is one block here, so shared::cluster is shared.
inline Space take_space(Coder& c) {
    if (c.take("global")) return Space::global;
    if (c.take("shared") || c.take("shared::cta") || c.take("shared::cluster")) return Space::shared;
    if (c.take("local")) return Space::local;
    if (c.take("param") || c.take("param::entry") || c.take("param::func")) return Space::param;
    if (c.take("const")) return Space::global;  // constants are in ordinary, read-only memory
    return Space::generic;
}

// Cache hints have no effect here.
inline void take_hints(Coder& c) {
    for (const auto m : c.in().modifiers)
        if (m.starts_with("L1::") || m.starts_with("L2::")) c.take(m);
    c.ignore({"unified"});
}

inline unsigned take_vector(Coder& c) { return c.take("v2") ? 2 : c.take("v4") ? 4 : c.take("v8") ? 8 : 1; }

inline void take_scope(Coder& c) { c.ignore({"cta", "cluster", "gpu", "sys"}); }

// .weak is plain; with anything else other threads must see the access.
inline bool take_order(Coder& c) {
    bool strong = false;
    for (const auto m : {"volatile", "relaxed", "acquire", "release", "acq_rel", "sc", "mmio"})
        strong = c.take(m) || strong;
    c.take("weak");
    take_scope(c);
    return strong;
}

}  // namespace barcuda::soft
