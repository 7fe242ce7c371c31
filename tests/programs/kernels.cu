// SPDX-License-Identifier: Apache-2.0
// kernels.cu: a kernel of a library (CUkernel, which belongs to no context) in a function's place: launched, asked
// about, in graphs, in two contexts, after a reset. Launches, occupancy and a node's `kern` are documented so; other
// functions take it from Barcuda only, where a library that casts once casts everywhere.
#include <cstdint>
#include <dlfcn.h>

#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "driver.h"

__global__ void put(int* out, int value) { out[blockIdx.x * blockDim.x + threadIdx.x] = value; }
__global__ void far_away(int* out, int at, int value) {
    extern __shared__ int room[];
    room[at] = value;
    __syncthreads();
    *out = room[at];
}

__global__ void limited(int* out, int at, int value) {
    extern __shared__ int room[];
    room[at] = value;
    __syncthreads();
    *out = room[at];
}

static const char library_text[] = R"(
.version 6.4
.target sm_75
.address_size 64
.visible .entry other(.param .u32 unused) { ret; }
.visible .entry keep(.param .u64 out, .param .u32 value) {
    .reg .b64 %a;
    .reg .b32 %v;
    ld.param.u64 %a, [out];
    ld.param.u32 %v, [value];
    cvta.to.global.u64 %a, %a;
    st.global.u32 [%a], %v;
    ret;
}
)";

#define FUNCTION(name, version) static const auto p_##name = entry<decltype(&name)>(#name, version)

static CUkernel kernel_of(const void* symbol) {
    cudaKernel_t kernel = nullptr;
    CHECK(cudaGetKernel(&kernel, symbol));
    return kernel;
}
static CUfunction cast(CUkernel kernel) { return reinterpret_cast<CUfunction>(kernel); }

static bool barcuda;
static int* out;
constexpr int blocks = 4, threads = 32;

// Whether `value` is everywhere now; then nothing is.
static bool arrived(int value, int count = blocks * threads) {
    int got[blocks * threads];
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(got, out, sizeof got, cudaMemcpyDeviceToHost));
    CHECK(cudaMemset(out, 0, sizeof got));
    for (int i = 0; i < count; ++i)
        if (got[i] != value) return false;
    return true;
}

static void launches() {
    FUNCTION(cuLaunchKernel, 4000);
    FUNCTION(cuLaunchKernelEx, 11060);
    FUNCTION(cuLaunchCooperativeKernel, 9000);
    const CUfunction f = cast(kernel_of(reinterpret_cast<const void*>(put)));
    CUstream made = nullptr;
    CHECK(cudaStreamCreate(&made));
    int value = 0;
    void* parameters[] = {&out, &value};
    for (CUstream stream : {CUstream{}, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD, made}) {
        ++value;
        DRIVER(p_cuLaunchKernel(f, blocks, 1, 1, threads, 1, 1, 0, stream, parameters, nullptr));
        REQUIRE(arrived(value));
        ++value;
        DRIVER(p_cuLaunchCooperativeKernel(f, blocks, 1, 1, threads, 1, 1, 0, stream, parameters));
        REQUIRE(arrived(value));
        ++value;
        CUlaunchAttribute attribute{};
        attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
        attribute.value.programmaticStreamSerializationAllowed = 1;
        const CUlaunchConfig config{blocks, 1, 1, threads, 1, 1, 0, stream, &attribute, 1};
        DRIVER(p_cuLaunchKernelEx(&config, f, parameters, nullptr));
        REQUIRE(arrived(value));
    }
    // A burst, which may go another way than one alone; kernel and function in turn.
    cudaFunction_t function = nullptr;
    CHECK(cudaGetFuncBySymbol(&function, reinterpret_cast<const void*>(put)));
    for (int i = 0; i < 1000; ++i) {
        ++value;
        DRIVER(p_cuLaunchKernel(i % 2 ? f : function, blocks, 1, 1, threads, 1, 1, 0, made, parameters, nullptr));
    }
    REQUIRE(arrived(value));
    CHECK(cudaStreamDestroy(made));
}

