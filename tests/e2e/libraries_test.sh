#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A host without a math library says so, once and by name, and its functions answer that they cannot be initialized; a function that
# is not served answers by name too. Addresses that cuBLAS finds in device memory lead the software GPU nowhere but to its own,
# and null leads it nowhere.
. "$(dirname "$0")/lib.sh"
need g++
mkdir -p "$scratch/bin" "$scratch/lib/barcuda-soft"
cp "$build"/bin/barcuda "$build"/bin/barcuda-bridge "$scratch/bin"
ln -s "$PWD/$build/lib/libbarcuda.so" "$PWD/$build/lib/barcuda" "$scratch/lib"
ln -s "$PWD/$build/lib/barcuda-soft/libcuda.so.1" "$scratch/lib/barcuda-soft"
cat > "$scratch/program.cc" <<'CC'
#include <cstdio>
extern "C" int cublasCreate_v2(void**), curandCreateGenerator(void**, int), cublasXtCreate(void**);
int main() {
    void* it;
    for (int i = 0; i < 2; ++i) std::printf("%d %d %d\n", cublasCreate_v2(&it), curandCreateGenerator(&it, 100), cublasXtCreate(&it));
}
CC
g++ -o "$scratch/program" "$scratch/program.cc" "$build/lib/libbarcuda.so" || fail "g++"
"$scratch/bin/barcuda" run --device soft -- "$scratch/program" > "$scratch/out" 2> "$scratch/err"
[ "$(cat "$scratch/out")" = "$(printf '1 203 15\n1 203 15')" ] || fail "the statuses are: $(cat "$scratch/out" "$scratch/err")"
for what in "cublasCreate_v2: .*libcublas.so.13" "curandCreateGenerator: .*libcurand.so.10" "cublasXtCreate: not supported: "; do
    [ "$(grep -c "^barcuda: $what" "$scratch/err")" = 1 ] || fail "'$what' was not said once: $(cat "$scratch/err")"
done
echo "what is not there answers by name"

nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
[ -x "$nvcc" ] || exit 0
cat > "$scratch/wild.cu" <<'CU'
#include <cublas_v2.h>
#include <cstdio>
int main() {
    cublasHandle_t h;
    float one = 1, *nowhere = reinterpret_cast<float*>(0x7f1234560000), **array;
    cublasCreate(&h);
    cudaMalloc(&array, 8);
    cudaMemcpy(array, &nowhere, 8, cudaMemcpyHostToDevice);
    std::printf("%d ", cublasSgemmBatched(h, CUBLAS_OP_N, CUBLAS_OP_N, 4, 4, 4, &one, array, 4, array, 4, &one, array, 4, 1));
    std::printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
}
CU
"$nvcc" -cudart shared -Wno-deprecated-gpu-targets -o "$scratch/wild" "$scratch/wild.cu" -lcublas || fail "nvcc"
"$build/bin/barcuda" run --device soft -- "$scratch/wild" > "$scratch/out" 2> "$scratch/err"
[ "$(cat "$scratch/out")" = "0 cudaErrorIllegalAddress" ] || fail "a wild address: $(cat "$scratch/out" "$scratch/err")"
echo "a wild address in an array is the context's fault"

cat > "$scratch/null.cu" <<'CU'
#include <cublas_v2.h>
#include <cstdio>
#include <cstdlib>
int main(int, char** argv) {
    cublasHandle_t h;
    float one = 1, *there, *none = nullptr, **nowhere = nullptr;
    cublasCreate(&h);
    cudaMalloc(&there, 64);
    const auto N = CUBLAS_OP_N;
    int s = -1;
    switch (atoi(argv[1])) {
        case 0: s = cublasSgemm(h, N, N, 4, 4, 4, &one, none, 4, there, 4, &one, there, 4); break;
        case 1: s = cublasSgemmStridedBatched(h, N, N, 2, 2, 2, &one, there, 2, 4, there, 2, 4, &one, none, 2, 4, 2); break;
        case 2: s = cublasSgemmBatched(h, N, N, 4, 4, 4, &one, nowhere, 4, nowhere, 4, &one, nowhere, 4, 1); break;
        case 3: s = cublasSgemv(h, N, 4, 4, &one, there, 4, none, 1, &one, there, 1); break;
        case 4: s = cublasSaxpy(h, 4, &one, none, 1, there, 1); break;
        case 5: s = cublasStrsm(h, CUBLAS_SIDE_LEFT, CUBLAS_FILL_MODE_UPPER, N, CUBLAS_DIAG_UNIT, 4, 4, &one, none, 4, there, 4); break;
        case 6: s = cublasScopy(h, 0, none, 1, none, 1) + cublasSgemm(h, N, N, 0, 4, 4, &one, none, 1, there, 4, &one, none, 1); break;
    }
    std::printf("%d %s\n", s, cudaGetErrorName(cudaDeviceSynchronize()));
}
CU
"$nvcc" -cudart shared -Wno-deprecated-gpu-targets -o "$scratch/null" "$scratch/null.cu" -lcublas || fail "nvcc"
for i in 0 1 2 3 4 5 6; do
    [ $i = 6 ] && wanted="0 cudaSuccess" || wanted="0 cudaErrorIllegalAddress"
    "$build/bin/barcuda" run --device soft -- "$scratch/null" $i > "$scratch/out" 2> "$scratch/err"
    [ "$(cat "$scratch/out")" = "$wanted" ] || fail "null, $i: $(cat "$scratch/out" "$scratch/err")"
