// SPDX-License-Identifier: Apache-2.0
// cuda_bench.cu: what CUDA calls cost a program, metric by metric. It is an ordinary program of the runtime API and
// knows nothing of Barcuda: run it as it is for the native figures, and in a guest (or under `barcuda run`) for ours.
//
// Metrics are named operation_source_bytes: h2d and d2h are cudaMemcpy, `malloc` is ordinary memory, `hostalloc` is
// cudaHostAlloc, `early` is malloc'ed before the program's first CUDA call; stack, global and mmap are what they say.
// A post is the time until an asynchronous call returns; the work is waited for outside the measured time.
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "calls.h"
#include "processes.h"

namespace {

constexpr std::size_t KiB = 1 << 10, MiB = 1 << 20;

__global__ void add_one(int* p, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) p[i] += 1;
}
__global__ void spin(int turns, float* out) {  // one thread, one dependent operation a turn
    float x = 1;
    for (int i = 0; i < turns; ++i) x = x * 0.5f + 1;
    *out = x;
}

// A step of a system of bodies that all draw each other: position and mass in, acceleration out.
__global__ void bodies(const float4* at, float4* pull, int n) {
    __shared__ float4 near[256];
    const float4 mine = at[blockIdx.x * 256 + threadIdx.x];
    float4 sum = {0, 0, 0, 0};
    for (int first = 0; first < n; first += 256) {
        near[threadIdx.x] = at[first + threadIdx.x];
        __syncthreads();
        for (const float4 other : near) {
            const float x = other.x - mine.x, y = other.y - mine.y, z = other.z - mine.z;
            const float inverse = rsqrtf(x * x + y * y + z * z + 0.01f), f = other.w * inverse * inverse * inverse;
            sum.x += f * x;
            sum.y += f * y;
            sum.z += f * z;
        }
        __syncthreads();
    }
    pull[blockIdx.x * 256 + threadIdx.x] = sum;
}

template <int> __global__ void one_of_five(int* p, int n, float) {
    if (p) *p = n;
}

void launch(cudaStream_t stream) { empty<<<1, 1, 0, stream>>>(); }
void launch(cudaStream_t stream, unsigned which, int n) {
    switch (which % 5) {
        case 0: return one_of_five<0><<<1, 32, 0, stream>>>(nullptr, n, 1);
        case 1: return one_of_five<1><<<2, 32, 0, stream>>>(nullptr, n, 2);
        case 2: return one_of_five<2><<<1, 64, 0, stream>>>(nullptr, n, 3);
        case 3: return one_of_five<3><<<2, 64, 0, stream>>>(nullptr, n, 4);
        default: return one_of_five<4><<<1, 1, 0, stream>>>(nullptr, n, 5);
    }
}

// Microseconds a call when `call` is made `n` times; `after` is not measured.
template <class F, class G> double each(int n, F call, G after) {
    const double s = timed([&] {
        for (int i = 0; i < n; ++i) call();
    });
    after();
    return s / n * 1e6;
}
template <class F> double each(int n, F call) {
    return each(n, call, [] {});
}

// ---- start ---------------------------------------------------------------------------------------------------------

void start() {
    const double init = timed([] { TRY(cudaFree(nullptr)); });
    const double first = timed([] {
        empty<<<1, 1>>>();
        TRY(cudaGetLastError());
        TRY(cudaDeviceSynchronize());
    });
    if (bench.failures) return;
    bench.value("init_first_call", "us", init * 1e6);
    bench.value("first_launch", "us", first * 1e6);
}

// ---- synchronous copies --------------------------------------------------------------------------------------------

long wrong_bytes(char* host, char* device, std::size_t n, unsigned seed) {
    for (std::size_t i = 0; i < n; ++i) host[i] = static_cast<char>((i * 2654435761u + seed) >> 11);
    TRY(cudaMemcpy(device, host, n, cudaMemcpyHostToDevice));
    memset(host, 0x55, n);
    TRY(cudaMemcpy(host, device, n, cudaMemcpyDeviceToHost));
    long wrong = 0;
    for (std::size_t i = 0; i < n; ++i) wrong += host[i] != static_cast<char>((i * 2654435761u + seed) >> 11);
    return wrong;
}

