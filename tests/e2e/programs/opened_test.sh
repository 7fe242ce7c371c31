#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A program that is not started with the library in front opens it by the driver's name when it wants CUDA, as ctypes does. One that is
# may open NVIDIA's runtime by its path, and ask that file for its functions: it gets ours.
. "$(dirname "$0")/../lib.sh"
need python3
$run -- env -u LD_PRELOAD python3 -c '
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
context, device, there = ctypes.c_void_p(), ctypes.c_int(), ctypes.c_uint64()
sent, back = bytes(range(256)) * 4096, ctypes.create_string_buffer(1 << 20)
for result in (cuda.cuInit(0), cuda.cuDeviceGet(ctypes.byref(device), 0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device),
               cuda.cuCtxSetCurrent(context), cuda.cuMemAlloc_v2(ctypes.byref(there), ctypes.c_size_t(len(sent)))):
    assert result == 0, result
for result in (cuda.cuMemcpyHtoD_v2(there, sent, ctypes.c_size_t(len(sent))), cuda.cuMemcpyDtoH_v2(back, there, ctypes.c_size_t(len(sent))),
               cuda.cuMemFree_v2(there)):
    assert result == 0, result
assert back.raw[:len(sent)] == sent' || fail "a program that opens libcuda.so.1"
# Files with variables of threads, more than the loader keeps places for at first, most of them not touched.
need cc
cc -shared -fPIC -o "$scratch/one.so" -x c - <<< '__thread int own = 5; int get(void) { return own; }' || fail "no compiler"
for i in $(seq 150); do cp "$scratch/one.so" "$scratch/$i.so"; done
$run -- python3 -c '
import ctypes, sys
cuda, context, device = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_int()
assert cuda.cuInit(0) == 0
for i in range(1, 151):
    opened = ctypes.CDLL(f"{sys.argv[1]}/{i}.so")
    assert i % 10 or opened.get() == 5' "$scratch" || fail "a program that opens many files"

# A program that is linked statically opens it beside a C library of its own, where the loader has little room for libraries' variables of
# threads; and it leaves room for another library's.
cat > "$scratch/static.c" <<'C'
#include <dlfcn.h>
#include <stdio.h>
int main(int argc, char** argv) {
    void* cuda = dlopen("libcuda.so.1", RTLD_NOW);
    if (!cuda) return puts(dlerror()), 1;
    void* more = dlopen(argv[1], RTLD_NOW);
    if (!more) return puts(dlerror()), 1;
    int count = 0;
    int init = ((int (*)(unsigned))dlsym(cuda, "cuInit"))(0), counted = ((int (*)(int*))dlsym(cuda, "cuDeviceGetCount"))(&count);
    if (init || counted || count != 1) return printf("%d %d: %d devices\n", init, counted, count), 1;
    return ((int (*)(void))dlsym(more, "get"))() != 5;
}
C
cc -shared -fPIC -o "$scratch/room.so" -x c - <<< '__thread __attribute__((tls_model("initial-exec"))) int own[16] = {5}; int get(void) { return own[0]; }' || fail "no compiler"
if cc -w -static -o "$scratch/static" "$scratch/static.c" 2> "$scratch/err"; then
    $run -- env -u LD_PRELOAD "$scratch/static" "$scratch/room.so" || fail "a static program that opens libcuda.so.1"
else
    echo "not tried: a static program; there is no libc.a"
fi

# Libraries of NVIDIA's driver that would wait for their own libcuda: a program does without, also where the host's are to be seen.
mkdir "$scratch/host" && for name in libnvcuvid.so.1 libnvidia-encode.so.1; do cp "$scratch/one.so" "$scratch/host/$name"; done
LD_LIBRARY_PATH=$scratch/host $run -- python3 -c '
import ctypes
for name in "libnvcuvid.so.1", "libnvidia-encode.so.1":
    try: ctypes.CDLL(name)
    except OSError: continue
    raise SystemExit(f"{name} was opened")' || fail "a library of the host driver"

runtime=$(ls "${CUDA_HOME:-/usr/local/cuda}"/lib64/libcudart.so.1? 2> /dev/null | head -n 1)
[ -n "$runtime" ] || { echo "passed, but for a runtime that is opened by its path: there is no libcudart.so"; exit; }
$run -- python3 -c '
import ctypes, sys
cuda = ctypes.CDLL(sys.argv[1])
there, sent, back = ctypes.c_void_p(), bytes(range(256)) * 4096, ctypes.create_string_buffer(1 << 20)
for result in (cuda.cudaMalloc(ctypes.byref(there), ctypes.c_size_t(len(sent))), cuda.cudaMemcpy(there, sent, ctypes.c_size_t(len(sent)), 1),
               cuda.cudaMemcpy(back, there, ctypes.c_size_t(len(sent)), 2), cuda.cudaFree(there)):
    assert result == 0, result
assert back.raw[:len(sent)] == sent' "$runtime" || fail "a program that opens $runtime"
echo passed
