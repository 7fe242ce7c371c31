// SPDX-License-Identifier: Apache-2.0
// managed_edges.cu: for test_managed_edges.py. Managed memory where not everything is available, and at a program's
// end.
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <thread>
#include <vector>

#include "../../programs/check.h"

__global__ void add(int* p, size_t n, int by) {
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) p[i] += by;
}
static int* managed(size_t n) {
    int* p;
    CHECK(cudaMallocManaged(&p, n * sizeof *p));
    return p;
}
static bool all_are(const int* p, size_t n, int value) {
    for (size_t i = 0; i < n; ++i)
        if (p[i] != value) return printf("%zu: %d, not %d\n", i, p[i], value), false;
    return true;
}

// The GPU, and whatever was on it, is lost under a running program. What the CPU has stays; no touch waits forever.
static int lost() {
    const size_t n = 100000;
    int *written = managed(n), *read = managed(n), *here = managed(n);
    for (size_t i = 0; i < n; ++i) written[i] = read[i] = here[i] = 1;
    add<<<1, 32>>>(written, n, 1);
    add<<<1, 32>>>(read, n, 0);
    CHECK(cudaDeviceSynchronize());
    here[5] = 2;
    printf("running\n"), fflush(stdout);
    cudaError_t r = cudaSuccess;
    for (int i = 0; i < 3000 && r == cudaSuccess; ++i) usleep(10000), r = cudaStreamSynchronize(0);
    REQUIRE(r != cudaSuccess);
    REQUIRE(here[5] == 2 && here[6] == 1 && all_are(read, n, 1));
    const int found = written[7];
    REQUIRE(found == 1 || found == 2);
    written[7] = 5;
    REQUIRE(written[7] == 5);
    REQUIRE(cudaFree(written) != cudaSuccess);
    return printf("went on\n"), 0;
}

// What is freed is large enough for no later allocation alone, but in part.
static int growing() {
    for (size_t n = size_t{1} << 18; n <= size_t{1} << 22; n *= 4) {
        int* p[3];
        for (int*& each : p) each = managed(n), each[n - 1] = 1;
        for (int* each : p) add<<<4, 64>>>(each, n, 2);
        CHECK(cudaDeviceSynchronize());
        for (int* each : p) {
            REQUIRE(each[n - 1] == 3 && each[0] == 2);
            CHECK(cudaFree(each));
        }
    }
    return printf("grown\n"), 0;
}

// New small memory lies in a block that the CPU has already, or is about to get: it is zeros, and is copied from then
// on. The region's pages were another allocation's before.
static int beside() {
    const size_t n = 1000;
    int* const before = managed(1 << 19);
    memset(before, 0xa5, sizeof *before << 19);
    CHECK(cudaFree(before));
    const cudaMemLocation cpu{cudaMemLocationTypeHost, 0};
    std::vector<int*> all;
    for (int i = 0; i < 4; ++i) {
        all.push_back(managed(n));
        add<<<1, 32>>>(all.front(), n, 1);
        const auto look = [&] {
            CHECK(cudaDeviceSynchronize());
            REQUIRE(all_are(all.front(), n, i + 1));
        };
        if (i % 2 == 0) look();
        else CHECK(cudaMemPrefetchAsync(all.front(), n * sizeof(int), cpu, 0, nullptr));
        all.push_back(managed(n));
        look();
        REQUIRE(all_are(all.back(), n, 0));
        all.back()[n - 1] = 7;
        add<<<1, 32>>>(all.back(), n, 1);
        CHECK(cudaDeviceSynchronize());
        REQUIRE(all_are(all.back(), n - 1, 1) && all.back()[n - 1] == 8);
    }
    for (int* p : all) CHECK(cudaFree(p));
    return printf("beside\n"), 0;
}

// A copy from memory of the host's takes what the CPU has written to the device, in its own stream. Without a wait the
// CPU may go on to touch it: it is fetched again, and must not come before it has arrived.
static int hosts() {
    const size_t n = 4 << 20;
    int *p = managed(n), *copied;
    cudaStream_t s;
    CHECK(cudaStreamCreate(&s));
    CHECK(cudaMalloc(&copied, n * sizeof *p));
    add<<<4, 64, 0, s>>>(p, n, 1);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaStreamAttachMemAsync(s, p, 0, cudaMemAttachHost));
    for (int round = 2; round < 6; ++round) {
        CHECK(cudaDeviceSynchronize());
        for (size_t i = 0; i < n; ++i) p[i] = round;
        CHECK(cudaMemcpyAsync(copied, p, n * sizeof *p, cudaMemcpyDefault, s));
        for (size_t i = n; i-- > 0;) REQUIRE(p[i] == round);
    }
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaStreamDestroy(s));
    CHECK(cudaFree(copied));
    CHECK(cudaFree(p));
    return printf("read\n"), 0;
}

