// SPDX-License-Identifier: Apache-2.0
// things.h: what the questions are about: memory of every kind, and a list of calls that may be made in any state.
#pragma once
#include <chrono>

#include "ask.h"

namespace {

using ask::kept;
using ask::number;
using ask::question;
using std::string;

constexpr size_t room = 65536;

__device__ int symbol[1024];
__device__ int word;
__global__ void touch(int* p) {
    if (p) *p = 1;
}
__global__ void fault(int what, int* p) {
    if (what == 0) *reinterpret_cast<volatile int*>(0x10) = 1;
    if (what == 1) __trap();
    if (what == 2) asm volatile("st.global.u32 [%0], 1;" ::"l"(reinterpret_cast<char*>(p) + 2));
    if (what == 3) {
        extern __shared__ int few[];
        reinterpret_cast<volatile int*>(few)[1 << 22] = 1;
    }
}

inline CUdeviceptr D(const void* p) { return reinterpret_cast<CUdeviceptr>(p); }
inline void* P(CUdeviceptr p) { return reinterpret_cast<void*>(p); }
inline CUstream S(cudaStream_t s) { return s; }

inline void start() {
    cudaFree(nullptr);
    cudaGetLastError();
}

// ---- memory of a kind. `base`: where the allocation begins; `left`: bytes from p to its end.
struct Place {
    char* p = nullptr;
    char* base = nullptr;
    size_t left = 0;
    bool cpu = false;  // the CPU may use it
};

alignas(4096) inline char static_memory[2 * room];
inline const char constant_memory[64] = "constant";

inline Place virtual_memory(bool mapped, bool again_unmapped) {
    CUmemAllocationProp prop{};
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
    constexpr size_t size = 2 << 20;
    CUdeviceptr at = 0;
    CUmemGenericAllocationHandle handle;
    cuMemAddressReserve(&at, size, 0, 0, 0);
    if (mapped && !cuMemCreate(&handle, size, &prop, 0)) {
        cuMemMap(at, size, 0, handle, 0);
        CUmemAccessDesc access{prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
        cuMemSetAccess(at, size, &access, 1);
        if (again_unmapped) cuMemUnmap(at, size);
        cuMemRelease(handle);
    }
    char* p = static_cast<char*>(P(at));
    return {p, p, size};
}

inline char* host_pages() {
    return static_cast<char*>(mmap(nullptr, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
}

inline Place make(const string& kind) {
    const bool mid = kind.ends_with("_mid");
    const bool freed = kind.ends_with("_freed");
    const string what = mid ? kind.substr(0, kind.size() - 4) : freed ? kind.substr(0, kind.size() - 6) : kind;
    void* p = nullptr;
    Place place;
    if (what.starts_with("dev")) {
        void *behind = nullptr, *third = nullptr;
        cudaMalloc(&p, room);
        cudaMalloc(&behind, room);
        cudaMalloc(&third, room);
        cudaFree(behind);
        place = {static_cast<char*>(p), static_cast<char*>(p), room};
        if (what == "dev_last") place = {place.p + room - 1, place.p, 1};
        if (what == "dev_past") place = {place.p + room, place.p, 0};
        if (freed) cudaFree(p);
    } else if (what == "pinned" || what == "combined") {
        cudaHostAlloc(&p, room, what == "pinned" ? cudaHostAllocDefault : cudaHostAllocWriteCombined);
        place = {static_cast<char*>(p), static_cast<char*>(p), room, !freed};
        if (freed) cudaFreeHost(p);
    } else if (what == "registered") {
        char* pages = host_pages();
        cudaHostRegister(pages, room, cudaHostRegisterDefault);
        place = {pages, pages, room, true};
        if (freed) cudaHostUnregister(pages);
    } else if (what == "managed") {
        cudaMallocManaged(&p, room);
        place = {static_cast<char*>(p), static_cast<char*>(p), room, !freed};
        if (freed) cudaFree(p);
    } else if (what == "pool") {
        cudaMallocAsync(&p, room, nullptr);
        cudaStreamSynchronize(nullptr);
        place = {static_cast<char*>(p), static_cast<char*>(p), room};
        if (freed) {
            cudaFreeAsync(p, nullptr);
            cudaStreamSynchronize(nullptr);
        }
    } else if (what == "vmm") {
        place = virtual_memory(true, false);
    } else if (what == "vmm_reserved") {
        place = virtual_memory(false, false);
    } else if (what == "vmm_unmapped") {
        place = virtual_memory(true, true);
    } else if (what == "heap") {
        p = malloc(room);
        place = {static_cast<char*>(p), static_cast<char*>(p), room, true};
    } else if (what == "pages") {
        p = host_pages();
        place = {static_cast<char*>(p), static_cast<char*>(p), room, true};
    } else if (what == "static") {
        place = {static_memory, static_memory, 2 * room, true};
    } else if (what == "symbol") {
        cudaGetSymbolAddress(&p, symbol);
        place = {static_cast<char*>(p), static_cast<char*>(p), 4096};
    } else if (what == "low") {
        place.p = reinterpret_cast<char*>(0x1000);
    } else if (what == "wild") {
        place.p = reinterpret_cast<char*>(0x7abcdead0000);
    } else if (what == "high") {
        place.p = reinterpret_cast<char*>(0xffff800000001000);
    }
    if (mid) {
        place.p += 4096;
        place.left -= 4096;
    }
    cudaGetLastError();
    return place;
}

inline const std::vector<string> kinds = {
    "dev",        "dev_mid",      "dev_last",      "dev_past",     "dev_freed",      "pinned",
    "pinned_mid", "pinned_freed", "combined",      "registered",   "registered_mid", "registered_freed",
    "managed",    "managed_mid",  "managed_freed", "pool",         "pool_mid",       "pool_freed",
    "vmm",        "vmm_mid",      "vmm_reserved",  "vmm_unmapped", "heap",           "pages",
    "static",     "symbol",       "null",          "low",          "wild",           "high"};

// An address as a distance from what it belongs to.
inline string at(const Place& place, const void* q) {
    if (!q) return "null";
    const long long d = static_cast<const char*>(q) - place.base;
    return place.base && d >= -(4 << 20) && d <= (4 << 20) ? "base+" + number(d) : "other";
}

// ---- what the calls of the list use, made before the state of the questions begins
struct Things {
    int *device = nullptr, *other_device = nullptr, *pinned = nullptr, *managed = nullptr, *pool_memory = nullptr;
    int* free_device[4] = {};
    void* free_pinned[4] = {};
    char *registered = nullptr, *pages = nullptr;
    cudaStream_t stream = nullptr, other = nullptr, free_stream[4] = {};
    cudaEvent_t event = nullptr, second = nullptr, timed[2] = {}, free_event[4] = {};
    CUfunction function = nullptr;
    CUmodule module = nullptr;
    CUgraph graph = nullptr;
    CUgraphExec exec = nullptr;
    CUmemoryPool pool = nullptr;
    CUarray array = nullptr;
    unsigned used[8] = {};

    void make() {
        *this = {};
        cudaMalloc(&device, room);
        cudaMalloc(&other_device, room);
        cudaHostAlloc(reinterpret_cast<void**>(&pinned), room, cudaHostAllocDefault);
        cudaMallocManaged(&managed, room);
        cudaMallocAsync(&pool_memory, room, nullptr);
        for (int*& p : free_device) cudaMalloc(&p, 512);
        for (void*& p : free_pinned) cudaHostAlloc(&p, 512, cudaHostAllocDefault);
        registered = host_pages();
        pages = host_pages();
        cudaHostRegister(registered, room, cudaHostRegisterDefault);
        cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
        cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
        for (cudaStream_t& s : free_stream) cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);
        cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
        cudaEventCreateWithFlags(&second, cudaEventDisableTiming);
        for (cudaEvent_t& e : timed) {
            cudaEventCreate(&e);
            cudaEventRecord(e, other);
        }
        for (cudaEvent_t& e : free_event) cudaEventCreate(&e);
        cudaEventRecord(event, other);
        cudaFunction_t f = nullptr;
        cudaGetFuncBySymbol(&f, reinterpret_cast<const void*>(touch));
        function = f;
        cuFuncGetModule(&module, function);
        cuGraphCreate(&graph, 0);
        CUgraphNode node;
        cuGraphAddEmptyNode(&node, graph, nullptr, 0);
        cuGraphInstantiate(&exec, graph, 0);
        CUmemPoolProps props{};
        props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
        props.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
        cuMemPoolCreate(&pool, &props);
        CUDA_ARRAY_DESCRIPTOR shape{64, 64, CU_AD_FORMAT_FLOAT, 1};
        cuArrayCreate(&array, &shape);
        cudaDeviceSynchronize();
        cudaGetLastError();
    }
    // Gives back what make() has made, so that many can follow each other.
    void release() {
        cudaFree(device);
        cudaFree(other_device);
        cudaFreeHost(pinned);
        cudaFree(managed);
        cudaFree(pool_memory);
        for (unsigned i = used[0]; i < 4; ++i) cudaFree(free_device[i]);
        for (unsigned i = used[1]; i < 4; ++i) cudaFreeHost(free_pinned[i]);
        for (unsigned i = used[2]; i < 4; ++i) cudaStreamDestroy(free_stream[i]);
        for (unsigned i = used[3]; i < 4; ++i) cudaEventDestroy(free_event[i]);
        cudaHostUnregister(registered);
        cudaHostUnregister(pages);
        munmap(registered, room);
        munmap(pages, room);
        cudaStreamDestroy(stream);
        cudaStreamDestroy(other);
        cudaEventDestroy(event);
        cudaEventDestroy(second);
        cudaEventDestroy(timed[0]);
        cudaEventDestroy(timed[1]);
        cuGraphExecDestroy(exec);
        cuGraphDestroy(graph);
        cuMemPoolDestroy(pool);
        cuArrayDestroy(array);
        cudaGetLastError();
    }
};

inline void CUDA_CB nothing(void*) {}
inline void CUDA_CB nothing_either(CUstream, CUresult, void*) {}

constexpr char tiny[] =
    ".version 6.4\n.target sm_50\n.address_size 64\n.global .u32 w;\n.visible .entry k()\n{\n ret;\n}\n";

struct Call {
    const char* name;
    std::function<int(Things&)> make;
};

inline char scratch[4096];

// What a query says once the GPU has done what there was before: no answer depends on how fast that is.
template <class Query> auto once_ready(const Query& query) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    auto heard = query();
    while (int(heard) == cudaErrorNotReady && std::chrono::steady_clock::now() < end) heard = query();
    return heard;
}

// A row a call: its name, and what makes it.
#define CALL(name, ...) {#name, []([[maybe_unused]] Things& t) -> int { __VA_ARGS__ }},
// clang-format off
inline const std::vector<Call> calls = {
    CALL(cuMemAlloc, CUdeviceptr p; return cuMemAlloc(&p, 512);)
    CALL(cuMemAllocPitch, CUdeviceptr p; size_t n; return cuMemAllocPitch(&p, &n, 64, 64, 4);)
    CALL(cuMemAllocHost, void* p; return cuMemAllocHost(&p, 512);)
    CALL(cuMemHostAlloc, void* p; return cuMemHostAlloc(&p, 512, 0);)
    CALL(cuMemAllocManaged, CUdeviceptr p; return cuMemAllocManaged(&p, 512, 1);)
    CALL(cuMemFree, return cuMemFree(D(t.free_device[t.used[0]++]));)
    CALL(cuMemFree_null, return cuMemFree(0);)
    CALL(cuMemFreeHost, return cuMemFreeHost(t.free_pinned[t.used[1]++]);)
    CALL(cuMemFreeHost_null, return cuMemFreeHost(nullptr);)
    CALL(cuMemHostRegister, return cuMemHostRegister(t.pages, 4096, 0);)
    CALL(cuMemHostUnregister, return cuMemHostUnregister(t.registered);)
    CALL(cuMemHostGetDevicePointer, CUdeviceptr p; return cuMemHostGetDevicePointer(&p, t.pinned, 0);)
    CALL(cuMemHostGetFlags, unsigned f; return cuMemHostGetFlags(&f, t.pinned);)
    CALL(cuMemGetInfo, size_t a, b; return cuMemGetInfo(&a, &b);)
    CALL(cuMemGetAddressRange, CUdeviceptr p; size_t n; return cuMemGetAddressRange(&p, &n, D(t.device));)
    CALL(cuPointerGetAttribute, unsigned v; return cuPointerGetAttribute(&v, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, D(t.device));)
    CALL(cuMemcpyHtoD, return cuMemcpyHtoD(D(t.device), scratch, 64);)
    CALL(cuMemcpyDtoH, return cuMemcpyDtoH(scratch, D(t.device), 64);)
    CALL(cuMemcpyDtoD, return cuMemcpyDtoD(D(t.device), D(t.other_device), 64);)
    CALL(cuMemcpy, return cuMemcpy(D(t.device), D(t.pinned), 64);)
    CALL(cuMemcpy_zero, return cuMemcpy(D(t.device), D(t.pinned), 0);)
    CALL(cuMemcpyHtoDAsync, return cuMemcpyHtoDAsync(D(t.device), t.pinned, 64, t.other);)
    CALL(cuMemcpyHtoDAsync_legacy, return cuMemcpyHtoDAsync(D(t.device), t.pinned, 64, nullptr);)
    CALL(cuMemcpyDtoHAsync, return cuMemcpyDtoHAsync(t.pinned, D(t.device), 64, t.other);)
    CALL(cuMemcpyDtoDAsync, return cuMemcpyDtoDAsync(D(t.device), D(t.other_device), 64, t.other);)
    CALL(cuMemcpyAsync, return cuMemcpyAsync(D(t.device), D(t.other_device), 64, t.other);)
    CALL(cuMemcpyPeer, CUcontext c = nullptr; cuCtxGetCurrent(&c); return cuMemcpyPeer(D(t.device), c, D(t.other_device), c, 64);)
    CALL(cuMemcpy2D, CUDA_MEMCPY2D c{}; c.srcMemoryType = CU_MEMORYTYPE_HOST; c.srcHost = scratch; c.srcPitch = 64; c.dstMemoryType = CU_MEMORYTYPE_DEVICE; c.dstDevice = D(t.device); c.dstPitch = 64; c.WidthInBytes = 64; c.Height = 4; return cuMemcpy2D(&c);)
    CALL(cuMemcpyHtoA, return cuMemcpyHtoA(t.array, 0, scratch, 64);)
    CALL(cuMemsetD8, return cuMemsetD8(D(t.device), 1, 64);)
    CALL(cuMemsetD32, return cuMemsetD32(D(t.device), 1, 16);)
    CALL(cuMemsetD2D8, return cuMemsetD2D8(D(t.device), 64, 1, 16, 4);)
    CALL(cuMemsetD8Async, return cuMemsetD8Async(D(t.device), 1, 64, t.other);)
    CALL(cuMemsetD32Async_legacy, return cuMemsetD32Async(D(t.device), 1, 16, nullptr);)
    CALL(cuStreamCreate, CUstream s; return cuStreamCreate(&s, 0);)
    CALL(cuStreamCreateWithPriority, CUstream s; return cuStreamCreateWithPriority(&s, 1, -1);)
    CALL(cuStreamQuery, return once_ready([&] { return cuStreamQuery(t.other); });)
    CALL(cuStreamQuery_legacy, return once_ready([&] { return cuStreamQuery(nullptr); });)
    CALL(cuStreamSynchronize, return cuStreamSynchronize(t.other);)
    CALL(cuStreamSynchronize_legacy, return cuStreamSynchronize(nullptr);)
    CALL(cuStreamDestroy, return cuStreamDestroy(t.free_stream[t.used[2]++]);)
    CALL(cuStreamWaitEvent, return cuStreamWaitEvent(t.other, t.event, 0);)
    CALL(cuStreamWaitEvent_legacy, return cuStreamWaitEvent(nullptr, t.event, 0);)
    CALL(cuStreamGetFlags, unsigned f; return cuStreamGetFlags(t.other, &f);)
    CALL(cuStreamGetPriority, int f; return cuStreamGetPriority(t.other, &f);)
    CALL(cuStreamGetCtx, CUcontext c; return cuStreamGetCtx(t.other, &c);)
    CALL(cuStreamGetId, unsigned long long n; return cuStreamGetId(t.other, &n);)
    CALL(cuStreamGetDevice, CUdevice d; return cuStreamGetDevice(t.other, &d);)
    CALL(cuStreamAddCallback, return cuStreamAddCallback(t.other, nothing_either, nullptr, 0);)
    CALL(cuLaunchHostFunc, return cuLaunchHostFunc(t.other, nothing, nullptr);)
    CALL(cuStreamAttachMemAsync, return cuStreamAttachMemAsync(t.other, D(t.managed), 0, CU_MEM_ATTACH_SINGLE);)
    CALL(cuStreamWriteValue32, return cuStreamWriteValue32(t.other, D(t.device), 1, 0);)
    CALL(cuStreamWaitValue32, return cuStreamWaitValue32(t.other, D(t.device), 0, 0);)
    CALL(cuStreamIsCapturing, CUstreamCaptureStatus s; return cuStreamIsCapturing(t.other, &s);)
    CALL(cuStreamIsCapturing_legacy, CUstreamCaptureStatus s; return cuStreamIsCapturing(nullptr, &s);)
    CALL(cuStreamGetCaptureInfo, CUstreamCaptureStatus s; return cuStreamGetCaptureInfo_v3(t.other, &s, nullptr, nullptr, nullptr, nullptr, nullptr);)
    CALL(cuStreamCopyAttributes, return cuStreamCopyAttributes(t.other, t.free_stream[3]);)
    CALL(cuStreamGetAttribute, CUstreamAttrValue v; return cuStreamGetAttribute(t.other, CU_LAUNCH_ATTRIBUTE_PRIORITY, &v);)
    CALL(cuEventCreate, CUevent e; return cuEventCreate(&e, 0);)
    CALL(cuEventRecord, return cuEventRecord(t.second, t.other);)
    CALL(cuEventRecord_legacy, return cuEventRecord(t.second, nullptr);)
    CALL(cuEventQuery, return once_ready([&] { return cuEventQuery(t.event); });)
    CALL(cuEventQuery_unrecorded, return once_ready([&] { return cuEventQuery(t.free_event[3]); });)
    CALL(cuEventSynchronize, return cuEventSynchronize(t.event);)
    CALL(cuEventElapsedTime, float ms; return cuEventElapsedTime(&ms, t.timed[0], t.timed[1]);)
    CALL(cuEventDestroy, return cuEventDestroy(t.free_event[t.used[3]++]);)
    CALL(cuCtxSynchronize, return cuCtxSynchronize();)
    CALL(cuCtxGetCurrent, CUcontext c; return cuCtxGetCurrent(&c);)
    CALL(cuCtxGetDevice, CUdevice d; return cuCtxGetDevice(&d);)
    CALL(cuCtxGetLimit, size_t n; return cuCtxGetLimit(&n, CU_LIMIT_STACK_SIZE);)
    CALL(cuCtxSetLimit, return cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 1024);)
    CALL(cuCtxGetFlags, unsigned f; return cuCtxGetFlags(&f);)
    CALL(cuCtxGetId, unsigned long long n; return cuCtxGetId(nullptr, &n);)
    CALL(cuCtxGetCacheConfig, CUfunc_cache c; return cuCtxGetCacheConfig(&c);)
    CALL(cuCtxSetCacheConfig, return cuCtxSetCacheConfig(CU_FUNC_CACHE_PREFER_NONE);)
    CALL(cuCtxGetApiVersion, unsigned v; return cuCtxGetApiVersion(nullptr, &v);)
    CALL(cuCtxGetStreamPriorityRange, int a, b; return cuCtxGetStreamPriorityRange(&a, &b);)
    CALL(cuCtxResetPersistingL2Cache, return cuCtxResetPersistingL2Cache();)
    CALL(cuCtxPushCurrent_null, return cuCtxPushCurrent(nullptr);)
    CALL(cuModuleLoadData, CUmodule m; return cuModuleLoadData(&m, tiny);)
    CALL(cuModuleGetFunction, CUfunction f; return cuModuleGetFunction(&f, t.module, "absent");)
    CALL(cuModuleGetGlobal, CUdeviceptr p; size_t n; return cuModuleGetGlobal(&p, &n, t.module, "absent");)
    CALL(cuModuleGetLoadingMode, CUmoduleLoadingMode m; return cuModuleGetLoadingMode(&m);)
    CALL(cuLibraryLoadData, CUlibrary l; return cuLibraryLoadData(&l, tiny, nullptr, nullptr, 0, nullptr, nullptr, 0);)
    CALL(cuFuncGetAttribute, int v; return cuFuncGetAttribute(&v, CU_FUNC_ATTRIBUTE_NUM_REGS, t.function);)
    CALL(cuFuncSetAttribute, return cuFuncSetAttribute(t.function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1024);)
    CALL(cuFuncGetName, const char* n; return cuFuncGetName(&n, t.function);)
    CALL(cuOccupancyMaxActiveBlocksPerMultiprocessor, int n; return cuOccupancyMaxActiveBlocksPerMultiprocessor(&n, t.function, 64, 0);)
    CALL(cuLaunchKernel, void* p[] = {&t.device}; return cuLaunchKernel(t.function, 1, 1, 1, 1, 1, 1, 0, t.other, p, nullptr);)
    CALL(cuLaunchKernel_legacy, void* p[] = {&t.device}; return cuLaunchKernel(t.function, 1, 1, 1, 1, 1, 1, 0, nullptr, p, nullptr);)
    CALL(cuLaunchKernel_shape, void* p[] = {&t.device}; return cuLaunchKernel(t.function, 1, 1, 1, 4096, 1, 1, 0, t.other, p, nullptr);)
    CALL(cuGraphCreate, CUgraph g; return cuGraphCreate(&g, 0);)
    CALL(cuGraphAddEmptyNode, CUgraphNode n; return cuGraphAddEmptyNode(&n, t.graph, nullptr, 0);)
    CALL(cuGraphInstantiate, CUgraphExec e; return cuGraphInstantiate(&e, t.graph, 0);)
    CALL(cuGraphLaunch, return cuGraphLaunch(t.exec, t.other);)
    CALL(cuGraphUpload, return cuGraphUpload(t.exec, t.other);)
    CALL(cuMemAllocAsync, CUdeviceptr p; return cuMemAllocAsync(&p, 512, t.other);)
    CALL(cuMemAllocFromPoolAsync, CUdeviceptr p; return cuMemAllocFromPoolAsync(&p, 512, t.pool, t.other);)
    CALL(cuMemPoolTrimTo, return cuMemPoolTrimTo(t.pool, 0);)
    CALL(cuMemPoolGetAttribute, cuuint64_t v; return cuMemPoolGetAttribute(t.pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &v);)
    CALL(cuMemPoolCreate, CUmemoryPool p; CUmemPoolProps props{}; props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED; props.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}}; return cuMemPoolCreate(&p, &props);)
    CALL(cuDeviceGetDefaultMemPool, CUmemoryPool p; return cuDeviceGetDefaultMemPool(&p, 0);)
    CALL(cuDeviceGetMemPool, CUmemoryPool p; return cuDeviceGetMemPool(&p, 0);)
    CALL(cuMemAddressReserve, CUdeviceptr p; return cuMemAddressReserve(&p, 2 << 20, 0, 0, 0);)
    CALL(cuMemCreate, CUmemGenericAllocationHandle h; CUmemAllocationProp prop{}; prop.type = CU_MEM_ALLOCATION_TYPE_PINNED; prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}}; return cuMemCreate(&h, 2 << 20, &prop, 0);)
    CALL(cuMemGetAllocationGranularity, size_t n; CUmemAllocationProp prop{}; prop.type = CU_MEM_ALLOCATION_TYPE_PINNED; prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}}; return cuMemGetAllocationGranularity(&n, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM);)
    CALL(cuArrayCreate, CUarray a; CUDA_ARRAY_DESCRIPTOR d{64, 64, CU_AD_FORMAT_FLOAT, 1}; return cuArrayCreate(&a, &d);)
    CALL(cuArrayGetDescriptor, CUDA_ARRAY_DESCRIPTOR d; return cuArrayGetDescriptor(&d, t.array);)
    CALL(cuMemPrefetchAsync, CUmemLocation l{CU_MEM_LOCATION_TYPE_DEVICE, {0}}; return cuMemPrefetchAsync(D(t.managed), room, l, 0, t.other);)
    CALL(cuMemAdvise, CUmemLocation l{CU_MEM_LOCATION_TYPE_DEVICE, {0}}; return cuMemAdvise(D(t.managed), room, CU_MEM_ADVISE_SET_READ_MOSTLY, l);)
    CALL(cuDeviceGet, CUdevice d; return cuDeviceGet(&d, 0);)
    CALL(cuDeviceGetCount, int n; return cuDeviceGetCount(&n);)
    CALL(cuDeviceGetName, char n[64]; return cuDeviceGetName(n, 64, 0);)
    CALL(cuDeviceGetAttribute, int n; return cuDeviceGetAttribute(&n, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0);)
    CALL(cuDeviceTotalMem, size_t n; return cuDeviceTotalMem(&n, 0);)
    CALL(cuDeviceGetUuid, CUuuid u; return cuDeviceGetUuid(&u, 0);)
    CALL(cuDeviceGetPCIBusId, char n[64]; return cuDeviceGetPCIBusId(n, 64, 0);)
    CALL(cuDeviceCanAccessPeer, int n; return cuDeviceCanAccessPeer(&n, 0, 0);)
    CALL(cuDevicePrimaryCtxGetState, unsigned f; int a; return cuDevicePrimaryCtxGetState(0, &f, &a);)
    CALL(cuDevicePrimaryCtxSetFlags, return cuDevicePrimaryCtxSetFlags(0, 0);)
    CALL(cuDeviceGetGraphMemAttribute, cuuint64_t v; return cuDeviceGetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &v);)
    CALL(cuDeviceGraphMemTrim, return cuDeviceGraphMemTrim(0);)
    CALL(cuIpcGetMemHandle, CUipcMemHandle h; return cuIpcGetMemHandle(&h, D(t.device));)
    CALL(cuProfilerStart, return cuProfilerStart();)
    CALL(cuDriverGetVersion, int v; return cuDriverGetVersion(&v);)
    CALL(cuGetErrorName, const char* n; return cuGetErrorName(CUDA_ERROR_INVALID_VALUE, &n);)
    CALL(cuGetProcAddress, void* f; return cuGetProcAddress("cuMemAlloc", &f, 13000, 0, nullptr);)
    CALL(cuThreadExchangeStreamCaptureMode, CUstreamCaptureMode m = CU_STREAM_CAPTURE_MODE_GLOBAL; return cuThreadExchangeStreamCaptureMode(&m);)
    CALL(cudaMalloc, void* p; return cudaMalloc(&p, 512);)
    CALL(cudaMalloc_zero, void* p; return cudaMalloc(&p, 0);)
    CALL(cudaFree, return cudaFree(t.free_device[t.used[0]++]);)
    CALL(cudaFree_null, return cudaFree(nullptr);)
    CALL(cudaMallocHost, void* p; return cudaMallocHost(&p, 512);)
    CALL(cudaFreeHost, return cudaFreeHost(t.free_pinned[t.used[1]++]);)
    CALL(cudaMallocManaged, void* p; return cudaMallocManaged(&p, 512);)
    CALL(cudaMallocAsync, void* p; return cudaMallocAsync(&p, 512, t.other);)
    CALL(cudaFreeAsync, return cudaFreeAsync(t.pool_memory, t.other);)
    CALL(cudaMallocArray, cudaArray_t a; cudaChannelFormatDesc d = cudaCreateChannelDesc<float>(); return cudaMallocArray(&a, &d, 16, 16);)
    CALL(cudaMemcpy, return cudaMemcpy(t.device, scratch, 64, cudaMemcpyHostToDevice);)
    CALL(cudaMemcpyAsync, return cudaMemcpyAsync(t.device, t.pinned, 64, cudaMemcpyHostToDevice, t.other);)
    CALL(cudaMemcpyToSymbol, return cudaMemcpyToSymbol(word, scratch, 4);)
    CALL(cudaMemset, return cudaMemset(t.device, 0, 64);)
    CALL(cudaMemsetAsync, return cudaMemsetAsync(t.device, 0, 64, t.other);)
    CALL(cudaMemGetInfo, size_t a, b; return cudaMemGetInfo(&a, &b);)
    CALL(cudaPointerGetAttributes, cudaPointerAttributes a; return cudaPointerGetAttributes(&a, t.device);)
    CALL(cudaDeviceSynchronize, return cudaDeviceSynchronize();)
    CALL(cudaStreamCreate, cudaStream_t s; return cudaStreamCreate(&s);)
    CALL(cudaStreamSynchronize, return cudaStreamSynchronize(t.other);)
    CALL(cudaStreamQuery, return once_ready([&] { return cudaStreamQuery(t.other); });)
    CALL(cudaEventCreate, cudaEvent_t e; return cudaEventCreate(&e);)
    CALL(cudaEventRecord, return cudaEventRecord(t.second, t.other);)
    CALL(cudaEventSynchronize, return cudaEventSynchronize(t.event);)
    CALL(cudaLaunchKernel, void* p[] = {&t.device}; return cudaLaunchKernel(touch, dim3(1), dim3(1), p, 0, t.other);)
    CALL(cudaFuncGetAttributes, cudaFuncAttributes a; return cudaFuncGetAttributes(&a, touch);)
    CALL(cudaOccupancyMaxActiveBlocksPerMultiprocessor, int n; return cudaOccupancyMaxActiveBlocksPerMultiprocessor(&n, touch, 64, 0);)
    CALL(cudaGetDevice, int d; return cudaGetDevice(&d);)
    CALL(cudaSetDevice, return cudaSetDevice(0);)
    CALL(cudaGetDeviceCount, int d; return cudaGetDeviceCount(&d);)
    CALL(cudaDeviceGetAttribute, int v; return cudaDeviceGetAttribute(&v, cudaDevAttrWarpSize, 0);)
    CALL(cudaDeviceGetLimit, size_t v; return cudaDeviceGetLimit(&v, cudaLimitStackSize);)
    CALL(cudaDeviceGetStreamPriorityRange, int a, b; return cudaDeviceGetStreamPriorityRange(&a, &b);)
    CALL(cudaHostRegister, return cudaHostRegister(t.pages + 8192, 4096, 0);)
    CALL(cudaGraphCreate, cudaGraph_t g; return cudaGraphCreate(&g, 0);)
    CALL(cudaGraphInstantiate, cudaGraphExec_t e; return cudaGraphInstantiate(&e, t.graph, 0);)
    CALL(cudaGraphLaunch, return cudaGraphLaunch(t.exec, t.other);)
    CALL(cudaStreamBeginCapture, const int rc = cudaStreamBeginCapture(t.free_stream[3], cudaStreamCaptureModeRelaxed); cudaGraph_t g; if (!rc) cudaStreamEndCapture(t.free_stream[3], &g); return rc;)
    CALL(cudaDriverGetVersion, int v; return cudaDriverGetVersion(&v);)
    CALL(cudaRuntimeGetVersion, int v; return cudaRuntimeGetVersion(&v);)
    CALL(cudaPeekAtLastError, return cudaPeekAtLastError();)
    CALL(cudaGetLastError, return cudaGetLastError();)
    CALL(cudaGetLastError_twice, return cudaGetLastError();)
};
// clang-format on
#undef CALL

}  // namespace
