#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Programs that are built with AddressSanitizer or UndefinedBehaviorSanitizer use CUDA, and what AddressSanitizer finds it still finds: its
# runtime, where the user preloads it, stays in front of our library. Other libraries that the user preloads stay behind.
. "$(dirname "$0")/../lib.sh"
need g++
[ -f "$(g++ -print-file-name=libasan.so)" ] || { echo "skipped: g++ has no AddressSanitizer"; exit 77; }
include="-I${CUDA_HOME:-/usr/local/cuda}/include"
[ -e "${include#-I}/cuda_runtime_api.h" ] || { echo "skipped: there is no CUDA toolkit"; exit 77; }
cat > "$scratch/program.cc" <<'C'
#include <cuda_runtime_api.h>
#include <cstdio>
#include <cstdlib>
#include <vector>
int main(int argc, char**) {
    std::vector<int> sent(1 << 20, 7), got(1 << 20);
    const size_t bytes = sent.size() * sizeof sent[0];
    void *device, *pinned;
    if (cudaMalloc(&device, bytes) || cudaMallocHost(&pinned, bytes) || cudaMemcpy(device, sent.data(), bytes, cudaMemcpyHostToDevice) ||
        cudaMemcpy(pinned, device, bytes, cudaMemcpyDeviceToHost) || cudaMemcpy(got.data(), device, bytes, cudaMemcpyDeviceToHost))
        return puts("a call has failed"), 1;
    volatile int at = argc > 1 ? 1 << 20 : 5;
    puts(got == sent && ((int*)pinned)[5] == 7 && got[at] == 7 ? "PASSED" : "wrong");
}
C
build_with() { g++ -g "$include" "$@" "$scratch/program.cc" -L"$build/lib/barcuda" -l:libcudart.so.13 -Wl,--allow-shlib-undefined || fail "g++ $*"; }
expect() { # expect TEXT NAME COMMAND...
    local text=$1 name=$2; shift 2
    timeout 120 "$@" > "$scratch/out" 2>&1; grep -q -e "$text" "$scratch/out" || fail "$name: $(cat "$scratch/out")"
    echo "$name: passed"
}
build_with -fsanitize=address -o "$scratch/asan"
build_with -fsanitize=address -static-libasan -o "$scratch/asan-inside"
build_with -fsanitize=undefined -fno-sanitize-recover=all -o "$scratch/ubsan"
export ASAN_OPTIONS=detect_leaks=0
asan=(env LD_PRELOAD="$(g++ -print-file-name=libasan.so)" $run --)
expect PASSED "AddressSanitizer" "${asan[@]}" "$scratch/asan"
expect heap-buffer-overflow "AddressSanitizer, an error" "${asan[@]}" "$scratch/asan" wrong
expect PASSED "AddressSanitizer, linked in" $run -- "$scratch/asan-inside"
expect PASSED "UndefinedBehaviorSanitizer" $run -- "$scratch/ubsan"

# What is not a sanitizer's comes behind ours.
asan=$scratch/libasan.so.8
g++ -shared -o "$scratch/other.so" -x c /dev/null && cp "$scratch/other.so" "$asan" || fail "g++"
said=$(LD_PRELOAD="$scratch/other.so:$asan" $run -- sh -c 'echo "$LD_PRELOAD"' 2> "$scratch/err")
case $said in *libbarcuda.so:*"$scratch/other.so:$asan") ;; *) fail "LD_PRELOAD is $said: $(cat "$scratch/err")" ;; esac
said=$(LD_PRELOAD="$asan $scratch/other.so" $run -- sh -c 'echo "$LD_PRELOAD"' 2> "$scratch/err")
case $said in "$asan "*libbarcuda.so:*"$scratch/other.so") ;; *) fail "LD_PRELOAD is $said: $(cat "$scratch/err")" ;; esac
echo "the order of libraries: passed"
