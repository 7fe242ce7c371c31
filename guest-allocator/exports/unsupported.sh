#!/bin/sh
# unsupported.sh CUDA_H LIBRARY_H...: C source of a weak definition for every driver function that the first header declares, under
# every name that it gives it, and for every function of the math libraries that the others declare. A function that the guest
# library has is strong, and wins.
set -eu
driver=$1
shift
cat <<'C'
#include <stdio.h>
#include <string.h>
static int no(const char *name, int *told, int status) {
    if (!*told) *told = 1, fprintf(stderr, "barcuda: %s is not supported yet\n", name);
    return status;
}
C
weak() { # weak STATUS: reads lines "SYMBOL NAME"
    awk -v status="$1" '{ printf "__attribute__((weak, visibility(\"default\"), section(\"barcuda_unsupported\"))) int %s() { static int told; return no(\"%s\", &told, %s); }\n", $1, $2, status }'
}
{
    sed -n 's/^#[[:space:]]*define[[:space:]]\{1,\}\(cu[A-Z][A-Za-z0-9]*\)[[:space:]]\{1,\}.*\(cu[A-Z][A-Za-z0-9]*_v[0-9]\).*/\1 \2/p' "$driver"
    tr '\n' ' ' < "$driver" | grep -o 'CUresult CUDAAPI *cu[A-Za-z0-9_]*(' | sed 's/.* //; s/CUDAAPI//; s/(//' | sed 's/.*/& &/'
} | awk '$1 != $2 { renamed[$1] = $2 } $1 == $2 { name = ($1 in renamed) ? renamed[$1] : $1; if (!seen[name]++) print name, $1 }' | weak 801  # CUDA_ERROR_NOT_SUPPORTED
declared() { # declared PREFIX HEADER...: the functions that are declared there
    prefix=$1
    shift
    cat "$@" | tr '\n' ' ' | grep -oE "(CUBLASWINAPI|CURANDAPI) *$prefix[A-Z][A-Za-z0-9_]*" | sed 's/.*API *//' | LC_ALL=C sort -u | sed 's/.*/& &/'
}
declared cublas "$@" | weak 15  # CUBLAS_STATUS_NOT_SUPPORTED
declared curand "$@" | weak 999 # CURAND_STATUS_INTERNAL_ERROR: it has none for this