// Both directions between `host` and the device. Up to 4 KiB a latency, what the call costs its caller: an
// implementation may return once the source can be reused, so the pair of a copy there and one back is a row of its
// own. Above, a bandwidth, with the device drained inside the measured time. Returns the wrong bytes.
long copies(const std::string& source, char* host, char* device, std::size_t n) {
    const std::string rest = "_" + source + "_" + std::to_string(n);
    if (!host || (!bench.wants("h2d" + rest) && !bench.wants("d2h" + rest) && !bench.wants("h2d+d2h" + rest))) return 0;
    const auto h2d = [&] { TRY(cudaMemcpy(device, host, n, cudaMemcpyHostToDevice)); };
    const auto d2h = [&] { TRY(cudaMemcpy(host, device, n, cudaMemcpyDeviceToHost)); };
    const auto end = [] { TRY(cudaStreamSynchronize(nullptr)); };
    const long wrong = wrong_bytes(host, device, n, static_cast<unsigned>(n));
    if (n <= 4 * KiB) {
        bench.row("h2d" + rest, "us", [&] { return each(50, h2d, end); });
        bench.row("d2h" + rest, "us", [&] { return each(50, d2h, end); });
        bench.row("h2d+d2h" + rest, "us", [&] {
            return each(
                50, [&] { h2d(), d2h(); }, end);
        });
        return wrong;
    }
    const int times = n <= 256 * KiB ? 20 : n <= 4 * MiB ? 10 : n <= 16 * MiB ? 2 : 1;
    const auto bandwidth = [&](auto copy) {
        const double s = timed([&] {
            for (int i = 0; i < times; ++i) copy();
            end();
        });
        return static_cast<double>(n) * times / s / 1e9;
    };
    bench.row("h2d" + rest, "GB/s", [&] { return bandwidth(h2d); });
    bench.row("d2h" + rest, "GB/s", [&] { return bandwidth(d2h); });
    return wrong;
}

char global_buffer[16 * MiB];

long from_stack(char* device) {
    char buffer[MiB];
    return copies("stack", buffer, device, sizeof buffer);
}

