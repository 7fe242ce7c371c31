// SPDX-License-Identifier: Apache-2.0
// closes.cu WHEN HOW: closes all descriptors from 3 on, as daemons do, before its first CUDA call, after it, or both;
// then needs all kinds of memory, more of each than before.
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#define MUST(what)                                                                                      \
    do {                                                                                                \
        if (!(what)) fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #what), _exit(1); \
    } while (0)
#define WORKS(call)                                                                                                  \
    do {                                                                                                             \
        if (cudaError_t e = (call)) fprintf(stderr, "%s:%d: %s: %d\n", __FILE__, __LINE__, #call, (int)e), _exit(1); \
    } while (0)

__global__ void add(int* p, int n) { atomicAdd(p, n); }

void use_all() {
    constexpr size_t bytes = 24 << 20;
    int *device, *pinned, *home, *plain = (int*)malloc(bytes), sum = 0;
    WORKS(cudaMalloc(&device, bytes));
    WORKS(cudaMallocHost(&pinned, bytes));
    WORKS(cudaMallocManaged(&home, bytes));
    memset(plain, 0, bytes), memset(pinned, 0, bytes), memset(home, 0, bytes);
    WORKS(cudaMemcpy(device, plain, bytes, cudaMemcpyHostToDevice));
    add<<<1, 32>>>(device, 1), add<<<1, 32>>>(pinned, 2), add<<<1, 32>>>(home, 3);
    WORKS(cudaMemcpy(&sum, device, sizeof sum, cudaMemcpyDeviceToHost));
    WORKS(cudaDeviceSynchronize());
    MUST(sum == 32 && *pinned == 64 && *home == 96);  // nothing is given back: the next ones are new
}

void close_all(const char* how) {
    if (!strcmp(how, "closefrom")) {
        closefrom(3);
        return;
    }
    if (!strcmp(how, "range")) {
        MUST(close_range(3, ~0u, 0) == 0);
        return;
    }
    if (!strcmp(how, "system-call")) {
        MUST(syscall(SYS_close_range, 3, ~0u, 0) == 0);
        return;
    }
    int closed = 0;
    for (int fd = 3; fd < 1024; ++fd) {
        errno = 0;
        if (close(fd) == 0) ++closed;
        else MUST(errno == EBADF);
    }
    MUST(closed >= 1);  // its own
}

int main(int, char** argv) {
    const bool early = strcmp(argv[1], "after"), late = strcmp(argv[1], "before");
    std::vector<char> read_first(1 << 20);  // a daemon's configuration, which is in the region already
    MUST(dup(0) > 2);
    if (early) close_all(argv[2]);
    if (early && late) MUST(dup(0) > 2);
    use_all();
    if (late) close_all(argv[2]), use_all(), close_all("closefrom");
    const int fd = dup(0);
    MUST(fd == 3);  // the numbers are the program's
    use_all();
    puts("PASSED");
}
