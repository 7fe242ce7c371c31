// SPDX-License-Identifier: Apache-2.0
// launch_attributes.cu: what a launch may carry beside its shape: hints, events that happen before it ends, parameters
// as large as they may be. Libraries of mathematics launch so.
#include <dlfcn.h>

#include <cstring>

#include "driver.h"

__global__ void put(int* out, int value) {
#if __CUDA_ARCH__ >= 900
    cudaGridDependencySynchronize();
#endif
    *out = value;
#if __CUDA_ARCH__ >= 900
    cudaTriggerProgrammaticLaunchCompletion();
#endif
}
__global__ void add(int* out, const int* in) {
#if __CUDA_ARCH__ >= 900
    cudaGridDependencySynchronize();
#endif
    *out += *in;
}

struct alignas(64) Map {  // as a CUtensorMap is
    char bytes[128];
};
__global__ void read_map(char* out, int before, const __grid_constant__ Map map, int behind) {
    out[threadIdx.x] = static_cast<char>(map.bytes[threadIdx.x] + before + behind);
}
template <int count> struct Many { int values[count]; };
template <int count> __global__ void sum_up(long long* out, const __grid_constant__ Many<count> many) {
    long long sum = 0;
    for (int i = 0; i < count; ++i) sum += many.values[i];
    *out = sum;
}

template <int count> __global__ void sum_first(long long* out, int used, const __grid_constant__ Many<count> many) {
    long long sum = 0;
    for (int i = 0; i < used; ++i) sum += many.values[i];
    *out = sum;
}

static int *out, *other;
static int value = 0;

static int at(const int* memory) {
    int got = 0;
    CHECK(cudaMemcpy(&got, memory, sizeof got, cudaMemcpyDeviceToHost));
    return got;
}
static cudaLaunchConfig_t config(cudaStream_t stream, cudaLaunchAttribute* attributes, unsigned count) {
    cudaLaunchConfig_t c{};
    c.gridDim = 1, c.blockDim = 1, c.stream = stream, c.attrs = attributes, c.numAttrs = count;
    return c;
}

static void hints(int major) {
    cudaStream_t stream = nullptr;
    CHECK(cudaStreamCreate(&stream));
    const auto launch = [&](cudaLaunchAttributeID id, auto set) {
        cudaLaunchAttribute a{};
        a.id = id;
        set(a.val);
        const cudaLaunchConfig_t c = config(stream, &a, 1);
        CHECK(cudaLaunchKernelEx(&c, put, out, ++value));
        CHECK(cudaLaunchKernelEx(&c, put, out, ++value));
        CHECK(cudaStreamSynchronize(stream));
        REQUIRE(at(out) == value);
    };
    launch(cudaLaunchAttributeIgnore, [](auto&) {});
    launch(cudaLaunchAttributeAccessPolicyWindow, [](auto& v) {
        v.accessPolicyWindow.base_ptr = out, v.accessPolicyWindow.num_bytes = sizeof *out;
        v.accessPolicyWindow.hitRatio = 1, v.accessPolicyWindow.hitProp = cudaAccessPropertyPersisting;
        v.accessPolicyWindow.missProp = cudaAccessPropertyStreaming;
    });
    int least = 0, greatest = 0;
    CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    launch(cudaLaunchAttributePriority, [&](auto& v) { v.priority = greatest; });
    launch(cudaLaunchAttributeMemSyncDomain, [](auto& v) { v.memSyncDomain = cudaLaunchMemSyncDomainRemote; });
    launch(cudaLaunchAttributePreferredSharedMemoryCarveout, [](auto& v) { v.sharedMemCarveout = 50; });
    if (major >= 9)
        launch(cudaLaunchAttributeProgrammaticStreamSerialization,
               [](auto& v) { v.programmaticStreamSerializationAllowed = 1; });
    CHECK(cudaStreamDestroy(stream));
}

// The event is that of the launch: a wait for it is a wait for the kernel, at the latest.
static void events(cudaLaunchAttributeID id) {
    cudaStream_t first = nullptr, second = nullptr;
    cudaEvent_t event = nullptr, joined = nullptr;
    CHECK(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
    CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    CHECK(cudaEventCreateWithFlags(&joined, cudaEventDisableTiming));
    cudaLaunchAttribute a{};
    a.id = id;
    if (id == cudaLaunchAttributeProgrammaticEvent) a.val.programmaticEvent.event = event;
    else a.val.launchCompletionEvent.event = event;
    const cudaLaunchConfig_t c = config(first, &a, 1);
    CHECK(cudaLaunchKernelEx(&c, put, out, ++value));
    CHECK(cudaEventSynchronize(event));
    CHECK(cudaStreamSynchronize(first));
    CHECK(cudaEventQuery(event));
    REQUIRE(at(out) == value);
    // In a capture the stream that waits for the event joins it.
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec = nullptr;
    cudaStreamCaptureStatus status{};
    CHECK(cudaMemset(other, 0, sizeof *other));
    CHECK(cudaStreamBeginCapture(first, cudaStreamCaptureModeRelaxed));
    CHECK(cudaLaunchKernelEx(&c, put, out, ++value));
    CHECK(cudaStreamWaitEvent(second, event));
    CHECK(cudaStreamIsCapturing(second, &status));
    REQUIRE(status == cudaStreamCaptureStatusActive);
    put<<<1, 1, 0, second>>>(other, 1);
    CHECK(cudaEventRecord(joined, second));
    CHECK(cudaStreamWaitEvent(first, joined));
    add<<<1, 1, 0, first>>>(out, other);
    CHECK(cudaStreamEndCapture(first, &graph));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    for (int i = 0; i < 3; ++i) CHECK(cudaGraphLaunch(exec, first));
    CHECK(cudaStreamSynchronize(first));
    REQUIRE(at(out) == value + 1);
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaEventDestroy(event));
    CHECK(cudaEventDestroy(joined));
    CHECK(cudaStreamDestroy(first));
    CHECK(cudaStreamDestroy(second));
}

