// SPDX-License-Identifier: Apache-2.0
// own_profiler.cu: a profiler of its own calls, as those of frameworks are: CUPTI's records of kernels, copies and
// fills, of the calls that gave them to the GPU, and of ids that the program pushed meanwhile; callbacks around calls.
// Checks what CUPTI's documentation promises, so that it is the same beside NVIDIA's library on a machine with a GPU.
#include <cuda.h>
#include <cupti.h>
#include <string.h>
#include <time.h>

#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "check.h"

#define CUPTI(call)                                                           \
    do {                                                                      \
        CUptiResult result_ = (call);                                         \
        if (result_ != CUPTI_SUCCESS) {                                       \
            const char* text_ = "?";                                          \
            cuptiGetResultString(result_, &text_);                            \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, text_); \
            exit(1);                                                          \
        }                                                                     \
    } while (0)

__global__ void scale(float* x, int n, float by) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= by;
}
__global__ void shared_sum(const float* x, float* sum) {
    extern __shared__ float part[];
    part[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    if (threadIdx.x == 0)
        for (int i = 0; i < (int)blockDim.x; ++i) *sum += part[i];
}

struct Seen {
    std::vector<CUpti_ActivityKernel9> kernels;  // whose fields are all there since CUDA 12
    std::vector<std::string> names;              // of these
    std::vector<CUpti_ActivityMemcpy5> copies;
    std::vector<CUpti_ActivityMemset4> fills;
    std::map<uint32_t, CUpti_ActivityAPI> calls;  // by correlation id
    std::multimap<uint32_t, std::pair<int, uint64_t>> ids;
    size_t buffers = 0;
};
static Seen seen;
static std::mutex mutex;
static std::atomic<int> requested{0};

static void CUPTIAPI request(uint8_t** buffer, size_t* size, size_t* most) {
    ++requested;
    *size = 64 << 10;
    *buffer = (uint8_t*)aligned_alloc(8, *size);
    *most = 0;
}
static void CUPTIAPI complete(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t valid) {
    std::lock_guard<std::mutex> lock(mutex);
    ++seen.buffers;
    CUpti_Activity* record = nullptr;
    CUptiResult r = CUPTI_SUCCESS;
    while (valid && (r = cuptiActivityGetNextRecord(buffer, valid, &record)) == CUPTI_SUCCESS) switch (record->kind) {
            case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
                seen.kernels.push_back(*(CUpti_ActivityKernel9*)record);
                seen.names.push_back(((CUpti_ActivityKernel9*)record)->name);
                break;
            case CUPTI_ACTIVITY_KIND_MEMCPY: seen.copies.push_back(*(CUpti_ActivityMemcpy5*)record); break;
            case CUPTI_ACTIVITY_KIND_MEMSET: seen.fills.push_back(*(CUpti_ActivityMemset4*)record); break;
            case CUPTI_ACTIVITY_KIND_DRIVER:
            case CUPTI_ACTIVITY_KIND_RUNTIME: {
                const auto* call = (CUpti_ActivityAPI*)record;
                if (record->kind == CUPTI_ACTIVITY_KIND_RUNTIME || !seen.calls.count(call->correlationId))
                    seen.calls[call->correlationId] = *call;
                break;
            }
            case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION: {
                const auto* id = (CUpti_ActivityExternalCorrelation*)record;
                seen.ids.emplace(id->correlationId, std::make_pair((int)id->externalKind, id->externalId));
                break;
            }
            default: break;
        }
    REQUIRE(!valid || r == CUPTI_ERROR_MAX_LIMIT_REACHED);
    free(buffer);
}
// All records since the last time.
static Seen take() {
    CHECK(cudaDeviceSynchronize());
    CUPTI(cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED));
    std::lock_guard<std::mutex> lock(mutex);
    Seen all;
    std::swap(all, seen);
    return all;
}

// The runtime's function of a record's call, without its version.
static std::string called(const Seen& in, uint32_t correlation) {
    const auto call = in.calls.find(correlation);
    if (call == in.calls.end()) return "nothing";
    const char* name = nullptr;
    CUPTI(cuptiGetCallbackName(call->second.kind == CUPTI_ACTIVITY_KIND_RUNTIME ? CUPTI_CB_DOMAIN_RUNTIME_API
                                                                                : CUPTI_CB_DOMAIN_DRIVER_API,
                               call->second.cbid, &name));
    return name;
}
static bool launches(const std::string& name) { return name.find("aunchKernel") != name.npos; }
// An id that was pushed around the call.
static bool within(const Seen& in, uint32_t correlation, int kind, uint64_t id) {
    const auto range = in.ids.equal_range(correlation);
    for (auto at = range.first; at != range.second; ++at)
        if (at->second == std::make_pair(kind, id)) return true;
    return false;
}

