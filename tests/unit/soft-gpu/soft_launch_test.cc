// SPDX-License-Identifier: Apache-2.0
// Modules and launches of the software GPU: what can be loaded, what a launch may look like, and what a fault does.
#include <atomic>
#include <cstring>
#include <string>

#include "tests/unit/support/kernels_ptx.h"
#include "tests/unit/support/soft_fixture.h"

namespace {

struct SoftLaunch : SoftGpu {
    void SetUp() override {
        SoftGpu::SetUp();
        OK(cuModuleLoadData(&module, barcuda::kernels_ptx));
        OK(cuModuleGetFunction(&store, module, "store"));
        OK(cuModuleGetFunction(&bump, module, "bump"));
    }
    CUresult run(CUdeviceptr to, unsigned value, unsigned threads, CUstream stream = nullptr) {
        void* parameters[] = {&to, &value};
        return cuLaunchKernel(store, 1, 1, 1, threads, 1, 1, 0, stream, parameters, nullptr);
    }
    CUmodule module = nullptr;
    CUfunction store = nullptr, bump = nullptr;
};

TEST_F(SoftLaunch, WritesWhatItsParametersSay) {
    const CUdeviceptr at = device_memory(128);
    OK(run(at, 42, 32));
    EXPECT_EQ(std::vector<int>(32, 42), read_back<int>(at, 32));
    OK(cuMemFree(at));
}

TEST_F(SoftLaunch, TakesItsParametersAsABuffer) {
    const CUdeviceptr at = device_memory(4);
    struct {
        CUdeviceptr to;
        unsigned value;
    } packed{at, 9};
    std::size_t size = sizeof packed;
    void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
    OK(cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, extra));
    EXPECT_EQ(9, read_back<int>(at, 1)[0]);
    OK(cuMemFree(at));
}

TEST_F(SoftLaunch, MayTouchRegisteredMemoryAtItsOwnAddress) {
    std::vector<int> mine(32, 0);
    OK(cuMemHostRegister(mine.data(), 128, 0));
    OK(run(reinterpret_cast<CUdeviceptr>(mine.data()), 3, 32));
    OK(cuCtxSynchronize());
    EXPECT_EQ(std::vector<int>(32, 3), mine);
    OK(cuMemHostUnregister(mine.data()));
}

TEST_F(SoftLaunch, ItsParametersCanBeAsked) {
    std::size_t offset = 99, size = 99;
    OK(cuFuncGetParamInfo(store, 0, &offset, &size));
    EXPECT_EQ(0u, offset);
    EXPECT_EQ(8u, size);
    OK(cuFuncGetParamInfo(store, 1, &offset, &size));
    EXPECT_EQ(8u, offset);
    EXPECT_EQ(4u, size);
    SAYS(CUDA_ERROR_INVALID_VALUE, cuFuncGetParamInfo(store, 2, &offset, &size));
    const char* name = nullptr;
    OK(cuFuncGetName(&name, store));
    EXPECT_STREQ("store", name);
}

// CUB picks the sizes of its blocks by the first, as its kernels did when they were compiled.
TEST_F(SoftLaunch, AFunctionsPtxVersionIsItsTarget) {
    int version = 0, major = 0, minor = 0;
    OK(cuFuncGetAttribute(&version, CU_FUNC_ATTRIBUTE_PTX_VERSION, store));
    EXPECT_EQ(75, version);
    OK(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device));
    OK(cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device));
    OK(cuFuncGetAttribute(&version, CU_FUNC_ATTRIBUTE_BINARY_VERSION, store));
    EXPECT_EQ(10 * major + minor, version) << "what runs was made for this device";
}