// What the CPU has written is there for each stream's next kernel, and no stream waits for another one's kernels
// because of it.
__global__ void spin(volatile int* word) {
    while (*word == 0) continue;
}
__global__ void release(const int* p, size_t n, int* word) {
    if (p[n - 1] == 5) *reinterpret_cast<volatile int*>(word) = 1;
}
static int streams() {
    const size_t n = 1 << 20;
    int *p = managed(n), *q = managed(n), *word;
    CHECK(cudaHostAlloc(&word, sizeof *word, cudaHostAllocMapped));
    cudaStream_t s[2];
    for (cudaStream_t& each : s) CHECK(cudaStreamCreateWithFlags(&each, cudaStreamNonBlocking));
    for (int round = 0; round < 8; ++round) {
        CHECK(cudaDeviceSynchronize());
        *word = 0;
        const bool busy = round % 2;  // the first stream is at work already
        const auto attach = [&](unsigned flags) {
            if (!busy) return;
            for (int* each : {p, q}) CHECK(cudaStreamAttachMemAsync(s[1], each, 0, flags));
        };
        attach(cudaMemAttachHost);
        for (int* each : {p, q})
            for (size_t i = 0; i < n; ++i) each[i] = 5;
        if (busy) spin<<<1, 1, 0, s[0]>>>(word);
        attach(cudaMemAttachGlobal);
        add<<<4, 64, 0, s[0]>>>(p, n, 1);
        if (!busy) spin<<<1, 1, 0, s[0]>>>(word);
        release<<<1, 1, 0, s[1]>>>(q, n, word);
        CHECK(cudaDeviceSynchronize());
        REQUIRE(all_are(p, n, 6) && all_are(q, n, 5));
    }
    return printf("apart\n"), 0;
}

// The CPU touches the same memory behind each wait for a stream, until it comes with the wait. But not while another
// stream's kernel may still write there, and not if a kernel is launched meanwhile.
__global__ void add_released(volatile int* word, int* p, size_t n) {
    while (*word == 0) continue;
    for (size_t i = 0; i < n; ++i) p[i] += 1;
}
static int ahead() {
    const size_t n = 1000;
    int *p = managed(n), *word, value = 0;
    memset(p, 0, n * sizeof *p);
    CHECK(cudaHostAlloc(&word, sizeof *word, cudaHostAllocMapped));
    cudaStream_t s[2];
    for (cudaStream_t& each : s) CHECK(cudaStreamCreateWithFlags(&each, cudaStreamNonBlocking));
    for (int round = 0; round < 20; ++round) {
        for (int turn = 0; turn < 4 + round; ++turn) {
            add<<<1, 32, 0, s[0]>>>(p, n, 1);
            CHECK(cudaStreamSynchronize(s[0]));
            REQUIRE(all_are(p, n, ++value));
        }
        *word = 0;
        if (round % 2) {
            add_released<<<1, 1, 0, s[1]>>>(word, p, n);
            spin<<<1, 1, 0, s[0]>>>(p + n - 1);
            CHECK(cudaStreamSynchronize(s[0]));
            *word = 1;
            CHECK(cudaStreamSynchronize(s[1]));
        } else {
            spin<<<1, 1, 0, s[0]>>>(word);
            std::thread waits([&] { CHECK(cudaStreamSynchronize(s[0])); });
            for (int i = 0; i < 20 * round; ++i) std::this_thread::yield();
            add<<<1, 32, 0, s[0]>>>(p, n, 1);
            *word = 1;
            waits.join();
            CHECK(cudaStreamSynchronize(s[0]));
        }
        REQUIRE(all_are(p, n, ++value));
    }
    for (cudaStream_t each : s) CHECK(cudaStreamDestroy(each));
    CHECK(cudaFree(p));
    return printf("in turn\n"), 0;
}

