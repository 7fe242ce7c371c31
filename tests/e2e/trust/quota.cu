// SPDX-License-Identifier: Apache-2.0
// quota.cu: for test_limits.py. `ways`: takes device memory in every way until there is no more, twice each, and prints
// how many MiB it got; in between all is freed. `way NAME`: in one, modules and libraries among them. `facts`: what the
// device says of its size. `hold MIB`: has so many, prints "running", and waits for the end of its input; at each line
// before it says whether it gets 4 MiB more. `take`: how many MiB there are now. `last`: all on the last device.
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "../../programs/driver.h"

static int device;  // of all that it takes
constexpr size_t mib = 1 << 20, piece = 4 * mib;

// Takes pieces until one is refused for lack of memory. What `take` returns frees its piece.
using Free = std::function<void()>;
static size_t fill(const std::function<cudaError_t(Free&)>& take) {
    std::vector<Free> all;
    cudaError_t r;
    for (Free free; (r = take(free)) == cudaSuccess;) all.push_back(free);
    REQUIRE(r == cudaErrorMemoryAllocation);
    cudaGetLastError();
    for (Free& free : all) free();
    CHECK(cudaDeviceSynchronize());
    return all.size() * piece / mib;
}

static cudaError_t plain(Free& free) {
    void* p;
    const cudaError_t r = cudaMalloc(&p, piece);
    return free = [=] { CHECK(cudaFree(p)); }, r;
}
static cudaError_t pitched(Free& free) {
    void* p;
    size_t pitch;
    const cudaError_t r = cudaMallocPitch(&p, &pitch, 4096, piece / 4096);
    return free = [=] { CHECK(cudaFree(p)); }, r;
}
static cudaError_t array(Free& free) {
    cudaArray_t p;
    const auto floats = cudaCreateChannelDesc<float>();
    const cudaError_t r = cudaMallocArray(&p, &floats, 1024, piece / 4096);
    return free = [=] { CHECK(cudaFreeArray(p)); }, r;
}
static cudaError_t mipmaps(Free& free) {  // two levels: 1.25 times the first one's size
    cudaMipmappedArray_t p;
    const auto floats = cudaCreateChannelDesc<float>();
    const cudaError_t r = cudaMallocMipmappedArray(&p, &floats, make_cudaExtent(1024, piece / 5120 + 1, 0), 2);
    return free = [=] { CHECK(cudaFreeMipmappedArray(p)); }, r;
}
static cudaError_t ordered(Free& free) {
    void* p;
    const cudaError_t r = cudaMallocAsync(&p, piece, 0);
    return free = [=] { CHECK(cudaFreeAsync(p, 0)); }, r;
}
static cudaMemPool_t pool;  // keeps all that it ever had
static cudaError_t pooled(Free& free) {
    void* p;
    const cudaError_t r = cudaMallocFromPoolAsync(&p, piece, pool, 0);
    return free = [=] { CHECK(cudaFreeAsync(p, 0)); }, r;
}
static cudaError_t physical(Free& free) {
    CUmemAllocationProp what{};
    what.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    what.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
    CUmemGenericAllocationHandle memory;
    const CUresult r = entry<decltype(&cuMemCreate)>("cuMemCreate")(&memory, piece, &what, 0);
    return free = [=] { DRIVER(entry<decltype(&cuMemRelease)>("cuMemRelease")(memory)); }, (cudaError_t)r;
}
static cudaError_t mapped(Free& free) {  // only its mapping holds it
    CUmemAllocationProp what{};
    what.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    what.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
    CUmemGenericAllocationHandle memory;
    CUdeviceptr at;
    const CUresult r = entry<decltype(&cuMemCreate)>("cuMemCreate")(&memory, piece, &what, 0);
    if (r) return (cudaError_t)r;
    DRIVER(entry<decltype(&cuMemAddressReserve)>("cuMemAddressReserve")(&at, piece, 0, 0, 0));
    DRIVER(entry<decltype(&cuMemMap)>("cuMemMap")(at, piece, 0, memory, 0));
    DRIVER(entry<decltype(&cuMemRelease)>("cuMemRelease")(memory));
    free = [=] {
        DRIVER(entry<decltype(&cuMemUnmap)>("cuMemUnmap")(at, piece));
        DRIVER(entry<decltype(&cuMemAddressFree)>("cuMemAddressFree")(at, piece));
    };
    return cudaSuccess;
}