static const CUpti_ActivityKind kinds[] = {
    CUPTI_ACTIVITY_KIND_MEMCPY,  CUPTI_ACTIVITY_KIND_MEMSET, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
    CUPTI_ACTIVITY_KIND_RUNTIME, CUPTI_ACTIVITY_KIND_DRIVER, CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION,
    CUPTI_ACTIVITY_KIND_OVERHEAD};
static void enable_all() {
    for (const CUpti_ActivityKind kind : kinds) CUPTI(cuptiActivityEnable(kind));
}
static void disable_all() {
    for (const CUpti_ActivityKind kind : kinds) CUPTI(cuptiActivityDisable(kind));
}

static const int n = 1 << 16;
static float *device, *sum, *host;

static void check_what_a_stream_does() {
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    uint64_t before = 0, after = 0;
    CUPTI(cuptiGetTimestamp(&before));
    CUPTI(cuptiActivityPushExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, 17));
    CHECK(cudaMemcpyAsync(device, host, n * sizeof(float), cudaMemcpyHostToDevice, stream));
    CUPTI(cuptiActivityPushExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM1, 4711));
    scale<<<n / 256, 256, 0, stream>>>(device, n, 2);
    uint64_t last = 0;
    CUPTI(cuptiActivityPopExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM1, &last));
    REQUIRE(last == 4711);
    CUPTI(cuptiActivityPopExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, &last));
    REQUIRE(last == 17);
    CHECK(cudaMemsetAsync(sum, 0, sizeof(float), stream));
    shared_sum<<<1, 64, 64 * sizeof(float), stream>>>(device, sum);
    CHECK(cudaMemcpyAsync(host, device, n * sizeof(float), cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    CUPTI(cuptiGetTimestamp(&after));

    const Seen all = take();
    REQUIRE(all.kernels.size() == 2 && all.fills.size() == 1 && all.copies.size() == 2);
    const auto& k = all.kernels[0];
    REQUIRE(all.names[0].find("scale") != std::string::npos && all.names[1].find("shared_sum") != std::string::npos);
    REQUIRE(k.gridX == n / 256 && k.gridY == 1 && k.gridZ == 1 && k.blockX == 256 && k.blockY == 1 && k.blockZ == 1);
    REQUIRE(k.registersPerThread > 0 && k.dynamicSharedMemory == 0 && k.deviceId == 0);
    REQUIRE(all.kernels[1].dynamicSharedMemory == 64 * sizeof(float) && all.kernels[1].blockX == 64);
    REQUIRE(all.copies[0].copyKind == CUPTI_ACTIVITY_MEMCPY_KIND_HTOD && all.copies[0].bytes == n * sizeof(float));
    REQUIRE(all.copies[1].copyKind == CUPTI_ACTIVITY_MEMCPY_KIND_DTOH && all.copies[1].bytes == n * sizeof(float));
    REQUIRE(all.copies[0].srcKind == CUPTI_ACTIVITY_MEMORY_KIND_PINNED);
    REQUIRE(all.copies[0].dstKind == CUPTI_ACTIVITY_MEMORY_KIND_DEVICE);
    REQUIRE(all.fills[0].value == 0 && all.fills[0].bytes == sizeof(float));

    // All in one stream and context, by the numbers that CUPTI gives them.
    CUcontext context = nullptr;
    REQUIRE(cuCtxGetCurrent(&context) == CUDA_SUCCESS);
    uint32_t context_id = 0, stream_id = 0, device_id = 99;
    CUPTI(cuptiGetContextId(context, &context_id));
    CUPTI(cuptiGetStreamIdEx(context, stream, 0, &stream_id));
    CUPTI(cuptiGetDeviceId(context, &device_id));
    REQUIRE(device_id == k.deviceId);
    for (const auto& each : all.kernels) REQUIRE(each.contextId == context_id && each.streamId == stream_id);
    for (const auto& each : all.copies) REQUIRE(each.contextId == context_id && each.streamId == stream_id);
    REQUIRE(all.fills[0].contextId == context_id && all.fills[0].streamId == stream_id);

    // One after the other, between the two looks at the clock.
    const uint64_t times[] = {all.copies[0].start, all.copies[0].end,       k.start,
                              k.end,               all.fills[0].start,      all.fills[0].end,
                              all.kernels[1].start, all.kernels[1].end,     all.copies[1].start,
                              all.copies[1].end};
    const uint64_t tolerance = 100000000;  // ns: two clocks, on a machine that may have other load
    REQUIRE(times[0] + tolerance >= before && times[9] <= after + tolerance);
    for (int i = 1; i < 10; ++i) REQUIRE(times[i] >= times[i - 1]);

    // Which call each is from.
    REQUIRE(called(all, all.copies[0].correlationId).rfind("cudaMemcpyAsync", 0) == 0);
    REQUIRE(called(all, all.copies[1].correlationId).rfind("cudaMemcpyAsync", 0) == 0);
    REQUIRE(called(all, all.fills[0].correlationId).rfind("cudaMemsetAsync", 0) == 0);
    for (const auto& each : all.kernels) REQUIRE(launches(called(all, each.correlationId)));
    const auto& launch = all.calls.at(k.correlationId);
    REQUIRE(launch.end >= launch.start && launch.returnValue == cudaSuccess && k.start + tolerance >= launch.start);
    std::set<uint32_t> distinct = {all.copies[0].correlationId, all.copies[1].correlationId, k.correlationId,
                                   all.kernels[1].correlationId, all.fills[0].correlationId};
    REQUIRE(distinct.size() == 5);

    // Within which ids.
    REQUIRE(within(all, all.copies[0].correlationId, CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, 17));
    REQUIRE(!within(all, all.copies[0].correlationId, CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM1, 4711));
    REQUIRE(within(all, k.correlationId, CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, 17));
    REQUIRE(within(all, k.correlationId, CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM1, 4711));
    REQUIRE(!all.ids.count(all.kernels[1].correlationId));
    REQUIRE(cuptiActivityPopExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, &last) ==
            CUPTI_ERROR_QUEUE_EMPTY);
    CHECK(cudaStreamDestroy(stream));
}

