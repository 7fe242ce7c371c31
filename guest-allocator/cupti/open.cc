// SPDX-License-Identifier: Apache-2.0
// open.cc: a program that opens NVIDIA's CUPTI by a full path, or by the search path of one of its own libraries (JAX
// does both), gets the guest's, because NVIDIA's works with NVIDIA's driver alone. For the bare name the loader finds
// the guest's among the links of this library, as long as no other one is loaded.
#include <dlfcn.h>

#include <string_view>

#include "guest-allocator/heap/next.h"

#if !BARCUDA_SANITIZED  // the sanitizer has dlopen

namespace barcuda::guest::cupti {
namespace {

NEXT_FUNCTION(void*(const char*, int), real_dlopen, "dlopen");

const char* own_path = nullptr;  // the name by which the loader knows this library
[[gnu::constructor]] void at_start() {
    Dl_info self;
    if (dladdr(reinterpret_cast<const void*>(&at_start), &self)) own_path = self.dli_fname;
}

bool is_cupti(std::string_view path) noexcept {
    constexpr std::string_view library = "libcupti.so";
    path.remove_prefix(path.rfind('/') + 1);
    return path == library || (path.starts_with(library) && path[library.size()] == '.');
}

void* refuse(const char*, int) noexcept { return nullptr; }

}  // namespace
}  // namespace barcuda::guest::cupti

// Which function opens `path`, and what it is to open.
extern "C" [[gnu::visibility("hidden")]] const void* barcuda_opener(const char** path) noexcept {
    using namespace barcuda::guest::cupti;
    if (*path && own_path && is_cupti(*path)) *path = own_path;
    const void* const next = real_dlopen.address();
    return next ? next : reinterpret_cast<const void*>(&refuse);
}
// The loader uses the search path of its caller, so its function is entered by a jump.
asm(R"(
    .text
    .globl dlopen
    .type dlopen, @function
    .p2align 4
dlopen:
    .cfi_startproc
    pushq %rsi
    .cfi_adjust_cfa_offset 8
    pushq %rdi
    .cfi_adjust_cfa_offset 8
    subq $8, %rsp
    .cfi_adjust_cfa_offset 8
    leaq 8(%rsp), %rdi
    call barcuda_opener
    addq $8, %rsp
    .cfi_adjust_cfa_offset -8
    popq %rdi
    .cfi_adjust_cfa_offset -8
    popq %rsi
    .cfi_adjust_cfa_offset -8
    jmp *%rax
    .cfi_endproc
    .size dlopen, . - dlopen
)");

#endif
