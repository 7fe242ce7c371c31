// SPDX-License-Identifier: Apache-2.0
#include "guest-allocator/driver/symbols.h"

#include <dlfcn.h>

namespace barcuda::guest {
namespace {

// Functions that only say that they are not there (unsupported.sh): a program that asks learns it here.
extern "C" [[gnu::weak, gnu::visibility("hidden")]] const char __start_barcuda_unsupported[],
    __stop_barcuda_unsupported[];

}  // namespace

void* exported(const char* name) noexcept {
    Dl_info here, there;
    void* p = dlsym(RTLD_DEFAULT, name);
    if (!p || !dladdr(p, &there) || !dladdr(reinterpret_cast<void*>(&exported), &here)) return nullptr;
    if (here.dli_fbase != there.dli_fbase) return nullptr;
    const char* code = static_cast<const char*>(p);
    return code >= __start_barcuda_unsupported && code < __stop_barcuda_unsupported ? nullptr : p;
}

const char* file_of(const void* code) noexcept {
    Dl_info found{};
    dladdr(code, &found);
    return found.dli_fname;
}

}  // namespace barcuda::guest
