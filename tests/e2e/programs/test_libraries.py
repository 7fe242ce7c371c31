# SPDX-License-Identifier: Apache-2.0
"""A host without a math library says so, once and by name, and its functions answer that they cannot be initialized; a function that is not
served answers by name too. Addresses that cuBLAS finds in device memory lead the software GPU nowhere but to its own, and null leads it
nowhere."""
import os
import shutil

import pytest

from e2e.flat import BARCUDA, BRIDGE, LIBRARIES, gxx, nvcc, run, written

RUN = BARCUDA, "run", "--device", "soft", "--"
ILLEGAL = "0 cudaErrorIllegalAddress\n"
NOT_INSTALLED = 77  # as programs say of NVIDIA's cuRAND

ASKS_FOR_LIBRARIES = r"""
#include <cstdio>
extern "C" int cublasCreate_v2(void**), curandCreateGenerator(void**, int), cublasXtCreate(void**);
int main() {
    void* it;
    for (int i = 0; i < 2; ++i) std::printf("%d %d %d\n", cublasCreate_v2(&it), curandCreateGenerator(&it, 100), cublasXtCreate(&it));
}
"""


def test_what_a_host_does_not_have_answers_by_name(scratch):
    for folder in "bin", "lib/barcuda-soft":
        (scratch / folder).mkdir(parents=True)
    for program in BARCUDA, BRIDGE:
        shutil.copy(program, scratch / "bin")
    for name in "libbarcuda.so", "barcuda", "barcuda-soft/libcuda.so.1":
        (scratch / "lib" / name).symlink_to(LIBRARIES / name)
    program = gxx(scratch / "program", written(scratch / "program.cc", ASKS_FOR_LIBRARIES), LIBRARIES / "libbarcuda.so")
    ran = run(scratch / "bin/barcuda", *RUN[1:], program)
    assert ran.out == "1 203 15\n" * 2, ran
    for function, what in (("cublasCreate_v2", "libcublas.so.13"), ("curandCreateGenerator", "libcurand.so.10"), ("cublasXtCreate", "not supported: ")):
        said = [line for line in ran.err.splitlines() if line.startswith(f"barcuda: {function}: ") and what in line]
        assert len(said) == 1, f"{function}: {what} was not said once: {ran}"


WILD_ADDRESS_IN_AN_ARRAY = r"""
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
"""

NULL_OPERANDS = r"""
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
"""

MEMORY_WITHOUT_ACCESS = r"""
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
    std::printf("%d ", cublasSscal(h, 16, &one, reinterpret_cast<float*>(at), 1));  // no device has been allowed to touch it
    std::printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
}
"""


def test_a_wild_address_in_an_array_is_the_contexts_fault(scratch):
    program = nvcc(scratch / "wild", "-cudart", "shared", written(scratch / "wild.cu", WILD_ADDRESS_IN_AN_ARRAY), "-lcublas")
    ran = run(*RUN, program)
    assert ran.out == ILLEGAL, ran


@pytest.fixture(scope="module")
def with_null(shared):
    return nvcc(shared / "null", "-cudart", "shared", written(shared / "null.cu", NULL_OPERANDS), "-lcublas")


@pytest.mark.parametrize("operand", range(7))
def test_null_is_the_contexts_fault_where_it_is_read_and_no_fault_where_it_is_not(with_null, operand):
    ran = run(*RUN, with_null, operand)
    assert ran.out == ("0 cudaSuccess\n" if operand == 6 else ILLEGAL), ran


def test_memory_that_the_device_may_not_touch_is_not_touched_when_the_works_turn_comes(scratch):
    program = nvcc(scratch / "later", "-cudart", "shared", written(scratch / "later.cu", MEMORY_WITHOUT_ACCESS), "-lcublas", "-lcuda")
    ran = run(*RUN, program)
    assert ran.out == ILLEGAL, ran


HOST_GENERATOR = r"""
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
"""

TOO_MANY_NUMBERS = r"""
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
"""


def test_a_generator_on_the_host_writes_where_the_cpu_may(scratch):
    """The software GPU's own library, as its worker calls it."""
    include = os.environ.get("CUDA_HOME", "/usr/local/cuda") + "/include"
    program = gxx(scratch / "host", f"-I{include}", written(scratch / "host.cc", HOST_GENERATOR), "-ldl")
    ran = run(program, LIBRARIES / "barcuda-soft")
    if ran.status == NOT_INSTALLED:
        pytest.skip("NVIDIA's libcurand is not installed")
    assert ran.out == "0 201\n", ran


def test_more_numbers_than_there_can_be_are_refused_and_a_host_generator_fills_no_device_memory(scratch):
    program = nvcc(scratch / "many", "-cudart", "shared", written(scratch / "many.cu", TOO_MANY_NUMBERS), "-lcurand")
    ran = run(*RUN, program)
    if ran.status == NOT_INSTALLED:
        pytest.skip("NVIDIA's libcurand is not installed")
    assert ran.out == "104 201 201 0 cudaSuccess\n", ran
