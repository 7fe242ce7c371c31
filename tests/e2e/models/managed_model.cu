// SPDX-License-Identifier: Apache-2.0
// managed_model.cu: a random program on managed memory, and a model of what every byte must be then.
//
// Beside each range stands its shadow: ordinary memory to which the same is done at once. The CPU reads and writes
// ranges, kernels do, copies, fills, functions of the program in a stream, graphs, system calls; in between memory is
// prefetched, advised about, attached to a stream, to the host or to none, allocated and freed; the program forks. As
// in copy_model.cu a range remembers the stream that may still be at work on it, and what comes next waits in one of
// the ways that CUDA has. What is not waited for is other ranges' work: threads, and streams, go on while the CPU
// touches what is its own.
//
//   managed_model [seconds=N | steps=N] [seed=N] [max=BYTES] [threads=N] [turns=1]
//
// With turns=1 CPU and kernels often take turns on the same bytes, alone in the device, as loops of programs do.
//
// It knows nothing of Barcuda: it passes on CUDA's own library, where the CPU may touch managed memory while kernels
// work on other such memory (cudaDevAttrConcurrentManagedAccess), and names the seed and the step where it does not.
#include <cuda_runtime.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "model.h"

namespace {

double max_bytes = 4 << 20;  // of an allocation: an option
double turns = 0;            // another one
std::mutex capturing;        // a wait for the device is no part of a graph
std::atomic<uint64_t> touched{0}, launched{0}, prefetched{0}, forked{0};

constexpr size_t lanes = 16, variable_bytes = 100000;
#ifdef WITHOUT_VARIABLES
unsigned char* variable;
unsigned* counters;
#else
__managed__ unsigned char variable[lanes * variable_bytes];
__managed__ unsigned counters[lanes];
#endif

__global__ void exclusive_or(unsigned char* p, size_t n, unsigned char key) {
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) p[i] ^= key;
}
__global__ void mix(unsigned char* to, const unsigned char* from, size_t n, unsigned* counter) {
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) to[i] += from[i];
    if (threadIdx.x == 0 && blockIdx.x == 0) ++*counter;
}

struct Range {
    size_t at, bytes;
};

