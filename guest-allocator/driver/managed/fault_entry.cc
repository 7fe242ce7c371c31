// SPDX-License-Identifier: Apache-2.0
// fault_entry.cc: between the instruction that touched managed memory and the same instruction, once more. The handler of the
// signal has made the thread go on here, on a stack of ours (signals.cc). All that an instruction may rely on is saved and put
// back: flags, registers, and the processor's wide ones.
#include <cpuid.h>

#include "guest-allocator/driver/managed/signals.h"

namespace barcuda::guest::managed {

extern "C" {
std::uint64_t barcuda_fault_room = [] {
    unsigned a = 0, b = 0, c = 0, d = 0;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE)) return 0u;
    return __get_cpuid_count(13, 0, &a, &b, &c, &d) ? (b + 63u) & ~63u : 0u;
}();
}

// On entry %rsp is at a FaultFrame. At the end `ret $128` takes the address to go on at from below the thread's own red zone,
// and leaves the zone and the stack as they were.
asm(R"(
    .text
    .globl barcuda_fault_entry
    .hidden barcuda_fault_entry
    .type barcuda_fault_entry, @function
    .p2align 4
barcuda_fault_entry:
    .cfi_startproc
    .cfi_undefined rip
    pushfq
    pushq %rax
    pushq %rbx
    pushq %rcx
    pushq %rdx
    pushq %rsi
    pushq %rdi
    pushq %rbp
    pushq %r8
    pushq %r9
    pushq %r10
    pushq %r11
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, %rbp
    cld
    movq barcuda_fault_room(%rip), %rbx
    testq %rbx, %rbx
    jz 1f
    subq %rbx, %rsp
    andq $-64, %rsp
    xorl %eax, %eax
    leaq 512(%rsp), %rdi
    movl $8, %ecx
    rep stosq
    movl $-1, %eax
    movl $-1, %edx
    xsave64 (%rsp)
    jmp 2f
1:  subq $512, %rsp
    andq $-64, %rsp
    fxsave64 (%rsp)
2:  leaq 128(%rbp), %rdi
    call barcuda_fault_resolve
    testq %rbx, %rbx
    jz 3f
    movl $-1, %eax
    movl $-1, %edx
    xrstor64 (%rsp)
    jmp 4f
3:  fxrstor64 (%rsp)
4:  movq %rbp, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %r11
    popq %r10
    popq %r9
    popq %r8
    popq %rbp
    popq %rdi
    popq %rsi
    popq %rdx
    popq %rcx
    popq %rbx
    popq %rax
    popfq
    movq 8(%rsp), %rsp
    ret $128
    .cfi_endproc
    .size barcuda_fault_entry, . - barcuda_fault_entry
)");

}  // namespace barcuda::guest::managed
