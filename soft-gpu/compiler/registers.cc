// SPDX-License-Identifier: Apache-2.0
// registers.cc: what a basic block knows about its registers. They are read from the frame once, changed as values, and
// written back before other code may read them: at the block's end the live ones, before a handler the ones that it
// names.
#include "soft-gpu/compiler/translator.h"

namespace barcuda::soft::compiler {

V Translator::address(Slot slot) {
    V bank = (slot & 3) == registers_bank ? registers_ : (slot & 3) == constants_bank ? constants_ : specials_;
    return ir_.add(bank, ir_.number(slot & ~Slot{3}, 8));
}

// Constants that are the same in every run are part of the code; addresses are read.
V Translator::known_constant(Slot slot, unsigned bytes, V* scalar) {
    std::uint64_t bits = 0;
    const unsigned width = bytes == 0 ? 4 : bytes;
    std::memcpy(&bits, f_.constants.data() + (slot & ~Slot{3}), width);
    *scalar = bytes < 8 || bits >> 32 == 0 || bits >> 32 == 0xFFFFFFFF ? ir_.number(bits, width)
                                                                       : ir_.load(address(slot), ir_.integer(8), 8);
    return bytes == 0 ? *scalar : ir_.splat(*scalar);
}

Value& Translator::value(Slot slot, unsigned bytes) {
    auto& v = known_[slot];
    const bool there = v.bits != nullptr || v.reals != nullptr;
    if (there && v.bytes == bytes) return v;
    if (there && v.dirty) put(slot, v);
    v = {};
    v.bytes = bytes;
    if ((slot & 3) == constants_bank) {
        v.bits = known_constant(slot, bytes, &v.scalar);
    } else if (bytes == 0) {
        v.bits = ir_.load(address(slot), ir_.integer(4), 4);
    } else if (((slot & 3) == specials_bank && uniform_.contains(slot)) || (slot == 0 && bytes == 8)) {
        v.scalar = ir_.load(address(slot), ir_.integer(bytes), bytes);
        v.bits = ir_.splat(v.scalar);
    } else {
        v.bits = ir_.load(address(slot), ir_.of(ir_.integer(bytes)), (slot & 3) == registers_bank ? 32 : 2);
    }
    return v;
}

V Translator::closed(V x, unsigned bytes) {
    if (bytes != 4) return x;
    V nan = ir_.as(ir_.all(0x7FFFFFFF, 4), ir_.of(ir_.real(4)));
    return ir_.choose(ir_.compare(LLVMRealUNO, x, x), nan, x);
}

V Translator::bits(Slot slot, unsigned bytes) {
    Value& v = value(slot, bytes);
    if (v.bits == nullptr || v.open) {
        if (v.open) {
            v.reals = closed(v.reals, bytes);
            v.open = false;
        }
        v.bits = ir_.as(v.reals, ir_.of(ir_.integer(bytes)));
    }
    return v.bits;
}

V Translator::scalar(Slot slot, unsigned bytes) { return value(slot, bytes).scalar; }

V Translator::origin(Slot slot, unsigned bytes) {
    Value& v = value(slot, bytes);
    return v.origin != nullptr ? v.origin : bits(slot, bytes);
}

V Translator::reals(Slot slot, unsigned bytes, bool any_nan) {
    Value& v = value(slot, bytes);
    if (v.reals == nullptr) v.reals = ir_.as(v.bits, ir_.of(ir_.real(bytes)));
    if (v.open && !any_nan) {
        v.reals = closed(v.reals, bytes);
        v.open = false;
    }
    return v.reals;
}

V Translator::truths(Slot slot) {
    Value& v = value(slot, 0);
    if (v.reals == nullptr) v.reals = truths_of(v.bits);
    return v.reals;
}

V Translator::predicate(Slot slot) {
    Value& v = value(slot, 0);
    if (v.bits == nullptr) v.bits = bits_of(v.reals);
    return v.bits;
}

// Lanes excluded by the guard keep their old values.
void Translator::write(Slot slot, Value v) {
    if (guard_ != nullptr) {
        if (v.bytes == 0) {
            V now = v.reals != nullptr ? v.reals : truths_of(v.bits);
            v.reals = ir_.choose(guard_truths_, now, truths(slot));
            v.bits = nullptr;
        } else if (v.reals != nullptr) {
            v.open = v.open || value(slot, v.bytes).open;
            v.reals = ir_.choose(guard_truths_, v.reals, reals(slot, v.bytes, true));
            v.bits = nullptr;
        } else {
            v.bits = ir_.choose(guard_truths_, v.bits, bits(slot, v.bytes));
        }
        v.scalar = v.origin = nullptr;
    } else if (auto old = known_.find(slot); old != known_.end() && old->second.dirty && old->second.bytes != v.bytes &&
                                             (old->second.bits != nullptr || old->second.reals != nullptr)) {
        put(slot, old->second);
    }
    v.dirty = true;
    known_[slot] = v;
}

// Writes one register into the frame; lanes of other fragments are not touched.
void Translator::put(Slot slot, Value& v) {
    V to = address(slot);
    if (v.bytes == 0) {
        if (v.bits == nullptr) v.bits = bits_of(v.reals);
        V now = v.bits;
        if (!whole_) {
            V old = ir_.load(to, ir_.integer(4), 4);
            now = ir_.either(LLVMBuildAnd(ir_.at, old, LLVMBuildNot(ir_.at, mask_, ""), ""), ir_.both(now, mask_));
        }
        ir_.store(to, now, 4);
    } else {
        if (v.open) {
            v.reals = closed(v.reals, v.bytes);
            v.open = false;
            v.bits = nullptr;
        }
        V now = v.reals != nullptr ? v.reals : v.bits;
        if (!whole_) now = ir_.choose(truths_of(mask_), now, ir_.load(to, LLVMTypeOf(now), 32));
        ir_.store(to, now, 32);
    }
    v.dirty = false;
}

void Translator::write_back(const std::set<Slot>& slots) {
    for (auto& [slot, v] : known_)
        if (v.dirty && slots.contains(slot)) put(slot, v);
}

void Translator::forget(const std::set<Slot>& slots) {
    for (const Slot s : slots)
        if ((s & 3) == registers_bank) known_.erase(s);
}

}  // namespace barcuda::soft::compiler
