// SPDX-License-Identifier: Apache-2.0
// other_name.h: a function under another name. Windows has no ifunc: the name is a jump, through a word that the
// compiler fills.
#pragma once

#define BARCUDA_OTHER_NAME(name, Type, ...)                              \
    extern "C" {                                                         \
    extern Type* const barcuda_to_##name;                                \
    [[gnu::used]] constinit Type* const barcuda_to_##name = __VA_ARGS__; \
    }                                                                    \
    asm(".text\n.p2align 4\n.globl " #name "\n" #name ": jmp *barcuda_to_" #name "(%rip)\n");
