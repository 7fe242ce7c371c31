#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# recorded.sh NAMES: assembly with the entries of the runtime functions whose names stand in the file NAMES, one a line. The entry has the
# function's name, and jumps to the function itself, which is inside_NAME; while calls are recorded (client/activity.h) it goes through
# barcuda_record (admission.sh), with the function's number.
set -eu
cat << 'END'
    .text
    .hidden barcuda_record, barcuda_recorder
    .macro entry name, number
    .p2align 4
    .globl \name
    .type \name, @function
    .hidden inside_\name
\name:
    .cfi_startproc
    cmpq $0, barcuda_recorder(%rip)
    jne 1f
    jmp inside_\name
1:  lea inside_\name(%rip), %r11
    mov $0x10000 + \number, %r10d
    jmp barcuda_record
    .cfi_endproc
    .size \name, . - \name
    .endm
END
awk '{ print "    entry " $1 ", " NR - 1 }' "$1"
echo '    .section .note.GNU-stack, "", @progbits'