void all_copies(char* early, std::size_t early_bytes) {
    const std::size_t largest = bench.quick ? 16 * MiB : 256 * MiB;
    char* device = nullptr;
    if (!TRY(cudaMalloc(&device, largest))) return;
    long wrong[2] = {};
    for (std::size_t n :
         {std::size_t{4}, 4 * KiB, 16 * KiB, 64 * KiB, 256 * KiB, MiB, 4 * MiB, 16 * MiB, 64 * MiB, 256 * MiB}) {
        if (n > largest) break;
        char* plain = static_cast<char*>(malloc(n));
        wrong[0] += copies("malloc", plain, device, n);
        free(plain);
        char* pinned = nullptr;
        if (!TRY(cudaHostAlloc(&pinned, n, cudaHostAllocDefault))) continue;
        wrong[1] += copies("hostalloc", pinned, device, n);
        TRY(cudaFreeHost(pinned));
    }
    bench.value("wrong_bytes_malloc", "bytes", static_cast<double>(wrong[0]));
    bench.value("wrong_bytes_hostalloc", "bytes", static_cast<double>(wrong[1]));

    long staged = copies("early", early, device, early_bytes) + from_stack(device);
    staged += copies("global", global_buffer, device, sizeof global_buffer);
    for (std::size_t n : {16 * MiB, 256 * MiB}) {
        if (n > largest) break;
        void* mapped = mmap(nullptr, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (mapped == MAP_FAILED) break;
        staged += copies("mmap", static_cast<char*>(mapped), device, n);
        munmap(mapped, n);
    }
    bench.value("wrong_bytes_elsewhere", "bytes", static_cast<double>(staged));
    TRY(cudaFree(device));
}

// ---- memory --------------------------------------------------------------------------------------------------------

void memory() {
    for (std::size_t n : {4 * KiB, 16 * MiB, 256 * MiB}) {
        if (bench.quick && n > 16 * MiB) break;
        bench.row("hostalloc+free_" + std::to_string(n), "us", [&] {
            return each(n == 4 * KiB ? 20 : 1, [&] {
                void* p = nullptr;
                TRY(cudaHostAlloc(&p, n, cudaHostAllocDefault));
                TRY(cudaFreeHost(p));
            });
        });
    }
    if (bench.wants("hostregister+unreg_16M")) {
        void* p = malloc(16 * MiB);
        memset(p, 1, 16 * MiB);
        bench.row("hostregister+unreg_16M", "us", [&] {
            return each(5, [&] {
                TRY(cudaHostRegister(p, 16 * MiB, cudaHostRegisterDefault));
                TRY(cudaHostUnregister(p));
            });
        });
        free(p);
    }
    bench.row("malloc+free_1M", "us", [&] {
        return each(20, [&] {
            void* p = nullptr;
            TRY(cudaMalloc(&p, MiB));
            TRY(cudaFree(p));
        });
    });
}

// ---- streams -------------------------------------------------------------------------------------------------------

// What virtio-nvgpu's authors measure, and no row above has: see tests/bench/readme.py.
void others(cudaStream_t s) {
    cudaEvent_t sleeps;
    TRY(cudaEventCreateWithFlags(&sleeps, cudaEventBlockingSync | cudaEventDisableTiming));
    bench.row("launch+blocking_wait", "us", [&] {
        return each(100, [&] {
            launch(s);
            TRY(cudaEventRecord(sleeps, s));
            TRY(cudaEventSynchronize(sleeps));
        });
    });
    TRY(cudaEventDestroy(sleeps));
    constexpr std::size_t size = 64 * MiB;
    bench.row("hostregister_64M", "us", [&] {  // of memory that has its pages; unregistering is not measured
        void* p = malloc(size);
        memset(p, 1, size);
        const double us = each(
            1, [&] { TRY(cudaHostRegister(p, size, cudaHostRegisterDefault)); }, [&] { TRY(cudaHostUnregister(p)); });
        free(p);
        return us;
    });
    bench.row("first_write_hostalloc_64M", "GB/s", [&] {
        void* p = nullptr;
        if (!TRY(cudaHostAlloc(&p, size, cudaHostAllocDefault))) return 0.0;
        const double seconds = timed([&] { memset(p, 1, size); });
        TRY(cudaFreeHost(p));
        return static_cast<double>(size) / seconds / 1e9;
    });
    if (bench.wants("context_create")) {
        int (*create)(void**, unsigned, int) = nullptr;  // CUDA 11.0's form
        int (*destroy)(void*) = nullptr;
        cudaDriverEntryPointQueryResult found;
        for (const auto& [name, f] :
             {std::pair{"cuCtxCreate", (void**)&create}, std::pair{"cuCtxDestroy", (void**)&destroy}})
            TRY(cudaGetDriverEntryPointByVersion(name, f, 11000, cudaEnableDefault, &found));
        if (create && destroy)
            bench.row("context_create", "us", [&] {
                void* context = nullptr;
                return each(
                    1, [&] { create(&context, 0, 0); },
                    [&] {
                        destroy(context);
                        TRY(cudaSetDevice(0));
                    });
            });
    }
}

void launches(cudaStream_t s) {
    drain(s);
    bench.row("launch_post_burst200", "us", [&] {
        return each(
            200, [&] { launch(s); }, [&] { drain(s); });
    });
    const int many = bench.quick ? 2000 : 20000;
    bench.row("launch_drained", "us", [&] {
        const double us = timed([&] {
            for (int i = 0; i < many; ++i) launch(s);
            drain(s);
        });
        return us / many * 1e6;
    });
    unsigned number = 1;
    const auto at_random = [&] { return (number = number * 1664525 + 1013904223) >> 16; };
    for (const bool in_turn : {true, false})
        bench.row(in_turn ? "launch_drained_five_in_turn" : "launch_drained_five_at_random", "us", [&] {
            const double us = timed([&] {
                for (int i = 0; i < many; ++i) launch(s, in_turn ? i : at_random(), i);
                drain(s);
            });
            return us / many * 1e6;
        });
    bench.row("ten_launches+streamsync", "us", [&] {
        return each(50, [&] {
            for (int i = 0; i < 10; ++i) launch(s, i, i);
            drain(s);
        });
    });
    bench.row("launch+streamsync", "us", [&] { return each(100, [&] { launch(s), drain(s); }); });
    bench.row("streamsync_idle", "us", [&] { return each(200, [&] { drain(s); }); });
    bench.row("getdevice", "us", [&] {
        int device = 0;
        return each(1000, [&] { TRY(cudaGetDevice(&device)); });
    });
    TRY(cudaGetLastError());
}

// Work and a wait for it, with so many other streams that have nothing to do, or a kernel each.
void waits(cudaStream_t s) {
    std::vector<cudaStream_t> others;
    cudaEvent_t event;
    char *host, *device;
    if (!TRY(cudaEventCreateWithFlags(&event, cudaEventDisableTiming)) || !TRY(cudaHostAlloc(&host, 64 * KiB, 0)) ||
        !TRY(cudaMalloc(&device, 64 * KiB)))
        return;
    const double whole = std::exchange(bench.budget, std::min(bench.budget, 0.06));  // there are many
    const struct {
        const char* name;
        std::function<void(cudaStream_t)> to;
    } works[] = {
        {"launch", [](cudaStream_t in) { launch(in); }},
        {"copy4", [&](cudaStream_t in) { TRY(cudaMemcpyAsync(device, host, 4, cudaMemcpyHostToDevice, in)); }},
        {"copy64K", [&](cudaStream_t in) { TRY(cudaMemcpyAsync(device, host, 64 * KiB, cudaMemcpyHostToDevice, in)); }},
        {"memset4096", [&](cudaStream_t in) { TRY(cudaMemsetAsync(device, 0, 4096, in)); }}};
    for (const int streams : {0, 1, 8, 64}) {
        while (static_cast<int>(others.size()) < streams) {
            if (!TRY(cudaStreamCreateWithFlags(&others.emplace_back(), cudaStreamNonBlocking))) return;
            launch(others.back());
        }
        TRY(cudaDeviceSynchronize());
        // The work, and what goes before it, in a stream; then the wait.
        const auto rows = [&](const std::string& name, const std::string& end, auto work) {
            const auto row = [&](const char* how, auto wait) {
                bench.row("wait_" + name + '_' + how + '_' + std::to_string(streams) + end, "us",
                          [&] { return each(100, wait); });
            };
            row("stream", [&] { work(s), drain(s); });
            row("null", [&] { work(nullptr), drain(nullptr); });
            row("device", [&] { work(s), TRY(cudaDeviceSynchronize()); });
            row("event", [&] { work(s), TRY(cudaEventRecord(event, s)), TRY(cudaEventSynchronize(event)); });
            row("copy", [&] { work(nullptr), TRY(cudaMemcpy(host, device, 4, cudaMemcpyDeviceToHost)); });
        };
        for (const auto& work : works) rows(work.name, "", work.to);
        if (streams)
            rows("launch", "_with_work", [&](cudaStream_t in) {
                for (cudaStream_t other : others) launch(other);
                launch(in);
            });
    }
    bench.budget = whole;
    for (cudaStream_t each : others) TRY(cudaStreamDestroy(each));
    TRY(cudaEventDestroy(event));
    TRY(cudaFreeHost(host));
    TRY(cudaFree(device));
}

void events(cudaStream_t s) {
    cudaEvent_t event;
    if (!TRY(cudaEventCreateWithFlags(&event, cudaEventDisableTiming))) return;
    bench.row("event_record", "us", [&] {
        return each(
            200, [&] { TRY(cudaEventRecord(event, s)); }, [&] { drain(s); });
    });
    TRY(cudaEventRecord(event, s));
    drain(s);
    bench.row("event_query", "us", [&] { return each(1000, [&] { TRY(cudaEventQuery(event)); }); });
    TRY(cudaEventDestroy(event));
}

void posts(cudaStream_t s) {
    char *device = nullptr, *pinned = nullptr, *plain = static_cast<char*>(malloc(KiB));
    if (!TRY(cudaMalloc(&device, 16 * MiB)) || !TRY(cudaHostAlloc(&pinned, 16 * MiB, cudaHostAllocDefault))) return;
    memset(plain, 1, KiB);
    memset(pinned, 1, 16 * MiB);
    bench.row("memcpyasync_h2d_malloc_1K", "us", [&] {
        return each(
            100, [&] { TRY(cudaMemcpyAsync(device, plain, KiB, cudaMemcpyHostToDevice, s)); }, [&] { drain(s); });
    });
    bench.row("memcpyasync_h2d_hostalloc_16M_post", "us", [&] {
        return each(
            8, [&] { TRY(cudaMemcpyAsync(device, pinned, 16 * MiB, cudaMemcpyHostToDevice, s)); }, [&] { drain(s); });
    });
    bench.row("memset_1M_async", "us", [&] {
        return each(
            100, [&] { TRY(cudaMemsetAsync(device, 0, MiB, s)); }, [&] { drain(s); });
    });
    TRY(cudaFree(device));
    TRY(cudaFreeHost(pinned));
    free(plain);
}

// How much of the shorter one of a copy and a kernel hides behind the other, when they run in two streams.
void overlap(cudaStream_t s) {
    if (!bench.wants("overlap_hidden")) return;
    const std::size_t n = bench.quick ? 16 * MiB : 256 * MiB;
    cudaStream_t other;
    char *device = nullptr, *pinned = nullptr;
    if (!TRY(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking)) || !TRY(cudaMalloc(&device, n + 4)) ||
        !TRY(cudaHostAlloc(&pinned, n, cudaHostAllocDefault)))
        return;
    memset(pinned, 1, n);
    float* out = reinterpret_cast<float*>(device + n);
    int turns = 1 << 10;
    const auto copy = [&] { TRY(cudaMemcpyAsync(device, pinned, n, cudaMemcpyHostToDevice, other)); };
    const auto compute = [&] { spin<<<1, 1, 0, s>>>(turns, out); };
    const auto wait = [&] { drain(s), drain(other); };
    const auto time_of = [&](auto work) {
        std::vector<double> times;
        for (int i = 0; i < (bench.quick ? 3 : 9); ++i) times.push_back(timed([&] { work(), wait(); }));
        return median(times);
    };
    time_of(copy), time_of(compute);
    const double copy_alone = time_of(copy);
    while (turns < 1 << 30 && time_of(compute) < 1.2 * copy_alone) turns *= 2;
    bench.row("overlap_hidden", "percent", [&] {
        const double c = time_of(copy), k = time_of(compute), both = time_of([&] { compute(), copy(); });
        return 100 * (c + k - both) / std::min(c, k);
    });
    TRY(cudaStreamDestroy(other));
    TRY(cudaFree(device));
    TRY(cudaFreeHost(pinned));
}

