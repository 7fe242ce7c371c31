// SPDX-License-Identifier: Apache-2.0
#include "guest-allocator/driver/symbols.h"

#include <windows.h>

namespace barcuda::guest {
namespace {

HMODULE module_with(const void* code) noexcept {
    HMODULE module = nullptr;
    constexpr DWORD how = GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT;
    GetModuleHandleExA(how, static_cast<LPCSTR>(code), &module);
    return module;
}

}  // namespace

void* exported(const char* name) noexcept {
    const HMODULE here = module_with(reinterpret_cast<const void*>(&exported));
    return here ? reinterpret_cast<void*>(GetProcAddress(here, name)) : nullptr;
}

const char* file_of(const void* code) noexcept {
    thread_local char path[MAX_PATH];
    const HMODULE module = module_with(code);
    return module && GetModuleFileNameA(module, path, sizeof path) ? path : nullptr;
}

}  // namespace barcuda::guest
