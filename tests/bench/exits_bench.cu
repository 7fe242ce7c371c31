// SPDX-License-Identifier: Apache-2.0
// exits_bench: operations whose traffic out of a virtual machine tests/bench/exits counts, each many times. In front of
// a row and behind it the program says so in a line of JSON and waits for a line that answers: meanwhile the host reads
// its counters. What the guest counts itself stands in the second line: page faults and waits in the kernel of this
// process, interrupts of the region's device and of all.
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "check.h"

namespace {

__global__ void nothing() {}

__global__ void last(long long nanoseconds) {
    long long begun, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begun));
    do asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    while (now - begun < nanoseconds);
}

// Of /proc/interrupts: those of the lines with `name` in them, on all processors.
long interrupts(const std::string& name) {
    std::ifstream file("/proc/interrupts");
    long sum = 0;
    for (std::string line; std::getline(file, line);) {
        if (line.find(name) == std::string::npos) continue;
        std::istringstream words(line);
        std::string word;
        words >> word;
        for (long n; words >> n;) sum += n;
    }
    return sum;
}

struct Counts {
    long faults, switches, interrupts, all_interrupts;
    static Counts now() {
        rusage used{};
        getrusage(RUSAGE_SELF, &used);
        return {used.ru_minflt + used.ru_majflt, used.ru_nvcsw, ::interrupts("barcuda"), ::interrupts(":")};
    }
};

void answered() {
    char line[16];
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin)) exit(1);
}

template <class F> void row(const char* name, int count, F once) {
    once();
    CHECK(cudaDeviceSynchronize());
    printf("{\"begin\": \"%s\", \"count\": %d}\n", name, count);
    answered();
    const Counts before = Counts::now();
    for (int i = 0; i < count; ++i) once();
    CHECK(cudaDeviceSynchronize());
    const Counts after = Counts::now();
    printf("{\"end\": \"%s\", \"faults\": %ld, \"switches\": %ld, \"interrupts\": %ld, \"all_interrupts\": %ld}\n",
           name, after.faults - before.faults, after.switches - before.switches, after.interrupts - before.interrupts,
           after.all_interrupts - before.all_interrupts);
    answered();
}

}  // namespace

int main(int count, char** words) {
    const int n = count > 1 ? atoi(words[1]) : 1000;
    constexpr std::size_t small = 4 << 10, large = 1 << 20;
    char* const memory = static_cast<char*>(malloc(large));
    memset(memory, 1, large);
    char* device = nullptr;
    CHECK(cudaMalloc(&device, large));
    cudaEvent_t event;
    CHECK(cudaEventCreate(&event));

    row("launch", n, [] { nothing<<<1, 1>>>(); });
    row("launch and wait", n, [] {
        nothing<<<1, 1>>>();
        CHECK(cudaDeviceSynchronize());
    });
    row("record and query an event", n, [&] {
        CHECK(cudaEventRecord(event));
        if (const cudaError_t e = cudaEventQuery(event); e != cudaErrorNotReady) CHECK(e);
    });
    row("cudaMemcpy of 4 KiB to the device", n,
        [&] { CHECK(cudaMemcpy(device, memory, small, cudaMemcpyHostToDevice)); });
    row("cudaMemcpy of 4 KiB from the device", n,
        [&] { CHECK(cudaMemcpy(memory, device, small, cudaMemcpyDeviceToHost)); });
    row("cudaMemcpy of 1 MiB to the device", n / 10 + 1,
        [&] { CHECK(cudaMemcpy(device, memory, large, cudaMemcpyHostToDevice)); });
    row("cudaMalloc and cudaFree of 1 MiB", n / 10 + 1, [] {
        void* some = nullptr;
        CHECK(cudaMalloc(&some, large));
        CHECK(cudaFree(some));
    });
    row("malloc and free of 1 MiB, written", n / 10 + 1, [] {
        void* const some = malloc(large);
        memset(some, 1, large);
        free(some);
    });
    std::vector<void*> held;
    row("malloc of 1 MiB never used before, written", 64, [&] {
        held.push_back(malloc(large));
        memset(held.back(), 1, large);
    });
    row("launch and wait, 3 s after the last", 4, [] {
        sleep(3);
        nothing<<<1, 1>>>();
        CHECK(cudaDeviceSynchronize());
    });
    row("a kernel of 400 ms, waited for", 10, [] {
        last<<<1, 1>>>(400000000);
        CHECK(cudaDeviceSynchronize());
    });
    return 0;
}
