// SPDX-License-Identifier: Apache-2.0
#include "guest-allocator/heap/next.h"

#include <dlfcn.h>

namespace barcuda::heap {
namespace {

// The linker's names for the ends of the section that NEXT_FUNCTION fills.
extern "C" [[gnu::visibility("hidden")]] NextName __start_barcuda_next[], __stop_barcuda_next[];

[[gnu::constructor(101)]] void look_up_all() {
    for (NextName* next = __start_barcuda_next; next != __stop_barcuda_next; ++next) look_up(*next);
}

}  // namespace

void* look_up(NextName& next) noexcept {
    void* const f = dlsym(RTLD_NEXT, next.name);
    if (!f) dlerror();  // the program has not asked, and must not see this error
    next.to.store(f, std::memory_order_relaxed);
    return f;
}

}  // namespace barcuda::heap
