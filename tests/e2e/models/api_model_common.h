// SPDX-License-Identifier: Apache-2.0
// api_model_common.h: what the lanes of api_model.cu share: options, kernels that check, the driver's own calls, gates.
#pragma once
#include <cuda.h>
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <thread>
#include <vector>

#include "model.h"

namespace {

double forks = 1, prints = 1;  // options
std::atomic<uint64_t> things{0}, printed{0};

using Word = volatile unsigned;

// ---- kernels. What they find wrong they write down: which check, what was wanted, what was there.
enum Check : unsigned { fine, turn, mark, behind, contents, graph_order };
struct Wrong {
    unsigned check, want, got;
};

__device__ void wrong(volatile Wrong* w, unsigned check, unsigned want, unsigned got) {
    w->want = want;
    w->got = got;
    w->check = check;
    __threadfence_system();
}
__device__ unsigned idle(unsigned turns) {
    unsigned x = turns;
    for (unsigned i = 0; i < turns; ++i) x = x * 1664525 + 1013904223;
    return x;
}

// A stream's turn: its count is `at`, its mark is what was last set there.
__global__ void take_turn(Word* count, unsigned at, Word* its_mark, unsigned mark_is, unsigned turns, Wrong* w) {
    if (*count != at) wrong(w, turn, at, *count);
    if (*its_mark != mark_is) wrong(w, mark, mark_is, *its_mark);
    if (idle(turns) == 1) *its_mark = mark_is;
    *count = at + 1;
    __threadfence_system();
}
// And what was given to another stream before is done.
__global__ void take_turn_behind(Word* count, unsigned at, Word* other, unsigned least, Wrong* w) {
    if (*count != at) wrong(w, turn, at, *count);
    if (*other < least) wrong(w, behind, least, *other);
    *count = at + 1;
    __threadfence_system();
}
__global__ void take_turn_at_gate(Word* count, unsigned at, Word* gate, Wrong* w) {
    if (*count != at) wrong(w, turn, at, *count);
    while (!*gate) {}
    if (*count != at) wrong(w, turn, at, *count);
    *count = at + 1;
    __threadfence_system();
}
__global__ void take_turn_printing(Word* count, unsigned at, Wrong* w) {
    if (*count != at) wrong(w, turn, at, *count);
    *count = at + 1;
    __threadfence_system();
    printf("said\n");
}
__global__ void fill(unsigned* memory, unsigned n, unsigned value) {
    for (unsigned i = threadIdx.x; i < n; i += blockDim.x) memory[i] = value + i;
}
__global__ void expect(const unsigned* memory, unsigned n, unsigned value, Wrong* w) {
    for (unsigned i = threadIdx.x; i < n; i += blockDim.x)
        if (memory[i] != value + i) wrong(w, contents, value + i, memory[i]);
}
// Nodes of a graph: words[0] counts the launches; a node's own word is the launch that it was last part of.
__global__ void first_node(Word* words) {
    ++words[0];
    __threadfence_system();
}
__global__ void node(Word* words, unsigned self, unsigned a, unsigned b, unsigned turns, Wrong* w) {
    const unsigned now = words[0];
    if (words[a] != now) wrong(w, graph_order, now, words[a]);
    if (words[b] != now) wrong(w, graph_order, now, words[b]);
    if (words[self] + 1 != now) wrong(w, graph_order, now - 1, words[self]);
    if (idle(turns) == 1) ++words[0];
    words[self] = now;
    __threadfence_system();
}

const char* const module_text = R"(
.version 6.4
.target sm_75
.address_size 64
.visible .entry bump(.param .u64 count)
{
    .reg .u64 %a;
    .reg .u32 %n;
    ld.param.u64 %a, [count];
    ld.volatile.u32 %n, [%a];
    add.u32 %n, %n, 1;
    st.volatile.u32 [%a], %n;
    membar.sys;
    ret;
}
)";
struct Driver {  // the driver's own calls, wherever its library comes from
    decltype(&cuModuleLoadData) load;
    decltype(&cuModuleUnload) unload;
    decltype(&cuModuleGetFunction) function;
    decltype(&cuLaunchKernel) launch;
    Driver() {
        void* library = dlopen("libcuda.so.1", RTLD_NOW);
        if (!library) die("libcuda.so.1: %s", dlerror());
        load = reinterpret_cast<decltype(load)>(dlsym(library, "cuModuleLoadData"));
        unload = reinterpret_cast<decltype(unload)>(dlsym(library, "cuModuleUnload"));
        function = reinterpret_cast<decltype(function)>(dlsym(library, "cuModuleGetFunction"));
        launch = reinterpret_cast<decltype(launch)>(dlsym(library, "cuLaunchKernel"));
        if (!load || !unload || !function || !launch) die("libcuda.so.1 lacks what every driver has");
    }
};
Driver& driver() {
    static Driver d;
    return d;
}

