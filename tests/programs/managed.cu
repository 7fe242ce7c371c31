// SPDX-License-Identifier: Apache-2.0
// managed: managed memory as CUDA promises it, whether or not the device and the CPU may work on it at once: kernels
// and the CPU in turn, small allocations, streams and what is attached to them, copies and fills, prefetches and
// advice, functions of the program in a stream, and graphs.
#include <numeric>
#include <vector>

#include "managed.h"

__global__ void sum(const int* p, size_t n, unsigned long long* out) {
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(out, (unsigned long long)p[i]);
}

// The CPU and kernels take turns: whole ranges, single words, words of neighbouring pages.
static void turns() {
    const size_t n = 3 << 20;
    int* p = managed<int>(n);
    for (size_t i = 0; i < n; ++i) p[i] = (int)i;
    launch(p, n, 1);
    done();
    for (size_t i = 0; i < n; ++i) REQUIRE(p[i] == (int)i + 1);
    for (int round = 0; round < 20; ++round) {
        const size_t at = (size_t)round * 137077 % n;
        p[at] = -round;
        launch(p, n, 10);
        done();
        REQUIRE(p[at] == 10 - round);
        p[at] = (int)at + 1 + 10 * (round + 1);
    }
    for (size_t i = 0; i < n; ++i) REQUIRE(p[i] == (int)i + 201);
    // Some pages are read, some written, others left alone.
    for (size_t i = 0; i < n; i += 5000) p[i] = i % 10000 ? p[i] : 0;
    launch(p, n, 1);
    done();
    for (size_t i = 0; i < n; ++i) REQUIRE(p[i] == (i % 10000 ? (int)i + 202 : 1));
    auto* total = managed<unsigned long long>(1);
    *total = 0;
    sum<<<4, 64>>>(p, n, total);
    done();
    REQUIRE(*total == std::accumulate(p, p + n, 0ull));
    CHECK(cudaFree(total));
    CHECK(cudaFree(p));
}

// Memory that was never written may be anything; what one side has written the other finds.
static void first_touch_by_the_device() {
    const size_t n = 1 << 20;
    int* p = managed<int>(n);
    CHECK(cudaMemset(p, 0, n * sizeof *p));
    launch(p, n / 2, 7);
    done();
    REQUIRE(all_are(p, n / 2, 7) && all_are(p + n / 2, n / 2, 0));
    CHECK(cudaFree(p));
}

static void small_ones() {
    const int count = 10000;
    std::vector<int*> all(count);
    for (int i = 0; i < count; ++i) *(all[i] = managed<int>(1)) = i;
    for (int i = 0; i < count; i += 100) launch(all[i], 1, 1);
    done();
    for (int i = 0; i < count; ++i) REQUIRE(*all[i] == i + (i % 100 == 0));
    for (int i = 0; i < count; i += 2) CHECK(cudaFree(all[i]));
    for (int i = 0; i < count; i += 2) *(all[i] = managed<int>(1 + i % 50)) = -i;
    for (int i = 1; i < count; i += 2) REQUIRE(*all[i] == i);
    for (int i = 0; i < count; i += 2) REQUIRE(*all[i] == -i);
    for (int* p : all) CHECK(cudaFree(p));
    // A list in managed memory, which a kernel follows and the CPU has built.
    struct Node {
        int value;
        Node* next;
    };
    Node* first = nullptr;
    for (int i = 0; i < 100; ++i) {
        Node* node = managed<Node>(1);
        *node = {i, first};
        first = node;
        launch(&node->value, 1, 1);
        done();
    }
    int sum = 0;
    for (Node *node = first, *next; node; node = next) {
        sum += node->value, next = node->next;
        CHECK(cudaFree(node));
    }
    REQUIRE(sum == 99 * 100 / 2 + 100);
}

