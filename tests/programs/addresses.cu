// SPDX-License-Identifier: Apache-2.0
// addresses.cu: memory of the program where the program wants it, as the heaps of Go, Java, V8 and mimalloc choose
// their addresses: CUDA takes none of it for the GPU's, whether it was there before CUDA or came later.
#include <string.h>
#include <sys/mman.h>

#include "check.h"

static const size_t bytes = 1 << 20;

static unsigned char* at(unsigned long address) {
    void* p = mmap((void*)address, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(p != MAP_FAILED);
    return (unsigned char*)memset(p, (int)(address >> 32) | 1, bytes);
}

static void use(unsigned char* p, unsigned char* device, unsigned char* back) {
    cudaPointerAttributes a;
    CHECK(cudaPointerGetAttributes(&a, p + 100));
    REQUIRE(a.type == cudaMemoryTypeUnregistered);
    CHECK(cudaPointerGetAttributes(&a, device + 100));
    REQUIRE(a.type == cudaMemoryTypeDevice);
    memset(back, 0, bytes);
    CHECK(cudaMemcpy(device, p, bytes, cudaMemcpyDefault));
    CHECK(cudaMemcpy(back, device, bytes, cudaMemcpyDefault));
    REQUIRE(memcmp(back, p, bytes) == 0);
    CHECK(cudaMemset(device, 7, bytes));
    CHECK(cudaMemcpy(p, device, bytes, cudaMemcpyDefault));
    REQUIRE(p[0] == 7 && memcmp(p, p + 1, bytes - 1) == 0);
    CHECK(cudaHostRegister(p, bytes, 0));
    CHECK(cudaPointerGetAttributes(&a, p + 100));
    REQUIRE(a.type == cudaMemoryTypeHost && a.hostPointer == p + 100);
    CHECK(cudaMemcpy(back, p, bytes, cudaMemcpyDefault));  // from host to host
    REQUIRE(memcmp(back, p, bytes) == 0);
    CHECK(cudaHostUnregister(p));
}

int main() {
    unsigned char* before[] = {at(0xc000000000), at(0x20000000000), at(0x2f8000000000), at(0x3aaa00000000)};
    unsigned char *device, *back = (unsigned char*)malloc(bytes);
    CHECK(cudaMalloc(&device, bytes));
    for (unsigned char* p : before) use(p, device, back);
    for (unsigned long address : {0xc100000000, 0x20100000000, 0x2f8100000000}) {
        unsigned char* later = at(address);
        use(later, device, back);
        munmap(later, bytes);
    }
    CHECK(cudaFree(device));
    free(back);
    return verdict(0);
}
