// SPDX-License-Identifier: Apache-2.0
// held_bench.cu: what a thread's call waits for while another thread's call is held. Thread A fills a stream until its
// launch blocks, or loads 100 MB of code, or makes a stream while a kernel runs; thread B makes one call of another
// stream meanwhile. A round is a process's own: what the driver does the first time has been done before. As the other
// benchmark programs it knows nothing of Barcuda.
#include <unistd.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "modules.h"

namespace {

using Word = volatile unsigned;

__global__ void spin(Word* word, unsigned until) {
    while (*word < until) {}
}

constexpr double held_for = 0.3;  // seconds until the kernel that A waits for is let go
constexpr std::size_t bytes = 4096;

struct Room {
    code::Driver driver;
    decltype(&cuStreamWriteValue32) write_value;
    cudaStream_t full = nullptr, other = nullptr;
    cudaEvent_t event = nullptr;
    char *host = nullptr, *device = nullptr;
    Word *word = nullptr, *seen = nullptr;  // as the CPU and as the GPU name it
    unsigned round = 0;
    code::Large large;
    code::Image small;

    bool open(std::size_t megabytes) {
        code::Driver::find(write_value, "cuStreamWriteValue32");
        void *at = nullptr, *there = nullptr;
        if (!TRY(cudaStreamCreateWithFlags(&full, cudaStreamNonBlocking)) ||
            !TRY(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking)) ||
            !TRY(cudaEventCreateWithFlags(&event, cudaEventDisableTiming)) || !TRY(cudaMalloc(&device, bytes)) ||
            !TRY(cudaHostAlloc(&host, bytes, 0)) || !TRY(cudaHostAlloc(&at, sizeof(unsigned), cudaHostAllocMapped)) ||
            !TRY(cudaHostGetDevicePointer(&there, at, 0)))
            return false;
        word = static_cast<Word*>(at), seen = static_cast<Word*>(there);
        *word = 0;
        large = code::with_variable(driver, megabytes << 20);
        small = code::linked(driver, code::opening + ".visible .entry nothing() { ret; }\n");
        return !large.image.empty() && !small.empty();
    }
};

struct Call {
    const char* name;
    std::function<bool(Room&)> make;
};

// And does not unload it: that waits for the whole device.
bool load(Room& room, const code::Image& image) {
    CUmodule module;
    return DO(room.driver.load(&module, image.data()));
}

bool make_stream(Room&) {
    cudaStream_t stream;
    return TRY(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking)) && TRY(cudaStreamDestroy(stream));
}

bool launch(Room& room) {
    empty<<<1, 1, 0, room.other>>>();
    return TRY(cudaGetLastError());
}

const std::vector<Call> calls = {
    {"launch", launch},
    {"launch_and_wait", [](Room& room) { return launch(room) && TRY(cudaStreamSynchronize(room.other)); }},
    {"copy",
     [](Room& room) {
         return TRY(cudaMemcpyAsync(room.device, room.host, bytes, cudaMemcpyHostToDevice, room.other));
     }},
    {"record", [](Room& room) { return TRY(cudaEventRecord(room.event, room.other)); }},
    {"query",
     [](Room& room) {
         const cudaError_t answer = cudaEventQuery(room.event);
         return answer == cudaErrorNotReady || TRY(answer);
     }},
    {"write_value",
     [](Room& room) { return DO(room.write_value(room.other, reinterpret_cast<CUdeviceptr>(room.device), 1, 0)); }},
    {"malloc",
     [](Room&) {
         void* p;
         return TRY(cudaMalloc(&p, 1 << 20));  // and no cudaFree: it waits for the whole device
     }},
    {"stream", make_stream},
    {"module", [](Room& room) { return load(room, room.small); }},
};

// A thread that begins has no current context.
bool in_context() { return TRY(cudaSetDevice(0)); }

// Seconds of B's call while A is held, and whether A still was when B had ended. `enter` is A's call; it returns when
// A's work is done, or when the word is set.
struct Held {
    double seconds = 0;
    bool well = false;
};