// Managed memory. What a program pays for it when the data stays where it is, and when it moves between CPU and GPU.
void managed(cudaStream_t s) {
    const std::size_t bytes = bench.quick ? 16 * MiB : 1024 * MiB;
    const int n = static_cast<int>(bytes / sizeof(int)), few = 4096;
    const cudaMemLocation gpu{cudaMemLocationTypeDevice, 0}, cpu{cudaMemLocationTypeHost, 0};
    int *all = nullptr, *some = nullptr;
    if (!TRY(cudaMallocManaged(&all, bytes)) || !TRY(cudaMallocManaged(&some, few * sizeof(int)))) return;
    const auto kernel = [&](int* at, int count) { add_one<<<(count + 255) / 256, 256, 0, s>>>(at, count); };
    const auto write = [&] { memset(all, 1, bytes); };
    const auto look = [&] {
        long sum = 0;
        for (int i = 0; i < n; i += 1024) sum += reinterpret_cast<volatile int*>(all)[i];
        return sum;
    };
    const double gib = static_cast<double>(bytes) / (1 << 30) * 1.073741824;  // GB
    write(), kernel(all, n), drain(s);
    bench.row("managed_kernel_on_the_gpu", "GB/s",
              [&] { return 2 * gib / (each(5, [&] { kernel(all, n), drain(s); }) / 1e6); });
    bench.row("managed_first_touch_by_the_gpu", "GB/s", [&] {
        write();
        return gib / timed([&] { kernel(all, n), drain(s); });
    });
    bench.row("managed_first_touch_by_the_cpu", "GB/s", [&] {
        kernel(all, n), drain(s);
        return gib / timed([&] { look(); });
    });
    bench.row("managed_to_and_fro_16K", "us", [&] {
        return each(20, [&] {
            for (int i = 0; i < few; i += 1024) some[i] += 1;
            kernel(some, few), drain(s);
        });
    });
    bench.row("managed_prefetch_to_the_gpu", "GB/s", [&] {
        write();
        return gib / timed([&] { TRY(cudaMemPrefetchAsync(all, bytes, gpu, 0, s)), drain(s); });
    });
    bench.row("managed_prefetch_to_the_cpu", "GB/s", [&] {
        kernel(all, n), drain(s);
        return gib / timed([&] { TRY(cudaMemPrefetchAsync(all, bytes, cpu, 0, s)), drain(s), look(); });
    });
    write(), kernel(all, n), drain(s);
    long wrong = 0;
    for (int i = 0; i < n; i += 1024) wrong += all[i] != 0x01010102;
    bench.value("wrong_words_managed", "words", static_cast<double>(wrong));
    TRY(cudaFree(all));
    TRY(cudaFree(some));
}

