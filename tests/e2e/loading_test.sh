#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Libraries with kernels are loaded while other threads allocate. A thread that loads one holds the loader's lock while the library's
# constructors run: no malloc, copy or launch of another thread may wait for that lock.
. "$(dirname "$0")/lib.sh"
nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
[ -x "$nvcc" ] || { echo "skipped: nvcc is not installed"; exit 77; }
compile() { "$nvcc" -std=c++17 -cudart shared -Wno-deprecated-gpu-targets -gencode arch=compute_75,code=compute_75 "$@" || fail nvcc; }

# A library whose constructor, behind the registration of its kernel, waits for another thread: for the first large block of the
# process, and in a process that uses CUDA for all that a thread does for the first time.
cat > "$scratch/kernel.cu" <<'C'
__global__ void add(int* p, int n) { p[threadIdx.x] += n; }
extern "C" int launch(int* p, int n) { return add<<<1, 32>>>(p, n), cudaGetLastError(); }
C
cat > "$scratch/last.cc" <<'C'
#include <cstdlib>
extern "C" __attribute__((weak)) void loaded();
__attribute__((constructor)) void last() {
    if (loaded) loaded();
    void* volatile own = std::malloc(1 << 20);
    std::free(own);
}
C
compile -shared -Xcompiler -fPIC -o "$scratch/library.so" "$scratch/kernel.cu" "$scratch/last.cc"
cat > "$scratch/program.cc" <<'C'
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
C
compile -o "$scratch/program" "$scratch/program.cc" -Xlinker --export-dynamic -ldl
for what in malloc cuda; do
    for setting in BARCUDA_HEAP=auto BARCUDA_HEAP=always BARCUDA_HEAP=never; do
        timeout 120 env $setting $run -- "$scratch/program" "$scratch/library.so" $what > "$scratch/out" 2>&1 && grep -q PASSED "$scratch/out" ||
            { cat "$scratch/out"; fail "a constructor that waits for another thread's $what with $setting"; }
    done
    echo "a constructor that waits for another thread's $what: passed"
done

# Many libraries one after the other, as a framework brings them, beside 16 threads that allocate: of 64 KiB to 1 MiB.
cat > "$scratch/many.cc" <<'C'
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
C
compile -o "$scratch/many" "$scratch/many.cc" -ldl
for i in $(seq 30); do cp "$scratch/library.so" "$scratch/$i.so"; done
for setting in BARCUDA_HEAP=auto BARCUDA_THRESHOLD=4096; do
    timeout 300 env $setting $run -- "$scratch/many" "$scratch"/[0-9]*.so > "$scratch/out" 2>&1 && grep -q PASSED "$scratch/out" ||
        { cat "$scratch/out"; fail "libraries beside 16 threads with $setting"; }
    echo "libraries beside 16 threads with $setting: passed"
done