static void occupancy() {
    FUNCTION(cuOccupancyMaxActiveBlocksPerMultiprocessor, 6050);
    FUNCTION(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, 7000);
    FUNCTION(cuOccupancyMaxPotentialBlockSize, 6050);
    FUNCTION(cuOccupancyMaxPotentialBlockSizeWithFlags, 7000);
    FUNCTION(cuOccupancyAvailableDynamicSMemPerBlock, 10020);
    FUNCTION(cuOccupancyMaxActiveClusters, 11070);
    FUNCTION(cuOccupancyMaxPotentialClusterSize, 11070);
    cudaFunction_t function = nullptr;
    CHECK(cudaGetFuncBySymbol(&function, reinterpret_cast<const void*>(put)));
    const CUfunction kernel = cast(kernel_of(reinterpret_cast<const void*>(put)));
    const auto same = [&](auto ask) {  // of the kernel and of its function
        const auto one = ask(kernel), other = ask(function);
        REQUIRE(one == other && one > 0);
    };
    int clusters = 0;
    CHECK(cudaDeviceGetAttribute(&clusters, cudaDevAttrClusterLaunch, 0));
    same([&](CUfunction f) {
        int n = 0;
        DRIVER(p_cuOccupancyMaxActiveBlocksPerMultiprocessor(&n, f, 128, 0));
        return n;
    });
    same([&](CUfunction f) {
        int n = 0;
        DRIVER(p_cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&n, f, 128, 0, 0));
        return n;
    });
    same([&](CUfunction f) {
        int grid = 0, block = 0;
        DRIVER(p_cuOccupancyMaxPotentialBlockSize(&grid, &block, f, nullptr, 0, 0));
        return grid * block;
    });
    same([&](CUfunction f) {
        int grid = 0, block = 0;
        DRIVER(p_cuOccupancyMaxPotentialBlockSizeWithFlags(&grid, &block, f, nullptr, 0, 0, 0));
        return grid * block;
    });
    same([&](CUfunction f) {
        std::size_t bytes = 0;
        DRIVER(p_cuOccupancyAvailableDynamicSMemPerBlock(&bytes, f, 1, 128));
        return bytes;
    });
    if (!clusters && !barcuda) return;
    CUlaunchAttribute attribute{};
    attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    attribute.value.clusterDim = {1, 1, 1};
    const CUlaunchConfig config{blocks, 1, 1, threads, 1, 1, 0, nullptr, &attribute, 1};
    same([&](CUfunction f) {
        int n = 0;
        DRIVER(p_cuOccupancyMaxActiveClusters(&n, f, &config));
        return n;
    });
    same([&](CUfunction f) {
        int n = 0;
        DRIVER(p_cuOccupancyMaxPotentialClusterSize(&n, f, &config));
        return n;
    });
}

// What is set for the kernel holds for its launches, whatever it is launched as.
static void much_shared_memory() {
    FUNCTION(cuKernelSetAttribute, 12000);
    FUNCTION(cuLaunchKernel, 4000);
    const CUkernel kernel = kernel_of(reinterpret_cast<const void*>(far_away));
    int most = 0;
    CHECK(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0));
    int at = most / 4 - 1, value = 77;
    void* parameters[] = {&out, &at, &value};
    const auto launch = [&](CUfunction f) {
        return p_cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, most, nullptr, parameters, nullptr);
    };
    REQUIRE(launch(cast(kernel)) == CUDA_ERROR_INVALID_VALUE);  // 48 KiB, if one has not asked for more
    DRIVER(p_cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, most, kernel, 0));
    for (int i = 0; i < 3; ++i) {
        ++value;
        DRIVER(launch(cast(kernel)));
        REQUIRE(arrived(value, 1));
    }
    cudaFunction_t function = nullptr;
    CHECK(cudaGetFuncBySymbol(&function, reinterpret_cast<const void*>(far_away)));
    DRIVER(launch(function));
    REQUIRE(arrived(value, 1));
}

// A kernel's limit is its function's, until that has been given one of its own: which then stays, whatever is set for
// the kernel; and the kernel goes by it as well.
static void two_limits() {
    FUNCTION(cuFuncGetAttribute, 2020);
    FUNCTION(cuFuncSetAttribute, 9000);
    FUNCTION(cuKernelGetAttribute, 12000);
    FUNCTION(cuKernelSetAttribute, 12000);
    FUNCTION(cuKernelGetFunction, 12000);
    FUNCTION(cuLaunchKernel, 4000);
    constexpr auto limit = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    const CUkernel kernel = kernel_of(reinterpret_cast<const void*>(limited));
    CUfunction function = nullptr;
    DRIVER(p_cuKernelGetFunction(&function, kernel));
    int at = 0, value = 5;
    void* parameters[] = {&out, &at, &value};
    const auto holds = [&](int of_kernel, int of_function) {
        int told = -1;
        DRIVER(p_cuKernelGetAttribute(&told, limit, kernel, 0));
        REQUIRE(told == of_kernel);
        DRIVER(p_cuFuncGetAttribute(&told, limit, function));
        REQUIRE(told == of_function);
        for (CUfunction each : {function, cast(kernel)}) {
            DRIVER(p_cuLaunchKernel(each, 1, 1, 1, 1, 1, 1, of_function, nullptr, parameters, nullptr));
            const auto over = p_cuLaunchKernel(each, 1, 1, 1, 1, 1, 1, of_function + 4, nullptr, parameters, nullptr);
            REQUIRE(over == CUDA_ERROR_INVALID_VALUE);
        }
        CHECK(cudaDeviceSynchronize());
    };
    const auto of_kernel = [&](int bytes) { DRIVER(p_cuKernelSetAttribute(limit, bytes, kernel, 0)); };
    const auto of_function = [&](int bytes) { DRIVER(p_cuFuncSetAttribute(function, limit, bytes)); };
    for (int bytes : {50000, 1000, 60000}) of_kernel(bytes), of_kernel(bytes), holds(bytes, bytes);
    of_function(60000), of_kernel(2000), holds(2000, 60000);  // the same number, but now the function's own
    of_function(1000), holds(2000, 1000);
    of_kernel(50000), holds(50000, 1000);
    of_function(50000), of_kernel(1000), holds(1000, 50000);
    CHECK(cudaMemset(out, 0, sizeof(int)));
}