// A kernel adds one to memory of the host, in place.
void mapped(cudaStream_t s) {
    if (!bench.wants("mapped_kernel_sees_host_memory")) return;
    constexpr int n = 10000;
    int *host = nullptr, *seen = nullptr;
    if (!TRY(cudaHostAlloc(&host, n * sizeof(int), cudaHostAllocMapped))) return;
    for (int i = 0; i < n; ++i) host[i] = i;
    TRY(cudaHostGetDevicePointer(&seen, host, 0));
    add_one<<<(n + 255) / 256, 256, 0, s>>>(seen, n);
    TRY(cudaGetLastError());
    drain(s);
    bool right = true;
    for (int i = 0; i < n; ++i) right &= host[i] == i + 1;
    bench.value("mapped_kernel_sees_host_memory", "bool", right);
    TRY(cudaFreeHost(host));
}

// ---- what kernels take: the software GPU's own figures -------------------------------------------------------------

constexpr int tile = 16;

// C = A * B, all of side n, by tiles in shared memory: matrixMul of NVIDIA's samples
__global__ void sgemm(float* c, const float* a, const float* b, int n) {
    __shared__ float of_a[tile][tile], of_b[tile][tile];
    const int x = static_cast<int>(threadIdx.x), y = static_cast<int>(threadIdx.y);
    const int row = static_cast<int>(blockIdx.y) * tile + y, column = static_cast<int>(blockIdx.x) * tile + x;
    float sum = 0;
    for (int at = 0; at < n; at += tile) {
        of_a[y][x] = a[row * n + at + x];
        of_b[y][x] = b[(at + y) * n + column];
        __syncthreads();
#pragma unroll
        for (int k = 0; k < tile; ++k) sum += of_a[y][k] * of_b[k][x];
        __syncthreads();
    }
    c[row * n + column] = sum;
}

