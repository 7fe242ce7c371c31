// api_model.cu: a random program of everything but copies, and a model of what every counter must be: streams of all
// kinds, events, functions of the program, graphs, memory that comes and goes while the device is busy, modules,
// threads that are born and die, forked children. (Its sibling copy_model.cu is about bytes.)
//
// What is given to a stream checks that it comes in its turn: each stream has a count in mapped memory, and each thing
// that is given to it knows what the count must be then, and raises it by one. So a lost, doubled or early thing shows
// at once, and each way to wait is checked by a look at the counts. Some kernels wait for a gate, a word that a thread
// opens soon: it makes no CUDA call, only mallocs, so that no lane can keep it from opening the gate.
//
//   api_model [seconds=N | steps=N] [seed=N] [threads=N] [forks=0|1] [prints=0|1]
//
// It knows nothing of Barcuda: it passes on CUDA's own library, and names the seed and the step where it does not.
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

#define CHECK(call)                                                                      \
    do {                                                                                 \
        if (const cudaError_t e_ = (call)) die("%s: %s", #call, cudaGetErrorString(e_)); \
    } while (0)

namespace {

struct Options {
    double seconds = 0;
    uint64_t steps = 2000, seed = 1;
    int threads = 1;
    bool forks = true, prints = true;
} options;

thread_local uint64_t step;  // for messages
thread_local int lane;
std::atomic<uint64_t> things{0}, printed{0};

template <class... T> [[noreturn]] void die(const char* format, T... values) {
    fprintf(stderr, "api_model: seed %lu, thread %d, step %lu: ", options.seed, lane, step);
    fprintf(stderr, format, values...);
    fprintf(stderr, "\n");
    fflush(nullptr);
    _exit(1);
}

struct Random {
    uint64_t state;
    uint64_t operator()() {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        return state * 0x2545f4914f6cdd1dull;
    }
    size_t below(size_t n) { return n ? ((*this)() >> 11) % n : 0; }
    bool one_in(size_t n) { return below(n) == 0; }
};

using Word = volatile unsigned;

// ---- kernels. What they find wrong they write down: which check, what was wanted, what was there.
enum Check : unsigned { fine, turn, mark, behind, contents, graph_order };
struct Wrong {
    unsigned check, want, got;
};

__device__ void wrong(volatile Wrong* w, unsigned check, unsigned want, unsigned got) {
    w->want = want, w->got = got, w->check = check;
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
std::shared_mutex captures;  // who captures has it shared, who waits for the whole device has it alone: CUDA's rule
struct Posted {              // an event of any lane, and what is done when it is
    std::mutex mutex;
    cudaEvent_t event = nullptr;
    Word* count = nullptr;
    unsigned least = 0;
} board[8];

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

class Lane {
  public:
    explicit Lane(int number) : random_{(options.seed * 1000 + number) * 0x9e3779b97f4a7c15u | 1}, number_(number) {
        CHECK(cudaDeviceGetStreamPriorityRange(&least_, &greatest_));
        CHECK(cudaHostAlloc(&wrong_, sizeof(Wrong), cudaHostAllocMapped));
        memset(wrong_, 0, sizeof *wrong_);
        for (cudaStream_t s : {cudaStreamLegacy, cudaStreamPerThread}) {
            adopt(streams_.emplace_back(), s);
            streams_.back().own = false, streams_.back().blocking = true;
        }
        for (int i = 0; i < 4; ++i) create(streams_.emplace_back());
        for (int i = 0; i < 6; ++i) create(events_.emplace_back());
        CHECK(cudaEventCreateWithFlags(&bumped_, cudaEventDisableTiming));
        kept_ = static_cast<unsigned char*>(malloc(kept_bytes));
        memset(kept_, number, kept_bytes);
    }
    ~Lane() {
        everything();
        for (Graph& g : graphs_) destroy(g);
        for (Event& e : events_) CHECK(cudaEventDestroy(e.event));
        for (Stream& s : streams_)
            if (s.own) CHECK(cudaStreamDestroy(s.stream));
        if (module_ && driver().unload(module_)) die("cuModuleUnload");
        CHECK(cudaEventDestroy(bumped_));
        CHECK(cudaFreeHost(wrong_));
        for (void* words : arenas_) CHECK(cudaFreeHost(words));
        free(kept_);
    }

    void act() {
        ++things;
        Stream& s = any();
        const size_t what = random_.below(1000);
        if (what < 250) return take(s, random_.one_in(10) ? random_.below(1 << 14) : random_.below(64));
        if (what < 290) return gate(s);
        if (what < 340) return call_host(s);
        if (what < 400) return set_mark(s);
        if (what < 480) return record(s, event());
        if (what < 550) return wait_event(s);
        if (what < 590) return follow(s);
        if (what < 620) return post(s);
        if (what < 670) return synchronize(s);
        if (what < 720) return synchronize(event());
        if (what < 740) return query(s);
        if (what < 750) return elapsed();
        if (what < 785) return allocate_in_order(s);
        if (what < 805) return allocate();
        if (what < 815) return allocate_host();
        if (what < 835) return renew(event());
        if (what < 855) return renew(streams_[2 + random_.below(streams_.size() - 2)]);
        if (what < 880) return make_graph();
        if (what < 905) return capture();
        if (what < 955) return launch(s);
        if (what < 965) return update();
        if (what < 970) return drop_graph();
        if (what < 975) return use_module(s);
        if (what < 980) return managed(s);
        if (what < 985) return another_thread();
        if (what < 988) return print(s);
        if (what < 990) return fork_child();
        if (what < 995) return synchronize_legacy();
        everything();
    }

  private:
    // ---- words that host and device see, never used again
    Word* words(unsigned n) {
        constexpr unsigned most = 4096;
        if (arenas_.empty() || used_ + n > most) {
            void* arena;
            CHECK(cudaHostAlloc(&arena, most * sizeof(unsigned), cudaHostAllocMapped));
            memset(arena, 0, most * sizeof(unsigned));
            arenas_.push_back(arena);
            used_ = 0;
        }
        Word* at = static_cast<unsigned*>(arenas_.back()) + used_;
        used_ += n;
        return at;
    }
    void adopt(Stream& s, cudaStream_t stream) {
        s = Stream{};
        s.stream = stream;
        s.count = words(1), s.mark = words(1);
    }
    void create(Stream& s) {
        const bool blocking = random_.one_in(2);
        const unsigned flags = blocking ? cudaStreamDefault : cudaStreamNonBlocking;
        cudaStream_t stream;
        if (random_.one_in(2)) CHECK(cudaStreamCreateWithFlags(&stream, flags));
        else CHECK(cudaStreamCreateWithPriority(&stream, flags, random_.one_in(2) ? least_ : greatest_));
        adopt(s, stream);
        s.blocking = blocking;
    }
    void create(Event& e) {
        e = Event{};
        e.timed = random_.one_in(2);
        CHECK(cudaEventCreateWithFlags(&e.event, e.timed ? cudaEventDefault : cudaEventDisableTiming));
    }
    Stream& any() { return streams_[random_.one_in(6) ? random_.below(2) : 2 + random_.below(streams_.size() - 2)]; }
    Event& event() { return events_[random_.below(events_.size())]; }

    // ---- what is checked after a wait
    void right() {
        if (wrong_->check) die("on the device, check %u: %u, not %u", wrong_->check, wrong_->got, wrong_->want);
    }
    void done(const Stream& s) {
        right();
        if (*s.count != s.at) die("a stream that was waited for has done %u of %u", *s.count, s.at);
        if (*s.mark != s.mark_is) die("a stream that was waited for has mark %u, not %u", *s.mark, s.mark_is);
    }
    void reached(Word* count, unsigned least) {
        right();
        if (*count < least) die("a stream has done %u where an event says %u", *count, least);
    }

    // ---- things that are given to a stream
    void launched() { CHECK(cudaGetLastError()); }
    void take(Stream& s, size_t turns) {
        take_turn<<<1, 1, 0, s.stream>>>(s.count, s.at++, s.mark, s.mark_is, static_cast<unsigned>(turns), wrong_);
        launched();
    }
    void gate(Stream& s) {
        Word* const word = words(1);
        take_turn_at_gate<<<1, 1, 0, s.stream>>>(s.count, s.at++, word, wrong_);
        launched();
        opener->open_soon(word);
    }
    void print(Stream& s) {
        if (!options.prints) return;
        take_turn_printing<<<1, 1, 0, s.stream>>>(s.count, s.at++, wrong_);
        launched();
        ++printed;
    }
    void call_host(Stream& s) {
        auto* c = &calls_.emplace_back(Call{s.count, nullptr, nullptr, s.at++, false, number_});
        if (random_.one_in(2)) {
            CHECK(cudaLaunchHostFunc(
                s.stream, [](void* data) { called(*static_cast<Call*>(data)); }, c));
            return;
        }
        const auto callback = [](cudaStream_t, cudaError_t status, void* data) {
            if (status) die("a callback is told of an error: %s", cudaGetErrorString(status));
            called(*static_cast<Call*>(data));
        };
        CHECK(cudaStreamAddCallback(s.stream, callback, c, 0));
    }
    void set_mark(Stream& s) {
        s.mark_is = static_cast<unsigned>(random_() & 0x7f) * 0x01010101u;
        CHECK(cudaMemsetAsync(const_cast<unsigned*>(s.mark), static_cast<int>(s.mark_is & 0xff), 4, s.stream));
        if (random_.one_in(2)) take(s, 0);
    }
    void record(Stream& s, Event& e) {
        CHECK(cudaEventRecord(e.event, s.stream));
        e.recorded = true, e.count = s.count, e.least = s.at;
    }
    void wait_event(Stream& s) {
        Event& e = event();
        CHECK(cudaStreamWaitEvent(s.stream, e.event, 0));
        if (!e.recorded) return;
        take_turn_behind<<<1, 1, 0, s.stream>>>(s.count, s.at++, e.count, e.least, wrong_);
        launched();
        if (random_.one_in(8)) renew(e);  // who waits for it still does
    }
    // The default stream comes behind all blocking ones, and they behind it.
    void follow(Stream& s) {
        Stream& legacy = streams_[0];
        if (&s == &legacy || !s.blocking) return take(s, 8);
        Stream& first = random_.one_in(2) ? s : legacy;
        Stream& second = &first == &s ? legacy : s;
        take(first, random_.below(1000));
        take_turn_behind<<<1, 1, 0, second.stream>>>(second.count, second.at++, first.count, first.at, wrong_);
        launched();
    }
    // An event for all lanes to see; and behind that of another.
    void post(Stream& s) {
        Posted& p = board[random_.below(std::size(board))];
        std::lock_guard lock(p.mutex);
        if (p.event) {
            CHECK(cudaStreamWaitEvent(s.stream, p.event, 0));
            take_turn_behind<<<1, 1, 0, s.stream>>>(s.count, s.at++, p.count, p.least, wrong_);
            launched();
        }
        if (p.event && random_.one_in(2)) {
            CHECK(cudaEventDestroy(p.event));
            p.event = nullptr;
        }
        if (!p.event) CHECK(cudaEventCreateWithFlags(&p.event, cudaEventDisableTiming));
        CHECK(cudaEventRecord(p.event, s.stream));
        p.count = s.count, p.least = s.at;
    }

    // ---- waits
    void synchronize(Stream& s) {
        CHECK(cudaStreamSynchronize(s.stream));
        done(s);
    }
    void synchronize(Event& e) {
        if (random_.one_in(2)) {
            CHECK(cudaEventSynchronize(e.event));
        } else {
            for (cudaError_t r; (r = cudaEventQuery(e.event));)
                if (r != cudaErrorNotReady) CHECK(r);
                else if (random_.one_in(3)) return;
        }
        if (e.recorded) reached(e.count, e.least);
    }
    void query(Stream& s) {
        for (;;) {
            const cudaError_t r = cudaStreamQuery(s.stream);
            if (r == cudaSuccess) return done(s);
            if (r != cudaErrorNotReady) CHECK(r);
            if (random_.one_in(20)) return;
        }
    }
    void elapsed() {
        Event &a = event(), &b = event();
        if (!a.timed || !b.timed || !a.recorded || !b.recorded || &a == &b) return;
        float milliseconds = -1;
        const cudaError_t r = cudaEventElapsedTime(&milliseconds, a.event, b.event);
        if (r == cudaErrorNotReady) return;
        CHECK(r);
        if (a.count == b.count && a.least < b.least && milliseconds < 0)
            die("%g ms between two events of one stream", milliseconds);
        reached(a.count, a.least), reached(b.count, b.least);
    }
    // Waits for all blocking streams.
    void synchronize_legacy() {
        CHECK(cudaStreamSynchronize(cudaStreamLegacy));
        done(streams_[0]);
        // (Their work comes before what is given to it: so something is.)
        take(streams_[0], 0);
        CHECK(cudaStreamSynchronize(cudaStreamLegacy));
        for (const Stream& s : streams_)
            if (s.blocking) done(s);
    }
    void everything() {
        {
            std::unique_lock alone(captures);
            CHECK(cudaDeviceSynchronize());
        }
        for (const Stream& s : streams_) done(s);
        for (const Graph& g : graphs_) done(g);
        for (const auto& [count, at] : left_)
            if (*count != at) die("a destroyed stream has done %u of %u", *count, at);
        left_.clear();
        calls_.clear();
        for (const Graph& g : gone_) done(g);
        gone_.clear();
    }

    // ---- memory
    void allocate_in_order(Stream& s) {
        const unsigned n = 1 + static_cast<unsigned>(random_.below(random_.one_in(5) ? 100000 : 1000)), value = n * 7;
        unsigned* p;
        cudaMemPool_t pool = nullptr;
        if (random_.one_in(4)) {
            cudaMemPoolProps props{};
            props.allocType = cudaMemAllocationTypePinned;
            props.location.type = cudaMemLocationTypeDevice;
            CHECK(cudaMemPoolCreate(&pool, &props));
            CHECK(cudaMallocFromPoolAsync(&p, n * sizeof *p, pool, s.stream));
        } else {
            CHECK(cudaMallocAsync(&p, n * sizeof *p, s.stream));
        }
        fill<<<1, 32, 0, s.stream>>>(p, n, value);
        take(s, 0);
        Stream& other = any();
        if (&other != &s && random_.one_in(2)) {
            Event& e = event();
            record(s, e);
            CHECK(cudaStreamWaitEvent(other.stream, e.event, 0));
            expect<<<1, 32, 0, other.stream>>>(p, n, value, wrong_);
            CHECK(cudaFreeAsync(p, other.stream));
        } else {
            expect<<<1, 32, 0, s.stream>>>(p, n, value, wrong_);
            CHECK(cudaFreeAsync(p, s.stream));
        }
        launched();
        if (pool) CHECK(cudaMemPoolDestroy(pool));
    }
    void allocate() {
        Stream& s = any();
        const unsigned n = 1 + static_cast<unsigned>(random_.below(20000));
        unsigned* p;
        CHECK(cudaMalloc(&p, n * sizeof *p));
        fill<<<1, 32, 0, s.stream>>>(p, n, n);
        expect<<<1, 32, 0, s.stream>>>(p, n, n, wrong_);
        launched();
        const unsigned before = s.at;
        CHECK(cudaFree(p));  // waits for whatever may use it
        reached(s.count, before);
    }
    void allocate_host() {
        Stream& s = any();
        const unsigned n = 1 + static_cast<unsigned>(random_.below(200000));
        unsigned* p;
        CHECK(cudaHostAlloc(&p, n * sizeof *p, cudaHostAllocMapped));
        p[n - 1] = 0;
        fill<<<1, 32, 0, s.stream>>>(p, n, 5);
        launched();
        if (random_.one_in(2)) {
            CHECK(cudaStreamSynchronize(s.stream));
            if (p[n - 1] != 5 + n - 1) die("pinned memory: %u, not %u", p[n - 1], 5 + n - 1);
        }
        CHECK(cudaFreeHost(p));
    }
    void managed(Stream& s) {
        static const bool concurrent = [] {
            int yes = 0;
            return cudaDeviceGetAttribute(&yes, cudaDevAttrConcurrentManagedAccess, 0) == cudaSuccess && yes;
        }();
        if (!concurrent) return;
        constexpr unsigned n = 5000;
        unsigned* p;
        CHECK(cudaMallocManaged(&p, n * sizeof *p));
        for (unsigned i = 0; i < n; ++i) p[i] = i + 3;
        cudaMemLocation device{};
        device.type = cudaMemLocationTypeDevice;
        CHECK(cudaMemAdvise(p, n * sizeof *p, cudaMemAdviseSetPreferredLocation, device));
        CHECK(cudaMemPrefetchAsync(p, n * sizeof *p, device, 0, s.stream));
        expect<<<1, 32, 0, s.stream>>>(p, n, 3, wrong_);
        fill<<<1, 32, 0, s.stream>>>(p, n, 9);
        launched();
        CHECK(cudaStreamSynchronize(s.stream));
        for (unsigned i = 0; i < n; ++i)
            if (p[i] != i + 9) die("managed memory at %u: %u, not %u", i, p[i], i + 9);
        CHECK(cudaFree(p));
    }

    // ---- old for new, while work is under way
    void renew(Event& e) {
        CHECK(cudaEventDestroy(e.event));
        create(e);
    }
    void renew(Stream& s) {
        CHECK(cudaStreamDestroy(s.stream));
        left_.emplace_back(s.count, s.at);
        create(s);
    }

    // ---- graphs
    void done(const Graph& g) {
        right();
        for (unsigned i = 0; i < g.nodes; ++i)
            if (g.words[i] != g.launches) die("node %u of a graph: launch %u of %u", i, g.words[i], g.launches);
    }
    static constexpr unsigned most_nodes = 12;
    Graph& begin() {
        if (graphs_.size() == 4) drop_graph();
        Graph& g = graphs_.emplace_back();
        g.words = words(most_nodes);
        g.nodes = 1;
        return g;
    }
    Call* graph_call(const Graph& g, unsigned self, unsigned a, unsigned b) {
        return &graph_calls_.emplace_back(Call{g.words, g.words + a, g.words + b, self, true, number_});
    }
    static void host_node(void* data) { called(*static_cast<Call*>(data)); }

    void make_graph() {
        Graph& g = begin();
        CHECK(cudaGraphCreate(&g.graph, 0));
        std::vector<cudaGraphNode_t> nodes(1);
        cudaKernelNodeParams p{};
        p.gridDim = p.blockDim = dim3(1);
        void* words_of[] = {&g.words};
        p.func = reinterpret_cast<void*>(first_node), p.kernelParams = words_of;
        CHECK(cudaGraphAddKernelNode(&nodes[0], g.graph, nullptr, 0, &p));
        const unsigned all = 2 + static_cast<unsigned>(random_.below(most_nodes - 2));
        for (; g.nodes < all; ++g.nodes) {
            const auto a = static_cast<unsigned>(random_.below(g.nodes)),
                       b = static_cast<unsigned>(random_.below(g.nodes));
            const cudaGraphNode_t before[] = {nodes[a], nodes[b]};
            const size_t count = a == b ? 1 : 2;
            cudaGraphNode_t fresh;
            unsigned self = g.nodes, turns = static_cast<unsigned>(random_.below(2000));
            switch (random_.below(8)) {
                case 0: {
                    cudaHostNodeParams h{host_node, graph_call(g, self, a, b)};
                    CHECK(cudaGraphAddHostNode(&fresh, g.graph, before, count, &h));
                    break;
                }
                case 1:  // its word becomes that of the node before it
                    CHECK(cudaGraphAddMemcpyNode1D(&fresh, g.graph, before, count,
                                                   const_cast<unsigned*>(g.words + self),
                                                   const_cast<unsigned*>(g.words + a), 4, cudaMemcpyDefault));
                    break;
                case 2: {  // as a pair: an event on the way
                    cudaGraphNode_t on_the_way;
                    CHECK(cudaGraphAddEmptyNode(&on_the_way, g.graph, before, count));
                    unsigned from = a, also = b;
                    void* of[] = {&g.words, &self, &from, &also, &turns, &wrong_};
                    p.func = reinterpret_cast<void*>(node), p.kernelParams = of;
                    CHECK(cudaGraphAddKernelNode(&fresh, g.graph, &on_the_way, 1, &p));
                    break;
                }
                default: {
                    unsigned from = a, also = b;
                    void* of[] = {&g.words, &self, &from, &also, &turns, &wrong_};
                    p.func = reinterpret_cast<void*>(node), p.kernelParams = of;
                    CHECK(cudaGraphAddKernelNode(&fresh, g.graph, before, count, &p));
                    break;
                }
            }
            nodes.push_back(fresh);
        }
        CHECK(cudaGraphInstantiate(&g.exec, g.graph, 0));
    }

    void capture() {
        std::shared_lock one_of_many(captures, std::try_to_lock);
        if (!one_of_many) return;
        Stream *s = nullptr, *t = nullptr;
        for (Stream& x : streams_)
            if (!x.blocking) (s ? t : s) = &x;
        if (!s) return;
        Graph& g = begin();
        cudaEvent_t fork, join;  // its own: a captured event is no event to wait for
        CHECK(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
        CHECK(cudaEventCreateWithFlags(&join, cudaEventDisableTiming));
        CHECK(cudaStreamBeginCapture(
            s->stream, random_.one_in(2) ? cudaStreamCaptureModeThreadLocal : cudaStreamCaptureModeRelaxed));
        first_node<<<1, 1, 0, s->stream>>>(g.words);
        unsigned last[2] = {0, 0};  // of each branch
        const bool two = t && random_.one_in(2);
        if (two) {
            CHECK(cudaEventRecord(fork, s->stream));
            CHECK(cudaStreamWaitEvent(t->stream, fork, 0));
        }
        const unsigned all = 2 + static_cast<unsigned>(random_.below(most_nodes - 3));
        for (; g.nodes < all; ++g.nodes) {
            const int branch = two && random_.one_in(2);
            const cudaStream_t stream = (branch ? t : s)->stream;
            const unsigned before = last[branch], self = g.nodes;
            if (random_.one_in(6)) CHECK(cudaLaunchHostFunc(stream, host_node, graph_call(g, self, before, before)));
            else if (random_.one_in(6))
                CHECK(cudaMemcpyAsync(const_cast<unsigned*>(g.words + self), const_cast<unsigned*>(g.words + before), 4,
                                      cudaMemcpyDefault, stream));
            else node<<<1, 1, 0, stream>>>(g.words, self, before, before, 10, wrong_);
            last[branch] = self;
        }
        if (two) {
            CHECK(cudaEventRecord(join, t->stream));
            CHECK(cudaStreamWaitEvent(s->stream, join, 0));
        }
        const unsigned self = g.nodes++;
        node<<<1, 1, 0, s->stream>>>(g.words, self, last[0], last[1], 10, wrong_);
        launched();
        CHECK(cudaStreamEndCapture(s->stream, &g.graph));
        CHECK(cudaGraphInstantiate(&g.exec, g.graph, 0));
        CHECK(cudaEventDestroy(fork));
        CHECK(cudaEventDestroy(join));
    }
    // A launch of a graph comes behind its launches before, on whatever stream.
    void launch(Stream& s) {
        if (graphs_.empty()) return make_graph();
        Graph& g = graphs_[random_.below(graphs_.size())];
        if (random_.one_in(4)) CHECK(cudaGraphUpload(g.exec, s.stream));
        CHECK(cudaGraphLaunch(g.exec, s.stream));
        ++g.launches;
        take_turn_behind<<<1, 1, 0, s.stream>>>(s.count, s.at++, g.words + g.nodes - 1, g.launches, wrong_);
        launched();
        if (random_.one_in(4)) {
            synchronize(s);
            if (g.words[0] != g.launches) die("a graph that was waited for: launch %u of %u", g.words[0], g.launches);
        }
    }
    // The next launch is as the graph is then; those before go on as they were.
    void update() {
        if (graphs_.empty()) return;
        Graph& g = graphs_[random_.below(graphs_.size())];
        cudaGraphExecUpdateResultInfo info{};
        CHECK(cudaGraphExecUpdate(g.exec, g.graph, &info));
        if (random_.one_in(2)) return;
        cudaGraph_t clone;
        CHECK(cudaGraphClone(&clone, g.graph));
        CHECK(cudaGraphExecUpdate(g.exec, clone, &info));
        CHECK(cudaGraphDestroy(clone));
    }
    void destroy(Graph& g) {
        CHECK(cudaGraphExecDestroy(g.exec));
        CHECK(cudaGraphDestroy(g.graph));
    }
    void drop_graph() {
        if (graphs_.empty()) return;
        const size_t i = random_.below(graphs_.size());
        destroy(graphs_[i]);  // what runs, runs on
        gone_.push_back(graphs_[i]);
        graphs_.erase(graphs_.begin() + static_cast<long>(i));
    }

    // ---- modules
    void use_module(Stream& s) {
        if (module_ && random_.one_in(2)) {
            CHECK(cudaEventSynchronize(bumped_));
            if (driver().unload(module_)) die("cuModuleUnload");
            module_ = nullptr;
        }
        if (!module_ && driver().load(&module_, module_text)) die("cuModuleLoadData");
        CUfunction bump;
        if (driver().function(&bump, module_, "bump")) die("cuModuleGetFunction");
        CHECK(cudaStreamWaitEvent(s.stream, bumped_, 0));  // one after the other, whatever the stream
        void* parameters[] = {&s.count};
        if (driver().launch(bump, 1, 1, 1, 1, 1, 1, 0, s.stream, parameters, nullptr)) die("cuLaunchKernel");
        ++s.at;
        CHECK(cudaEventRecord(bumped_, s.stream));
        take(s, 0);
    }

    // ---- threads and processes
    void another_thread() {
        Word *const count = words(1), *const its_mark = words(1);
        const bool waits = random_.one_in(2);
        Stream& s = any();
        const int number = number_;
        std::thread([&, number] {
            lane = number;
            for (unsigned i = 0; i < 3; ++i)
                take_turn<<<1, 1, 0, cudaStreamPerThread>>>(count, i, its_mark, 0, 100, wrong_);
            launched();
            if (s.own || &s == &streams_[0]) take(s, 5);
            if (waits) {
                CHECK(cudaStreamSynchronize(cudaStreamPerThread));
                reached(count, 3);
            }
        }).join();
        left_.emplace_back(count, 3);
    }
    // It sees its parent's memory as it was, and changes its own.
    void fork_child() {
        if (!options.forks) return;
        const pid_t child = fork();
        if (child < 0) die("fork: %s", strerror(errno));
        if (child == 0) {
            alarm(60);
            bool same = true;
            for (size_t i = 0; i < kept_bytes; i += 4096) same = same && kept_[i] == number_;
            memset(kept_, 0xee, kept_bytes);
            auto* block = static_cast<char*>(malloc(3 << 20));
            memset(block, 1, 3 << 20);
            free(block);
            _exit(same ? 0 : 3);
        }
        take(any(), 10);
        int status;
        while (waitpid(child, &status, 0) < 0)
            if (errno != EINTR) die("waitpid: %s", strerror(errno));
        if (WIFSIGNALED(status)) die("a forked child ended by signal %d", WTERMSIG(status));
        if (WEXITSTATUS(status)) die("a forked child ended with status %d", WEXITSTATUS(status));
        for (size_t i = 0; i < kept_bytes; i += 4096)
            if (kept_[i] != number_) die("a child's write shows in its parent, at %zu", i);
    }

    static constexpr size_t kept_bytes = 1 << 20;
    Random random_;
    const int number_;
    int least_ = 0, greatest_ = 0;
    Wrong* wrong_ = nullptr;
    std::vector<void*> arenas_;
    unsigned used_ = 0;
    std::deque<Stream> streams_;  // [0] the legacy default stream, [1] this thread's
    std::deque<Event> events_;
    std::deque<Graph> graphs_;
    std::vector<Graph> gone_;                       // graphs that were destroyed since all was last done
    std::vector<std::pair<Word*, unsigned>> left_;  // streams likewise
    std::deque<Call> calls_, graph_calls_;
    CUmodule module_ = nullptr;
    cudaEvent_t bumped_ = nullptr;  // behind its last launch
    unsigned char* kept_ = nullptr;
};

void run(int number) {
    lane = number;
    Lane program(number);
    const auto start = std::chrono::steady_clock::now();
    const auto seconds = [&] {
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    };
    for (step = 0; options.seconds ? seconds() < options.seconds : step < options.steps; ++step) program.act();
}

}  // namespace

int main(int argc, char** argv) {
    constexpr int most = 16;
    for (int i = 1; i < argc; ++i) {
        const std::string word = argv[i];
        const std::string name = word.substr(0, word.find('='));
        const double value = name.size() < word.size() ? atof(word.c_str() + name.size() + 1) : -1;
        if (name == "seconds" && value > 0) options.seconds = value;
        else if (name == "steps" && value > 0) options.steps = static_cast<uint64_t>(value);
        else if (name == "seed" && value >= 0) options.seed = static_cast<uint64_t>(value);
        else if (name == "forks" && value >= 0) options.forks = value != 0;
        else if (name == "prints" && value >= 0) options.prints = value != 0;
        else if (name == "threads" && value > 0 && value <= most) options.threads = static_cast<int>(value);
        else {
            fprintf(stderr,
                    "usage: api_model [seconds=N | steps=N] [seed=N] [threads=1..%d] [forks=0|1] [prints=0|1]\n", most);
            return 2;
        }
    }
    setlinebuf(stdout);
    CHECK(cudaFree(nullptr));
    opener = std::make_unique<Opener>();
    std::vector<std::thread> others;
    for (int t = 1; t < options.threads; ++t) others.emplace_back(run, t);
    run(0);
    for (std::thread& t : others) t.join();
    opener->stop();
    for (Posted& p : board)
        if (p.event) CHECK(cudaEventDestroy(p.event));
    CHECK(cudaDeviceSynchronize());
    printf("seed %lu: %lu things in their order, %lu lines said\nPASSED\n", options.seed, things.load(),
           printed.load());
    return 0;
}
