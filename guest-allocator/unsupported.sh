#!/bin/sh
# unsupported.sh CUDA_H: C source of a weak definition for every driver function that the header declares, under every name that
# it gives it. A function that the guest library has is strong, and wins.
set -eu
cat <<'C'
#include <stdio.h>
#include <string.h>
static int no(const char *name, int *told) {
    if (!*told) *told = 1, fprintf(stderr, "barcuda: %s is not supported yet\n", name);
    return 801; /* CUDA_ERROR_NOT_SUPPORTED */
}
C
{
    sed -n 's/^#[[:space:]]*define[[:space:]]\{1,\}\(cu[A-Z][A-Za-z0-9]*\)[[:space:]]\{1,\}.*\(cu[A-Z][A-Za-z0-9]*_v[0-9]\).*/\1 \2/p' "$1"
    tr '\n' ' ' < "$1" | grep -o 'CUresult CUDAAPI *cu[A-Za-z0-9_]*(' | sed 's/.* //; s/CUDAAPI//; s/(//' | sed 's/.*/& &/'
} | awk '$1 != $2 { renamed[$1] = $2 } $1 == $2 { name = ($1 in renamed) ? renamed[$1] : $1; if (!seen[name]++)
    printf "__attribute__((weak, visibility(\"default\"), section(\"barcuda_unsupported\"))) int %s() { static int told; return no(\"%s\", &told); }\n", name, $1 }'