// Two streams, each with memory of its own; the CPU has a third.
static void streams_and_attachments() {
    const size_t n = 300000;
    cudaStream_t a = new_stream(), b = new_stream();
    int *pa = managed<int>(n), *pb = managed<int>(n), *pc = managed<int>(n, cudaMemAttachHost);
    CHECK(cudaStreamAttachMemAsync(a, pa));
    CHECK(cudaStreamAttachMemAsync(b, pb, 0, cudaMemAttachSingle));
    CHECK(cudaStreamSynchronize(a));
    CHECK(cudaStreamSynchronize(b));
    for (size_t i = 0; i < n; ++i) pa[i] = pb[i] = pc[i] = 0;
    for (int round = 1; round <= 5; ++round) {
        launch(pa, n, 1, a);
        launch(pb, n, 2, b);
        for (size_t i = 0; i < n; ++i) ++pc[i];
        CHECK(cudaStreamSynchronize(a));
        REQUIRE(all_are(pa, n, round));  // whatever b does
        CHECK(cudaStreamSynchronize(b));
        REQUIRE(all_are(pb, n, 2 * round));
        for (size_t i = 0; i < n; i += 1000) pa[i] = pa[i], pb[i] = pb[i];
    }
    REQUIRE(all_are(pc, n, 5));
    // All streams' again; then the CPU's.
    CHECK(cudaStreamAttachMemAsync(a, pa, 0, cudaMemAttachGlobal));
    CHECK(cudaStreamAttachMemAsync(a, pc, 0, cudaMemAttachGlobal));
    CHECK(cudaStreamSynchronize(a));
    launch(pa, n, 1, b);
    launch(pc, n, 1, b);
    done();
    REQUIRE(all_are(pa, n, 6) && all_are(pc, n, 6));
    launch(pa, n, 1, b);
    done();
    CHECK(cudaStreamAttachMemAsync(b, pa, 0, cudaMemAttachHost));
    CHECK(cudaStreamSynchronize(b));
    launch(pb, n, 1, b);
    for (size_t i = 0; i < n; ++i) pa[i] *= 2;
    done();
    REQUIRE(all_are(pa, n, 14) && all_are(pb, n, 11));
    REQUIRE(cudaStreamAttachMemAsync(a, pa, 0, 77) == cudaErrorInvalidValue);
    int* device;
    CHECK(cudaMalloc(&device, 4));
    REQUIRE(cudaStreamAttachMemAsync(a, device) != cudaSuccess);
    (void)cudaGetLastError();
    CHECK(cudaFree(device));
    for (int* p : {pa, pb, pc}) CHECK(cudaFree(p));
    CHECK(cudaStreamDestroy(a));
    CHECK(cudaStreamDestroy(b));
    // One stream's work is another's to go on with.
    cudaEvent_t event;
    CHECK(cudaEventCreate(&event));
    a = new_stream(), b = new_stream();
    int* p = managed<int>(n);
    for (size_t i = 0; i < n; ++i) p[i] = 1;
    for (int round = 0; round < 10; ++round) {
        launch(p, n, 1, a);
        CHECK(cudaEventRecord(event, a));
        CHECK(cudaStreamWaitEvent(b, event, 0));
        launch(p, n, 2, b);
        CHECK(cudaStreamSynchronize(b));
        p[round] = 100;
    }
    for (size_t i = 0; i < n; ++i) REQUIRE(p[i] == (i < 10 ? 100 + 3 * (9 - (int)i) : 31));
    CHECK(cudaFree(p));
    CHECK(cudaEventDestroy(event));
    CHECK(cudaStreamDestroy(a));
    CHECK(cudaStreamDestroy(b));
}

