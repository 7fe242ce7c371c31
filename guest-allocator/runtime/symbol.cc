// SPDX-License-Identifier: Apache-2.0
#include "guest-allocator/runtime/symbol.h"

#include <dlfcn.h>

namespace barcuda::runtime {

const char* symbol_at(const void* function) noexcept {
    Dl_info info{};
    return dladdr(function, &info) && info.dli_saddr == function ? info.dli_sname : nullptr;
}

}  // namespace barcuda::runtime