__global__ void integers(unsigned* out, int rounds) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned x = i, y = i * 7 + 1;
    for (int k = 0; k < rounds; ++k) {
        x = x * 1664525u + 1013904223u;
        y ^= x >> 3;
        y += (y << 5) ^ static_cast<unsigned>(k);
        x += y & 0xFF;
    }
    out[i] = x ^ y;
}

void kernels(cudaStream_t s) {
    if (!bench.wants("sgemm_1024") && !bench.wants("integer_loop") && !bench.wants("bodies_16K")) return;
    constexpr int n = 1024;
    constexpr std::size_t bytes = sizeof(float) * n * n;
    float *a = nullptr, *b = nullptr, *c = nullptr;
    if (!TRY(cudaMalloc(&a, bytes)) || !TRY(cudaMalloc(&b, bytes)) || !TRY(cudaMalloc(&c, bytes))) return;
    TRY(cudaMemset(a, 0, bytes));
    TRY(cudaMemset(b, 0, bytes));
    const auto timed_kernel = [&](auto&& launch) { return timed([&] { launch(), drain(s); }) * 1e6; };
    bench.row("sgemm_1024", "us", [&] {
        return timed_kernel([&] { sgemm<<<dim3(n / tile, n / tile), dim3(tile, tile), 0, s>>>(c, a, b, n); });
    });
    bench.row("integer_loop", "us",
              [&] { return timed_kernel([&] { integers<<<64, 256, 0, s>>>(reinterpret_cast<unsigned*>(c), 1000); }); });
    bench.row(bench.quick ? "bodies_1K" : "bodies_16K", "us", [&] {
        const int count = bench.quick ? 1 << 10 : 1 << 14;
        return timed_kernel([&] {
            bodies<<<count / 256, 256, 0, s>>>(reinterpret_cast<float4*>(a), reinterpret_cast<float4*>(c), count);
        });
    });
    for (float* each : {a, b, c}) TRY(cudaFree(each));
}