// Each launch of many is a record of its own, in both threads.
static void check_many_launches() {
    const int each = 300;
    const auto work = [] {
        cudaStream_t stream;
        CHECK(cudaStreamCreate(&stream));
        for (int i = 0; i < each; ++i) scale<<<1, 32, 0, stream>>>(device, 32, 1);
        CHECK(cudaStreamSynchronize(stream));
        CHECK(cudaStreamDestroy(stream));
    };
    std::thread first(work), second(work);
    first.join();
    second.join();
    const Seen all = take();
    std::set<uint32_t> calls, streams, threads;
    for (const auto& kernel : all.kernels) {
        calls.insert(kernel.correlationId);
        streams.insert(kernel.streamId);
        REQUIRE(launches(called(all, kernel.correlationId)));
        threads.insert(all.calls.at(kernel.correlationId).threadId);
    }
    REQUIRE(all.kernels.size() == 2 * each && calls.size() == 2 * each && streams.size() == 2 && threads.size() == 2);
}

static void check_graph() {
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    CHECK(cudaMemsetAsync(sum, 0, sizeof(float), stream));
    scale<<<2, 128, 0, stream>>>(device, 256, 1);
    shared_sum<<<1, 64, 64 * sizeof(float), stream>>>(device, sum);
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    take();
    CHECK(cudaGraphLaunch(exec, stream));
    const Seen all = take();
    REQUIRE(all.kernels.size() == 2 && all.fills.size() == 1);
    REQUIRE(called(all, all.kernels[0].correlationId).rfind("cudaGraphLaunch", 0) == 0);
    REQUIRE(all.kernels[0].correlationId == all.kernels[1].correlationId);
    REQUIRE(all.kernels[0].graphId != 0 && all.kernels[0].graphId == all.kernels[1].graphId);
    REQUIRE(all.kernels[0].graphNodeId != 0 && all.kernels[0].graphNodeId != all.kernels[1].graphNodeId);
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaStreamDestroy(stream));
}

// A kind that is off has no records; the driver's own calls have theirs. (Without that of copies NVIDIA's CUPTI 13 has
// none of fills either.)
static void check_kinds() {
    CUPTI(cuptiActivityDisable(CUPTI_ACTIVITY_KIND_MEMCPY));
    CHECK(cudaMemcpy(host, device, 64, cudaMemcpyDeviceToHost));
    scale<<<1, 32>>>(device, 32, 1);
    Seen all = take();
    REQUIRE(all.copies.empty() && all.kernels.size() == 1);
    CUPTI(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMCPY));
    CUPTI(cuptiActivityDisable(CUPTI_ACTIVITY_KIND_RUNTIME));
    REQUIRE(cuMemcpyDtoH(host, (CUdeviceptr)device, 128) == CUDA_SUCCESS);
    all = take();
    REQUIRE(all.copies.size() == 1 && all.copies[0].bytes == 128);
    REQUIRE(called(all, all.copies[0].correlationId) == "cuMemcpyDtoH_v2");

    disable_all();
    take();
    scale<<<1, 32>>>(device, 32, 1);
    CHECK(cudaMemset(sum, 0, 4));
    all = take();
    REQUIRE(all.kernels.empty() && all.fills.empty() && all.calls.empty() && all.ids.empty());
    enable_all();
    scale<<<1, 32>>>(device, 32, 1);
    all = take();
    REQUIRE(all.kernels.size() == 1 && launches(called(all, all.kernels[0].correlationId)));
}

