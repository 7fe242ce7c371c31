// SPDX-License-Identifier: Apache-2.0
// Graphs as the runtime describes them: kernels by their host addresses, copies in elements; and the twins that use the
// thread's own stream.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

extern "C" {
void** __cudaRegisterFatBinary(void*);
void __cudaRegisterFatBinaryEnd(void**);
void __cudaUnregisterFatBinary(void**);
void __cudaRegisterFunction(void**, const char*, char*, const char*, int, uint3*, uint3*, dim3*, dim3*, int*);
cudaError_t cudaMemcpyAsync_ptsz(void*, const void*, size_t, cudaMemcpyKind, cudaStream_t);
cudaError_t cudaMemcpy_ptds(void*, const void*, size_t, cudaMemcpyKind);
cudaError_t cudaStreamIsCapturing_ptsz(cudaStream_t, cudaStreamCaptureStatus*);
}

namespace {

const char* const ptx_code = R"(
.version 7.0
.target sm_75
.address_size 64
.visible .entry add(.param .u64 data, .param .u32 step)
{
    .reg .u64 %rd<2>;
    .reg .u32 %r<3>;
    ld.param.u64 %rd1, [data];
    ld.param.u32 %r1, [step];
    ld.global.u32 %r2, [%rd1];
    add.u32 %r2, %r2, %r1;
    st.global.u32 [%rd1], %r2;
    ret;
}
)";

struct Wrapper {
    int magic, version;
    const void* data;
    const void* rest;
} wrapper = {0x466243b1, 1, ptx_code, nullptr};
char stub;

struct RuntimeGraph : testing::Test {
    void SetUp() override {
        binary = __cudaRegisterFatBinary(&wrapper);
        __cudaRegisterFunction(binary, &stub, nullptr, "add", -1, nullptr, nullptr, nullptr, nullptr, nullptr);
        __cudaRegisterFatBinaryEnd(binary);
        ASSERT_EQ(cudaSuccess, cudaMalloc(&data, 4));
        ASSERT_EQ(cudaSuccess, cudaMemset(data, 0, 4));
        ASSERT_EQ(cudaSuccess, cudaGraphCreate(&graph, 0));
    }
    void TearDown() override {
        cudaGraphDestroy(graph);
        cudaFree(data);
        __cudaUnregisterFatBinary(binary);
        cudaGetLastError();
    }
    cudaGraphNode_t add_node(unsigned step, std::vector<cudaGraphNode_t> after = {}) {
        void* arguments[] = {&data, &step};
        cudaKernelNodeParams kernel = {&stub, 1, 1, 0, arguments, nullptr};
        cudaGraphNode_t node = nullptr;
        EXPECT_EQ(cudaSuccess, cudaGraphAddKernelNode(&node, graph, after.data(), after.size(), &kernel));
        return node;
    }
    void launch(int times = 1) {
        cudaGraphExec_t exec = nullptr;
        ASSERT_EQ(cudaSuccess, cudaGraphInstantiate(&exec, graph, 0));
        while (times--) EXPECT_EQ(cudaSuccess, cudaGraphLaunch(exec, nullptr));
        EXPECT_EQ(cudaSuccess, cudaDeviceSynchronize());
        EXPECT_EQ(cudaSuccess, cudaGraphExecDestroy(exec));
    }
    unsigned value() {
        unsigned number = 0;
        EXPECT_EQ(cudaSuccess, cudaMemcpy(&number, data, 4, cudaMemcpyDeviceToHost));
        return number;
    }
    void** binary = nullptr;
    void* data = nullptr;
    cudaGraph_t graph = nullptr;
};

TEST_F(RuntimeGraph, RunsItsKernelsEachTimeItIsLaunched) {
    cudaGraphNode_t first = add_node(1);
    add_node(10, {first});
    launch(3);
    EXPECT_EQ(33u, value());
}

TEST_F(RuntimeGraph, AKernelNodeAnswersWithTheAddressThatItWasNamedBy) {
    cudaGraphNode_t node = add_node(7);
    cudaKernelNodeParams kernel = {};
    ASSERT_EQ(cudaSuccess, cudaGraphKernelNodeGetParams(node, &kernel));
    EXPECT_EQ(&stub, kernel.func);
    EXPECT_EQ(1u, kernel.gridDim.x);
    EXPECT_EQ(7u, *static_cast<unsigned*>(kernel.kernelParams[1]));
}