done
echo "null is the context's fault where it is read, and nobody's where it is not"

cat > "$scratch/later.cu" <<'CU'
#include <cublas_v2.h>
#include <cuda.h>
#include <cstdio>
int main() {
    cublasHandle_t h;
    float one = 1;
    cudaFree(nullptr);
    cublasCreate(&h);
    const size_t bytes = 2 << 20;
    CUmemAllocationProp prop = {};
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED, prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    CUmemGenericAllocationHandle memory;
    CUdeviceptr at;
    if (cuMemCreate(&memory, bytes, &prop, 0) || cuMemAddressReserve(&at, bytes, 0, 0, 0) || cuMemMap(at, bytes, 0, memory, 0)) return 1;
    std::printf("%d ", cublasSscal(h, 16, &one, reinterpret_cast<float*>(at), 1));  // nobody has been allowed to touch it
    std::printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
}
CU
"$nvcc" -cudart shared -Wno-deprecated-gpu-targets -o "$scratch/later" "$scratch/later.cu" -lcublas -lcuda || fail "nvcc"
"$build/bin/barcuda" run --device soft -- "$scratch/later" > "$scratch/out" 2> "$scratch/err"
[ "$(cat "$scratch/out")" = "0 cudaErrorIllegalAddress" ] || fail "memory without access: $(cat "$scratch/out" "$scratch/err")"
echo "memory that the device may not touch is not touched when the work's turn comes"

# The software GPU's own library, as its worker calls it: a generator on the host.
cat > "$scratch/host.cc" <<'CC'
#include <cuda.h>
#include <curand.h>
#include <dlfcn.h>
#include <cstdio>
#include <string>
#define FUNCTION(library, name) const auto p_##name = reinterpret_cast<decltype(&name)>(dlsym(library, #name))
int main(int, char** argv) {
    void* cuda = dlopen((argv[1] + std::string("/libcuda.so.1")).c_str(), RTLD_NOW | RTLD_GLOBAL);
    void* curand = dlopen((argv[1] + std::string("/libcurand.so.10")).c_str(), RTLD_NOW);
    if (!cuda || !curand) return std::puts(dlerror()), 1;
    FUNCTION(cuda, cuInit);
    FUNCTION(cuda, cuDevicePrimaryCtxRetain);
    FUNCTION(cuda, cuCtxSetCurrent);
    FUNCTION(cuda, cuMemHostAlloc);
    FUNCTION(curand, curandCreateGeneratorHost);
    FUNCTION(curand, curandGenerate);
    curandGenerator_t g;
    CUcontext context;
    void* pinned;
    if (p_cuInit(0) || p_cuDevicePrimaryCtxRetain(&context, 0) || p_cuCtxSetCurrent(context) || p_cuMemHostAlloc(&pinned, 4000, 0)) return 1;
    if (p_curandCreateGeneratorHost(&g, CURAND_RNG_PSEUDO_PHILOX4_32_10) != CURAND_STATUS_SUCCESS) return 77;  // NVIDIA's is not installed
    const int here = p_curandGenerate(g, static_cast<unsigned*>(pinned), 1000);
    std::printf("%d %d\n", here, p_curandGenerate(g, reinterpret_cast<unsigned*>(0x2a1234560000), 1000));
}
CC
soft=$build/lib/barcuda-soft
g++ -I"${CUDA_HOME:-/usr/local/cuda}/include" -o "$scratch/host" "$scratch/host.cc" -ldl || fail "g++"
"$scratch/host" "$PWD/$soft" > "$scratch/out" 2> "$scratch/err"; status=$?
if [ $status = 77 ]; then echo "host generators: no libcurand here"; else
    [ "$(cat "$scratch/out")" = "0 201" ] || fail "a host generator, where nothing is: status $status, $(cat "$scratch/out" "$scratch/err")"
    echo "a generator on the host writes where the CPU may"
fi

cat > "$scratch/many.cu" <<'CU'
#include <curand.h>
#include <cuda_runtime.h>
#include <cstdio>
int main() {
    curandGenerator_t g;
    if (curandCreateGenerator(&g, CURAND_RNG_PSEUDO_DEFAULT) != CURAND_STATUS_SUCCESS) return 77;  // NVIDIA's is not installed
    std::printf("%d ", curandGenerate(g, nullptr, 1ull << 62));
    unsigned* there;
    cudaMalloc(&there, 64);
    curandCreateGeneratorHost(&g, CURAND_RNG_PSEUDO_DEFAULT);
    std::printf("%d %d ", curandGenerate(g, there, 16), curandGenerate(g, nullptr, 16));
    alignas(16) double numbers[17];  // NVIDIA's stores two at a time, at multiples of 16
    std::printf("%d ", curandGenerateNormalDouble(g, numbers + 1, 16, 0, 1));
    std::printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
}
CU
"$nvcc" -cudart shared -Wno-deprecated-gpu-targets -o "$scratch/many" "$scratch/many.cu" -lcurand || fail "nvcc"
"$build/bin/barcuda" run --device soft -- "$scratch/many" > "$scratch/out" 2> "$scratch/err"
[ $? = 77 ] && exit 0
[ "$(cat "$scratch/out")" = "104 201 201 0 cudaSuccess" ] || fail "more numbers than there can be, or nowhere to put them: $(cat "$scratch/out" "$scratch/err")"
echo "more numbers than there can be are refused, and a host generator fills no device memory"