// A function of a list has no code on the device until it is needed: a launch is enough.
static void listed() {
    FUNCTION(cuModuleLoadData, 2000);
    FUNCTION(cuModuleUnload, 2000);
    FUNCTION(cuModuleEnumerateFunctions, 12040);
    FUNCTION(cuModuleGetFunctionCount, 12040);
    FUNCTION(cuFuncIsLoaded, 12040);
    FUNCTION(cuFuncGetAttribute, 2020);
    FUNCTION(cuFuncLoad, 12040);
    FUNCTION(cuLaunchKernel, 4000);
    for (bool load : {false, true}) {
        CUmodule module = nullptr;
        unsigned count = 0;
        DRIVER(p_cuModuleLoadData(&module, library_text));
        DRIVER(p_cuModuleGetFunctionCount(&count, module));
        REQUIRE(count == 2);
        CUfunction all[2] = {};
        DRIVER(p_cuModuleEnumerateFunctions(all, 2, module));
        for (CUfunction f : all) {
            CUfunctionLoadingState state{};
            int limit = 0;
            DRIVER(p_cuFuncIsLoaded(&state, f));
            REQUIRE(state == CU_FUNCTION_LOADING_STATE_UNLOADED);
            REQUIRE(p_cuFuncGetAttribute(&limit, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, f) ==
                    CUDA_ERROR_FUNCTION_NOT_LOADED);
            if (load) DRIVER(p_cuFuncLoad(f));
            int value = 9;
            void* parameters[] = {&out, &value};  // the other of the two takes one, and does nothing
            DRIVER(p_cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr));
            CHECK(cudaDeviceSynchronize());
            DRIVER(p_cuFuncIsLoaded(&state, f));
            REQUIRE(state == CU_FUNCTION_LOADING_STATE_LOADED);
            DRIVER(p_cuFuncGetAttribute(&limit, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, f));
        }
        REQUIRE(arrived(9, 1));
        DRIVER(p_cuModuleUnload(module));
    }
}

