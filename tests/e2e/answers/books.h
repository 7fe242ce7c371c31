// SPDX-License-Identifier: Apache-2.0
// books.h: mistakes and right calls with memory of which a library between the program and the driver could know too
// much, or no more: that came or went by way of code, of mappings, of captures, of graphs, of another process.
#pragma once
#include <pthread.h>

#include "things.h"

namespace {

constexpr size_t granule = 2 << 20;
inline CUmemAllocationProp on_device() {
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
    return properties;
}
inline int allow(CUdeviceptr p, size_t bytes, CUmemAccess_flags flags) {
    const CUmemAccessDesc access{on_device().location, flags};
    return cuMemSetAccess(p, bytes, &access, 1);
}
// `count` mappings beside each other, of physical memory of their own.
inline CUdeviceptr mappings(size_t count, size_t reserved, CUmemAccess_flags flags) {
    CUdeviceptr at = 0;
    const CUmemAllocationProp properties = on_device();
    cuMemAddressReserve(&at, reserved * granule, 0, 0, 0);
    for (size_t i = 0; i < count; ++i) {
        CUmemGenericAllocationHandle handle;
        cuMemCreate(&handle, granule, &properties, 0);
        cuMemMap(at + i * granule, granule, 0, handle, 0);
        cuMemRelease(handle);
    }
    if (flags) allow(at, count * granule, flags);
    return at;
}
inline int fill(CUdeviceptr p, size_t bytes) { return cuMemsetD8Async(p, 1, bytes, nullptr); }
inline int small_copy(CUdeviceptr p) { return cuMemcpyHtoD(p, scratch, 16); }

constexpr char with_variable[] =
    ".version 6.4\n.target sm_50\n.address_size 64\n.visible .global .align 8 .b8 kept[64];\n"
    ".visible .entry k()\n{\n ret;\n}\n";
struct Variable {
    CUmodule module = nullptr;
    CUdeviceptr address = 0;
    size_t bytes = 0;
    Variable() {
        cuModuleLoadData(&module, with_variable);
        cuModuleGetGlobal(&address, &bytes, module, "kept");
    }
};
inline void load_and_unload() { cuModuleUnload(Variable().module); }
inline void make_and_destroy_context() {
    CUcontext before = nullptr, other = nullptr;
    cuCtxGetCurrent(&before);
    cuCtxCreate(&other, nullptr, 0, 0);
    cuCtxDestroy(other);
    cuCtxSetCurrent(before);
}

// Something else captures meanwhile, and forbids nothing.
template <class Do> string while_another_captures(Do act) {
    cudaStream_t s;
    cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);
    std::thread([&] { cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED); }).join();
    const string said = act();
    CUgraph graph = nullptr;
    cuStreamEndCapture(s, &graph);
    if (graph) cuGraphDestroy(graph);
    cudaStreamDestroy(s);
    return said;
}

// The other process that has memory to share. It is started before this one has called CUDA.
struct Neighbour {
    int to = -1, from = -1;
    pid_t process = 0;
    Neighbour() {
        int down[2], up[2];
        if (pipe(down) || pipe(up)) abort();
        process = fork();
        if (!process) {
            close(down[1]);
            start();
            void* p = nullptr;
            cudaMalloc(&p, 1 << 20);
            cudaIpcMemHandle_t handle{};
            cudaIpcGetMemHandle(&handle, p);
            char end;
            if (write(up[1], &handle, sizeof handle) < 0 || read(down[0], &end, 1) < 0) _exit(1);
            _exit(0);
        }
        close(down[0]);
        close(up[1]);
        to = down[1];
        from = up[0];
    }
    cudaIpcMemHandle_t handle() const {
        cudaIpcMemHandle_t handle{};
        if (read(from, &handle, sizeof handle) < 0) abort();
        return handle;
    }
    ~Neighbour() {
        close(to);
        close(from);
        waitpid(process, nullptr, 0);
    }
};