// More than the device has.
static int full() {
    const size_t n = 4 << 20;
    std::vector<int*> all;
    for (int i = 0; i < 12; ++i) all.push_back(managed(n));
    for (int* p : all)
        for (size_t i = 0; i < n; ++i) p[i] = 1;
    for (int* p : all) add<<<4, 64>>>(p, n, 2);
    CHECK(cudaDeviceSynchronize());
    for (int* p : all) REQUIRE(all_are(p, n, 3));
    for (int* p : all) CHECK(cudaFree(p));
    // Room again: what comes now is the device's.
    cudaPointerAttributes a;
    int* p = managed(n);
    CHECK(cudaPointerGetAttributes(&a, p));
    REQUIRE(a.type == cudaMemoryTypeManaged);
    CHECK(cudaFree(p));
    size_t free_before, free_now, total;
    CHECK(cudaMemGetInfo(&free_before, &total));
    for (int i = 0; i < 10000; ++i) all.push_back(managed(1));
    CHECK(cudaMemGetInfo(&free_now, &total));
    REQUIRE(free_before - free_now <= (8 << 20));
    return printf("fits\n"), 0;
}

static void CUDART_CB increment(void* p) { ++*static_cast<int*>(p); }
static int reset() {
    for (int round = 0; round < 3; ++round) {
        int *large = managed(1 << 20), *small = managed(1);
        *small = large[77] = round;
        add<<<1, 1>>>(small, 1, 1);
        add<<<1, 1>>>(large + 77, 1, 1);
        CHECK(cudaLaunchHostFunc(nullptr, increment, large + 77));
        add<<<1, 1>>>(large + 77, 1, 1);
        CHECK(cudaDeviceSynchronize());
        REQUIRE(*small == round + 1 && large[77] == round + 3);
        add<<<1, 1>>>(small, 1, 1);
        CHECK(cudaDeviceReset());
    }
    return printf("reset\n"), 0;
}

// Of static storage: its destructor runs when main has returned.
struct Late {
    int* p = nullptr;
    ~Late() {
        if (p && p[3] == 4) printf("late: %d\n", ++p[3]), fflush(stdout);
    }
} late;
static int end() {
    late.p = managed(1000);
    late.p[3] = 3;
    add<<<1, 1>>>(late.p + 3, 1, 1);
    return 0;
}

// The process has nearly as many mappings as it may (vm.max_map_count); blocks are touched here and there, to be read
// and to be written.
static void take_mappings(long left) {
    long most = 0, have = 0;
    FILE* file = fopen("/proc/sys/vm/max_map_count", "r");
    REQUIRE(file && fscanf(file, "%ld", &most) == 1);
    fclose(file);
    REQUIRE(file = fopen("/proc/self/maps", "r"));
    for (int c; (c = getc(file)) != EOF;) have += c == '\n';
    fclose(file);
    const size_t page = 4096, pages = most - have - left;
    auto* at = static_cast<char*>(mmap(nullptr, pages * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    REQUIRE(at != MAP_FAILED);
    for (size_t i = 0; i < pages; i += 2) REQUIRE(mprotect(at + i * page, page, PROT_READ) == 0);
}
static int scattered() {
    const size_t block = 64 << 10, n = (size_t)600 << 20;
    unsigned char* p;
    CHECK(cudaMallocManaged(&p, n));
    CHECK(cudaMemset(p, 7, n));
    CHECK(cudaDeviceSynchronize());
    take_mappings(500);
    size_t sum = 0;
    for (size_t i = 0; i < n; i += 2 * block) sum += p[i];
    for (size_t i = 0; i < n; i += 4 * block) p[i] = 8;
    REQUIRE(sum == 7 * (n / block / 2));
    CHECK(cudaMemset(p, 9, 100));
    add<<<1, 1>>>(reinterpret_cast<int*>(p + block), 1, 1);
    CHECK(cudaDeviceSynchronize());
    for (size_t i = 0; i < n; i += block) REQUIRE(p[i] == (i == 0 ? 9 : i / block % 4 == 0 ? 8 : i == block ? 8 : 7));
    return printf("scattered\n"), 0;
}

int main(int argc, char** argv) {
    if (argc != 2)
        return printf(
                   "managed_edges full | growing | beside | hosts | streams | ahead | reset | scattered | lost | "
                   "end\n"),
               2;
    if (!strcmp(argv[1], "lost")) return lost();
    if (!strcmp(argv[1], "growing")) return growing();
    if (!strcmp(argv[1], "beside")) return beside();
    if (!strcmp(argv[1], "hosts")) return hosts();
    if (!strcmp(argv[1], "streams")) return streams();
    if (!strcmp(argv[1], "ahead")) return ahead();
    if (!strcmp(argv[1], "full")) return full();
    if (!strcmp(argv[1], "reset")) return reset();
    if (!strcmp(argv[1], "scattered")) return scattered();
    return end();
}