// Functions whose documentation does not speak of kernels.
static void questions() {
    FUNCTION(cuFuncGetAttribute, 2020);
    FUNCTION(cuFuncSetAttribute, 9000);
    FUNCTION(cuFuncSetCacheConfig, 3000);
    FUNCTION(cuFuncGetParamInfo, 12040);
    FUNCTION(cuFuncGetName, 12030);
    FUNCTION(cuFuncGetModule, 11000);
    FUNCTION(cuFuncIsLoaded, 12040);
    FUNCTION(cuFuncLoad, 12040);
    FUNCTION(cuKernelGetFunction, 12000);
    FUNCTION(cuLaunchKernel, 4000);
    const CUkernel kernel = kernel_of(reinterpret_cast<const void*>(far_away));
    const CUfunction f = cast(kernel);
    CUfunction function = nullptr;
    DRIVER(p_cuKernelGetFunction(&function, kernel));
    for (int a = 0; a < CU_FUNC_ATTRIBUTE_MAX; ++a) {
        int one = -1, other = -1;
        const auto id = static_cast<CUfunction_attribute>(a);
        REQUIRE(p_cuFuncGetAttribute(&one, id, f) == p_cuFuncGetAttribute(&other, id, function) && one == other);
    }
    std::size_t offset = 0, size = 0;
    DRIVER(p_cuFuncGetParamInfo(f, 2, &offset, &size));
    REQUIRE(offset == 12 && size == 4);
    REQUIRE(p_cuFuncGetParamInfo(f, 3, &offset, &size) == CUDA_ERROR_INVALID_VALUE);
    const char *one = nullptr, *other = nullptr;
    DRIVER(p_cuFuncGetName(&one, f));
    DRIVER(p_cuFuncGetName(&other, function));
    REQUIRE(!strcmp(one, other) && strstr(one, "far_away"));
    CUmodule of_kernel = nullptr, of_function = nullptr;
    DRIVER(p_cuFuncGetModule(&of_kernel, f));
    DRIVER(p_cuFuncGetModule(&of_function, function));
    REQUIRE(of_kernel && of_kernel == of_function);
    DRIVER(p_cuFuncLoad(f));
    CUfunctionLoadingState state{};
    DRIVER(p_cuFuncIsLoaded(&state, f));
    REQUIRE(state == CU_FUNCTION_LOADING_STATE_LOADED);
    DRIVER(p_cuFuncSetCacheConfig(f, CU_FUNC_CACHE_PREFER_SHARED));
    // A limit that is set for one is that of the other.
    int at = 0, value = 5;
    void* parameters[] = {&out, &at, &value};
    for (int limit : {50000, 1000, 60000}) {
        DRIVER(
            p_cuFuncSetAttribute(limit == 1000 ? function : f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, limit));
        for (CUfunction each : {f, function}) {
            int its = 0;
            DRIVER(p_cuFuncGetAttribute(&its, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, each));
            REQUIRE(its == limit);
            DRIVER(p_cuLaunchKernel(each, 1, 1, 1, 1, 1, 1, limit, nullptr, parameters, nullptr));
            REQUIRE(p_cuLaunchKernel(each, 1, 1, 1, 1, 1, 1, limit + 4, nullptr, parameters, nullptr) != CUDA_SUCCESS);
        }
    }
    // What is neither is neither.
    CUstream stream = nullptr;
    CHECK(cudaStreamCreate(&stream));
    REQUIRE(p_cuFuncLoad(reinterpret_cast<CUfunction>(stream)) == CUDA_ERROR_INVALID_HANDLE);
    REQUIRE(p_cuFuncLoad(reinterpret_cast<CUfunction>(std::uintptr_t{0x80000000} |
                                                      reinterpret_cast<std::uintptr_t>(stream) | 0x3ff000)) ==
            CUDA_ERROR_INVALID_HANDLE);
    CHECK(cudaStreamDestroy(stream));
}

static void graphs() {
    FUNCTION(cuGraphAddKernelNode, 12000);
    FUNCTION(cuGraphKernelNodeGetParams, 12000);
    FUNCTION(cuGraphKernelNodeSetParams, 12000);
    FUNCTION(cuGraphExecKernelNodeSetParams, 12000);
    const CUkernel kernel = kernel_of(reinterpret_cast<const void*>(put));
    int value = 1;
    void* parameters[] = {&out, &value};
    CUDA_KERNEL_NODE_PARAMS p{};
    p.gridDimX = blocks, p.gridDimY = p.gridDimZ = 1, p.blockDimX = threads, p.blockDimY = p.blockDimZ = 1;
    p.kernelParams = parameters;
    for (int as_function = 0; as_function < (barcuda ? 2 : 1); ++as_function) {
        p.func = as_function ? cast(kernel) : nullptr;
        p.kern = as_function ? nullptr : kernel;
        cudaGraph_t graph = nullptr;
        cudaGraphExec_t exec = nullptr;
        CUgraphNode node = nullptr;
        CHECK(cudaGraphCreate(&graph, 0));
        DRIVER(p_cuGraphAddKernelNode(&node, graph, nullptr, 0, &p));
        ++value;
        DRIVER(p_cuGraphKernelNodeSetParams(node, &p));
        CHECK(cudaGraphInstantiate(&exec, graph, 0));
        CHECK(cudaGraphLaunch(exec, nullptr));
        REQUIRE(arrived(value));
        ++value;
        DRIVER(p_cuGraphExecKernelNodeSetParams(exec, node, &p));
        CHECK(cudaGraphLaunch(exec, nullptr));
        REQUIRE(arrived(value));
        CUDA_KERNEL_NODE_PARAMS got{};
        DRIVER(p_cuGraphKernelNodeGetParams(node, &got));
        REQUIRE((got.func || got.kern) && got.gridDimX == blocks && **(int**)(got.kernelParams + 1) == value - 1);
        CHECK(cudaGraphExecDestroy(exec));
        CHECK(cudaGraphDestroy(graph));
    }
    // A launch that a stream notes down.
    FUNCTION(cuLaunchKernel, 4000);
    cudaStream_t stream = nullptr;
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec = nullptr;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    ++value;
    DRIVER(p_cuLaunchKernel(cast(kernel), blocks, 1, 1, threads, 1, 1, 0, stream, parameters, nullptr));
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaGraphLaunch(exec, stream));
    REQUIRE(arrived(value));
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaStreamDestroy(stream));
}