inline void* register_in_the_end(void* p) {
    int* const heard = static_cast<int*>(p);
    pthread_cancel(pthread_self());  // at the next point of cancellation
    void* const pages = host_pages();
    heard[0] = cudaHostRegister(pages, room, cudaHostRegisterDefault);
    heard[1] = 1;
    return nullptr;
}

inline void books() {
    const Neighbour neighbour;
    start();
    ask::looks_behind = true;
    char* const pageable = static_cast<char*>(host_pages());
    cudaStream_t s;
    cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);

    // Right: a copy over two mappings, whatever has come and gone.
    const std::pair<const char*, void (*)()> between[] = {
        {"nothing", [] {}}, {"module", load_and_unload}, {"context", make_and_destroy_context}};
    for (const auto& [name, act] : between) {
        const CUdeviceptr two = mappings(2, 3, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
        const CUdeviceptr seam = two + granule - room / 2;
        act();
        question(string("mappings/to_both_after_") + name, [&] { return number(cuMemcpyHtoD(seam, pageable, room)); });
        question(string("mappings/from_both_after_") + name,
                 [&] { return number(cuMemcpyDtoH(pageable, seam, room)); });
        question(string("mappings/fill_both_after_") + name, [&] { return number(fill(seam, room)); });
        question(string("mappings/to_both_again_after_") + name,
                 [&] { return number(cuMemcpyHtoD(seam, pageable, room)); });
        question(string("mappings/past_after_") + name, [&] { return number(fill(two + 2 * granule - 16, 32)); });
        question(string("mappings/reserved_after_") + name, [&] { return number(fill(two + 2 * granule, 16)); });
    }
    // Wrong: addresses that have no memory, or none that may be used, though the driver tells of them.
    for (const char* const asked : {"untold", "told"}) {
        const CUdeviceptr one = mappings(1, 2, CU_MEM_ACCESS_FLAGS_PROT_NONE);
        unsigned type;
        if (asked[0] == 't') {
            cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, one);
            cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, one + granule);
        }
        question(string("no_access/") + asked + "/fill", [&] { return number(fill(one, 16)); });
        question(string("no_access/") + asked + "/copy", [&] { return number(small_copy(one)); });
        question(string("no_access/") + asked + "/reserved", [&] { return number(fill(one + granule, 16)); });
        allow(one, granule, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
        question(string("no_access/") + asked + "/given", [&] { return number(fill(one, 16)); });
        allow(one, granule, CU_MEM_ACCESS_FLAGS_PROT_NONE);
        question(string("no_access/") + asked + "/taken", [&] { return number(fill(one, 16)); });
        question(string("no_access/") + asked + "/taken_copy", [&] { return number(small_copy(one)); });
    }

    // Code's variables are not freed, and go with the code.
    {
        const Variable v;
        question("variable/copy", [&] { return number(small_copy(v.address)); });
        question("variable/free", [&] { return number(cuMemFree(v.address)); });
        question("variable/free_in_order", [&] { return number(cuMemFreeAsync(v.address, s)); });
        question("variable/fill_past", [&] { return number(fill(v.address, 65)); });
        cuModuleUnload(v.module);
        question("variable/unloaded", [&] { return number(small_copy(v.address)); });
        question("variable/unloaded_fill", [&] { return number(fill(v.address, 16)); });
    }

    // Freed managed memory, whose neighbours live.
    {
        void *gone = nullptr, *lives = nullptr;
        cudaMallocManaged(&lives, room);
        cudaMallocManaged(&gone, room);
        cudaFree(gone);
        question("managed/freed", [&] { return number(fill(D(gone), 16)); });
        question("managed/freed_copy", [&] { return number(small_copy(D(gone))); });
        question("managed/past", [&] { return number(fill(D(lives), room + 1)); });
        question("managed/lives", [&] { return number(fill(D(lives), room)); });
        question("managed/freed_again", [&] { return number(cuMemFree(D(gone))); });
        question("managed/words", [&] { return number(cuStreamWriteValue32(s, D(lives), 1, 0)); });
    }

    // What is allocated and freed while something else captures.
    {
        CUdeviceptr pooled = 0, before = 0;
        cuMemAllocAsync(&before, room, s);
        question("captures/allocate", [&] {
            return while_another_captures([&] {
                CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
                cuThreadExchangeStreamCaptureMode(&mode);
                const int a = cuMemAllocAsync(&pooled, room, s), b = cuMemFreeAsync(before, s);
                return number(a) + " " + number(b);
            });
        });
        if (ask::skipped) return;  // (the rest of them belongs together)
        question("captures/allocated", [&] { return number(fill(pooled, room)); });
        question("captures/allocated_past", [&] { return number(fill(pooled, room + 1)); });
        question("captures/freed", [&] {
            cuStreamSynchronize(s);
            return number(fill(before, 16));
        });
        question("captures/pageable", [&] {
            return while_another_captures([&] { return number(cuMemsetD8Async(D(pageable), 1, 16, s)); });
        });
        question("captures/past", [&] {
            return while_another_captures([&] { return number(cuMemsetD8Async(pooled, 1, room + 1, s)); });
        });
        question("captures/words", [&] { return number(cuStreamWriteValue32(s, pooled, 1, 0)); });
    }

    // Another process's memory, until it is closed.
    {
        void* p = nullptr;
        const cudaIpcMemHandle_t handle = neighbour.handle();
        question("opened/open", [&] { return kept(cudaIpcOpenMemHandle(&p, handle, cudaIpcMemLazyEnablePeerAccess)); });
        question("opened/fill", [&] { return number(fill(D(p), 16)); });
        question("opened/free", [&] { return number(cuMemFree(D(p))); });
        question("opened/copy", [&] { return number(small_copy(D(p))); });
        question("opened/close", [&] { return kept(cudaIpcCloseMemHandle(p)); });
        question("opened/closed_fill", [&] { return number(fill(D(p), 16)); });
        question("opened/closed_copy", [&] { return number(small_copy(D(p))); });
    }

    // A graph's memory, which is allocated and freed as the graph says.
    {
        CUgraph gives = nullptr, takes = nullptr;
        CUgraphExec run = nullptr, end = nullptr;
        CUgraphNode node;
        CUDA_MEM_ALLOC_NODE_PARAMS wanted{};
        wanted.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
        wanted.poolProps.location = on_device().location;
        wanted.bytesize = 2 * room;
        cuGraphCreate(&gives, 0);
        cuGraphCreate(&takes, 0);
        question("graph/add", [&] { return number(cuGraphAddMemAllocNode(&node, gives, nullptr, 0, &wanted)); });
        question("graph/run", [&] {
            cuGraphAddMemFreeNode(&node, takes, nullptr, 0, wanted.dptr);
            const int a = cuGraphInstantiate(&run, gives, 0), b = cuGraphInstantiate(&end, takes, 0);
            const int c = cuGraphLaunch(run, s), d = cuStreamSynchronize(s);
            return number(a) + " " + number(b) + " " + number(c) + " " + number(d);
        });
        question("graph/copy", [&] { return number(cuMemcpyDtoH(pageable, wanted.dptr, room)); });
        question("graph/fill", [&] { return number(fill(wanted.dptr, room)); });
        question("graph/ended", [&] {
            const int a = cuGraphLaunch(end, s), b = cuStreamSynchronize(s);
            cuGraphExecDestroy(run);
            cuGraphExecDestroy(end);
            cuGraphDestroy(gives);
            cuGraphDestroy(takes);
            return number(a) + " " + number(b) + " " + number(fill(wanted.dptr, 16));
        });
    }

    question("register_cancelled", [&] {
        int heard[2] = {-1, 0};
        pthread_t thread;
        pthread_create(&thread, nullptr, register_in_the_end, heard);
        pthread_join(thread, nullptr);
        return number(heard[0]) + " " + number(heard[1]);
    });
}

}  // namespace