struct Heard {
    std::vector<std::pair<std::string, uint32_t>> entered, left;
    bool fine = true;
};
static void CUPTIAPI hear(void* to, CUpti_CallbackDomain domain, CUpti_CallbackId, const void* about) {
    Heard& heard = *(Heard*)to;
    const auto* data = (const CUpti_CallbackData*)about;
    if (domain != CUPTI_CB_DOMAIN_RUNTIME_API) return;
    if (data->callbackSite == CUPTI_API_ENTER) {
        heard.entered.emplace_back(data->functionName, data->correlationId);
        *data->correlationData = data->correlationId + 1;
    } else {
        heard.left.emplace_back(data->functionName, data->correlationId);
        heard.fine &= *data->correlationData == data->correlationId + 1;
        heard.fine &= *(cudaError_t*)data->functionReturnValue == cudaSuccess;
    }
}
static void check_callbacks() {
    Heard heard;
    CUpti_SubscriberHandle subscriber;
    CUPTI(cuptiSubscribe(&subscriber, hear, &heard));
    CUpti_SubscriberHandle other;
    REQUIRE(cuptiSubscribe(&other, hear, &heard) == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
    CUPTI(cuptiEnableDomain(1, subscriber, CUPTI_CB_DOMAIN_RUNTIME_API));
    CHECK(cudaMemsetAsync(sum, 0, 4, nullptr));
    CUPTI(cuptiEnableDomain(0, subscriber, CUPTI_CB_DOMAIN_RUNTIME_API));
    CHECK(cudaMemsetAsync(sum, 0, 4, nullptr));
    CUPTI(cuptiUnsubscribe(subscriber));
    const Seen all = take();
    REQUIRE(heard.fine && heard.entered == heard.left && heard.entered.size() == 1);
    REQUIRE(heard.entered[0].first.rfind("cudaMemsetAsync", 0) == 0);
    REQUIRE(all.fills.size() == 2 && all.fills[0].correlationId == heard.entered[0].second);
}

// Of the driver's calls it hears the parameters, too, and of launches the kernel's name.
struct HeardOfDriver {
    int launches = 0, copies = 0;
    CUfunction function = nullptr;
    CUstream stream = nullptr;
};
static void CUPTIAPI hear_driver(void* to, CUpti_CallbackDomain, CUpti_CallbackId id, const void* about) {
    HeardOfDriver& heard = *(HeardOfDriver*)to;
    const auto* data = (const CUpti_CallbackData*)about;
    if (data->callbackSite != CUPTI_API_ENTER) return;
    if (id == CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel) {
        const auto* p = (const cuLaunchKernel_params*)data->functionParams;
        REQUIRE(p->f == heard.function && p->gridDimX == 3 && p->gridDimY == 2 && p->gridDimZ == 1);
        REQUIRE(p->blockDimX == 32 && p->blockDimY == 2 && p->blockDimZ == 1 && p->sharedMemBytes == 128);
        REQUIRE(p->hStream == heard.stream && p->kernelParams && !p->extra);
        REQUIRE(strstr(data->symbolName, "scale"));
        ++heard.launches;
    } else if (id == CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoH_v2) {
        const auto* p = (const cuMemcpyDtoH_v2_params*)data->functionParams;
        REQUIRE(p->dstHost == host && p->srcDevice == (CUdeviceptr)device && p->ByteCount == 96);
        ++heard.copies;
    }
}
static void check_callbacks_of_the_driver() {
    HeardOfDriver heard;
    CHECK(cudaGetFuncBySymbol(&heard.function, (const void*)scale));
    CHECK(cudaStreamCreate(&heard.stream));
    CUpti_SubscriberHandle subscriber;
    CUPTI(cuptiSubscribe(&subscriber, hear_driver, &heard));
    CUPTI(cuptiEnableCallback(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel));
    CUPTI(cuptiEnableCallback(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoH_v2));
    int count = 64;
    float by = 1;
    void* parameters[] = {&device, &count, &by};
    REQUIRE(cuLaunchKernel(heard.function, 3, 2, 1, 32, 2, 1, 128, heard.stream, parameters, nullptr) == CUDA_SUCCESS);
    CHECK(cudaStreamSynchronize(heard.stream));
    REQUIRE(cuMemcpyDtoH(host, (CUdeviceptr)device, 96) == CUDA_SUCCESS);
    CUPTI(cuptiUnsubscribe(subscriber));
    const Seen all = take();
    REQUIRE(heard.launches == 1 && heard.copies == 1 && all.kernels.size() == 1 && all.copies.size() == 1);
    REQUIRE(all.kernels[0].gridX == 3 && all.kernels[0].blockY == 2 && all.kernels[0].dynamicSharedMemory == 128);
    REQUIRE(called(all, all.kernels[0].correlationId) == "cuLaunchKernel");
    CHECK(cudaStreamDestroy(heard.stream));
}

// A launch of the runtime's is one of the driver's, too, and both have one number. (CUPTI does not say so; JAX lives by
// it.)
static void CUPTIAPI hear_numbers(void* to, CUpti_CallbackDomain, CUpti_CallbackId, const void* about) {
    const auto* data = (const CUpti_CallbackData*)about;
    if (data->callbackSite == CUPTI_API_EXIT) ((std::vector<uint32_t>*)to)->push_back(data->correlationId);
}
static void check_launches_within_the_runtime() {
    std::vector<uint32_t> numbers;
    CUpti_SubscriberHandle subscriber;
    CUPTI(cuptiSubscribe(&subscriber, hear_numbers, &numbers));
    CUPTI(cuptiEnableCallback(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel));
    scale<<<1, 32>>>(device, 32, 1);
    shared_sum<<<1, 32, 128>>>(device, sum);
    CUPTI(cuptiUnsubscribe(subscriber));
    const Seen all = take();
    REQUIRE(all.kernels.size() == 2 && numbers.size() == 2);
    for (int i = 0; i < 2; ++i) REQUIRE(all.kernels[i].correlationId == numbers[i]);
    REQUIRE(all.calls.at(numbers[0]).kind == CUPTI_ACTIVITY_KIND_RUNTIME);
}

// Times by a clock of the program's own.
static uint64_t own_clock() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}
static void check_own_clock() {
    disable_all();
    take();
    CUPTI(cuptiActivityRegisterTimestampCallback(own_clock));
    enable_all();
    const uint64_t before = own_clock();
    scale<<<1, 32>>>(device, 32, 1);
    CHECK(cudaDeviceSynchronize());
    const uint64_t after = own_clock();
    const Seen all = take();
    REQUIRE(all.kernels.size() == 1);
    const auto& call = all.calls.at(all.kernels[0].correlationId);
    REQUIRE(call.start >= before && call.end <= after);
    const uint64_t tolerance = 1000000;
    REQUIRE(all.kernels[0].start + tolerance >= before && all.kernels[0].end <= after + tolerance);
}

