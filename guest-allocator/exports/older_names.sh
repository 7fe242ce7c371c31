#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# older_names.sh GUEST_RUNTIME_A UNSUPPORTED_O: assembly that gives every runtime function a second and a third name, under the versions that
# programs of CUDA 12 and 11 ask for (cudaMalloc@libcudart.so.12). Where runtime/older.cc has barcuda_12_NAME or
# barcuda_11_NAME, that function is meant. The versions themselves are declared in libbarcuda.map. And a table of all of
# them, in order of the names, for runtime/static_runtime.cc. The functions of cuBLAS and cuRAND, all of which UNSUPPORTED_O
# names, get names under which library_names.sh finds them.
set -eu
symbols=$(nm -g --defined-only "$1" | awk '$2 ~ /^[TWi]$/ { print $3 }' | LC_ALL=C sort -u)
alias() { # alias NAME VERSION FUNCTION
    printf '.globl at_%s_%s\n.type at_%s_%s, @function\nat_%s_%s: jmp %s@PLT\n.symver at_%s_%s, %s@libcudart.so.%s, remove\n' \
        "$2" "$1" "$2" "$1" "$2" "$1" "$3" "$2" "$1" "$1" "$2"
}
has() { case "
$symbols
" in *"
$1
"*) ;; *) return 1 ;; esac; }
names=$(echo "$symbols" | grep -E '^(cuda[A-Z]|__cuda)')
echo .text
for name in $names; do
    function=$name
    if has "barcuda_12_$name"; then function=barcuda_12_$name; fi
    alias "$name" 12 "$function"
    if has "barcuda_11_$name"; then function=barcuda_11_$name; fi
    alias "$name" 11.0 "$function"
done
for name in $(nm -g --defined-only "$2" | awk '$3 ~ /^(cublas|curand)[A-Z]/ { print $3 }' | LC_ALL=C sort -u); do
    printf '.globl barcuda_%s\n.type barcuda_%s, @function\nbarcuda_%s: jmp %s@PLT\n' "$name" "$name" "$name" "$name"
done
printf '.section .data.rel.ro, "aw"\n.balign 8\n.globl barcuda_runtime_names\n.hidden barcuda_runtime_names\nbarcuda_runtime_names:\n'
for name in $names; do printf '.quad text_%s, %s, at_12_%s, at_11.0_%s\n' "$name" "$name" "$name" "$name"; done
printf '.quad 0\n.section .rodata.str1.1, "aMS", @progbits, 1\n'
for name in $names; do printf 'text_%s: .asciz "%s"\n' "$name" "$name"; done
echo '.section .note.GNU-stack, "", @progbits'