TEST_F(SoftLaunch, AModulesVariableIsDeviceMemory) {
    CUdeviceptr at = 0;
    std::size_t size = 0;
    OK(cuModuleGetGlobal(&at, &size, module, "counter"));
    EXPECT_EQ(4u, size);
    EXPECT_EQ(5, read_back<int>(at, 1)[0]);
    OK(cuLaunchKernel(bump, 10, 1, 1, 10, 1, 1, 0, nullptr, nullptr, nullptr));
    EXPECT_EQ(105, read_back<int>(at, 1)[0]);
    SAYS(CUDA_ERROR_NOT_FOUND, cuModuleGetGlobal(&at, &size, module, "nothing"));
    SAYS(CUDA_ERROR_NOT_FOUND, cuModuleGetFunction(&bump, module, "nothing"));
}

TEST_F(SoftLaunch, AShapeThatCannotRunIsRefused) {
    const CUdeviceptr at = device_memory(4);
    CUdeviceptr to = at;
    unsigned value = 0;
    void* parameters[] = {&to, &value};
    const auto launch = [&](unsigned grid, unsigned block, unsigned shared) {
        return cuLaunchKernel(store, grid, 1, 1, block, 1, 1, shared, nullptr, parameters, nullptr);
    };
    SAYS(CUDA_ERROR_INVALID_VALUE, launch(0, 1, 0));
    SAYS(CUDA_ERROR_INVALID_VALUE, launch(1, 1025, 0));
    SAYS(CUDA_ERROR_INVALID_VALUE, launch(1, 1, 49 * 1024));
    OK(cuFuncSetAttribute(store, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 64 * 1024));
    SAYS(CUDA_SUCCESS, launch(1, 1, 49 * 1024));
    SAYS(CUDA_ERROR_INVALID_VALUE, cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr));
    SAYS(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE,
         cuLaunchCooperativeKernel(store, 1 << 20, 1, 1, 1024, 1, 1, 0, nullptr, parameters));
    OK(cuMemFree(at));
}

TEST_F(SoftLaunch, AFaultIsTheContextsErrorFromThenOn) {
    const CUdeviceptr at = device_memory(4);
    CUstream stream;
    CUevent event;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&event, CU_EVENT_DEFAULT));
    void* go;
    OK(cuMemAllocHost(&go, 4));
    const auto gate = reinterpret_cast<CUdeviceptr>(go);
    OK(cuMemsetD32(gate, 0, 1));
    testing::internal::CaptureStderr();
    OK(cuStreamWaitValue32(stream, gate, 1, CU_STREAM_WAIT_VALUE_EQ));  // not before the event is recorded
    OK(run(at, 1, 2, stream));                                          // thread 1 writes behind the end
    OK(cuEventRecord(event, stream));
    std::atomic_ref(*static_cast<int*>(go)) = 1;
    SAYS(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamSynchronize(stream));
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_NE(said.npos, said.find("CUDA_ERROR_ILLEGAL_ADDRESS: kernel 'store', block (0,0,0), thread (1,0,0)"))
        << said;
    SAYS(CUDA_ERROR_ILLEGAL_ADDRESS, cuEventQuery(event));
    SAYS(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
    CUdeviceptr more;
    SAYS(CUDA_ERROR_ILLEGAL_ADDRESS, cuMemAlloc(&more, 4));
    SAYS(CUDA_ERROR_ILLEGAL_ADDRESS, run(at, 1, 1));
    OK(cuDevicePrimaryCtxReset(device));
    SAYS(CUDA_SUCCESS, cuMemAlloc(&more, 4));  // fresh
}