template <class F> Held beside(Room& room, const Call& call, double settle, F enter) {
    std::atomic<bool> a_well{true}, b_done{false};
    Held held;
    const unsigned until = ++room.round;
    std::thread a([&] { a_well = in_context() && enter(until); });
    usleep(static_cast<useconds_t>(settle * 1e6));
    std::thread b([&] {
        in_context();
        held.seconds = timed([&] { held.well = call.make(room); });
        b_done = true;
    });
    for (const double start = now(); !b_done && now() - start < held_for;) usleep(100);
    *room.word = until;
    a.join();
    b.join();
    held.well = held.well && a_well && TRY(cudaDeviceSynchronize());
    return held;
}

using Enter = std::function<bool(Room&, unsigned until)>;

struct Situation {
    const char* name;
    double settle;  // seconds until A is held for sure
    Enter enter;
};

bool spins(Room& room, unsigned until) {
    spin<<<1, 1, 0, room.full>>>(room.seen, until);
    return TRY(cudaGetLastError());
}

constexpr int many = 6000;  // launches: more than a stream takes of any driver known

const std::vector<Situation> situations = {
    {"free", 0.01, [](Room&, unsigned) { return true; }},
    {"full", 0.15,
     [](Room& room, unsigned until) {
         if (!spins(room, until)) return false;
         for (int i = 0; i < many; ++i) empty<<<1, 1, 0, room.full>>>();
         return TRY(cudaGetLastError());
     }},
    {"loading", 0.01, [](Room& room, unsigned) { return load(room, room.large.image); }},
    {"stream_made", 0.05, [](Room& room, unsigned until) { return spins(room, until) && make_stream(room); }},
};

// How many launches a stream takes behind a kernel that runs, until the next one blocks for a tenth of a second;
// `many`: none did.
double depth(Room& room) {
    std::atomic<int> given{0};
    const unsigned until = ++room.round;
    std::thread a([&] {
        spins(room, until);
        for (; given < many; ++given) empty<<<1, 1, 0, room.full>>>();
        TRY(cudaGetLastError());
    });
    int before = -1;
    while (given != before) {
        before = given;
        usleep(100000);
    }
    *room.word = until;
    a.join();
    TRY(cudaDeviceSynchronize());
    return before;
}

int help(int status) {
    printf(
        "held_bench [--only PATTERN,...] [--code MB] [--repetitions N]\n"
        "  --only         only metrics that match, e.g. 'held_full_*'\n"
        "  --code MB      of the module that is loaded (100)\n"
        "  --repetitions  of each pair of calls (5)\n"
        "One line of JSON for each metric: held_A_B is what B's call took while A was held, in microseconds; %g ms "
        "are\n"
        "`until A was let go`. Exit status 77: no device.\n",
        held_for * 1e3);
    return status;
}

}  // namespace

int main(int argc, char** argv) {
    int megabytes = 100, repetitions = 5;
    for (int i = 1; i < argc; ++i) {
        const std::string o = argv[i];
        const char* next = i + 1 < argc ? argv[i + 1] : nullptr;
        if (o == "--help") return help(0);
        else if (o == "--only" && next) bench.only = argv[++i];
        else if (o == "--code" && next) megabytes = atoi(argv[++i]);
        else if (o == "--repetitions" && next) repetitions = atoi(argv[++i]);
        else return help(2);
    }
    cudaDeviceProp device;
    if (!TRY(cudaGetDeviceProperties(&device, 0))) return fprintf(stderr, "held_bench: no device\n"), 77;
    printf("{\"device\": \"%s\", \"quick\": false}\n", device.name);
    Room room;
    if (!room.open(static_cast<std::size_t>(megabytes))) return 1;
    for (const Call& call : calls) beside(room, call, 0, [](unsigned) { return true; });  // each once before
    TRY(cudaEventRecord(room.event, room.other));
    bench.value("launches_until_full", "launches", depth(room));
    for (const Situation& s : situations)
        for (const Call& call : calls) {
            const std::string name = std::string("held_") + s.name + "_" + call.name;
            if (!bench.wants(name)) continue;
            std::vector<double> seconds;
            const long before = bench.failures;
            for (int i = 0; i < repetitions; ++i) {
                const Held held = beside(room, call, s.settle, [&](unsigned until) { return s.enter(room, until); });
                if (held.well) seconds.push_back(held.seconds);
            }
            if (bench.failures != before || seconds.empty()) bench.refused(name);
            else bench.value(name, "us", median(seconds) * 1e6);
        }
    return bench.failures != 0;
}
