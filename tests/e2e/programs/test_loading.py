# SPDX-License-Identifier: Apache-2.0
"""Libraries with kernels are loaded while other threads allocate. A thread that loads one holds the loader's lock while the library's
constructors run: no malloc, copy or launch of another thread may wait for that lock."""
import shutil

import pytest

from e2e.flat import RUN, nvcc, run, written

# A library whose constructor, behind the registration of its kernel, waits for another thread: for the first large block of the process, and
# in a process that uses CUDA for all that a thread does for the first time.
KERNEL = r"""
__global__ void add(int* p, int n) { p[threadIdx.x] += n; }
extern "C" int launch(int* p, int n) { return add<<<1, 32>>>(p, n), cudaGetLastError(); }
"""

CONSTRUCTOR = r"""
#include <cstdlib>
extern "C" __attribute__((weak)) void loaded();
__attribute__((constructor)) void last() {
    if (loaded) loaded();
    void* volatile own = std::malloc(1 << 20);
    std::free(own);
}
"""

WAITS_IN_A_CONSTRUCTOR = r"""
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <unistd.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>
#define CHECK(call) do { if (int e = (call)) printf("%s: %d\n", #call, e), _exit(1); } while (0)
bool with_cuda;
void work() {
    void* volatile large = malloc(1 << 20);
    memset(large, 1, 1 << 20);
    if (with_cuda) {
        char *device, *pinned;
        CHECK(cudaMalloc((void**)&device, 1 << 20));
        CHECK(cudaMallocHost((void**)&pinned, 1 << 20));
        CHECK(cudaMemcpy(device, large, 1 << 20, cudaMemcpyHostToDevice));
        CHECK(cudaMemsetAsync(device, 2, 1 << 20, cudaStreamPerThread));
        CHECK(cudaStreamSynchronize(cudaStreamPerThread));
        CHECK(cudaMemcpy(pinned, device, 1 << 20, cudaMemcpyDeviceToHost));
        CHECK(cudaDeviceSynchronize());
        if (pinned[1 << 19] != 2) puts("wrong"), _exit(1);
        CHECK(cudaMallocManaged((void**)&pinned, 1 << 20));
        pinned[0] = 1;
        CHECK(cudaMemset(pinned, 3, 1 << 20));
        CHECK(cudaDeviceSynchronize());
        if (pinned[5] != 3) puts("wrong"), _exit(1);
    }
    free(large);
}
extern "C" void loaded() { std::thread(work).join(); }
int main(int, char** argv) {
    alarm(100);  // instead of a hang
    if ((with_cuda = !strcmp(argv[2], "cuda"))) CHECK(cudaFree(nullptr));
    void* library = dlopen(argv[1], RTLD_NOW);
    if (!library) return puts(dlerror()), 1;
    int* p;
    CHECK(cudaMalloc((void**)&p, 128));
    CHECK(((int (*)(int*, int))dlsym(library, "launch"))(p, 1));
    CHECK(cudaDeviceSynchronize());
    puts("PASSED");
}
"""

# Many libraries one after the other, as a framework brings them, beside 16 threads that allocate: of 64 KiB to 1 MiB.
MANY_LIBRARIES = r"""
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <unistd.h>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>
#define CHECK(call) do { if (int e = (call)) printf("%s: %d\n", #call, e), _exit(1); } while (0)
std::atomic<bool> over{false};
std::atomic<long> blocks{0}, wrong{0};
void allocate(unsigned seed) {
    while (!over) {
        const size_t n = (size_t)64 << (10 + rand_r(&seed) % 5);
        char* const p = (char*)malloc(n);
        memset(p, seed, n);
        for (size_t i = 0; i < n; i += 4096) wrong += p[i] != (char)seed;
        free(p), ++blocks;
    }
}
int main(int argc, char** argv) {
    alarm(250);
    std::vector<std::thread> threads;
    for (unsigned i = 1; i <= 16; ++i) threads.emplace_back(allocate, i);
    int *p = nullptr, all[32];
    for (int i = 1; i < argc; ++i) {
        void* library = dlopen(argv[i], RTLD_NOW);
        if (!library) return puts(dlerror()), 1;
        if (i == 1) CHECK(cudaMalloc((void**)&p, 128) || cudaMemset(p, 0, 128));
        CHECK(((int (*)(int*, int))dlsym(library, "launch"))(p, i));
        CHECK(cudaDeviceSynchronize());
        if (i % 2) dlclose(library);
    }
    CHECK(cudaMemcpy(all, p, 128, cudaMemcpyDeviceToHost));
    over = true;
    for (auto& t : threads) t.join();
    if (all[31] != argc * (argc - 1) / 2 || wrong || blocks < 16) return printf("%d, %ld wrong of %ld\n", all[31], (long)wrong, (long)blocks), 1;
    puts("PASSED");
}
"""


def compiled(output, *words):
    return nvcc(output, "-std=c++17", "-cudart", "shared", "-gencode", "arch=compute_75,code=compute_75", *words)


@pytest.fixture(scope="module")
def library(shared):
    return compiled(shared / "library.so", "-shared", "-Xcompiler", "-fPIC", written(shared / "kernel.cu", KERNEL),
                    written(shared / "last.cc", CONSTRUCTOR))


@pytest.fixture(scope="module")
def waits(shared):
    return compiled(shared / "program", written(shared / "program.cc", WAITS_IN_A_CONSTRUCTOR), "-Xlinker", "--export-dynamic", "-ldl")


@pytest.fixture(scope="module")
def many(shared):
    return compiled(shared / "many", written(shared / "many.cc", MANY_LIBRARIES), "-ldl")


def passes(*command, **variables):
    ran = run(*RUN, *command, env=variables, patience=300)
    assert ran.status == 0 and "PASSED" in ran.said, ran


@pytest.mark.parametrize("heap", ["auto", "always", "never"])
@pytest.mark.parametrize("what", ["malloc", "cuda"])
def test_a_constructor_may_wait_for_what_another_thread_does(library, waits, what, heap):
    passes(waits, library, what, BARCUDA_HEAP=heap)


@pytest.mark.parametrize("setting", ["BARCUDA_HEAP=auto", "BARCUDA_THRESHOLD=4096"])
def test_libraries_are_loaded_beside_threads_that_allocate(library, many, scratch, setting):
    copies = [shutil.copy(library, scratch / f"{i}.so") for i in range(1, 31)]
    name, value = setting.split("=")
    passes(many, *copies, **{name: value})