TEST_F(SoftLaunch, AGraphKeepsAKernelsParameters) {
    const CUdeviceptr at = device_memory(8);
    CUgraph graph;
    CUgraphNode node;
    CUgraphExec exec;
    CUdeviceptr to = at;
    unsigned value = 11;
    void* parameters[] = {&to, &value};
    CUDA_KERNEL_NODE_PARAMS asked{};
    asked.func = store;
    asked.gridDimX = asked.gridDimY = asked.gridDimZ = 1;
    asked.blockDimX = 2;
    asked.blockDimY = asked.blockDimZ = 1;
    asked.kernelParams = parameters;
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphAddKernelNode(&node, graph, nullptr, 0, &asked));
    OK(cuGraphInstantiate(&exec, graph, 0));
    value = 12;  // the node has 11
    OK(cuGraphLaunch(exec, nullptr));
    EXPECT_EQ(11, read_back<int>(at, 2)[1]);
    OK(cuGraphExecKernelNodeSetParams(exec, node, &asked));
    OK(cuGraphLaunch(exec, nullptr));
    EXPECT_EQ(12, read_back<int>(at, 2)[1]);
    OK(cuGraphKernelNodeGetParams(node, &asked));
    EXPECT_EQ(11u, *static_cast<unsigned*>(asked.kernelParams[1]));
    EXPECT_EQ(store, asked.func);
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
    OK(cuMemFree(at));
}

// ---- loading --------------------------------------------------------------------------------------------------------

TEST_F(SoftLaunch, ALibraryNeedsNoContextAndItsKernelsAreFunctions) {
    cuCtxSetCurrent(nullptr);
    CUlibrary library;
    CUkernel kernel;
    OK(cuLibraryLoadData(&library, barcuda::kernels_ptx, nullptr, nullptr, 0, nullptr, nullptr, 0));
    OK(cuLibraryGetKernel(&kernel, library, "store"));
    std::size_t offset, size;
    OK(cuKernelGetParamInfo(kernel, 1, &offset, &size));
    unsigned count = 0;
    OK(cuLibraryGetKernelCount(&count, library));
    EXPECT_EQ(2u, count);
    OK(cuCtxSetCurrent(context));
    const CUdeviceptr at = device_memory(4);
    CUdeviceptr to = at;
    unsigned value = 5;
    void* parameters[] = {&to, &value};
    OK(cuLaunchKernel(reinterpret_cast<CUfunction>(kernel), 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr));
    EXPECT_EQ(5, read_back<int>(at, 1)[0]);
    OK(cuLibraryUnload(library));
    SAYS(CUDA_ERROR_INVALID_HANDLE, cuKernelGetParamInfo(kernel, 1, &offset, &size));
    OK(cuMemFree(at));
}

TEST_F(SoftLaunch, WhatCannotBeLoadedIsNamedInTheErrorLog) {
    char text[300] = "untouched";
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void* values[] = {text, reinterpret_cast<void*>(sizeof text)};
    CUmodule bad;
    constexpr char broken[] = ".version 8.0\n.target sm_75\n.address_size 64\n.entry k() { ret }";
    SAYS(CUDA_ERROR_INVALID_PTX, cuModuleLoadDataEx(&bad, broken, 2, options, values));
    EXPECT_NE(nullptr, std::strstr(text, "line 4")) << text;
    EXPECT_EQ(std::strlen(text), reinterpret_cast<std::size_t>(values[1]));
    SAYS(CUDA_ERROR_FILE_NOT_FOUND, cuModuleLoad(&bad, "/nonexistent.ptx"));
}

TEST_F(SoftLaunch, ALogThatIsTooLongForItsBufferIsCut) {
    char text[] = {'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'};
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void* values[] = {text, reinterpret_cast<void*>(5)};
    CUmodule bad;
    SAYS(CUDA_ERROR_INVALID_PTX, cuModuleLoadDataEx(&bad, ".version nonsense", 2, options, values));
    EXPECT_STREQ("ptx ", text);
    EXPECT_EQ('f', text[5]);  // beyond the buffer
    EXPECT_EQ(5u, reinterpret_cast<std::size_t>(values[1])) << "all of the room";
    values[1] = nullptr;  // no room at all
    text[0] = 'z';
    SAYS(CUDA_ERROR_INVALID_PTX, cuModuleLoadDataEx(&bad, ".version nonsense", 2, options, values));
    EXPECT_EQ('z', text[0]);
    EXPECT_EQ(nullptr, values[1]);
}

