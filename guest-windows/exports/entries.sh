#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# entries.sh NAMES: C++ as guest-allocator/exports/admission.sh makes it, with entries as Windows calls functions: four
# parameters in rcx, rdx, r8 and r9 or xmm0 to xmm3, and 32 bytes of the caller's for the called.
set -eu
sh guest-allocator/exports/admission.sh "$1" | sed '/^asm(R"($/,$d'
cat << 'END'
asm(R"(
    .text
    .seh_proc barcuda_ask
barcuda_ask:
    sub $104, %rsp
    .seh_stackalloc 104
    .seh_endprologue
    mov %rcx, 32(%rsp)
    mov %rdx, 40(%rsp)
    mov %r8, 48(%rsp)
    mov %r9, 56(%rsp)
    movsd %xmm0, 64(%rsp)
    movsd %xmm1, 72(%rsp)
    movsd %xmm2, 80(%rsp)
    movsd %xmm3, 88(%rsp)
    mov %eax, %ecx
    lea 32(%rsp), %rdx
    call barcuda_admit
    mov 32(%rsp), %rcx
    mov 40(%rsp), %rdx
    mov 48(%rsp), %r8
    mov 56(%rsp), %r9
    movsd 64(%rsp), %xmm0
    movsd 72(%rsp), %xmm1
    movsd 80(%rsp), %xmm2
    movsd 88(%rsp), %xmm3
    add $104, %rsp
    cmp $-1, %eax
    je 1f
    test %eax, %eax
    ret
1:  xor %eax, %eax
    cmp $-1, %eax
    ret
    .seh_endproc

    .macro entry name, number
    .p2align 4
    .globl \name
    .seh_proc \name
\name:
    .seh_endprologue
    cmpl $0, barcuda_watched(%rip)
    jne 1f
    jmp inside_\name
1:  mov $\number, %eax
    sub $8, %rsp
    call barcuda_ask
    lea 8(%rsp), %rsp
    jne 2f
    jmp inside_\name
2:  ret
    .seh_endproc
    .endm
END
awk '{ print "    entry " $1 ", " NR - 1 }' "$1"
echo ')");'
