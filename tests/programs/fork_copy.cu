// SPDX-License-Identifier: Apache-2.0
// fork_copy.cu: a child that was forked from a CUDA process sees its parent's memory as it was at the fork, also when
// the GPU writes there afterwards.
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "check.h"

static bool all(const char* p, size_t n, char value) {
    for (size_t i = 0; i < n; ++i)
        if (p[i] != value) return false;
    return true;
}

int main() {
    const size_t n = 4 << 20;
    char *rows, *device, *bytes;
    CHECK(cudaFree(nullptr));
    bytes = (char*)malloc(n), rows = (char*)malloc(n);
    CHECK(cudaMalloc(&device, n));
    CHECK(cudaMemset(device, 9, n));
    long wrong = 0;
    memset(bytes, 0, n), memset(rows, 0, n);
    for (char round = 1; round <= 3; ++round) {
        memset(bytes, round, n / 2), memset(rows, round, n / 2);
        memset(bytes + n / 2, round, n / 2), memset(rows + n / 2, round, n / 2);
        int go[2];
        REQUIRE(pipe(go) == 0);
        const pid_t child = fork();
        if (child == 0) {
            char c;
            if (read(go[0], &c, 1) != 1) _exit(2);
            _exit(all(bytes, n, round) && all(rows, n, round) ? 0 : 1);
        }
        CHECK(cudaMemcpy(bytes + 100, device, n - 200, cudaMemcpyDeviceToHost));
        CHECK(cudaMemcpy2D(rows, 4096, device, 4096, 1000, n / 4096, cudaMemcpyDeviceToHost));
        REQUIRE(write(go[1], "", 1) == 1);
        int status;
        REQUIRE(waitpid(child, &status, 0) == child);
        wrong += status != 0;
        wrong += !all(bytes + 100, n - 200, 9) || bytes[0] != round || rows[0] != 9 || rows[4095] != round;
        close(go[0]), close(go[1]);
    }
    CHECK(cudaFree(device));
    free(bytes), free(rows);
    return verdict(wrong);
}