// A graph whose node allocates; nothing in it frees.
static cudaError_t launched(cudaGraph_t graph, void* p, Free& free) {
    cudaGraphExec_t exec;
    cudaError_t r = cudaGraphInstantiate(&exec, graph, 0);
    if (r == cudaSuccess) r = cudaGraphLaunch(exec, 0);
    if (r == cudaSuccess) r = cudaDeviceSynchronize();
    if (r != cudaSuccess) return r;
    free = [=] {
        CHECK(cudaFree(p));
        CHECK(cudaGraphExecDestroy(exec));
        CHECK(cudaGraphDestroy(graph));
    };
    return r;
}
static cudaError_t node(Free& free) {
    cudaGraph_t graph;
    cudaGraphNode_t its;
    cudaMemAllocNodeParams what{};
    what.poolProps.allocType = cudaMemAllocationTypePinned;
    what.poolProps.location = {cudaMemLocationTypeDevice, device};
    what.bytesize = piece;
    CHECK(cudaGraphCreate(&graph, 0));
    const cudaError_t r = cudaGraphAddMemAllocNode(&its, graph, nullptr, 0, &what);
    if (r == cudaSuccess) return launched(graph, what.dptr, free);
    CHECK(cudaGraphDestroy(graph));
    return r;
}
static cudaError_t captured(Free& free) {
    static cudaStream_t stream = [] { cudaStream_t s; CHECK(cudaStreamCreate(&s)); return s; }();
    cudaGraph_t graph = nullptr;
    void* p;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    const cudaError_t r = cudaMallocAsync(&p, piece, stream), end = cudaStreamEndCapture(stream, &graph);
    if (r == cudaSuccess && end == cudaSuccess) return launched(graph, p, free);
    if (graph) CHECK(cudaGraphDestroy(graph));
    return r == cudaSuccess ? end : r;
}
// Code with a variable.
static const char image[] =
    ".version 6.4\n.target sm_75\n.address_size 64\n.visible .global .align 16 .b8 large[4194304];\n";
static cudaError_t module(Free& free) {
    CUmodule its;
    const CUresult r = entry<decltype(&cuModuleLoadData)>("cuModuleLoadData")(&its, image);
    return free = [=] { DRIVER(entry<decltype(&cuModuleUnload)>("cuModuleUnload")(its)); }, (cudaError_t)r;
}
static cudaError_t library(Free& free) {
    CUlibrary its;
    const CUresult r = entry<decltype(&cuLibraryLoadData)>("cuLibraryLoadData")(&its, image, 0, 0, 0, 0, 0, 0);
    if (r) return (cudaError_t)r;
    CUdeviceptr at;
    size_t bytes;
    free = [=] { DRIVER(entry<decltype(&cuLibraryUnload)>("cuLibraryUnload")(its)); };
    const CUresult g = entry<decltype(&cuLibraryGetGlobal)>("cuLibraryGetGlobal")(&at, &bytes, its, "large");
    if (g) free();
    return (cudaError_t)g;
}

int main(int argc, char** argv) {
    REQUIRE(argc > 1);
    int devices = 0;
    CHECK(cudaGetDeviceCount(&devices));
    if (!strcmp(argv[argc - 1], "last")) device = devices - 1;
    CHECK(cudaSetDevice(device));
    if (!strcmp(argv[1], "facts")) {
        size_t free, total;
        cudaDeviceProp its;
        CHECK(cudaMemGetInfo(&free, &total));
        CHECK(cudaGetDeviceProperties(&its, device));
        printf("free %zu total %zu size %zu\n", free / mib, total / mib, its.totalGlobalMem / mib);
        return 0;
    }
    if (!strcmp(argv[1], "hold")) {
        void* p;
        CHECK(cudaMalloc(&p, std::stoul(argv[2]) * mib));
        printf("running\n"), fflush(stdout);
        for (int c; (c = getchar()) != EOF;) {
            void* more;
            if (c == '\n') printf("%s\n", cudaMalloc(&more, piece) == cudaSuccess ? "more" : "no more"), fflush(stdout);
        }
        return 0;
    }
    if (!strcmp(argv[1], "take")) return printf("%zu\n", fill(plain)), 0;
    cudaMemPoolProps what{};
    what.allocType = cudaMemAllocationTypePinned;
    what.location = {cudaMemLocationTypeDevice, device};
    unsigned long long all = ~0ull;
    CHECK(cudaMemPoolCreate(&pool, &what));
    CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &all));
    const struct {
        const char* name;
        cudaError_t (*take)(Free&);
    } ways[] = {{"cudaMalloc", plain},      {"cudaMallocPitch", pitched}, {"cudaMallocArray", array},
                {"mipmaps", mipmaps},       {"cudaMallocAsync", ordered}, {"pool", pooled},
                {"cuMemCreate", physical},  {"mapped", mapped},           {"graph node", node},
                {"captured", captured},     {"module", module},           {"library", library},
                {"cudaMalloc again", plain}};
    const bool one = !strcmp(argv[1], "way");
    for (const auto& way : ways) {
        const bool code = way.take == module || way.take == library;
        if (one ? strcmp(way.name, argv[2]) != 0 : code) continue;
        const size_t first = fill(way.take), second = fill(way.take);
        printf("%s: %zu %zu\n", way.name, first, second), fflush(stdout);
    }
    CHECK(cudaDeviceReset());
    return verdict(0);
}
