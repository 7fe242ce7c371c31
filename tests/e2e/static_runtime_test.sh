#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Programs and libraries that carry a CUDA runtime of their own, as nvcc links them unless it is told otherwise.
. "$(dirname "$0")/lib.sh"
need g++
nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
[ -x "$nvcc" ] || { echo "skipped: nvcc is not installed"; exit 77; }
nm -D "$build/lib/libbarcuda.so" | grep -q 'U __[at]san_init' && { echo "skipped: not in a build under a sanitizer"; exit 77; }
compile() { "$nvcc" -O2 -Itests/programs -Wno-deprecated-gpu-targets -gencode arch=compute_75,code=compute_75 "$@" || fail "nvcc $*"; }
passes() { # passes WHAT COMMAND...
    local what=$1; shift
    timeout 60 $run -- "$@" > "$scratch/out" 2>&1 && grep -q PASSED "$scratch/out" || { cat "$scratch/out"; fail "$what"; }
    echo "$what: passed"
}

compile -o "$scratch/vector_add" tests/programs/vector_add.cu
passes "a program as nvcc links it" "$scratch/vector_add"
compile -o "$scratch/no_pie" -Xcompiler -no-pie -Xlinker -no-pie tests/programs/vector_add.cu
passes "a program at a fixed address" "$scratch/no_pie"

compile -o "$scratch/fork_first" tests/programs/fork_first.cu
passes "children of a program that has only allocated" "$scratch/fork_first"

# A library of that kind, and programs that know nothing of CUDA.
cat > "$scratch/twice.cu" <<'EOF'
__global__ void kernel(int* p) { *p *= 2; }
extern "C" int twice(int n) {
    int* p = nullptr;
    if (cudaMalloc(&p, sizeof n) || cudaMemcpy(p, &n, sizeof n, cudaMemcpyDefault)) return -1;
    kernel<<<1, 1>>>(p);
    return cudaMemcpy(&n, p, sizeof n, cudaMemcpyDefault) || cudaFree(p) ? -1 : n;
}
EOF
compile -shared -Xcompiler -fPIC -o "$scratch/libtwice.so" "$scratch/twice.cu"
cat > "$scratch/linked.cc" <<'EOF'
#include <cstdio>
extern "C" int twice(int);
int main() { puts(twice(21) == 42 ? "PASSED" : "FAILED"); }
EOF
g++ -o "$scratch/linked" "$scratch/linked.cc" -L"$scratch" -ltwice -Wl,-rpath,"$scratch" || fail "g++"
passes "a library that a program is linked with" "$scratch/linked"
cat > "$scratch/opens.cc" <<'EOF'
#include <dlfcn.h>
#include <cstdio>
int main(int, char** names) {  // again and again, each time elsewhere or in the same place
    bool good = true;
    for (int i = 0; i < 3; ++i) {
        void* library = dlopen(names[1], RTLD_NOW | RTLD_LOCAL);
        auto* twice = library ? reinterpret_cast<int (*)(int)>(dlsym(library, "twice")) : nullptr;
        if (!twice) return puts(dlerror()), 1;
        good = good && twice(21 + i) == 42 + 2 * i;
        if (i) dlclose(library);
    }
    puts(good ? "PASSED" : "FAILED");
}
EOF
g++ -o "$scratch/opens" "$scratch/opens.cc" -ldl || fail "g++"
passes "a library that a program opens" "$scratch/opens" "$scratch/libtwice.so"
cat > "$scratch/both.cu" <<'EOF'
#include <cstdio>
extern "C" int twice(int);
__global__ void kernel(int* p) { *p += 1; }
int main() {
    int *p, n = 20;
    cudaMalloc(&p, sizeof n), cudaMemcpy(p, &n, sizeof n, cudaMemcpyDefault);
    kernel<<<1, 1>>>(p);
    cudaMemcpy(&n, p, sizeof n, cudaMemcpyDefault);
    puts(twice(n) == 42 ? "PASSED" : "FAILED");
}
EOF
compile -o "$scratch/both" "$scratch/both.cu" -L"$scratch" -ltwice -Xlinker -rpath,"$scratch"
passes "a runtime in the program and one in its library" "$scratch/both"

# Without symbols its functions are known by what they look like; with another runtime inside it is told why it cannot work.
strip -o "$scratch/stripped" "$scratch/vector_add"
passes "a stripped program" "$scratch/stripped"
cp "$scratch/stripped" "$scratch/other"
nm "$scratch/vector_add" | sed -n 's/^0*\([0-9a-f]*\) T cudaGraph.*/\1/p' | while read -r at; do
    printf x | dd of="$scratch/other" bs=1 seek=$((0x$at + 100)) conv=notrunc status=none  # a file is mapped as it stands
done
timeout 60 $run -- "$scratch/other" > "$scratch/out" 2>&1 && fail "a program with a runtime that nobody knows ended well: $(cat "$scratch/out")"
grep -q 'other carries a CUDA runtime of its own.*-cudart=shared' "$scratch/out" || fail "what such a program hears: $(cat "$scratch/out")"
timeout 60 $run -- env -u LD_PRELOAD "$scratch/vector_add" > "$scratch/out" 2>&1 && fail "a program without LD_PRELOAD ended well: $(cat "$scratch/out")"
[ -e /etc/ld.so.preload ] || grep -q 'came too late.*barcuda exec' "$scratch/out" || fail "what a program without LD_PRELOAD hears: $(cat "$scratch/out")"
echo "a runtime that nobody knows is told"

# Runtimes of older days: what tells them apart are the names that they have.
names=$(nm -D "$build/lib/libbarcuda.so" | sed -n 's/.* \([_a-zA-Z0-9]*\)@@libcudart.so.13$/\1/p' | sort -u)
for version in 12 11; do
    [ $version = 12 ] && gone='^cudaBindTexture$' || gone='^cudaGetDeviceProperties_v2$'
    echo "$names" | grep -v "$gone" | sed 's/.*/void &(void) {}/' > "$scratch/runtime.c"
    gcc -c -w -O2 -o "$scratch/runtime.o" "$scratch/runtime.c" || fail "a stand-in for the runtime of CUDA $version"
    g++ -O1 -Itests/programs -DCUDA=$version -o "$scratch/program" tests/e2e/older_runtime.cc "$scratch/runtime.o" || fail "g++"
    passes "a runtime of CUDA $version inside" "$scratch/program"
done
