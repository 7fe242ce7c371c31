// SPDX-License-Identifier: Apache-2.0
// many_bench.cu: many at once. Threads that launch on streams of their own and on one, and that allocate; thousands of
// streams and events; code that is large or much (modules.h); and a program that begins when it is told to, so that
// many can begin together (tests/bench/several.py). As cuda_bench it is an ordinary program of the runtime API, and
// knows nothing of Barcuda.
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "calls.h"
#include "modules.h"

namespace {

// ---- threads -------------------------------------------------------------------------------------------------------

// Microseconds for one operation, over all threads: each calls `work` with its number again and again for `seconds`;
// a call does `operations` of them. The threads have each done it once before the time begins.
template <class F> double together(int threads, int operations, double seconds, F work) {
    std::atomic<int> ready{0}, failed{0};
    std::atomic<bool> go{false};
    std::atomic<long> done{0};
    std::vector<std::thread> all;
    for (int t = 0; t < threads; ++t)
        all.emplace_back([&, t] {
            bool well = work(t);
            ++ready;
            while (!go) std::this_thread::yield();
            const double start = now();
            for (; well && now() - start < seconds; done += operations) well = work(t);
            failed += !well;
        });
    while (ready < threads) std::this_thread::yield();
    const double start = now();
    go = true;
    for (std::thread& one : all) one.join();
    if (failed) bench.failure("a thread", "its work failed");
    return (now() - start) / static_cast<double>(std::max(done.load(), 1L)) * 1e6;
}

void threads() {
    const double seconds = bench.quick ? 0.02 : 0.05;
    const int burst = bench.quick ? 100 : 1000;
    constexpr int most = 16, few = 20;
    constexpr std::size_t bytes = 4096;
    cudaStream_t streams[most];
    cudaEvent_t events[most];
    char *host, *device;
    if (!TRY(cudaHostAlloc(&host, most * bytes, 0)) || !TRY(cudaMalloc(&device, most * bytes))) return;
    for (int i = 0; i < most; ++i)
        if (!TRY(cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking)) ||
            !TRY(cudaEventCreateWithFlags(&events[i], cudaEventDisableTiming)))
            return;
    // Bench::failure is for one thread: those here tell that something failed, and what is left in cudaGetLastError.
    const auto launches = [&](cudaStream_t stream) {
        for (int i = 0; i < burst; ++i) empty<<<1, 1, 0, stream>>>();
        return cudaGetLastError() == cudaSuccess && cudaStreamSynchronize(stream) == cudaSuccess;
    };
    const auto rounds = [&](int t) {
        for (int i = 0; i < few; ++i) {
            empty<<<1, 1, 0, streams[t]>>>();
            if (cudaMemcpyAsync(device + t * bytes, host + t * bytes, bytes, cudaMemcpyHostToDevice, streams[t]) !=
                    cudaSuccess ||
                cudaEventRecord(events[t], streams[t]) != cudaSuccess || cudaEventSynchronize(events[t]) != cudaSuccess)
                return false;
        }
        return cudaGetLastError() == cudaSuccess;
    };
    const struct {
        const char* name;
        std::function<bool(int)> round;
    } waits[] = {{"launch",
                  [&](int t) {
                      empty<<<1, 1, 0, streams[t]>>>();
                      return cudaStreamSynchronize(streams[t]) == cudaSuccess;
                  }},
                 {"launch+device",
                  [&](int t) {
                      empty<<<1, 1, 0, streams[t]>>>();
                      return cudaDeviceSynchronize() == cudaSuccess;
                  }},
                 {"copy4",
                  [&](int t) {
                      return cudaMemcpyAsync(device + t * bytes, host + t * bytes, 4, cudaMemcpyHostToDevice,
                                             streams[t]) == cudaSuccess &&
                             cudaStreamSynchronize(streams[t]) == cudaSuccess;
                  }},
                 {"memset4096", [&](int t) {
                      return cudaMemsetAsync(device + t * bytes, 0, bytes, streams[t]) == cudaSuccess &&
                             cudaStreamSynchronize(streams[t]) == cudaSuccess;
                  }}};
    const auto storm = [](int) {  // from 4 KiB to 512 KiB
        void* all[few];
        bool well = true;
        for (int i = 0; i < few; ++i) well = cudaMalloc(&all[i], std::size_t{4096} << i % 8) == cudaSuccess && well;
        for (void* one : all) well = cudaFree(one) == cudaSuccess && well;
        return well;
    };
    for (const int n : {1, 4, 16}) {
        const std::string name = '_' + std::to_string(n) + (n == 1 ? "_thread" : "_threads");
        bench.row("launch" + name + "_own_streams", "us",
                  [&] { return together(n, burst, seconds, [&](int t) { return launches(streams[t]); }); });
        bench.row("launch" + name + "_one_stream", "us",
                  [&] { return together(n, burst, seconds, [&](int) { return launches(streams[0]); }); });
        bench.row("launch+copy+record+wait" + name, "us", [&] { return together(n, few, seconds, rounds); });
        for (const auto& wait : waits)
            bench.row(std::string(wait.name) + "+wait" + name, "us",
                      [&] { return together(n, 1, seconds, wait.round); });
        bench.row("malloc+free" + name, "us", [&] { return together(n, few, seconds, storm); });
    }
    for (int i = 0; i < most; ++i) TRY(cudaStreamDestroy(streams[i])), TRY(cudaEventDestroy(events[i]));
    TRY(cudaFreeHost(host));
    TRY(cudaFree(device));
}

