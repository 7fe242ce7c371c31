#!/bin/sh
# older_names.sh GUEST_RUNTIME_A: assembly that gives every runtime function a second and a third name, under the versions that
# programs of CUDA 12 and 11 ask for (cudaMalloc@libcudart.so.12). Where runtime/older.cc has barcuda_12_NAME or
# barcuda_11_NAME, that function is meant. The versions themselves are declared in libbarcuda.map.
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
echo .text
for name in $(echo "$symbols" | grep -E '^(cuda[A-Z]|__cuda)'); do
    function=$name
    if has "barcuda_12_$name"; then function=barcuda_12_$name; fi
    alias "$name" 12 "$function"
    if has "barcuda_11_$name"; then function=barcuda_11_$name; fi
    alias "$name" 11.0 "$function"
done
echo '.section .note.GNU-stack, "", @progbits'
