// SPDX-License-Identifier: Apache-2.0
// system.cu: what kernels ask of the system: printf, assert, trap, and errors that stay. A child process does each of
// those that end a context; its parent looks at what came of it.
#include <sys/wait.h>
#include <unistd.h>

#include <cassert>

#include "suite.h"

__global__ void prints(const char* word, double x) {
    if (threadIdx.x == 3)
        printf("%d %5d|%-5d|%05d %x %#X %u %lld %c %s %.3f %e %g %p %%|%*d|%.2s\n", -7, 42, 42, 42, 255u, 255u,
               4000000000u, -5000000000ll, 'z', word, x, x, x, word, 6, 9, "abcdef");
    if (threadIdx.x == 0 && blockIdx.x == 0) printf("no arguments\n");
    const int many = printf("%d%d%d%d%d%d%d%d\n", 1, 2, 3, 4, 5, 6, 7, 8);
    if (many != 8) printf("printf says %d\n", many);
}
__global__ void asserts(int n) { assert(threadIdx.x != n && "as asked"); }
__global__ void traps() { __trap(); }
__global__ void strays(int* p) { *p = 1; }
__global__ void misses(char* p) { *reinterpret_cast<int*>(p + 1) = 1; }
__device__ char word[] = "word";

// Runs f in a child whose output, or that to standard error, is kept. The parent has not touched CUDA yet.
template <class F> std::string child(F f, int* status, int kept = STDOUT_FILENO) {
    int ends[2];
    if (pipe(ends) != 0) std::exit(1);
    const pid_t pid = fork();
    if (pid == 0) {
        dup2(ends[1], kept), close(ends[0]), close(ends[1]);
        const int code = f();
        std::fflush(nullptr);
        _exit(code);
    }
    close(ends[1]);
    std::string said;
    char buffer[4096];
    for (ssize_t n; (n = read(ends[0], buffer, sizeof buffer)) > 0;) said.append(buffer, n);
    close(ends[0]);
    waitpid(pid, status, 0);
    *status = WIFEXITED(*status) ? WEXITSTATUS(*status) : -1;
    return said;
}
static bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

// The error of a kernel comes with the next synchronization, and stays.
template <class L> int error_of(L launch) {
    launch();
    const cudaError_t first = cudaDeviceSynchronize();
    void* p;
    return cudaMalloc(&p, 4) == first ? first % 256 : 255;
}

int main() {
    int status;
    const std::string printed = child(
        [] {
            char* at;
            if (cudaGetSymbolAddress(reinterpret_cast<void**>(&at), word) != cudaSuccess) return 1;
            prints<<<2, 4>>>(at, 2.5);
            return static_cast<int>(cudaDeviceSynchronize());
        },
        &status);
    HOLDS(status == 0);
    HOLDS(has(printed, "-7    42|42   |00042 ff 0XFF 4000000000 -5000000000 z word 2.500 2.500000e+00 2.5 "));
    HOLDS(has(printed, "%|     9|ab\n"));
    HOLDS(has(printed, "no arguments\n") && !has(printed, "printf says"));
    std::size_t lines = 0;
    for (std::size_t at = 0; (at = printed.find("12345678\n", at)) != std::string::npos; ++at) ++lines;
    HOLDS(lines == 8);

    const std::string asserted = child([] { return error_of([] { asserts<<<1, 64>>>(40); }); }, &status, STDERR_FILENO);
    HOLDS(status == cudaErrorAssert % 256);
    HOLDS(has(asserted, "system.cu:") && has(asserted, "block: [0,0,0], thread: [40,0,0] Assertion ") &&
          has(asserted, "as asked"));
    child([] { return error_of([] { asserts<<<1, 64>>>(1000); }); }, &status);
    HOLDS(status == cudaSuccess);
    child([] { return error_of([] { traps<<<1, 1>>>(); }); }, &status);
    HOLDS(status == cudaErrorLaunchFailure % 256 || status == cudaErrorIllegalInstruction % 256);
    child([] { return error_of([] { strays<<<1, 1>>>(reinterpret_cast<int*>(0x7777770)); }); }, &status);
    HOLDS(status == cudaErrorIllegalAddress % 256);
    child(
        [] {
            char* p;
            if (cudaMalloc(&p, 64) != cudaSuccess) return 1;
            return error_of([=] { misses<<<1, 1>>>(p); });
        },
        &status);
    HOLDS(status == cudaErrorMisalignedAddress % 256);
    child(
        [] {  // no kernel at all: the context lives
            asserts<<<1, 5000>>>(0);
            const int error = cudaGetLastError();
            return cudaDeviceSynchronize() == cudaSuccess ? error : 255;
        },
        &status);
    HOLDS(status == cudaErrorInvalidValue);
    return verdict();
}