// ---- objects -------------------------------------------------------------------------------------------------------

double resident() {  // bytes of this process
    long pages = 0, all = 0;
    if (FILE* f = fopen("/proc/self/statm", "r")) {
        if (fscanf(f, "%ld %ld", &all, &pages) != 2) pages = 0;
        fclose(f);
    }
    return static_cast<double>(pages) * static_cast<double>(sysconf(_SC_PAGESIZE));
}

// Says where it is, and goes on when a line comes: time to look at other processes.
void tell(const char* where) {
    printf("{\"at\": \"%s\", \"client_memory\": %.0f}\n", where, resident());
    fflush(stdout);
    for (int c = getchar(); c != '\n' && c != EOF;) c = getchar();
}

template <class T, class Make, class Destroy> void objects(const std::string& name, int n, Make make, Destroy destroy) {
    std::vector<T> all(static_cast<std::size_t>(n));
    make(&all[0]), destroy(all[0]);
    TRY(cudaDeviceSynchronize());
    tell((name + "s to make").c_str());
    const double before = resident(), made = timed([&] {
        for (T& one : all) make(&one);
    });
    TRY(cudaDeviceSynchronize());
    const double after = resident();
    tell((name + "s made").c_str());
    const double destroyed = timed([&] {
        for (const T one : all) destroy(one);
    });
    TRY(cudaDeviceSynchronize());
    if (bench.failures) return bench.refused(name + "_create");
    bench.value(name + "_create", "us", made / n * 1e6);
    bench.value(name + "_destroy", "us", destroyed / n * 1e6);
    bench.value(name + "_client_memory", "bytes", std::max(after - before, 0.0) / n);
}

void many_objects(int n) {
    objects<cudaStream_t>(
        "stream", n, [](cudaStream_t* s) { TRY(cudaStreamCreateWithFlags(s, cudaStreamNonBlocking)); },
        [](cudaStream_t s) { TRY(cudaStreamDestroy(s)); });
    objects<cudaEvent_t>("event", n,
        [](cudaEvent_t* e) {
            TRY(cudaEventCreateWithFlags(e, cudaEventDisableTiming));
            TRY(cudaEventRecord(*e, nullptr));  // one that was never recorded may cost nothing
        },
        [](cudaEvent_t e) { TRY(cudaEventDestroy(e)); });
}

// ---- a program that begins with others -----------------------------------------------------------------------------

int begin() {
    constexpr std::size_t bytes = 16 << 20;
    tell("ready");
    const double call = timed([] { TRY(cudaFree(nullptr)); });
    const double launch = timed([] {
        empty<<<1, 1>>>();
        TRY(cudaGetLastError());
        TRY(cudaDeviceSynchronize());
    });
    char *host = static_cast<char*>(malloc(bytes)), *device = nullptr;
    memset(host, 1, bytes);
    const double copy = timed([&] {
        TRY(cudaMalloc(&device, bytes)), TRY(cudaMemcpy(device, host, bytes, cudaMemcpyHostToDevice)), drain(nullptr);
    });
    if (bench.failures) return 77;
    bench.value("first_call", "ms", call * 1e3);
    bench.value("first_launch", "ms", launch * 1e3);
    bench.value("first_copy_16M", "ms", copy * 1e3);
    TRY(cudaFree(device));
    free(host);
    return bench.failures != 0;
}

int help(int status) {
    printf(
        "many_bench [--quick] [--only PATTERN,...] [--budget MS] | --objects N | --code MB | --begin\n"
        "  --quick      smaller and fewer, for a software GPU\n"
        "  --only       only metrics that match, e.g. 'launch_16*'\n"
        "  --budget     milliseconds for one metric (200; quick: 60)\n"
        "  --objects N  N streams, then N events: time and memory of each; a line on stdin lets it go on\n"
        "  --code MB    modules of MB megabytes, a thousand kernels, parameters by the KiB; a line on stdin lets it go "
        "on\n"
        "  --begin      waits for a line on stdin; then the first call, the first launch, the first copy of malloc's "
        "memory\n"
        "One line of JSON for each metric; without an option, 1 to 16 threads. Exit status 77: no device.\n");
    return status;
}

}  // namespace

int main(int argc, char** argv) {
    int number = 0, megabytes = 0;
    double budget = 0;
    for (int i = 1; i < argc; ++i) {
        const std::string o = argv[i];
        const char* next = i + 1 < argc ? argv[i + 1] : nullptr;
        if (o == "--quick") bench.quick = true;
        else if (o == "--help") return help(0);
        else if (o == "--begin") return begin();
        else if (o == "--only" && next) bench.only = argv[++i];
        else if (o == "--budget" && next) budget = atof(argv[++i]) / 1e3;
        else if (o == "--objects" && next) number = atoi(argv[++i]);
        else if (o == "--code" && next) megabytes = atoi(argv[++i]);
        else return help(2);
    }
    bench.budget = budget > 0 ? budget : bench.quick ? 0.06 : 0.2;
    cudaDeviceProp device;
    if (!TRY(cudaGetDeviceProperties(&device, 0))) return fprintf(stderr, "many_bench: no device\n"), 77;
    printf("{\"device\": \"%s\", \"quick\": %s}\n", device.name, bench.quick ? "true" : "false");
    fflush(stdout);
    if (number > 0) many_objects(number);
    else if (megabytes > 0) code::measure(megabytes, [](const std::string& where) { tell(where.c_str()); });
    else threads();
    return bench.failures != 0;
}
