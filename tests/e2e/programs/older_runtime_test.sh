#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Programs that were linked with the runtime of CUDA 12 and 11 find it here, with the parameters and structures of those days; those
# that were linked with cuBLAS of that time too.
. "$(dirname "$0")/../lib.sh"
need g++
nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
# What the linker saw then: the names, under that version, in a library of that name. It is not there when the program runs.
stand_in() { # stand_in LIBRARY VERSION: the names, as we have them for CUDA 13
    local names=$(nm -D "$build/lib/libbarcuda.so" "$build"/lib/barcuda-libraries/*.so.13 | sed -n "s/.* \([_a-zA-Z0-9]*\)@@$1.so.13$/\1/p" | sort -u)
    mkdir -p "$scratch/$2"
    for n in $names; do echo "void $n(void) {}"; done > "$scratch/$2/names.c"
    echo "$1.so.$2 { global: *; };" > "$scratch/$2/map"
    gcc -shared -fPIC -w -o "$scratch/$2/$1.so" "$scratch/$2/names.c" -Wl,-soname,"$1.so.$2" -Wl,--version-script="$scratch/$2/map" || fail "a stand-in for $1.so.$2"
}
passes() { # passes WHAT PROGRAM
    timeout 60 $run -- "$2" > "$scratch/out" 2>&1 && grep -q PASSED "$scratch/out" || { cat "$scratch/out"; fail "$1"; }
    echo "$1: passed"
}
for version in 12 11.0; do
    stand_in libcudart $version
    g++ -O1 -Itests/programs -DCUDA=${version%.0} -o "$scratch/program" tests/e2e/programs/older_runtime.cc -L"$scratch/$version" -lcudart || fail "g++"
    passes "functions and structures of CUDA ${version%.0}" "$scratch/program"
    [ -x "$nvcc" ] || continue
    "$nvcc" -c -O2 -Itests/programs -Wno-deprecated-gpu-targets -gencode arch=compute_75,code=compute_75 -o "$scratch/kernel.o" tests/programs/vector_add.cu || fail "nvcc"
    g++ -o "$scratch/program" "$scratch/kernel.o" -L"$scratch/$version" -lcudart || fail "g++"
    passes "a kernel, linked with libcudart.so.$version" "$scratch/program"
    stand_in libcublas "${version%.0}"
    "$nvcc" -c -O2 -Itests/programs -Wno-deprecated-gpu-targets -gencode arch=compute_75,code=compute_75 -o "$scratch/blas.o" tests/programs/blas.cu || fail "nvcc"
    g++ -o "$scratch/program" "$scratch/blas.o" -L"$scratch/$version" -lcudart -L"$scratch/${version%.0}" -lcublas || fail "g++"
    passes "cuBLAS, linked with libcublas.so.${version%.0}" "$scratch/program"
done
