#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# unsupported.sh API_H LIBRARY_H...: C source of a weak definition for every symbol of the driver API, of which the first header is
# the table, of its twin, and for every function of the math libraries that the others declare. A function that the guest library has is
# strong, and wins. (There is none for symbols with 32-bit addresses and sizes: a program that asks for one takes the newer.)
set -eu
driver=$1
shift
# Absent where the runtime layer stands alone (its tests).
echo '__attribute__((weak)) void barcuda_refuse(const char *name, int *told);  // client/refused.cc'
weak() { # weak STATUS: reads lines "SYMBOL NAME"
    awk -v status="$1" '{ printf "__attribute__((weak, visibility(\"default\"), section(\"barcuda_unsupported\"))) int %s() { static int told; if (barcuda_refuse) barcuda_refuse(\"%s\", &told); return %s; }\n", $1, $2, status }'
}
grep -oE '(FIRST|LATER)\(cu[^)]*' "$driver" | tr -d ' ' | tr '(' ',' | awk -F, '
    function keep(symbol, name, twin) { order[n++] = symbol; named[symbol] = name; if (twin != "none") keep(symbol "_" twin, name, "none") }
    $1 == "FIRST" { keep($2, $2, $4) }
    $1 == "LATER" { keep($2, $3, $5); if ($6 == "wide") narrow[$3] }
    END { for (i = 0; i < n; i++) if (!(order[i] in narrow) && !seen[order[i]]++) print order[i], named[order[i]] }' | weak 801  # CUDA_ERROR_NOT_SUPPORTED
declared() { # declared PREFIX HEADER...: the functions that are declared there
    prefix=$1
    shift
    cat "$@" | tr '\n' ' ' | grep -oE "(CUBLASWINAPI|CURANDAPI|CUPTIAPI|CUptiResult) *$prefix[A-Z][A-Za-z0-9_]*" | sed 's/.* //' | LC_ALL=C sort -u | sed 's/.*/& &/'
}
declared cublas "$@" | weak 15  # CUBLAS_STATUS_NOT_SUPPORTED
declared curand "$@" | weak 999 # CURAND_STATUS_INTERNAL_ERROR: it has none for this
declared cupti "$@" | weak 27   # CUPTI_ERROR_NOT_SUPPORTED