template <int count> static void many() {
    long long* sum = nullptr;
    CHECK(cudaMalloc(&sum, sizeof *sum));
    Many<count> m;
    for (int round = 1; round < 4; ++round) {
        long long expected = 0, got = 0;
        for (int i = 0; i < count; ++i) expected += m.values[i] = i * round - 7;
        sum_up<<<1, 1>>>(sum, m);
        CHECK(cudaGetLastError());
        CHECK(cudaMemcpy(&got, sum, sizeof got, cudaMemcpyDeviceToHost));
        REQUIRE(got == expected);
    }
    CHECK(cudaFree(sum));
}

static void parameters() {
    char* bytes = nullptr;
    CHECK(cudaMalloc(&bytes, 128));
    Map map;
    for (int i = 0; i < 128; ++i) map.bytes[i] = static_cast<char>(i);
    cudaLaunchConfig_t c = config(nullptr, nullptr, 0);
    c.blockDim = 128;
    CHECK(cudaLaunchKernelEx(&c, read_map, bytes, 1, map, 2));
    char got[128];
    CHECK(cudaMemcpy(got, bytes, sizeof got, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 128; ++i) REQUIRE(got[i] == static_cast<char>(i + 3));
    CHECK(cudaFree(bytes));
    many<100>();
    many<1022>();  // 4,096 bytes with the pointer, as much as there was before CUDA 12.1
    many<8189>();  // 32,764
}

// Of a large structure a program may give what the kernel will look at, as NCCL does: the driver takes a shorter
// buffer.
static void part_of_the_parameters() {
    constexpr int count = 1021;  // 4,096 bytes with the other two
    struct {
        long long* out;
        int used, values[count];
    } p;
    const auto launch_ex = entry<decltype(&cuLaunchKernelEx)>("cuLaunchKernelEx");
    const auto launch = entry<decltype(&cuLaunchKernel)>("cuLaunchKernel");
    cudaFunction_t function = nullptr;
    cudaStream_t stream = nullptr;
    CHECK(cudaGetFuncBySymbol(&function, reinterpret_cast<void*>(sum_first<count>)));
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaMalloc(&p.out, sizeof *p.out));
    for (int i = 0; i < count; ++i) p.values[i] = i + 1;
    const auto check = [&] {
        long long got = 0;
        CHECK(cudaMemcpyAsync(&got, p.out, sizeof got, cudaMemcpyDeviceToHost, stream));
        CHECK(cudaStreamSynchronize(stream));
        REQUIRE(got == p.used * (p.used + 1) / 2);
    };
    size_t bytes = 0;
    void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &p, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
    CUlaunchConfig c{};
    c.gridDimX = c.gridDimY = c.gridDimZ = c.blockDimX = c.blockDimY = c.blockDimZ = 1;
    c.hStream = stream;
    for (int used : {1, 9, 300, count}) {
        p.used = used;
        bytes = 12 + 4 * static_cast<size_t>(used);
        DRIVER(launch_ex(&c, function, nullptr, extra));
        check();
        CHECK(cudaMemset(p.out, 0, sizeof *p.out));
        DRIVER(launch(function, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, extra));
        check();
        CHECK(cudaMemset(p.out, 0, sizeof *p.out));
        cudaGraph_t graph = nullptr;
        cudaGraphExec_t exec = nullptr;
        CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
        DRIVER(launch_ex(&c, function, nullptr, extra));
        CHECK(cudaStreamEndCapture(stream, &graph));
        CHECK(cudaGraphInstantiate(&exec, graph, 0));
        CHECK(cudaGraphLaunch(exec, stream));
        check();
        CHECK(cudaGraphExecDestroy(exec));
        CHECK(cudaGraphDestroy(graph));
    }
    CHECK(cudaFree(p.out));
    CHECK(cudaStreamDestroy(stream));
}

int main() {
    const bool barcuda = dlsym(RTLD_DEFAULT, "barcuda_guest_library");
    int major = 0;
    CHECK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0));
    CHECK(cudaMalloc(&out, sizeof *out));
    CHECK(cudaMalloc(&other, sizeof *other));
    hints(barcuda ? 9 : major);
    events(cudaLaunchAttributeLaunchCompletionEvent);
    if (barcuda || major >= 9) events(cudaLaunchAttributeProgrammaticEvent);
    parameters();
    part_of_the_parameters();
    // What is not known is refused.
    cudaLaunchAttribute a{};
    a.id = static_cast<cudaLaunchAttributeID>(63);
    const cudaLaunchConfig_t c = config(nullptr, &a, 1);
    REQUIRE(cudaLaunchKernelEx(&c, put, out, 1) != cudaSuccess);
    cudaGetLastError();
    CHECK(cudaDeviceSynchronize());
    REQUIRE(at(out) != 1);
    return verdict(0);
}