TEST_F(SoftLaunch, AskedToBeVerboseTheInfoLogTellsWhatEachKernelNeeds) {
    char text[500] = "untouched";
    CUjit_option options[] = {CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, CU_JIT_LOG_VERBOSE};
    void* values[] = {text, reinterpret_cast<void*>(sizeof text), nullptr};
    CUmodule quiet, verbose;
    OK(cuModuleLoadDataEx(&quiet, barcuda::kernels_ptx, 3, options, values));
    EXPECT_STREQ("", text);
    values[1] = reinterpret_cast<void*>(sizeof text);
    values[2] = reinterpret_cast<void*>(1);
    OK(cuModuleLoadDataEx(&verbose, barcuda::kernels_ptx, 3, options, values));
    EXPECT_NE(nullptr, std::strstr(text, "kernel 'store': ")) << text;
    EXPECT_EQ(std::strlen(text), reinterpret_cast<std::size_t>(values[1]));
    OK(cuModuleUnload(quiet));
    OK(cuModuleUnload(verbose));
}

TEST_F(SoftLaunch, ALinksLogIsWrittenByEachOfItsCalls) {
    char text[300] = "untouched";
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void* values[] = {text, reinterpret_cast<void*>(sizeof text)};
    CUlinkState link;
    void* image = nullptr;
    OK(cuLinkCreate(2, options, values, &link));
    EXPECT_STREQ("", text);
    constexpr char broken[] = ".version 8.0\n.target sm_75\n.address_size 64\n.entry k() { ret }";
    OK(cuLinkAddData(link, CU_JIT_INPUT_PTX, const_cast<char*>(broken), sizeof broken, "x", 0, nullptr, nullptr));
    SAYS(CUDA_ERROR_INVALID_PTX, cuLinkComplete(link, &image, nullptr));
    EXPECT_NE(nullptr, std::strstr(text, "line 4")) << text;
    OK(cuLinkDestroy(link));
}

TEST_F(SoftLaunch, AnUnloadedModulesFunctionsAreInvalid) {
    OK(cuModuleUnload(module));
    SAYS(CUDA_ERROR_INVALID_HANDLE, run(0, 0, 1));
    SAYS(CUDA_ERROR_INVALID_HANDLE, cuModuleUnload(module));
}

TEST_F(SoftLaunch, LinkedTextsAreOneModule) {
    constexpr char other[] =
        ".version 8.0\n.target sm_75\n.address_size 64\n.visible .entry nothing()\n{\n    ret;\n}\n";
    CUlinkState link;
    void* image = nullptr;
    std::size_t size = 0;
    CUmodule linked;
    CUfunction function;
    OK(cuLinkCreate(0, nullptr, nullptr, &link));
    OK(cuLinkAddData(link, CU_JIT_INPUT_PTX, const_cast<char*>(barcuda::kernels_ptx), sizeof barcuda::kernels_ptx,
                     "one", 0, nullptr, nullptr));
    OK(cuLinkAddData(link, CU_JIT_INPUT_PTX, const_cast<char*>(other), sizeof other, "two", 0, nullptr, nullptr));
    OK(cuLinkComplete(link, &image, &size));
    OK(cuModuleLoadData(&linked, image));
    OK(cuLinkDestroy(link));
    OK(cuModuleGetFunction(&function, linked, "nothing"));
    OK(cuModuleGetFunction(&function, linked, "store"));
    OK(cuModuleUnload(linked));
}

TEST_F(SoftLaunch, OccupancyFollowsThreadsAndSharedMemory) {
    int few = 0, many = 0, grid = 0, block = 0;
    OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&few, store, 1024, 0));
    OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&many, store, 128, 0));
    EXPECT_GE(few, 1);
    EXPECT_GT(many, few);
    OK(cuOccupancyMaxPotentialBlockSize(&grid, &block, store, nullptr, 0, 0));
    EXPECT_GE(block, 32);
    EXPECT_GE(grid, 1);
}

}  // namespace
