// SPDX-License-Identifier: Apache-2.0
// refused.cc: the message of a refused function: its name, the reason, and what to do instead
// (shm-device/cuda/refused.h).
#include "shm-device/cuda/refused.h"

#include <stdio.h>

#include <algorithm>
#include <iterator>
#include <string_view>

#include "guest-allocator/client/error_log.h"
#include "guest-allocator/client/log.h"

namespace barcuda::guest {
namespace {

struct RefusedNames {
    std::string_view why, instead, names;

    constexpr bool names_it(std::string_view name) const {
        for (std::string_view rest = names; !rest.empty();) {
            const std::string_view pattern = rest.substr(0, rest.find(' '));
            if (pattern.ends_with('*') ? name.starts_with(pattern.substr(0, pattern.size() - 1)) : name == pattern)
                return true;
            rest.remove_prefix(pattern.size() + (pattern.size() < rest.size()));
        }
        return false;
    }
};
constexpr RefusedNames refusals[] = {
#define X(why, instead, names) {why, instead, names},
    BARCUDA_REFUSED(X)
#undef X
};
static_assert(refusals[0].names_it("cuGraphicsMapResources") && !refusals[0].names_it("cuGraphCreate"));

}  // namespace
}  // namespace barcuda::guest

// From the generated functions (exports/unsupported.sh) and the runtime's. `told`: that function's own, 0 at first.
extern "C" void barcuda_refuse(const char* name, int* told) {
    using namespace barcuda::guest;
    const auto* r = std::find_if(std::begin(refusals), std::end(refusals), [&](auto& r) { return r.names_it(name); });
    if (r == std::end(refusals)) return;  // no name is without an entry: docs/support.py
    char line[400];
    snprintf(line, sizeof line, "%s: not supported: %s; %s", name, r->why.data(), r->instead.data());
    if (!__atomic_exchange_n(told, 1, __ATOMIC_RELAXED)) log_line("%s", line);
    error_log::add(line);
}
