// SPDX-License-Identifier: Apache-2.0
// exec_self.cu ROUNDS [PROGRAM]: uses the GPU and 40 MiB of pinned memory, then replaces itself, by itself or at the
// end by PROGRAM.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#define CHECK(call)                                                                                                \
    do {                                                                                                           \
        if (cudaError_t e = (call)) fprintf(stderr, "%s rounds left: %s: %d\n", argv[1], #call, (int)e), _exit(1); \
    } while (0)

int main(int argc, char** argv) {
    const int rounds = atoi(argv[1]);
    constexpr size_t bytes = 40 << 20;
    char *device, *pinned, *home;
    CHECK(cudaMalloc(&device, bytes));
    CHECK(cudaMallocHost(&pinned, bytes));
    memset(pinned, rounds, bytes);
    CHECK(cudaMemcpy(device, pinned, bytes, cudaMemcpyHostToDevice));
    memset(pinned, 0, bytes);
    CHECK(cudaMemcpy(pinned, device, bytes, cudaMemcpyDeviceToHost));
    if (pinned[bytes - 1] != (char)rounds) return puts("wrong"), 1;
    CHECK(cudaMallocManaged(&home, 1 << 20));
    if (rounds == 0) {
        puts("PASSED");
        fflush(stdout);
        return argc > 2 ? execlp(argv[2], argv[2], nullptr) : 0;
    }
    const std::string left = std::to_string(rounds - 1);
    execl("/proc/self/exe", argv[0], left.c_str(), argv[2], nullptr);
    return 1;
}