// ---- gates
class Opener {
  public:
    Opener() : thread_([this] { run(); }) {}
    void open_soon(Word* gate) {
        std::lock_guard lock(mutex_);
        gates_.push_back({gate, std::chrono::steady_clock::now() + std::chrono::microseconds(random_.below(8000))});
    }
    void stop() {
        over_ = true;
        thread_.join();
    }

  private:
    struct Gate {
        Word* word;
        std::chrono::steady_clock::time_point when;
    };
    void run() {
        while (!over_) {
            std::this_thread::sleep_for(std::chrono::microseconds(500));
            std::unique_lock lock(mutex_);
            if (gates_.empty() || gates_.front().when > std::chrono::steady_clock::now()) continue;
            Word* const gate = gates_.front().word;
            gates_.pop_front();
            const size_t bytes = random_.one_in(4) ? (64 << 20) + random_.below(64 << 20) : random_.below(4 << 20);
            lock.unlock();
            // No malloc and no free waits for a device.
            auto* block = static_cast<char*>(malloc(bytes + 1));
            block[0] = block[bytes] = 1;
            free(block);
            *gate = 1;
        }
    }
    std::mutex mutex_;
    std::deque<Gate> gates_;
    Random random_{0x1234567};
    std::atomic<bool> over_{false};
    std::thread thread_;
};
std::unique_ptr<Opener> opener;

// ---- what lanes share
std::shared_mutex
    captures;    // a lane that captures has it shared, one that waits for the device has it alone: CUDA's rule
struct Posted {  // an event of any lane, and what is done when it is
    std::mutex mutex;
    cudaEvent_t event = nullptr;
    Word* count = nullptr;
    unsigned least = 0;
} board[8];

// Words that host and device see. A lane's outlive it: what stands on the board counts in them.
class Arenas {
  public:
    static constexpr unsigned words = 4096;
    Word* take() {
        void* arena;
        CHECK(cudaHostAlloc(&arena, words * sizeof(unsigned), cudaHostAllocMapped));
        memset(arena, 0, words * sizeof(unsigned));
        std::lock_guard lock(mutex_);
        all_.push_back(arena);
        return static_cast<Word*>(arena);
    }
    void free() {
        for (void* arena : all_) CHECK(cudaFreeHost(arena));
    }

  private:
    std::mutex mutex_;
    std::vector<void*> all_;
} arenas;

struct Stream {
    cudaStream_t stream = nullptr;
    Word *count = nullptr, *mark = nullptr;
    unsigned at = 0, mark_is = 0;
    bool own = true, blocking = false;  // created here; ordered with the legacy default stream
};
struct Event {
    cudaEvent_t event = nullptr;
    bool timed = false, recorded = false;
    Word* count = nullptr;
    unsigned least = 0;
};
struct Graph {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec = nullptr;
    Word* words = nullptr;  // of each node
    unsigned nodes = 0, launches = 0;
    std::vector<cudaGraphNode_t> kernels;
    std::vector<cudaKernelNodeParams> parameters;
};

struct Call {  // what a function of the program is given
    Word *count, *a, *b;
    unsigned at;
    bool in_graph;
    int lane;
};
void called(const Call& c) {
    if (!c.in_graph) {
        if (*c.count != c.at) die("a host function: the count of its stream is %u, not %u", *c.count, c.at);
        *c.count = c.at + 1;
        return;
    }
    const unsigned now = *c.count;  // the graph's words[0]; here `a` and `b` are the words before it, `at` its own
    if (*c.a != now || *c.b != now) die("a host node of launch %u: before it, %u and %u", now, *c.a, *c.b);
    Word* const self = c.count + c.at;
    if (*self + 1 != now) die("a host node of launch %u was last called in launch %u", now, *self);
    *self = now;
}

}  // namespace
