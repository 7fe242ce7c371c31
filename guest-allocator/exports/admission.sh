#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# admission.sh NAMES: C++ with the entries of the driver functions whose names stand in the file NAMES, one a line.
# The entry has the function's name, and jumps to the function itself, which is inside_NAME. While calls are watched
# (client/watched.h) the entry first asks barcuda_admit() with the function's number, and may return an error instead.
# The rules of driver/admission.h are found by the same numbers. A call that is let in goes through barcuda_record while calls are recorded
# (client/activity.h): it is called from there, so that its end is heard of, too.
set -eu
echo '#include "guest-allocator/driver/admission.h"'
echo 'namespace barcuda::guest::admission {'
echo 'constexpr std::string_view symbols[] = {'
sed 's/.*/"&",/' "$1"
echo '};'
for list in before_init looks_at_handle looks_at_value after_fault in_child in_host_function waits waits_on_stream waits_on_event in_no_graph attaches; do
    echo "static_assert(all_exist($list, symbols));"  # one by one: a compiler counts the steps of each
done
echo 'static_assert(looked_at_exist(symbols));'
echo 'extern constinit const Rule rules[] = {'
sed 's/.*/rule_of("&"),/' "$1"
echo '};'
echo '}  // namespace barcuda::guest::admission'
# The arguments are kept while barcuda_admit() runs. No function takes more than two floats, or more than 128 bytes on the stack: there are
# as many there at any rate, of frames or of what is below the first. What barcuda_record keeps between is struct Given of client/activity.h.
cat << 'END'
asm(R"(
    .text
    .type barcuda_ask, @function
barcuda_ask:
    .cfi_startproc
    push %r9
    push %r8
    push %rcx
    push %rdx
    push %rsi
    push %rdi
    .cfi_adjust_cfa_offset 48
    sub $16, %rsp
    .cfi_adjust_cfa_offset 16
    movsd %xmm0, (%rsp)
    movsd %xmm1, 8(%rsp)
    mov %eax, %edi
    lea 16(%rsp), %rsi
    call barcuda_admit
    movsd (%rsp), %xmm0
    movsd 8(%rsp), %xmm1
    add $16, %rsp
    .cfi_adjust_cfa_offset -16
    pop %rdi
    pop %rsi
    pop %rdx
    pop %rcx
    pop %r8
    pop %r9
    .cfi_adjust_cfa_offset -48
    cmp $-1, %eax
    je 1f
    test %eax, %eax
    ret
1:  xor %eax, %eax
    cmp $-1, %eax
    ret
    .cfi_endproc
    .size barcuda_ask, . - barcuda_ask

    .p2align 4
    .globl barcuda_record
    .hidden barcuda_record
    .type barcuda_record, @function
barcuda_record:
    .cfi_startproc
    push %rbp
    .cfi_def_cfa_offset 16
    .cfi_offset %rbp, -16
    mov %rsp, %rbp
    .cfi_def_cfa_register %rbp
    sub $224, %rsp
    mov %r11, -8(%rbp)
    mov %r10, -16(%rbp)
    mov barcuda_recorder(%rip), %rax
    mov %rax, -24(%rbp)
    movsd %xmm0, -96(%rbp)
    movsd %xmm1, -88(%rbp)
    mov %rdi, -80(%rbp)
    mov %rsi, -72(%rbp)
    mov %rdx, -64(%rbp)
    mov %rcx, -56(%rbp)
    mov %r8, -48(%rbp)
    mov %r9, -40(%rbp)
    test %rax, %rax
    je 1f
    mov %r10d, %edi
    lea -96(%rbp), %rsi
    lea 16(%rbp), %rdx
    call *(%rax)
    movsd -96(%rbp), %xmm0
    movsd -88(%rbp), %xmm1
    mov -80(%rbp), %rdi
    mov -72(%rbp), %rsi
    mov -64(%rbp), %rdx
    mov -56(%rbp), %rcx
    mov -48(%rbp), %r8
    mov -40(%rbp), %r9
1:
    .irp at, 0, 16, 32, 48, 64, 80, 96, 112
    movups 16+\at(%rbp), %xmm15
    movups %xmm15, \at(%rsp)
    .endr
    call *-8(%rbp)
    mov -24(%rbp), %rcx
    test %rcx, %rcx
    je 2f
    mov %rax, -32(%rbp)
    mov %rdx, -80(%rbp)
    mov -16(%rbp), %edi
    mov %rax, %rsi
    call *8(%rcx)
    mov -32(%rbp), %rax
    mov -80(%rbp), %rdx
2:  leave
    .cfi_def_cfa %rsp, 8
    ret
    .cfi_endproc
    .size barcuda_record, . - barcuda_record

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
    cmpq $0, barcuda_recorder(%rip)
    jne 3f
    jmp inside_\name
2:  ret
3:  lea inside_\name(%rip), %r11
    mov $\number, %r10d
    jmp barcuda_record
    .cfi_endproc
    .size \name, . - \name
    .endm
END
awk '{ print "    entry " $1 ", " NR - 1 }' "$1"
echo ')");'