static void copies_and_fills() {
    const size_t n = 400000, bytes = n * sizeof(int);
    int *p = managed<int>(n), *q = managed<int>(n), *device, *pinned;
    std::vector<int> plain(n, 5);
    CHECK(cudaMalloc(&device, bytes));
    CHECK(cudaMallocHost(&pinned, bytes));
    CHECK(cudaMemcpy(p, plain.data(), bytes, cudaMemcpyDefault));
    launch(p, n, 1);
    CHECK(cudaMemcpy(plain.data(), p, bytes, cudaMemcpyDefault));
    REQUIRE(all_are(plain.data(), n, 6) && all_are(p, n, 6));
    p[17] = 7;  // the CPU has touched the source, and has the target
    q[17] = 1, q[n - 1] = 1;
    CHECK(cudaMemcpy(q, p, bytes, cudaMemcpyDefault));
    REQUIRE(q[17] == 7 && q[n - 1] == 6);
    // By whatever direction programs say.
    int count = 6;
    for (cudaMemcpyKind kind : {cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyHostToHost,
                                cudaMemcpyDeviceToDevice, cudaMemcpyDefault}) {
        p[3] = (int)kind + 50;
        launch(p + 4, 1, 1);
        done();
        CHECK(cudaMemcpy(q, p, bytes, kind));
        done();
        REQUIRE(q[3] == (int)kind + 50 && q[4] == ++count);
    }
    CHECK(cudaMemcpy(plain.data(), p, bytes, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(device, p, bytes, cudaMemcpyHostToDevice));
    launch(device, n, 1);
    CHECK(cudaMemcpy(p, device, bytes, cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < n; ++i) REQUIRE(p[i] == plain[i] + 1);
    cudaStream_t s = new_stream();
    for (size_t i = 0; i < n; ++i) pinned[i] = -(int)i;
    CHECK(cudaMemcpyAsync(p, pinned, bytes, cudaMemcpyDefault, s));
    launch(p, n, 1, s);
    CHECK(cudaMemcpyAsync(pinned, p, bytes, cudaMemcpyDefault, s));
    CHECK(cudaStreamSynchronize(s));
    for (size_t i = 0; i < n; ++i) REQUIRE(pinned[i] == 1 - (int)i && p[i] == pinned[i]);
    CHECK(cudaMemset(p, 1, bytes / 2));
    done();
    p[n - 1] = 9;
    CHECK(cudaMemsetAsync(p + n / 4, 2, bytes / 4, s));
    CHECK(cudaStreamSynchronize(s));
    REQUIRE(p[0] == 0x01010101 && p[n / 4] == 0x02020202 && p[n / 2 - 1] == 0x02020202 &&
            p[n / 2] == 1 - (int)(n / 2) && p[n - 1] == 9);
    // Rows.
    for (int i = 0; i < 100 * 100; ++i) p[i] = i;
    CHECK(cudaMemcpy2D(q, 400, p + 5, 400, 40, 100, cudaMemcpyDefault));
    for (int y = 0; y < 100; ++y) REQUIRE(q[y * 100 + 9] == y * 100 + 14);
    CHECK(cudaMemcpy2D(plain.data(), 400, q, 400, 40, 100, cudaMemcpyDeviceToHost));
    REQUIRE(plain[9900 + 9] == 9914);
    CHECK(cudaMemset2D(q, 400, 0xff, 8, 100));
    REQUIRE(q[500] == -1 && q[501] == -1 && q[502] == 507);
    CHECK(cudaFree(p));
    CHECK(cudaFree(q));
    CHECK(cudaFree(device));
    CHECK(cudaFreeHost(pinned));
    CHECK(cudaStreamDestroy(s));
}

static void what_it_is() {
    const size_t n = 1000000;
    char* p = managed<char>(n);
    cudaPointerAttributes a;
    CHECK(cudaPointerGetAttributes(&a, p + 10));
    REQUIRE(a.type == cudaMemoryTypeManaged && a.device == 0 && a.devicePointer == p + 10 && a.hostPointer == p + 10);
    cudaIpcMemHandle_t handle;
    REQUIRE(cudaIpcGetMemHandle(&handle, p) != cudaSuccess);
    (void)cudaGetLastError();
    REQUIRE(cudaFree(p + 4096) == cudaErrorInvalidValue);
    (void)cudaGetLastError();
    int can = 0;
    CHECK(cudaDeviceGetAttribute(&can, cudaDevAttrManagedMemory, 0));
    REQUIRE(can);
    CHECK(cudaFree(p));
}

// Where the device says that it may be asked for; elsewhere a driver refuses it, or does it all the same.
static void prefetches_and_advice() {
    int concurrent = 0;
    CHECK(cudaDeviceGetAttribute(&concurrent, cudaDevAttrConcurrentManagedAccess, 0));
    const size_t n = 2 << 20, bytes = n * sizeof(int);
    const cudaMemLocation device{cudaMemLocationTypeDevice, 0}, host{cudaMemLocationTypeHost, 0};
    int* p = managed<int>(n);
    cudaStream_t s = new_stream();
    for (size_t i = 0; i < n; ++i) p[i] = 1;
    cudaError_t r = cudaMemPrefetchAsync(p, bytes, device, 0, s);
    if (r != cudaSuccess) {
        REQUIRE(!concurrent);
        (void)cudaGetLastError();
        CHECK(cudaFree(p));
        return void(printf("no prefetches on this device\n"));
    }
    for (int round = 0; round < 3; ++round) {
        launch(p, n, 1, s);
        CHECK(cudaMemPrefetchAsync(p, bytes / 2, host, 0, s));
        CHECK(cudaStreamSynchronize(s));
        REQUIRE(all_are(p, n / 2, 2 + 3 * round));
        p[0] = 2 + 3 * round;
        launch(p, n, 1, s);
        CHECK(cudaMemPrefetchAsync(p, bytes, host, 0, s));
        launch(p, n, 1, s);  // after the prefetch: what came is not the last word
        CHECK(cudaStreamSynchronize(s));
        REQUIRE(all_are(p, n, 4 + 3 * round));
        CHECK(cudaMemPrefetchAsync(p, bytes, device, 0, s));
    }
    int value = -1;
    const auto ask = [&](cudaMemRangeAttribute what, size_t from, size_t count) {
        CHECK(cudaMemRangeGetAttribute(&value, sizeof value, what, p + from, count * sizeof(int)));
        return value;
    };
    REQUIRE(ask(cudaMemRangeAttributeReadMostly, 0, n) == 0);
    CHECK(cudaMemAdvise(p, bytes / 2, cudaMemAdviseSetReadMostly, device));
    REQUIRE(ask(cudaMemRangeAttributeReadMostly, 0, n / 2) == 1 && ask(cudaMemRangeAttributeReadMostly, 0, n) == 0);
    launch(p, n, 1, s);
    CHECK(cudaStreamSynchronize(s));
    REQUIRE(all_are(p, n, 11));
    CHECK(cudaMemAdvise(p, bytes, cudaMemAdviseUnsetReadMostly, device));
    REQUIRE(ask(cudaMemRangeAttributeReadMostly, 0, n / 2) == 0);
    CHECK(cudaMemAdvise(p, bytes, cudaMemAdviseSetPreferredLocation, device));
    REQUIRE(ask(cudaMemRangeAttributePreferredLocation, 0, n) == 0);
    CHECK(cudaMemAdvise(p, bytes, cudaMemAdviseSetAccessedBy, host));
    int by[3] = {9, 9, 9};
    CHECK(cudaMemRangeGetAttribute(by, sizeof by, cudaMemRangeAttributeAccessedBy, p, bytes));
    REQUIRE(by[0] == cudaCpuDeviceId && by[1] == cudaInvalidDeviceId && by[2] == cudaInvalidDeviceId);
    CHECK(cudaMemPrefetchAsync(p, bytes, host, 0, s));
    CHECK(cudaStreamSynchronize(s));
    REQUIRE(ask(cudaMemRangeAttributeLastPrefetchLocation, 0, n) == cudaCpuDeviceId);
    int* other;
    CHECK(cudaMalloc(&other, 4096));
    REQUIRE(cudaMemPrefetchAsync(other, 4096, device, 0, s) != cudaSuccess);
    REQUIRE(cudaMemAdvise(other, 4096, cudaMemAdviseSetReadMostly, device) != cudaSuccess);
    (void)cudaGetLastError();
    CHECK(cudaFree(other));
    CHECK(cudaFree(p));
    CHECK(cudaStreamDestroy(s));
}

// In its stream's order: behind the kernel before it, ahead of the one behind it; the stream does not go on meanwhile.
struct Visit {
    int* p;
    size_t n;
    int expected;
    bool right;
};
static void functions_and_graphs() {
    const size_t n = 500000;
    int* p = managed<int>(n);
    cudaStream_t s = new_stream();
    CHECK(cudaStreamAttachMemAsync(s, p));
    CHECK(cudaStreamSynchronize(s));
    for (size_t i = 0; i < n; ++i) p[i] = 0;
    static Visit visits[10];
    const auto visit = [](void* data) {
        auto& v = *static_cast<Visit*>(data);
        v.right = all_are(v.p, v.n, v.expected);
        for (size_t i = 0; i < v.n; ++i) v.p[i] += 100;
    };
    for (int i = 0; i < 10; ++i) {
        launch(p, n, 1, s);
        visits[i] = {p, n, 101 * i + 1, false};
        CHECK(cudaLaunchHostFunc(s, visit, &visits[i]));
    }
    launch(p, n, 1, s);
    CHECK(cudaStreamSynchronize(s));
    for (const Visit& v : visits) REQUIRE(v.right);
    REQUIRE(all_are(p, n, 1011));
    // The same in a graph, which is launched three times; the CPU changes the memory in between.
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    static Visit inside;
    inside = {p, n, 1, false};
    CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    launch(p, n, 1, s);
    CHECK(cudaLaunchHostFunc(s, visit, &inside));
    CHECK(cudaMemsetAsync(p, 0, 40, s));
    launch(p, n, 1, s);
    CHECK(cudaStreamEndCapture(s, &graph));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    for (int round = 0; round < 3; ++round) {
        for (size_t i = 0; i < n; ++i) p[i] = 0;
        CHECK(cudaGraphLaunch(exec, s));
        CHECK(cudaStreamSynchronize(s));
        REQUIRE(inside.right && all_are(p, 10, 1) && all_are(p + 10, n - 10, 102));
    }
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaFree(p));
    CHECK(cudaStreamDestroy(s));
}

int main() {
    turns();
    first_touch_by_the_device();
    small_ones();
    streams_and_attachments();
    copies_and_fills();
    what_it_is();
    prefetches_and_advice();
    functions_and_graphs();
    printf("managed memory, on either side\nPASSED\n");
    return 0;
}
