#!/bin/bash
# Programs that were linked with the runtime of CUDA 12 and 11 find it here, with the parameters and structures of those days.
. "$(dirname "$0")/lib.sh"
need g++
nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
# What the linker saw then: the names, under that version, in a library of that name. It is not there when the program runs.
names=$(nm -D "$build/lib/libbarcuda.so" | sed -n 's/.* \([_a-zA-Z0-9]*\)@@libcudart.so.13$/\1/p' | sort -u)
runtime() { # runtime VERSION
    mkdir -p "$scratch/$1"
    for n in $names; do echo "void $n(void) {}"; done > "$scratch/$1/names.c"
    echo "libcudart.so.$1 { global: *; };" > "$scratch/$1/map"
    gcc -shared -fPIC -w -o "$scratch/$1/libcudart.so" "$scratch/$1/names.c" -Wl,-soname,"libcudart.so.$1" -Wl,--version-script="$scratch/$1/map" || fail "a stand-in for libcudart.so.$1"
}
passes() { # passes WHAT PROGRAM
    timeout 60 $run -- "$2" > "$scratch/out" 2>&1 && grep -q PASSED "$scratch/out" || { cat "$scratch/out"; fail "$1"; }
    echo "$1: passed"
}
for version in 12 11.0; do
    runtime $version
    g++ -O1 -Itests/programs -DCUDA=${version%.0} -o "$scratch/program" tests/e2e/older_runtime.cc -L"$scratch/$version" -lcudart || fail "g++"
    passes "functions and structures of CUDA ${version%.0}" "$scratch/program"
    [ -x "$nvcc" ] || continue
    "$nvcc" -c -O2 -Itests/programs -Wno-deprecated-gpu-targets -gencode arch=compute_75,code=compute_75 -o "$scratch/kernel.o" tests/programs/vector_add.cu || fail "nvcc"
    g++ -o "$scratch/program" "$scratch/kernel.o" -L"$scratch/$version" -lcudart || fail "g++"
    passes "a kernel, linked with libcudart.so.$version" "$scratch/program"
done
