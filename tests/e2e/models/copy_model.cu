// SPDX-License-Identifier: Apache-2.0
// copy_model.cu: a random program of copies between all kinds of memory, and a model of what every byte must be then.
//
// Beside each buffer stands its shadow: ordinary memory to which the same is done at once, by memcpy and memset. The
// device may be late: a buffer remembers the stream that may still be at work on it, and before another stream or the
// CPU touches it the program waits in one of the ways that CUDA has. Where CUDA says that a source may be used again
// when a call returns (pageable memory, above all) it is written over at once.
//
//   copy_model [seconds=N | steps=N] [seed=N] [max=BYTES] [threads=N]
//
// It knows nothing of Barcuda: it passes on CUDA's own library, and names the seed and the step where it does not.
#include <cuda_runtime.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "model.h"

namespace {

double max_bytes = 4 << 20;  // of a buffer: an option
std::atomic<uint64_t> copied{0}, copies{0};

// 0..most, every order of magnitude as likely as the next, often just around a power of two.
size_t size(Random& random, size_t most) {
    if (random.one_in(40)) return 0;
    const size_t power = size_t{1} << random.below(64 - __builtin_clzll(most | 1));
    const size_t n = random.one_in(3) ? power + random.below(5) - 2 : power + random.below(power);
    return n > most ? most - random.below(std::min<size_t>(most, 3)) : n;
}

// clang-format off
enum Kind { Malloced, Global, Stack, Anonymous, SharedFile, PrivateFile, Pinned, WriteCombined, RegisteredHeap,
            RegisteredPages, Managed, Device, Pooled, Symbol, kinds };
// clang-format on
const char* const names[] = {"malloc",
                             "global",
                             "stack",
                             "mmap",
                             "shared file",
                             "private file",
                             "cudaHostAlloc",
                             "write-combined",
                             "registered malloc",
                             "registered mmap",
                             "managed",
                             "cudaMalloc",
                             "cudaMallocAsync",
                             "__device__ array"};
bool on_device(Kind k) { return k >= Device; }
bool pageable(Kind k) { return k <= PrivateFile; }

constexpr size_t symbol_bytes = 1 << 20, lanes = 8;
__device__ unsigned char device_arrays[lanes][symbol_bytes];
unsigned char globals[lanes][3 << 20];

__global__ void exclusive_or(unsigned char* bytes, size_t n, unsigned char key) {
    for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < n; i += size_t{gridDim.x} * blockDim.x)
        bytes[i] ^= key;
}

unsigned char* map(size_t bytes, int flags = MAP_PRIVATE | MAP_ANONYMOUS, int file = -1) {
    void* p = mmap(nullptr, std::max<size_t>(bytes, 1), PROT_READ | PROT_WRITE, flags, file, 0);
    if (p == MAP_FAILED) die("mmap of %zu bytes: %s", bytes, strerror(errno));
    return static_cast<unsigned char*>(p);
}

constexpr int idle = -1, gone = -2;  // no stream; one that was destroyed while it may have been at work
struct Buffer {
    Kind kind;
    size_t bytes = 0;
    unsigned char* at = nullptr;
    unsigned char* shadow = nullptr;
    int stream = idle;  // that may still be at work on it
};