// ---- other modes ---------------------------------------------------------------------------------------------------

double cpu_seconds() {
    rusage used;
    getrusage(RUSAGE_SELF, &used);
    const auto seconds = [](const timeval& t) {
        return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
    };
    return seconds(used.ru_utime) + seconds(used.ru_stime);
}

void wait_for_line() {
    for (int c; (c = getchar()) != '\n' && c != EOF;) {}
}

// A client that has used the GPU and now sleeps. Who started it measures the host's side between the two lines.
int idle(double seconds) {
    start();
    usleep(300000);  // let the start-up's last work end
    printf("{\"idle\": \"begin\"}\n");
    fflush(stdout);
    const double before = cpu_seconds();
    usleep(static_cast<useconds_t>(seconds * 1e6));
    const double used = cpu_seconds() - before;
    printf("{\"idle\": \"end\"}\n");
    bench.value("idle_client_cpu", "percent", 100 * used / seconds);
    return 0;
}

// Device memory of a known content, which is still there when a line has come.
int hold(size_t bytes) {
    unsigned char *memory, ends[2] = {};
    TRY(cudaMalloc(&memory, bytes));
    TRY(cudaMemset(memory, 0x5a, bytes));
    TRY(cudaDeviceSynchronize());
    printf("{\"hold\": \"begin\"}\n");
    fflush(stdout);
    wait_for_line();
    TRY(cudaMemcpy(&ends[0], memory, 1, cudaMemcpyDeviceToHost));
    TRY(cudaMemcpy(&ends[1], memory + bytes - 1, 1, cudaMemcpyDeviceToHost));
    return bench.failures || ends[0] != 0x5a || ends[1] != 0x5a;
}

