// SPDX-License-Identifier: Apache-2.0
// rules.cc: each row against its rule.
#include "host-bridge/worker/births/rules.h"

#include "shm-device/rows/lives.h"

namespace barcuda {
namespace {

template <Op op> constexpr bool leaves_something = births<op> || names<op> || lasts<op> || ends<op>;
template <Op op> constexpr bool has_its_rule = leaves_something<op> == (rule_of(op).carry != Carry::unsaid);
template <Op op> constexpr bool is_as_it_says() {
    switch (rule_of(op).carry) {
        case Carry::made: return births<op> || names<op> || op == Op::cuMemMap;  // a mapping, which has no handle
        case Carry::adds:
        case Carry::sets: return lasts<op> && !births<op>;
        case Carry::ends: return ends<op>;
        case Carry::nothing: return !births<op> && !ends<op>;
        default: return true;
    }
}

#define X(name, ...)                                                                                              \
    static_assert(has_its_rule<Op::name>,                                                                         \
                  "the row of " #name                                                                             \
                  " leaves something behind: births/rules.h needs a line for it that says how "                   \
                  "a client is carried that has used it, or why not (or it has one, and leaves nothing behind)"); \
    static_assert(is_as_it_says<Op::name>(), "the rule of " #name " is not what its row is (lives.h)");
BARCUDA_ROWS(X)
#undef X

}  // namespace

bool changes_an_object(Op op) {
    static constexpr bool all[] = {
#define X(name, ...) lasts<Op::name>,
        BARCUDA_ROWS(X)
#undef X
    };
    return all[static_cast<std::size_t>(op)];
}

}  // namespace barcuda