// A kernel runs in the context of the stream that it is launched in: here the current one, and another.
static void two_contexts(CUkernel kernel) {
    FUNCTION(cuCtxCreate, 11000);
    FUNCTION(cuCtxDestroy, 4000);
    FUNCTION(cuCtxGetCurrent, 4000);
    FUNCTION(cuCtxSetCurrent, 4000);
    FUNCTION(cuCtxPopCurrent, 4000);
    FUNCTION(cuCtxSynchronize, 2000);
    FUNCTION(cuStreamCreate, 2000);
    FUNCTION(cuStreamDestroy, 4000);
    FUNCTION(cuMemAlloc, 3020);
    FUNCTION(cuMemFree, 3020);
    FUNCTION(cuMemcpyDtoH, 3020);
    FUNCTION(cuLaunchKernel, 4000);
    using Create = CUresult (*)(CUcontext*, unsigned, CUdevice);
    CUcontext first = nullptr, second = nullptr;
    DRIVER(p_cuCtxGetCurrent(&first));
    DRIVER(reinterpret_cast<Create>(p_cuCtxCreate)(&second, 0, 0));
    CUstream stream[2];
    CUdeviceptr memory[2];
    const CUcontext context[] = {first, second};
    for (int i = 0; i < 2; ++i) {
        DRIVER(p_cuCtxSetCurrent(context[i]));
        DRIVER(p_cuStreamCreate(&stream[i], CU_STREAM_NON_BLOCKING));
        DRIVER(p_cuMemAlloc(&memory[i], 4));
    }
    int value = 100;
    for (int current : {0, 1})
        for (int where : {0, 1}) {
            ++value;
            void* parameters[] = {&memory[where], &value};
            DRIVER(p_cuCtxSetCurrent(context[current]));
            DRIVER(p_cuLaunchKernel(cast(kernel), 1, 1, 1, 1, 1, 1, 0, stream[where], parameters, nullptr));
            DRIVER(p_cuCtxSetCurrent(context[where]));
            DRIVER(p_cuCtxSynchronize());
            int got = 0;
            DRIVER(p_cuMemcpyDtoH(&got, memory[where], 4));
            REQUIRE(got == value);
        }
    for (int i = 0; i < 2; ++i) {
        DRIVER(p_cuCtxSetCurrent(context[i]));
        DRIVER(p_cuStreamDestroy(stream[i]));
        DRIVER(p_cuMemFree(memory[i]));
    }
    DRIVER(p_cuCtxDestroy(second));
    DRIVER(p_cuCtxSetCurrent(first));
}

int main() {
    barcuda = dlsym(RTLD_DEFAULT, "barcuda_guest_library");
    FUNCTION(cuLaunchKernel, 4000);
    FUNCTION(cuLibraryEnumerateKernels, 12040);
    CHECK(cudaMalloc(&out, blocks * threads * sizeof(int)));
    launches();
    occupancy();
    much_shared_memory();
    two_limits();
    listed();
    if (barcuda) questions();
    graphs();

    cudaLibrary_t library = nullptr;
    cudaKernel_t kernel = nullptr, all[2] = {};
    CHECK(cudaLibraryLoadData(&library, library_text, nullptr, nullptr, 0, nullptr, nullptr, 0));
    // Kernels that came in a list.
    DRIVER(p_cuLibraryEnumerateKernels(all, 2, library));
    CHECK(cudaLibraryGetKernel(&kernel, library, "keep"));
    REQUIRE(all[0] != all[1] && (kernel == all[0] || kernel == all[1]));
    int value = 0;
    void* parameters[] = {&out, &value};
    two_contexts(kernel);
    for (int life = 0; life < 3; ++life) {  // a library outlives the device's reset
        ++value;
        DRIVER(p_cuLaunchKernel(cast(kernel), 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr));
        REQUIRE(arrived(value, 1));
        CHECK(cudaDeviceReset());
        CHECK(cudaMalloc(&out, blocks * threads * sizeof(int)));
        CHECK(cudaMemset(out, 0, blocks * threads * sizeof(int)));
    }
    CHECK(cudaLibraryUnload(library));
    if (barcuda)
        REQUIRE(p_cuLaunchKernel(cast(kernel), 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr) ==
                CUDA_ERROR_INVALID_HANDLE);
    return verdict(0);
}
