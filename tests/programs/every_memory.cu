// SPDX-License-Identifier: Apache-2.0
// every_memory.cu: copies from and to every kind of host memory that a program can have, with the source overwritten as
// soon as CUDA allows it: at once for memory that is not pinned, after the stream for pinned memory.
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"

static const size_t most = 5 << 20;
static unsigned char in_data[most] = {1}, in_bss[most];

static void fill(unsigned char* p, size_t bytes, unsigned seed) {
    for (size_t i = 0; i < bytes; i++) p[i] = (unsigned char)((i * 2654435761u + seed) >> 13);
}
static long differences(const unsigned char* p, size_t bytes, unsigned seed) {
    long wrong = 0;
    for (size_t i = 0; i < bytes; i++) wrong += p[i] != (unsigned char)((i * 2654435761u + seed) >> 13);
    return wrong;
}

struct Memory {
    const char* name;
    unsigned char* p;
    bool pinned;
};
static Memory memories[16];
static int memory_count = 0;
static void have(const char* name, void* p, bool pinned = false) {
    if (p && p != MAP_FAILED) memories[memory_count++] = {name, (unsigned char*)p, pinned};
    else printf("skipped: no %s here\n", name);
}

static unsigned char* device;
static cudaStream_t stream;

static long there_and_back(const Memory& from, const Memory& to, size_t offset, size_t bytes, bool async,
                           unsigned seed) {
    unsigned char *source = from.p + offset, *target = to.p + offset;
    fill(source, bytes, seed);
    if (async) CHECK(cudaMemcpyAsync(device, source, bytes, cudaMemcpyDefault, stream));
    else CHECK(cudaMemcpy(device, source, bytes, cudaMemcpyHostToDevice));
    if (async && from.pinned) CHECK(cudaStreamSynchronize(stream));
    memset(source, 0xee, bytes);
    memset(target, 0xdd, bytes);
    if (offset) target[-1] = 0x55;
    target[bytes] = 0x55;
    if (async) CHECK(cudaMemcpyAsync(target, device, bytes, cudaMemcpyDefault, stream));
    else CHECK(cudaMemcpy(target, device, bytes, cudaMemcpyDeviceToHost));
    if (async && to.pinned) CHECK(cudaStreamSynchronize(stream));
    long wrong = differences(target, bytes, seed) + (target[bytes] != 0x55) + (offset && target[-1] != 0x55);
    if (wrong)
        printf("from %s to %s, %zu bytes at %zu%s: %ld wrong\n", from.name, to.name, bytes, offset,
               async ? ", async" : "", wrong);
    return wrong;
}

int main() {
    unsigned char on_stack[most + 1];
    CHECK(cudaMalloc(&device, most));
    CHECK(cudaStreamCreate(&stream));
    void *pinned, *managed;
    CHECK(cudaHostAlloc(&pinned, most, cudaHostAllocDefault));
    CHECK(cudaMallocManaged(&managed, most));
    FILE* file = tmpfile();
    if (file && ftruncate(fileno(file), most)) file = nullptr;
    const int fd = file ? fileno(file) : -1, rw = PROT_READ | PROT_WRITE;
    have("the stack", on_stack);
    have("initialized data", in_data);
    have("uninitialized data", in_bss);
    have("malloc", malloc(most));
    have("a private mapping", mmap(nullptr, most, rw, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    have("a shared mapping", mmap(nullptr, most, rw, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    have("huge page", mmap(nullptr, 6 << 20, rw, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0));
    have("shared mapping of a file", file ? mmap(nullptr, most, rw, MAP_SHARED, fd, 0) : nullptr);
    have("private mapping of a file", file ? mmap(nullptr, most, rw, MAP_PRIVATE, fd, 0) : nullptr);
    have("pinned memory", pinned, true);
    have("managed memory", managed, true);

    long wrong = 0;
    unsigned seed = 1;
    const size_t sizes[] = {1, 4095, 70000, most - 5000};
    for (int i = 0; i < memory_count; i++)
        for (size_t bytes : sizes)
            for (int async = 0; async < 2; async++) {
                // To itself, and to one other: each kind is source and target with each size.
                wrong += there_and_back(memories[i], memories[i], 0, bytes, async, seed++);
                wrong += there_and_back(memories[i], memories[(i + seed) % memory_count], 4097, bytes, async, seed++);
            }

    // Pages that may only be read are a source like any other.
    unsigned char* constant = (unsigned char*)mmap(nullptr, most, rw, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    fill(constant, most, 7);
    REQUIRE(mprotect(constant, most, PROT_READ) == 0);
    CHECK(cudaMemcpy(device, constant, most, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(pinned, device, most, cudaMemcpyDeviceToHost));
    wrong += differences((unsigned char*)pinned, most, 7);
    // And what stands in the file is what was copied into its mapping.
    if (file) {
        unsigned char* mapped = (unsigned char*)mmap(nullptr, most, rw, MAP_SHARED, fd, 0);
        CHECK(cudaMemcpy(mapped, device, most, cudaMemcpyDeviceToHost));
        REQUIRE(pread(fd, in_bss, most, 0) == (ssize_t)most);
        wrong += differences(in_bss, most, 7);
    }
    CHECK(cudaFreeHost(pinned));
    CHECK(cudaFree(managed));
    CHECK(cudaFree(device));
    return verdict(wrong);
}