class Program {
  public:
    explicit Program(int lane) : random_(dice_of(lane)), lane_(lane) {
        streams_.push_back(nullptr);
        for (int i = 0; i < 3; ++i) {
            streams_.emplace_back();
            CHECK(cudaStreamCreateWithFlags(&streams_.back(), i ? cudaStreamNonBlocking : cudaStreamDefault));
        }
        CHECK(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming));
        Buffer own;
        own.at = variable + lane * variable_bytes, own.bytes = variable_bytes, own.is_variable = true;
        buffers_.push_back(std::move(own));
        for (int i = 0; i < 8; ++i) buffers_.push_back(fresh());
        for (Buffer& b : buffers_) fill(b, {0, b.bytes});
    }
    ~Program() {
        for (Buffer& b : buffers_) {
            finish(b);
            check(b, {0, b.bytes});
            if (!b.is_variable) CHECK(cudaFree(b.at));
        }
        if (counters[lane_] != counted_) die("kernels counted to %u, not %u", counters[lane_], counted_);
        for (cudaStream_t s : streams_)
            if (s) CHECK(cudaStreamDestroy(s));
        CHECK(cudaEventDestroy(event_));
    }

    void act() {
        Buffer& b = any();
        if (turns != 0 && random_.one_in(4)) return in_turn(b, any());
        switch (random_.below(24)) {
            case 0:
            case 1:
            case 2: return finish(b), fill(b, range(b));
            case 3:
            case 4:
            case 5: return finish(b), check(b, range(b));
            case 6: return words(b);
            case 7:
            case 8:
            case 9: return kernel(b);
            case 10: return two(b, any());
            case 11: return set(b);
            case 12: return copy(b, any());
            case 13: return out_and_in(b);
            case 14:
            case 15: return prefetch(b);
            case 16: return advise(b);
            case 17: return attach(b);
            case 18: return function(b);
            case 19: return graph(b);
            case 20: return by_file(b, any());
            case 21: return by_thread(b);
            case 22:
                if (random_.one_in(20)) fork_once();
                return;
            default: return anew(b);
        }
    }

  private:
    static constexpr int idle = -1;
    struct Buffer {
        unsigned char* at = nullptr;
        size_t bytes = 0;
        std::vector<unsigned char> shadow;
        int stream = idle;
        int attached = idle;  // to this stream alone
        bool to_host = false;
        bool is_variable = false;
        std::vector<std::string> past;  // what was done to it last
    };
    void note(Buffer& b, const char* what, Range r = {}, int s = idle) {
        if (b.past.size() == 12) b.past.erase(b.past.begin());
        b.past.push_back(std::to_string(step) + " " + what + " " + std::to_string(r.bytes) + " at " +
                         std::to_string(r.at) + (s == idle ? "" : " in stream " + std::to_string(s)));
    }

    Buffer fresh() {
        Buffer b;
        const size_t most = static_cast<size_t>(max_bytes);
        const size_t power = size_t{1} << random_.below(64 - __builtin_clzll(most));
        b.bytes = 1 + random_.below(power + random_.below(power));
        b.bytes = std::min(b.bytes, most);
        CHECK(cudaMallocManaged(&b.at, b.bytes));
        return b;
    }
    Buffer& any() { return buffers_[random_.below(buffers_.size())]; }
    int any_stream() { return static_cast<int>(random_.below(streams_.size())); }
    Range range(const Buffer& b) {
        if (random_.one_in(4)) return {0, b.bytes};
        const size_t at = random_.below(b.bytes), most = b.bytes - at;
        return {at, 1 + random_.below(random_.one_in(2) ? std::min<size_t>(most, 5000) : most)};
    }

    // ---- waits for other work
    void finish(Buffer& b) {
        if (b.stream == idle) return;
        note(b, "wait", {}, b.stream);
        const cudaStream_t s = streams_[b.stream];
        switch (random_.below(4)) {
            case 0: {
                std::lock_guard lock(capturing);
                CHECK(cudaDeviceSynchronize());
                break;
            }
            case 1:
                CHECK(cudaEventRecord(event_, s));
                CHECK(cudaEventSynchronize(event_));
                break;
            default: CHECK(cudaStreamSynchronize(s));
        }
        b.stream = idle;
    }
    // A stream that may work on the buffer now, behind what was at work on it.
    int stream_for(Buffer& b) {
        if (b.to_host) attach_to(b, random_.one_in(2) ? idle : 1 + static_cast<int>(random_.below(3)));
        const int s = b.attached != idle ? b.attached : any_stream();
        order(b, s);
        return s;
    }
    void order(Buffer& b, int s) {
        if (b.stream == idle || b.stream == s) return;
        if (random_.one_in(3)) return finish(b);
        CHECK(cudaEventRecord(event_, streams_[b.stream]));
        CHECK(cudaStreamWaitEvent(streams_[s], event_, 0));
    }
    // One for both, or none.
    int stream_for(Buffer& a, Buffer& b) {
        const int s = stream_for(a);
        if (&a == &b) return s;
        if (b.to_host) attach_to(b, idle);
        if (b.attached != idle && b.attached != s) attach_to(b, idle);
        order(b, s);
        return s;
    }

    // ---- the CPU
    void fill(Buffer& b, Range r) {
        b.shadow.resize(b.bytes);
        note(b, "fill", r);
        const unsigned char step = static_cast<unsigned char>(random_() | 1),
                            first = static_cast<unsigned char>(random_());
        for (size_t i = 0; i < r.bytes; ++i)
            b.at[r.at + i] = b.shadow[r.at + i] = static_cast<unsigned char>(first + i / 3 * step);
        touched += r.bytes;
    }
    void check(const Buffer& b, Range r) {
        touched += r.bytes;
        if (!memcmp(b.at + r.at, b.shadow.data() + r.at, r.bytes)) return;
        for (const std::string& line : b.past) fprintf(stderr, "  %s\n", line.c_str());
        size_t wrong = 0, last = 0;
        for (size_t i = 0; i < b.bytes; ++i)
            if (b.at[i] != b.shadow[i]) ++wrong, last = i;
        fprintf(stderr, "%zu bytes are wrong, the last of them %zu\n", wrong, last);
        for (size_t i = r.at; i < r.at + r.bytes; ++i)
            if (b.at[i] != b.shadow[i])
                die("byte %zu of %zu at %p (%s): %u, not %u", i, b.bytes, static_cast<void*>(b.at),
                    b.is_variable        ? "a variable"
                    : b.attached != idle ? "attached"
                    : b.to_host          ? "the host's"
                                         : "everybody's",
                    b.at[i], b.shadow[i]);
    }
    void words(Buffer& b) {  // here and there
        finish(b);
        note(b, "words");
        for (int i = 0; i < 20; ++i) {
            const size_t at = random_.below(b.bytes);
            if (b.at[at] != b.shadow[at]) die("byte %zu of %zu: %u, not %u", at, b.bytes, b.at[at], b.shadow[at]);
            if (random_.one_in(2)) b.at[at] = b.shadow[at] = static_cast<unsigned char>(i);
        }
        touched += 20;
    }
    void by_thread(Buffer& b) {
        finish(b);
        const Range r = range(b);
        note(b, "by thread", r);
        std::thread other([&] {
            check(b, {0, r.at});
            for (size_t i = 0; i < r.at; ++i) b.at[i] ^= 1;
        });
        check(b, {r.at, b.bytes - r.at});
        for (size_t i = r.at; i < b.bytes; ++i) b.at[i] ^= 1;
        other.join();
        for (unsigned char& c : b.shadow) c ^= 1;
    }

    // ---- the device
    void kernel(Buffer& b) {
        const Range r = range(b);
        kernel(b, r, stream_for(b));
    }
    void kernel(Buffer& b, Range r, int s) {
        note(b, "kernel", r, s);
        const auto key = static_cast<unsigned char>(random_());
        exclusive_or<<<4, 64, 0, streams_[s]>>>(b.at + r.at, r.bytes, key);
        CHECK(cudaGetLastError());
        for (size_t i = 0; i < r.bytes; ++i) b.shadow[r.at + i] ^= key;
        b.stream = s, ++launched;
    }
    void two(Buffer& to, Buffer& from) {
        if (&to == &from) return;
        Range t = range(to), f = range(from);
        const size_t n = std::min(t.bytes, f.bytes);
        const int s = stream_for(to, from);
        note(to, "sum to", {t.at, n}, s), note(from, "sum from", {f.at, n}, s);
        // The counter is a variable beside others' counters, and whichever stream of ours counts, it counts alone.
        if (counter_stream_ != idle && counter_stream_ != s) CHECK(cudaStreamSynchronize(streams_[counter_stream_]));
        mix<<<4, 64, 0, streams_[s]>>>(to.at + t.at, from.at + f.at, n, &counters[lane_]);
        CHECK(cudaGetLastError());
        for (size_t i = 0; i < n; ++i) to.shadow[t.at + i] += from.shadow[f.at + i];
        to.stream = from.stream = counter_stream_ = s, ++counted_, ++launched;
    }
    void set(Buffer& b) {
        const Range r = range(b);
        const int s = stream_for(b), value = static_cast<int>(random_.below(256));
        note(b, "set", r, s);
        if (s == 0 && random_.one_in(2)) CHECK(cudaMemset(b.at + r.at, value, r.bytes));
        else CHECK(cudaMemsetAsync(b.at + r.at, value, r.bytes, streams_[s]));
        memset(b.shadow.data() + r.at, value, r.bytes);
        b.stream = s;
    }
    void copy(Buffer& to, Buffer& from) {
        if (&to == &from) return;
        Range t = range(to), f = range(from);
        const size_t n = std::min(t.bytes, f.bytes);
        const int s = stream_for(to, from);
        note(to, "copy to", {t.at, n}, s), note(from, "copy from", {f.at, n}, s);
        CHECK(cudaMemcpyAsync(to.at + t.at, from.at + f.at, n, cudaMemcpyDefault, streams_[s]));
        memcpy(to.shadow.data() + t.at, from.shadow.data() + f.at, n);
        to.stream = from.stream = s;
    }
    // To memory of another kind and back.
    void out_and_in(Buffer& b) {
        const Range r = range(b);
        const int s = stream_for(b);
        note(b, "out and in", r, s);
        void* other = nullptr;
        std::vector<unsigned char> plain;
        const size_t kind = random_.below(3);
        if (kind == 0) CHECK(cudaMalloc(&other, r.bytes));
        if (kind == 1) CHECK(cudaMallocHost(&other, r.bytes));
        if (kind == 2) plain.resize(r.bytes), other = plain.data();
        CHECK(cudaMemcpyAsync(other, b.at + r.at, r.bytes, cudaMemcpyDefault, streams_[s]));
        CHECK(cudaMemsetAsync(b.at + r.at, 0, r.bytes, streams_[s]));
        CHECK(cudaMemcpyAsync(b.at + r.at, other, r.bytes, cudaMemcpyDefault, streams_[s]));
        CHECK(cudaStreamSynchronize(streams_[s]));
        if (kind == 0) CHECK(cudaFree(other));
        if (kind == 1) CHECK(cudaFreeHost(other));
        b.stream = idle;
    }
    struct Call {
        unsigned char* at;
        size_t bytes;
        unsigned char key;
        const unsigned char* expected;
        bool right;
    };
    static void CUDART_CB call(void* data) {
        auto& c = *static_cast<Call*>(data);
        c.right = !memcmp(c.at, c.expected, c.bytes);
        for (size_t i = 0; i < c.bytes; ++i) c.at[i] += c.key;
    }
    // In the stream's order, behind a kernel and ahead of one. CUDA lets it touch what is the stream's alone, or
    // no stream's.
    void function(Buffer& b) {
        if (b.is_variable) return;
        finish(b);
        if (b.attached == idle) attach_to(b, 1 + static_cast<int>(random_.below(3)));
        const Range r = range(b);
        note(b, "function", r, b.attached);
        kernel(b);
        const std::vector<unsigned char> expected(b.shadow.begin() + static_cast<std::ptrdiff_t>(r.at),
                                                  b.shadow.begin() + static_cast<std::ptrdiff_t>(r.at + r.bytes));
        Call c{b.at + r.at, r.bytes, static_cast<unsigned char>(random_()), expected.data(), false};
        CHECK(cudaLaunchHostFunc(streams_[b.attached], call, &c));
        for (size_t i = 0; i < r.bytes; ++i) b.shadow[r.at + i] += c.key;
        kernel(b);
        CHECK(cudaStreamSynchronize(streams_[b.attached]));
        b.stream = idle;
        if (!c.right) die("a function in a stream found something else in %zu bytes", r.bytes);
    }
    void graph(Buffer& b) {
        const Range r = range(b);
        if (b.attached == 1) return;  // the default stream, and so another thread, would be a part of it
        const int s = b.attached != idle ? b.attached : 2;
        if (b.to_host) attach_to(b, idle);
        note(b, "graph", r, s);
        order(b, s);
        const auto key = static_cast<unsigned char>(random_());
        cudaGraph_t graph;
        cudaGraphExec_t exec;
        std::unique_lock lock(capturing);
        CHECK(cudaStreamBeginCapture(streams_[s], cudaStreamCaptureModeThreadLocal));
        exclusive_or<<<4, 64, 0, streams_[s]>>>(b.at + r.at, r.bytes, key);
        CHECK(cudaMemsetAsync(b.at + r.at, key, std::min<size_t>(r.bytes, 100), streams_[s]));
        CHECK(cudaStreamEndCapture(streams_[s], &graph));
        lock.unlock();
        CHECK(cudaGraphInstantiate(&exec, graph, 0));
        for (int i = 0; i < 3; ++i) {
            CHECK(cudaGraphLaunch(exec, streams_[s]));
            for (size_t k = 0; k < r.bytes; ++k) b.shadow[r.at + k] ^= key;
            memset(b.shadow.data() + r.at, key, std::min<size_t>(r.bytes, 100));
            b.stream = s;
            if (i == 1) finish(b), words(b);
        }
        CHECK(cudaStreamSynchronize(streams_[s]));
        CHECK(cudaGraphExecDestroy(exec));
        CHECK(cudaGraphDestroy(graph));
        b.stream = idle;
    }

    // The CPU and kernels of one stream take turns on the same bytes, several times. What the CPU does there changes
    // only sometimes, and so does what else is at work: a kernel of another stream, on what the CPU has written before
    // the turn's own kernel was launched; a kernel that is launched while a thread waits for the one before, or a touch
    // behind another wait.
    void in_turn(Buffer& b, Buffer& other) {
        if (random_.one_in(2)) {
            std::lock_guard lock(capturing);
            CHECK(cudaDeviceSynchronize());
        }
        const Range r = range(b);
        const int s = stream_for(b);
        const size_t kind = random_.below(3);
        for (size_t i = 0, most = 3 + random_.below(20); i < most; ++i) {
            if (random_.one_in(8)) finish(b);
            else if (b.stream != idle) {
                note(b, "wait", {}, s);
                CHECK(cudaStreamSynchronize(streams_[s]));
                b.stream = idle;
            }
            switch (random_.one_in(10) ? random_.below(4) : kind) {
                case 0: fill(b, {r.at, std::min<size_t>(r.bytes, 1 + random_.below(300))}); break;
                case 1: check(b, r); break;
                case 2: words(b); break;
                default: break;  // it leaves out a turn
            }
            const bool both = &b != &other && random_.one_in(6);
            if (both) finish(other), fill(other, range(other));
            kernel(b, r, s);
            if (both) kernel(other);
            if (random_.one_in(12)) {
                std::thread waits([&] { CHECK(cudaStreamSynchronize(streams_[s])); });
                if (random_.one_in(2)) kernel(b, range(b), s);
                else finish(b), words(b);
                waits.join();
            }
            if (random_.one_in(12)) attach(b), prefetch(b);
            if (b.to_host || (b.attached != idle && b.attached != s)) break;
            if (random_.one_in(12)) set(b);
            order(b, s);
        }
    }

    // ---- hints
    void prefetch(Buffer& b) {
        if (b.is_variable || b.to_host) return;
        const Range r = range(b);
        const int s = stream_for(b);
        const bool device = random_.one_in(2);
        note(b, device ? "prefetch to device" : "prefetch to host", r, s);
        const cudaMemLocation place{device ? cudaMemLocationTypeDevice : cudaMemLocationTypeHost, 0};
        if (cudaMemPrefetchAsync(b.at + r.at, r.bytes, place, 0, streams_[s])) (void)cudaGetLastError();
        else b.stream = s, ++prefetched;
    }
    void advise(Buffer& b) {
        if (b.is_variable) return;
        finish(b);
        const Range r = range(b);
        note(b, "advise", r);
        const cudaMemLocation place{random_.one_in(2) ? cudaMemLocationTypeDevice : cudaMemLocationTypeHost, 0};
        if (cudaMemAdvise(b.at + r.at, r.bytes, static_cast<cudaMemoryAdvise>(1 + random_.below(6)), place))
            (void)cudaGetLastError();
    }
    void attach_to(Buffer& b, int s) {  // a stream; idle: all
        if (b.is_variable) return;
        finish(b);
        note(b, "attach", {}, s);
        const int through = s == idle ? 1 + static_cast<int>(random_.below(3)) : s;
        CHECK(cudaStreamAttachMemAsync(streams_[through], b.at, 0,
                                       s == idle ? cudaMemAttachGlobal : cudaMemAttachSingle));
        CHECK(cudaStreamSynchronize(streams_[through]));
        b.attached = s, b.to_host = false;
    }
    void attach(Buffer& b) {
        if (b.is_variable) return;
        if (!random_.one_in(3)) return attach_to(b, random_.one_in(3) ? idle : 1 + static_cast<int>(random_.below(3)));
        finish(b);
        const int through = b.attached != idle ? b.attached : 1;
        CHECK(cudaStreamAttachMemAsync(streams_[through], b.at, 0, cudaMemAttachHost));
        CHECK(cudaStreamSynchronize(streams_[through]));
        b.attached = idle, b.to_host = true;
    }

    // ---- the rest of the system
    void by_file(Buffer& to, Buffer& from) {
        finish(to), finish(from);
        Range t = range(to), f = range(from);
        const size_t n = std::min(t.bytes, f.bytes);
        note(to, "file to", {t.at, n}), note(from, "file from", {f.at, n});
        const int file = memfd_create("model", MFD_CLOEXEC);
        if (file < 0 || write(file, from.at + f.at, n) != static_cast<ssize_t>(n) ||
            pread(file, to.at + t.at, n, 0) != static_cast<ssize_t>(n))
            die("a file of %zu bytes: %s", n, strerror(errno));
        close(file);
        std::vector<unsigned char> part(from.shadow.begin() + static_cast<std::ptrdiff_t>(f.at),
                                        from.shadow.begin() + static_cast<std::ptrdiff_t>(f.at + n));
        std::copy(part.begin(), part.end(), to.shadow.begin() + static_cast<std::ptrdiff_t>(t.at));
    }
    void fork_once() {
        const pid_t child = fork();
        if (child == 0) _exit(3);
        int status = 0;
        if (child < 0 || waitpid(child, &status, 0) != child || WEXITSTATUS(status) != 3)
            die("fork: %s", strerror(errno));
        ++forked;
    }
    void anew(Buffer& b) {
        if (b.is_variable || !random_.one_in(3)) return;
        if (random_.one_in(2)) finish(b), check(b, {0, b.bytes});
        CHECK(cudaFree(b.at));
        b = fresh();
        if (!random_.one_in(3)) return fill(b, {0, b.bytes});
        const int s = any_stream();  // the device is the first to write
        b.shadow.assign(b.bytes, 0x5a);
        CHECK(cudaMemsetAsync(b.at, 0x5a, b.bytes, streams_[s]));
        b.stream = s;
    }

    Random random_;
    const int lane_;
    std::vector<cudaStream_t> streams_;
    cudaEvent_t event_{};
    std::vector<Buffer> buffers_;
    unsigned counted_ = 0;
    int counter_stream_ = idle;
};

}  // namespace

int main(int argc, char** argv) {
    parse(argc, argv, lanes, {{"max", &max_bytes}, {"turns", &turns}});
#ifdef WITHOUT_VARIABLES
    CHECK(cudaMallocManaged(&variable, lanes * variable_bytes));
    CHECK(cudaMallocManaged(&counters, lanes * sizeof *counters));
    std::memset(counters, 0, lanes * sizeof *counters);
#endif
    run_lanes([](int number) {
        Program program(number);
        act(program);
    });
    printf(
        "seed %.0f: %lu kernels, %.3f GB touched by the CPU, %lu prefetches, %lu forks, every byte as the model "
        "says\nPASSED\n",
        options.seed, launched.load(), touched.load() * 1e-9, prefetched.load(), forked.load());
    return 0;
}