// When a line has come: `what` so often, and the processors' time for it. Then it waits for another line.
int work(const std::string& what, long times) {
    cudaStream_t s;
    char *device, *host;
    TRY(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    TRY(cudaMalloc(&device, 16 * MiB));
    TRY(cudaHostAlloc(&host, 16 * MiB, cudaHostAllocDefault));
    memset(host, 1, 16 * MiB);
    std::function<void()> once;
    if (what == "copies_16M") {
        once = [=, back = false]() mutable {
            if (back) TRY(cudaMemcpyAsync(host, device, 16 * MiB, cudaMemcpyDeviceToHost, s));
            else TRY(cudaMemcpyAsync(device, host, 16 * MiB, cudaMemcpyHostToDevice, s));
            back = !back;
            drain(s);
        };
    } else if (what == "copies_4K") {
        once = [=] { TRY(cudaMemcpy(host, device, 4 * KiB, cudaMemcpyDeviceToHost)); };
    } else if (what == "launches") {
        once = [=] { launch(s); };
    } else if (what == "launches_and_waits") {
        once = [=] {
            launch(s);
            drain(s);
        };
    } else {
        return fprintf(stderr, "cuda_bench: no work %s\n", what.c_str()), 2;
    }
    once();
    drain(s);
    printf("{\"work\": \"ready\"}\n");
    fflush(stdout);
    wait_for_line();
    const double before = cpu_seconds(), start = now();
    for (long i = 0; i < times; ++i) once();
    drain(s);
    bench.value("work_time", "s", now() - start);
    bench.value("work_cpu", "s", cpu_seconds() - before);
    printf("{\"work\": \"done\"}\n");
    fflush(stdout);
    wait_for_line();
    return bench.failures != 0;
}

// One of several processes that launch at once: ready, go, then microseconds a launch over the whole time.
double launch_for(double seconds) {
    cudaStream_t s;
    TRY(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    const auto burst = [&] {
        for (int i = 0; i < 1000; ++i) launch(s);
        drain(s);
    };
    burst();
    wait_for_go();
    long n = 0;
    const double start = now();
    for (; now() - start < seconds; n += 1000) burst();
    const double us = (now() - start) / static_cast<double>(n) * 1e6;
    return bench.failures ? -1 : us;
}

int several(int processes) {
    std::vector<double> us;
    if (!run_together(processes, bench.quick, us)) return fprintf(stderr, "cuda_bench: a process failed\n"), 1;
    std::sort(us.begin(), us.end());
    const std::string name = "launch_" + std::to_string(processes) + "_processes";
    bench.value(name, "us", median(us));
    bench.value(name + "_slowest", "us", us.back());
    return 0;
}

int help(int status) {
    printf(
        "cuda_bench [--quick] [--only PATTERN,...] [--budget MS] | --start | --processes N | --idle SECONDS\n"
        "           | --hold MIB | --work WHAT TIMES\n"
        "  --quick        smaller and fewer, for a software GPU; the first line of the output says so\n"
        "  --only         only metrics that match, e.g. 'h2d_*,launch*'\n"
        "  --budget       milliseconds for one metric (300; quick: 60)\n"
        "  --start        the first call and the first launch, no more\n"
        "  --processes N  N processes launch kernels at once: the cost of a launch in each\n"
        "  --idle S       use the GPU once, then sleep\n"
        "  --hold MIB     allocate MIB of device memory, wait for a line, check the memory\n"
        "  --work WHAT N  wait for a line, do it N times, tell what processors did: copies_16M, copies_4K, launches,\n"
        "                 launches_and_waits\n"
        "One line of JSON for each metric. Exit status 77: no device.\n");
    return status;
}

}  // namespace

int main(int argc, char** argv) {
    int processes = 0;
    bool one_of_several = false, only_start = false;
    double idle_seconds = 0, budget = 0;
    size_t hold_mib = 0;
    std::string what;
    long times = 0;
    for (int i = 1; i < argc; ++i) {
        const std::string o = argv[i];
        const char* next = i + 1 < argc ? argv[i + 1] : nullptr;
        if (o == "--quick") bench.quick = true;
        else if (o == "--help") return help(0);
        else if (o == "--start") only_start = true;
        else if (o == "--only" && next) bench.only = argv[++i];
        else if (o == "--budget" && next) budget = atof(argv[++i]) / 1e3;
        else if (o == "--processes" && next) processes = atoi(argv[++i]);
        else if (o == "--idle" && next) idle_seconds = atof(argv[++i]);
        else if (o == "--hold" && next) hold_mib = strtoul(argv[++i], nullptr, 10);
        else if (o == "--work" && i + 2 < argc) {
            what = argv[++i];
            times = atol(argv[++i]);
        } else if (o == in_step) one_of_several = true;
        else return help(2);
    }
    bench.budget = budget > 0 ? budget : bench.quick ? 0.06 : 0.3;
    if (bench.quick) bench.enough = 21;
    if (one_of_several) return finish_in_step(launch_for(bench.quick ? 0.3 : 1.0));
    if (only_start) return start(), bench.failures ? 77 : 0;
    if (processes > 0) return several(processes);
    if (idle_seconds > 0) return idle(idle_seconds);
    if (hold_mib > 0) return hold(hold_mib * MiB);
    if (!what.empty()) return work(what, times);

    char* early = static_cast<char*>(malloc(16 * MiB));
    start();
    cudaDeviceProp device;
    if (bench.failures || !TRY(cudaGetDeviceProperties(&device, 0)))
        return fprintf(stderr, "cuda_bench: no device\n"), 77;
    printf("{\"device\": \"%s\", \"quick\": %s}\n", device.name, bench.quick ? "true" : "false");

    cudaStream_t s;
    if (!TRY(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking))) return 1;
    launches(s);
    if (bench.names("wait_")) waits(s);  // parts of their own: tests/bench/run --part waits,managed
    events(s);
    posts(s);
    memory();
    others(s);
    all_copies(early, 16 * MiB);
    overlap(s);
    if (bench.names("managed_")) managed(s);
    mapped(s);
    kernels(s);
    TRY(cudaStreamDestroy(s));
    TRY(cudaDeviceSynchronize());
    bench.value("failures", "calls", static_cast<double>(bench.failures));
    free(early);
    return 0;
}
