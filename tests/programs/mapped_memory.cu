// SPDX-License-Identifier: Apache-2.0
// mapped_memory.cu: a kernel works on host memory in place: through the pointer that cudaHostGetDevicePointer gives,
// and, where the device says that it can, on the host pointer itself. Also on a host pointer stored inside mapped
// memory.
#include "check.h"

struct List {
    int value;
    List* next;
};

__global__ void triple(int* data, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) data[i] *= 3;
}

__global__ void walk(const List* list, long long* sum) {
    for (; list; list = list->next) *sum += list->value;
}

__global__ void work() {
    for (const long long start = clock64(); clock64() - start < 20000000;) {}
}

static long check(const int* data, int n, int factor) {
    long wrong = 0;
    for (int i = 0; i < n; i++) wrong += data[i] != i * factor;
    return wrong;
}

int main() {
    const int n = 10000;
    long wrong = 0;
    cudaDeviceProp properties;
    CHECK(cudaSetDeviceFlags(cudaDeviceMapHost));
    CHECK(cudaGetDeviceProperties(&properties, 0));
    if (!properties.canMapHostMemory) {
        printf("%s cannot map host memory\n", properties.name);
        return 77;
    }

    int *host, *device;
    CHECK(cudaHostAlloc(&host, n * sizeof(int), cudaHostAllocMapped));
    for (int i = 0; i < n; i++) host[i] = i;
    CHECK(cudaHostGetDevicePointer(&device, host, 0));
    triple<<<(n + 127) / 128, 128>>>(device, n);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    wrong += check(host, n, 3);
    printf("through cudaHostGetDevicePointer: %s\n", wrong ? "wrong" : "right");

    // The CPU sees what is copied there when the call returns, also behind other work.
    int *same, five = 5;
    CHECK(cudaHostAlloc(&same, sizeof(*same), cudaHostAllocMapped));
    *same = 0;
    CHECK(cudaHostGetDevicePointer(&device, same, 0));
    work<<<1, 1>>>();
    CHECK(cudaMemcpy(device, &five, sizeof(five), cudaMemcpyHostToDevice));
    const int seen = *same;
    printf("copied to its device pointer: %s\n", seen == 5 ? "right" : "wrong");
    wrong += seen != 5;
    CHECK(cudaFreeHost(same));
    CHECK(cudaHostGetDevicePointer(&device, host, 0));

    if (properties.unifiedAddressing) {
        triple<<<(n + 127) / 128, 128>>>(host, n);
        CHECK(cudaGetLastError());
        CHECK(cudaDeviceSynchronize());
        long more = check(host, n, 9);
        printf("directly on the host pointer: %s\n", more ? "wrong" : "right");
        wrong += more;

        List* list;
        long long* sum;
        CHECK(cudaMallocHost(&list, 100 * sizeof(List)));
        CHECK(cudaMallocHost(&sum, sizeof(*sum)));
        for (int i = 0; i < 100; i++) list[i] = {i, i + 1 < 100 ? &list[i + 1] : nullptr};
        *sum = 0;
        walk<<<1, 1>>>(list, sum);
        CHECK(cudaGetLastError());
        CHECK(cudaDeviceSynchronize());
        printf("a list of host pointers: the sum is %lld\n", *sum);
        wrong += *sum != 99 * 100 / 2;
        CHECK(cudaFreeHost(list));
        CHECK(cudaFreeHost(sum));
    }
    CHECK(cudaFreeHost(host));
    return verdict(wrong);
}
