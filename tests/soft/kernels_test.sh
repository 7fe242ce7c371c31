#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The suite of kernels (tests/soft/kernels) passes, as nvcc makes it for a debugger, without an option, and for speed. The device is in
# turn each compute capability that the program has PTX for, so that this PTX is what runs.
. "$(dirname "$0")/../e2e/lib.sh"
folder=$build/soft/kernels${KERNELS:+-$KERNELS}
capabilities() {
    [ "$device" = soft ] || { echo real; return; }
    [ "${KERNELS:-}" = all ] && { echo 7.5 8.0 9.0 10.0; return; }
    case $1 in *.O2) echo 7.5 10.0 ;; *.O0) echo 8.0 ;; *.G) echo 9.0 ;; esac
}
wrong=0
for source in tests/soft/kernels/*.cu; do
    for form in O2 O0 G; do
        program=$folder/$(basename "$source" .cu).$form
        for capability in $(capabilities "$program"); do
            if BARCUDA_SOFT_CC=$capability timeout 120 $run -- "$program" > "$scratch/out" 2>&1 && grep -q ^PASSED "$scratch/out"; then
                echo "$(basename "$program") on $capability: passed"
            else
                echo "$(basename "$program") on $capability:"; cat "$scratch/out"; wrong=1
            fi
        done
    done
done
[ $wrong = 0 ] || fail "a program of $folder"