int main(int argc, char** argv) {
    uint32_t version = 0;
    CUPTI(cuptiGetVersion(&version));
    CUPTI(cuptiActivityRegisterCallbacks(request, complete));
    enable_all();  // before CUDA is used at all
    CHECK(cudaMalloc(&device, n * sizeof(float)));
    CHECK(cudaMalloc(&sum, sizeof(float)));
    CHECK(cudaHostAlloc(&host, n * sizeof(float), 0));
    memset(host, 0, n * sizeof(float));
    scale<<<1, 32>>>(device, 32, 1);  // loads the code
    CHECK(cudaMemset(sum, 0, 4));
    REQUIRE(requested >= 1);  // Kineto asks for records only if it has given a buffer for them
    const Seen first = take();
    REQUIRE(first.kernels.size() == 1 && first.fills.size() == 1 && first.buffers >= 1);

    check_what_a_stream_does();
    check_many_launches();
    check_graph();
    check_kinds();
    check_callbacks();
    check_callbacks_of_the_driver();
    const bool is_guest = argc > 1 && !strcmp(argv[1], "guest");
    if (is_guest) check_launches_within_the_runtime();
    check_own_clock();

    uint32_t events = 0;
    // Counters need what a guest does not see; beside NVIDIA's own they may be there.
    if (is_guest)
        REQUIRE(cuptiDeviceGetNumEventDomains(0, &events) == CUPTI_ERROR_NOT_SUPPORTED);
    CUPTI(cuptiFinalize());
    return verdict(0);
}
