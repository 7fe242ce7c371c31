// SPDX-License-Identifier: Apache-2.0
// prints.cu: what a kernel has printed is there, in the program's own output, once the program has waited for the
// kernel: by any of the ways to wait that CUDA names ("Formatted output": synchronization, and blocking copies).
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "check.h"

__global__ void say(const char* what, int* out) {
    printf("%s\n", what);
    *out = 7;
}

// What `act` writes to the program's standard output.
template <class F> static std::string output_of(F act) {
    fflush(stdout);
    const int before = dup(1);
    FILE* file = tmpfile();
    dup2(fileno(file), 1);
    act();
    fflush(stdout);
    dup2(before, 1);
    close(before);
    char text[256] = "";
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    return text;
}

int main() {
    char* word;
    int* out;
    CHECK(cudaMalloc(&word, 16));
    CHECK(cudaMalloc(&out, 1 << 20));
    CHECK(cudaMemcpy(word, "printed", 8, cudaMemcpyHostToDevice));
    cudaEvent_t event;
    CHECK(cudaEventCreate(&event));
    int on_stack = 0;
    std::vector<int> in_heap(1 << 18);
    int* pinned;
    CHECK(cudaMallocHost(&pinned, 64));
    long wrong = 0;
    const auto prints = [&](const char* name, auto wait) {
        const std::string got = output_of([&] {
            say<<<1, 1>>>(word, out);
            wait();
        });
        if (got == "printed\n") return;
        fprintf(stderr, "%s: '%s'\n", name, got.c_str());
        ++wrong;
    };
    for (int i = 0; i < 20; ++i) {
        prints("cudaDeviceSynchronize", [&] { CHECK(cudaDeviceSynchronize()); });
        prints("cudaStreamSynchronize", [&] { CHECK(cudaStreamSynchronize(nullptr)); });
        prints("cudaEventSynchronize", [&] {
            CHECK(cudaEventRecord(event));
            CHECK(cudaEventSynchronize(event));
        });
        prints("a copy to the stack", [&] { CHECK(cudaMemcpy(&on_stack, out, 4, cudaMemcpyDeviceToHost)); });
        prints("a large copy", [&] { CHECK(cudaMemcpy(in_heap.data(), out, 1 << 20, cudaMemcpyDefault)); });
        prints("a copy to pinned memory", [&] { CHECK(cudaMemcpy(pinned, out, 4, cudaMemcpyDeviceToHost)); });
    }
    if (on_stack != 7 || in_heap[0] != 7 || *pinned != 7) ++wrong;
    return verdict(wrong);
}