class Program {
  public:
    Program(int lane, unsigned char* stack, size_t stack_bytes)
        : random_(dice_of(lane)), lane_(lane), stack_(stack), stack_bytes_(stack_bytes) {
        streams_.push_back(cudaStreamLegacy);
        streams_.push_back(cudaStreamPerThread);
        for (unsigned flags : {cudaStreamDefault, cudaStreamNonBlocking, cudaStreamNonBlocking})
            CHECK(cudaStreamCreateWithFlags(&streams_.emplace_back(), flags));
        CHECK(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming));
        for (int k = 0; k < kinds; ++k)
            for (int n = k == Global || k == Stack || k == Symbol ? 1 : 2; n; --n)
                make(buffers_.emplace_back(Buffer{Kind(k)}));
    }
    ~Program() {
        for (Buffer& b : buffers_) verify(b, 0, b.bytes), release(b);
    }

    void act() {
        Buffer& b = buffers_[random_.below(buffers_.size())];
        const size_t what = random_.below(100);
        if (what < 70) return copy(buffers_[random_.below(buffers_.size())], b);
        if (what < 78) return set(b);
        if (what < 84) return change(b);
        if (what < 90) return fill(b, range(b));
        if (what < 97) {
            const Range r = range(b);
            return verify(b, r.at, r.bytes);
        }
        if (what < 98) return renew_stream(2 + random_.below(streams_.size() - 2));
        verify(b, 0, b.bytes);
        release(b);
        make(b);
    }

  private:
    struct Range {
        size_t at, bytes;
    };
    Range range(const Buffer& b) {
        const size_t bytes = random_.one_in(2) ? size(random_, b.bytes) : random_.below(b.bytes + 1);
        return {random_.one_in(3) ? 0 : random_.below(b.bytes - bytes + 1), bytes};
    }
    int any_stream() { return static_cast<int>(random_.below(streams_.size())); }

    void renew_stream(size_t index) {
        CHECK(cudaStreamDestroy(streams_[index]));
        CHECK(
            cudaStreamCreateWithFlags(&streams_[index], random_.one_in(2) ? cudaStreamDefault : cudaStreamNonBlocking));
        for (Buffer& b : buffers_)
            if (b.stream == static_cast<int>(index)) b.stream = gone;
    }

    // Pinned memory, as much as there is; where there is none at all, a malloc takes its place.
    template <class F> void allocate(Buffer& b, F take) {
        cudaError_t e;
        while ((e = take()) == cudaErrorMemoryAllocation && b.bytes > 1) (void)cudaGetLastError(), b.bytes /= 2;
        if (e != cudaErrorMemoryAllocation) CHECK(e);
        else (void)cudaGetLastError(), b.kind = Malloced, b.at = static_cast<unsigned char*>(malloc(b.bytes));
    }

    void make(Buffer& b) {
        size_t most = static_cast<size_t>(max_bytes);
        if (b.kind == WriteCombined || b.kind == Managed)
            most = std::min<size_t>(most, 4 << 20);  // slow to read; scarce
        b.bytes = std::max<size_t>(random_.one_in(3) ? random_.below(most) : size(random_, most), 1);
        if (b.kind == Global) b.bytes = sizeof globals[0];
        if (b.kind == Stack) b.bytes = stack_bytes_;
        if (b.kind == Symbol) b.bytes = symbol_bytes;
        b.stream = idle;
        switch (b.kind) {
            case RegisteredHeap:
            case Malloced: b.at = static_cast<unsigned char*>(malloc(b.bytes)); break;
            case Global: b.at = globals[lane_]; break;
            case Stack: b.at = stack_; break;
            case RegisteredPages:
            case Anonymous: b.at = map(b.bytes); break;
            case SharedFile:
            case PrivateFile: {
                char name[] = "/tmp/copy-model-XXXXXX";
                const int file = mkstemp(name);
                if (file < 0 || unlink(name) || ftruncate(file, b.bytes)) die("a file in /tmp: %s", strerror(errno));
                b.at = map(b.bytes, b.kind == SharedFile ? MAP_SHARED : MAP_PRIVATE, file);
                close(file);
                break;
            }
            case Pinned:
                allocate(b, [&] { return cudaHostAlloc(&b.at, b.bytes, random_.one_in(2) ? 0 : cudaHostAllocMapped); });
                break;
            case WriteCombined:
                allocate(b, [&] { return cudaHostAlloc(&b.at, b.bytes, cudaHostAllocWriteCombined); });
                break;
            case Managed: allocate(b, [&] { return cudaMallocManaged(&b.at, b.bytes); }); break;
            case Device: CHECK(cudaMalloc(&b.at, b.bytes)); break;
            case Pooled: CHECK(cudaMallocAsync(&b.at, b.bytes, streams_[b.stream = any_stream()])); break;
            case Symbol: {
                void* p;
                CHECK(cudaGetSymbolAddress(&p, device_arrays));
                b.at = static_cast<unsigned char*>(p) + lane_ * symbol_bytes;
                break;
            }
            case kinds: break;
        }
        b.shadow = map(b.bytes);
        if (b.kind == RegisteredHeap || b.kind == RegisteredPages) {
            fill(b, {0, b.bytes});  // what it held before is kept
            CHECK(cudaHostRegister(b.at, b.bytes, cudaHostRegisterMapped));
        } else if (on_device(b.kind)) {
            const int s = b.stream == idle ? any_stream() : b.stream;
            CHECK(cudaMemsetAsync(b.at, 0, b.bytes, streams_[b.stream = s]));
        } else {
            memset(b.at, 0, b.bytes);
        }
    }

    void release(Buffer& b) {
        if (b.kind == Pooled && b.stream >= 0) CHECK(cudaFreeAsync(b.at, streams_[b.stream]));
        else finish(b);
        switch (b.kind) {
            case RegisteredHeap:
            case RegisteredPages:
                CHECK(cudaHostUnregister(b.at));
                if (memcmp(b.at, b.shadow, b.bytes)) die("cudaHostUnregister of %zu bytes changed them", b.bytes);
                if (b.kind == RegisteredHeap) free(b.at);
                else munmap(b.at, b.bytes);
                break;
            case Malloced: free(b.at); break;
            case Anonymous:
            case SharedFile:
            case PrivateFile: munmap(b.at, b.bytes); break;
            case Pinned:
            case WriteCombined: CHECK(cudaFreeHost(b.at)); break;
            case Pooled:
                if (b.stream == idle) CHECK(cudaFreeAsync(b.at, streams_[any_stream()]));
                break;
            case Managed:
            case Device: CHECK(cudaFree(b.at)); break;
            default: break;
        }
        munmap(b.shadow, b.bytes);
    }

    // Waits until nothing works on a buffer, in one of the ways there are.
    void finish(Buffer& b) {
        if (b.stream == idle) return;
        const cudaStream_t s = b.stream == gone ? nullptr : streams_[b.stream];
        switch (b.stream == gone ? 3 : random_.below(4)) {
            case 0: CHECK(cudaStreamSynchronize(s)); break;
            case 1:
                CHECK(cudaEventRecord(event_, s));
                CHECK(cudaEventSynchronize(event_));
                break;
            case 2:
                for (cudaError_t e; (e = cudaStreamQuery(s));)
                    if (e != cudaErrorNotReady) CHECK(e);
                break;
            case 3: CHECK(cudaDeviceSynchronize()); break;
        }
        const int done = b.stream;
        for (Buffer& other : buffers_)
            if (other.stream == done) other.stream = idle;
    }
    // What is given to stream `next` now comes behind what is at work on the buffer.
    void order(Buffer& b, int next) {
        if (b.stream == idle || b.stream == next) return;
        if (b.stream == gone || random_.one_in(3)) return finish(b);
        CHECK(cudaEventRecord(event_, streams_[b.stream]));
        CHECK(cudaStreamWaitEvent(streams_[next], event_, 0));
    }

    void random_bytes(unsigned char* to, size_t n) {
        for (; n >= 8; n -= 8, to += 8) {
            const uint64_t word = random_();
            memcpy(to, &word, 8);
        }
        const uint64_t word = random_();
        memcpy(to, &word, n);
    }
    // By the CPU; device memory by a copy from memory that is gone when the call is over.
    void fill(Buffer& b, Range r) {
        random_bytes(b.shadow + r.at, r.bytes);
        finish(b);
        if (!on_device(b.kind)) {
            memcpy(b.at + r.at, b.shadow + r.at, r.bytes);
            return;
        }
        auto* source = static_cast<unsigned char*>(malloc(r.bytes + 1));
        memcpy(source, b.shadow + r.at, r.bytes);
        b.stream = any_stream();
        CHECK(cudaMemcpyAsync(b.at + r.at, source, r.bytes, cudaMemcpyDefault, streams_[b.stream]));
        memset(source, 0xee, r.bytes);
        free(source);
    }

    void verify(Buffer& b, size_t at, size_t n) {
        const unsigned char* have = b.at + at;
        unsigned char* fetched = nullptr;
        size_t room = n + 1;
        if (on_device(b.kind)) {
            const bool heap = random_.one_in(2);
            fetched = heap ? static_cast<unsigned char*>(malloc(room)) : map(room);
            order(b, 0);
            CHECK(cudaMemcpy(fetched, have, n, cudaMemcpyDeviceToHost));
            have = fetched;
            room = heap ? 0 : room;
        } else {
            finish(b);
        }
        if (memcmp(have, b.shadow + at, n)) {
            size_t i = 0, wrong = 0;
            while (have[i] == b.shadow[at + i]) ++i;
            for (size_t k = i; k < n; ++k) wrong += have[k] != b.shadow[at + k];
            die("%s, %p, %zu bytes: byte %zu is %02x, not %02x; %zu of [%zu, %zu) differ", names[b.kind], b.at, b.bytes,
                at + i, have[i], b.shadow[at + i], wrong, at, at + n);
        }
        if (room && fetched) munmap(fetched, room);
        else free(fetched);
    }

    void set(Buffer& b) {
        if (!on_device(b.kind)) return fill(b, range(b));
        const Range r = range(b);
        const int value = static_cast<int>(random_.below(256)), s = random_.one_in(3) ? 0 : any_stream();
        order(b, s);
        if (s || random_.one_in(2)) CHECK(cudaMemsetAsync(b.at + r.at, value, r.bytes, streams_[s]));
        else CHECK(cudaMemset(b.at + r.at, value, r.bytes));
        memset(b.shadow + r.at, value, r.bytes);
        b.stream = s;
    }

    // By a kernel, wherever the device can reach.
    void change(Buffer& b) {
        const Range r = range(b);
        if (pageable(b.kind) || !r.bytes || r.bytes > (1 << 20)) return verify(b, r.at, r.bytes);
        unsigned char* device = b.at;
        const int s = any_stream();
        const unsigned char key = static_cast<unsigned char>(random_());
        order(b, s);
        // Not every registration can be seen by kernels everywhere: one that shares its page with another, say. Where
        // memory lies changes nothing of what the program does afterwards.
        if (!on_device(b.kind) && b.kind != Managed &&
            cudaHostGetDevicePointer(reinterpret_cast<void**>(&device), b.at, 0)) {
            (void)cudaGetLastError();
            b.stream = s;
            return;
        }
        exclusive_or<<<8, 64, 0, streams_[s]>>>(device + r.at, r.bytes, key);
        CHECK(cudaGetLastError());
        for (size_t i = 0; i < r.bytes; ++i) b.shadow[r.at + i] ^= key;
        b.stream = s;
    }

    void copy(Buffer& to, Buffer& from) {
        Range t = range(to), f = range(from);
        size_t rows = 1, width = std::min(t.bytes, f.bytes), to_pitch = width, from_pitch = width;
        if (random_.one_in(4) && width) {  // a box, within both ranges
            rows = 1 + random_.below(std::min<size_t>(width, 200));
            to_pitch = t.bytes / rows, from_pitch = f.bytes / rows;
            width = std::min(to_pitch, from_pitch);
            width -= random_.below(width);
            if (!width) rows = 1;
        }
        const size_t to_end = t.at + (rows - 1) * to_pitch + width, from_end = f.at + (rows - 1) * from_pitch + width;
        if (&to == &from && t.at < from_end && f.at < to_end) return;
        const bool boxed = rows > 1, host_only = !on_device(to.kind) && !on_device(from.kind);
        const bool managed = to.kind == Managed || from.kind == Managed;
        const int s = random_.one_in(3) ? 0 : any_stream();
        const bool synchronous = s == 0 && random_.one_in(2);

        if (host_only && !managed) finish(to), finish(from);  // runs at once, whatever the stream
        else order(to, s), order(from, s);
        cudaMemcpyKind kind = cudaMemcpyDefault;
        if (!managed && random_.one_in(2))
            kind = on_device(to.kind)     ? on_device(from.kind) ? cudaMemcpyDeviceToDevice : cudaMemcpyHostToDevice
                   : on_device(from.kind) ? cudaMemcpyDeviceToHost
                                          : cudaMemcpyHostToHost;
        unsigned char* a = to.at + t.at;
        const unsigned char* b = from.at + f.at;
        if (boxed) {
            if (synchronous) CHECK(cudaMemcpy2D(a, to_pitch, b, from_pitch, width, rows, kind));
            else CHECK(cudaMemcpy2DAsync(a, to_pitch, b, from_pitch, width, rows, kind, streams_[s]));
        } else if (to.kind == Symbol && from.kind != Symbol && !managed && random_.one_in(2)) {
            if (synchronous) CHECK(cudaMemcpyToSymbol(device_arrays, b, width, lane_ * symbol_bytes + t.at, kind));
            else
                CHECK(cudaMemcpyToSymbolAsync(device_arrays, b, width, lane_ * symbol_bytes + t.at, kind, streams_[s]));
        } else if (synchronous) {
            CHECK(cudaMemcpy(a, b, width, kind));
        } else {
            CHECK(cudaMemcpyAsync(a, b, width, kind, streams_[s]));
        }
        for (size_t row = 0; row < rows; ++row)
            memcpy(to.shadow + t.at + row * to_pitch, from.shadow + f.at + row * from_pitch, width);
        copied += rows * width, ++copies;

        // CUDA Runtime API, "API synchronization behavior".
        const bool to_device = on_device(to.kind), from_device = on_device(from.kind);
        to.stream = from.stream = s;
        if (managed) return;
        if (!to_device && !from_device) to.stream = from.stream = idle;
        if (to_device && !from_device && (synchronous || pageable(from.kind))) from.stream = idle;
        if (to_device && !from_device && synchronous && !pageable(from.kind)) to.stream = idle;
        if (!to_device && from_device && synchronous) to.stream = from.stream = idle;
        if (from.stream == idle && !from_device && &to != &from && random_.one_in(2))
            fill(from, {f.at, from_end - f.at});
    }

    Random random_;
    const int lane_;
    unsigned char* const stack_;
    const size_t stack_bytes_;
    std::vector<cudaStream_t> streams_;
    cudaEvent_t event_{};
    std::vector<Buffer> buffers_;
};

}  // namespace

int main(int argc, char** argv) {
    parse(argc, argv, lanes, {{"max", &max_bytes}});
    run_lanes([](int number) {
        unsigned char stack[200000];
        Program program(number, stack, sizeof stack);
        act(program);
    });
    CHECK(cudaDeviceSynchronize());
    printf("seed %.0f: %lu copies of %.3f GB in all, every byte as the model says\nPASSED\n", options.seed,
           copies.load(), copied.load() * 1e-9);
    return 0;
}
