#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A program that closes all descriptors, as daemons do, loses nothing by it; and what a program is told where it cannot have more memory,
# or where the GPU is lost, is true.
. "$(dirname "$0")/../lib.sh"
for how in closefrom range loop system-call; do
    for when in before after both; do
        timeout 120 $run -- "$build/e2e/closes" $when $how > "$scratch/out" 2>&1 && grep -q PASSED "$scratch/out" && ! grep -q "barcuda:" "$scratch/out" ||
            fail "$how, $when the first CUDA call: $(cat "$scratch/out")"
    done
    echo "$how: passed"
done

# No address space for more of the region: the GPU works on, and no message says that it is lost, or that the region is full.
cat > "$scratch/space.cc" <<'C'
#include <cuda_runtime.h>
#include <sys/resource.h>
#include <cstdio>
#include <cstdlib>
int main() {
    void *device, *pinned;
    if (cudaMalloc(&device, 1 << 20) || cudaMallocHost(&pinned, 1 << 20)) return puts("no memory at first"), 1;
    const rlimit none{1 << 20, 1 << 20};
    setrlimit(RLIMIT_AS, &none);
    if (cudaMallocHost(&pinned, 200 << 20) != cudaErrorMemoryAllocation) return puts("pinned memory without address space"), 1;
    if (cudaMemset(device, 1, 1 << 20) || cudaDeviceSynchronize()) return puts("the GPU does not work"), 1;
    puts("PASSED");
}
C
nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
if [ -x "$nvcc" ]; then
    "$nvcc" -cudart shared -Wno-deprecated-gpu-targets -o "$scratch/space" "$scratch/space.cc" || fail nvcc
    timeout 60 $run -- "$scratch/space" > "$scratch/out" 2>&1 && grep -q PASSED "$scratch/out" || fail "no address space: $(cat "$scratch/out")"
    grep -q 'barcuda: this process gets no more memory of the region' "$scratch/out" && ! grep -q 'GPU is lost\|region is full' "$scratch/out" ||
        fail "no address space: $(cat "$scratch/out")"
    echo "no address space: passed"
fi

# A bridge that does not answer.
serve --no-vm
kill -STOP "$bridge"
client "$build/programs/vector_add" > "$scratch/out" 2>&1 && fail "a program without a bridge: $(cat "$scratch/out")"
kill -CONT "$bridge"
grep -q 'GPU is lost: the bridge does not answer' "$scratch/out" && ! grep -q 'region is full' "$scratch/out" || fail "a silent bridge: $(cat "$scratch/out")"
echo "a silent bridge: passed"
