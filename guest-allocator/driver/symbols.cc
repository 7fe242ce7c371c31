// SPDX-License-Identifier: Apache-2.0
#include "guest-allocator/driver/symbols.h"

#include <dlfcn.h>

namespace barcuda::guest {
void* exported(const char* name) noexcept {
    Dl_info here, there;
    void* p = dlsym(RTLD_DEFAULT, name);
    if (!p || !dladdr(p, &there) || !dladdr(reinterpret_cast<void*>(&exported), &here)) return nullptr;
    return here.dli_fbase == there.dli_fbase ? p : nullptr;
}

const char* file_of(const void* code) noexcept {
    Dl_info found{};
    dladdr(code, &found);
    return found.dli_fname;
}

}  // namespace barcuda::guest
