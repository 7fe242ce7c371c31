#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# admission.sh NAMES: C++ with the entries of the driver functions whose names stand in the file NAMES, one a line.
# The entry has the function's name, and jumps to the function itself, which is inside_NAME. While calls are watched
# (client/watched.h) the entry first asks barcuda_admit() with the function's number, and may return an error instead.
# The rules of driver/admission.h are found by the same numbers.
set -eu
echo '#include "guest-allocator/driver/admission.h"'
echo 'namespace barcuda::guest::admission {'
echo 'constexpr std::string_view symbols[] = {'
sed 's/.*/"&",/' "$1"
echo '};'
echo 'static_assert(all_exist(before_init, symbols) && all_exist(after_fault, symbols) && all_exist(in_child, symbols) && all_exist(in_host_function, symbols) && all_exist(waits, symbols));'
echo 'extern constinit const Rule rules[] = {'
sed 's/.*/rule_of("&"),/' "$1"
echo '};'
echo '}  // namespace barcuda::guest::admission'
# The arguments are kept while barcuda_admit() runs. No function takes more than two floats.
cat << 'END'
asm(R"(
    .text
    .type barcuda_ask, @function
barcuda_ask:
    .cfi_startproc
    push %rdi
    push %rsi
    push %rdx
    push %rcx
    push %r8
    push %r9
    .cfi_adjust_cfa_offset 48
    sub $16, %rsp
    .cfi_adjust_cfa_offset 16
    movsd %xmm0, (%rsp)
    movsd %xmm1, 8(%rsp)
    mov %eax, %edi
    call barcuda_admit
    movsd (%rsp), %xmm0
    movsd 8(%rsp), %xmm1
    add $16, %rsp
    .cfi_adjust_cfa_offset -16
    pop %r9
    pop %r8
    pop %rcx
    pop %rdx
    pop %rsi
    pop %rdi
    .cfi_adjust_cfa_offset -48
    test %eax, %eax
    ret
    .cfi_endproc
    .size barcuda_ask, . - barcuda_ask

    .macro entry name, number
    .p2align 4
    .globl \name
    .type \name, @function
    .hidden inside_\name
\name:
    .cfi_startproc
    cmpl $0, barcuda_watched(%rip)
    jne 1f
    jmp inside_\name
1:  mov $\number, %eax
    call barcuda_ask
    jne 2f
    jmp inside_\name
2:  ret
    .cfi_endproc
    .size \name, . - \name
    .endm
END
awk '{ print "    entry " $1 ", " NR - 1 }' "$1"
echo ')");'