TEST_F(RuntimeGraph, ANodeOfAnyKindCanBeAddedByOneStructure) {
    unsigned step = 5;
    void* arguments[] = {&data, &step};
    cudaGraphNodeParams parameters = {};
    parameters.type = cudaGraphNodeTypeKernel;
    parameters.kernel = {};
    parameters.kernel.func = &stub;
    parameters.kernel.gridDim = parameters.kernel.blockDim = dim3(1);
    parameters.kernel.kernelParams = arguments;
    cudaGraphNode_t kernel = nullptr, copy = nullptr;
    ASSERT_EQ(cudaSuccess, cudaGraphAddNode(&kernel, graph, nullptr, nullptr, 0, &parameters));

    unsigned back = 0;
    parameters = {};
    parameters.type = cudaGraphNodeTypeMemcpy;
    parameters.memcpy.copyParams.srcPtr = {data, 4, 4, 1};
    parameters.memcpy.copyParams.dstPtr = {&back, 4, 4, 1};
    parameters.memcpy.copyParams.extent = {4, 1, 1};
    parameters.memcpy.copyParams.kind = cudaMemcpyDeviceToHost;
    ASSERT_EQ(cudaSuccess, cudaGraphAddNode(&copy, graph, &kernel, nullptr, 1, &parameters));
    launch();
    EXPECT_EQ(5u, back);
}

TEST_F(RuntimeGraph, ACopyNodeAnswersWithWhatItWasGiven) {
    unsigned number = 42;
    cudaGraphNode_t node = nullptr;
    ASSERT_EQ(cudaSuccess,
              cudaGraphAddMemcpyNode1D(&node, graph, nullptr, 0, data, &number, 4, cudaMemcpyHostToDevice));
    cudaMemcpy3DParms copy = {};
    ASSERT_EQ(cudaSuccess, cudaGraphMemcpyNodeGetParams(node, &copy));
    EXPECT_EQ(&number, copy.srcPtr.ptr);
    EXPECT_EQ(data, copy.dstPtr.ptr);
    EXPECT_EQ(4u, copy.extent.width);
    EXPECT_EQ(cudaMemcpyHostToDevice, copy.kind);
    launch();
    EXPECT_EQ(42u, value());
}

TEST_F(RuntimeGraph, AKernelThatNobodyRegisteredIsRefused) {
    char nobody = 0;
    cudaKernelNodeParams kernel = {&nobody, 1, 1, 0, nullptr, nullptr};
    cudaGraphNode_t node = nullptr;
    EXPECT_EQ(cudaErrorInvalidDeviceFunction, cudaGraphAddKernelNode(&node, graph, nullptr, 0, &kernel));
}

TEST_F(RuntimeGraph, CapturesLaunchesOfAStream) {
    cudaStream_t stream = nullptr;
    ASSERT_EQ(cudaSuccess, cudaStreamCreate(&stream));
    unsigned step = 3;
    void* arguments[] = {&data, &step};
    ASSERT_EQ(cudaSuccess, cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    EXPECT_EQ(cudaSuccess, cudaLaunchKernel(&stub, 1, 1, arguments, 0, stream));
    cudaStreamCaptureStatus status;
    EXPECT_EQ(cudaSuccess, cudaStreamIsCapturing(stream, &status));
    EXPECT_EQ(cudaStreamCaptureStatusActive, status);
    cudaGraph_t captured = nullptr;
    ASSERT_EQ(cudaSuccess, cudaStreamEndCapture(stream, &captured));
    EXPECT_EQ(0u, value()) << "the launch ran while it was captured";
    std::swap(graph, captured);
    launch(2);
    EXPECT_EQ(6u, value());
    cudaGraphDestroy(captured);
    EXPECT_EQ(cudaSuccess, cudaStreamDestroy(stream));
}

// ---- the thread's own default stream -------------------------------------------------------------------------------
TEST_F(RuntimeGraph, TheTwinOfANullStreamIsTheThreadsOwn) {
    unsigned number = 9, back = 0;
    EXPECT_EQ(cudaSuccess, cudaMemcpyAsync_ptsz(data, &number, 4, cudaMemcpyHostToDevice, nullptr));
    EXPECT_EQ(cudaSuccess, cudaMemcpy_ptds(&back, data, 4, cudaMemcpyDeviceToHost));
    EXPECT_EQ(9u, back);

    // It can be captured, which the legacy stream cannot.
    ASSERT_EQ(cudaSuccess, cudaStreamBeginCapture(cudaStreamPerThread, cudaStreamCaptureModeRelaxed));
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    EXPECT_EQ(cudaSuccess, cudaStreamIsCapturing_ptsz(nullptr, &status));
    EXPECT_EQ(cudaStreamCaptureStatusActive, status);
    cudaGraph_t captured = nullptr;
    EXPECT_EQ(cudaSuccess, cudaStreamEndCapture(cudaStreamPerThread, &captured));
    cudaGraphDestroy(captured);
}

// ---- first use -----------------------------------------------------------------------------------------------------
TEST_F(RuntimeGraph, ManyThreadsMayUseAKernelForTheFirstTimeAtOnce) {
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; i++)
        threads.emplace_back([&] {
            unsigned step = 1;
            void* arguments[] = {&data, &step};
            EXPECT_EQ(cudaSuccess, cudaLaunchKernel(&stub, 1, 1, arguments, 0, nullptr));
        });
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(cudaSuccess, cudaDeviceSynchronize());
    EXPECT_EQ(8u, value());
}

}  // namespace
