// SPDX-License-Identifier: Apache-2.0
// tracing.h: what the software GPU's CUPTI (soft-gpu/cupti) hears of its driver: calls of the API, and what the device
// did for them. Where no CUPTI asks, a call or a piece of work costs a load.
#pragma once
#include <cuda.h>
#include <time.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace barcuda::soft::driver::tracing {

// A piece of the device's work, as it was done. Times are nanoseconds since 1970.
struct Work {
    enum class Kind : std::uint8_t { kernel, copy, fill } kind = Kind::kernel;
    enum class Memory : std::uint8_t { device, pageable, pinned, array };
    std::uint64_t start = 0, end = 0;
    int device = 0;
    std::uint64_t context = 0, stream = 0, graph = 0, node = 0;  // graph, node: 0 outside of graphs
    std::uint32_t call = 0;                                      // the API's call that gave it to the device
    bool asynchronous = false;                                   // that call did not wait
    // of a kernel
    const char* name = nullptr;
    unsigned grid[3] = {}, block[3] = {};
    std::size_t static_shared = 0, dynamic_shared = 0, local = 0;
    int registers = 0;
    bool cooperative = false;
    // of a copy or a fill
    std::size_t bytes = 0;
    Memory from = Memory::device, to = Memory::device;
    std::uint64_t from_context = 0, to_context = 0;  // of device memory
    int from_device = 0, to_device = 0;
    unsigned value = 0;
};

class Tracer {
  public:
    // In the thread that calls. Calls that another one makes are parts of it. `call`: its number, from 1 on.
    virtual void call_ends(const char* function, std::uint32_t call, std::uint64_t start, CUresult result) = 0;
    virtual void did(const Work& work) = 0;

  protected:
    ~Tracer() = default;
};
extern std::atomic<Tracer*> tracer;  // set once, and never changed

inline std::uint64_t now() {
    timespec t{};
    clock_gettime(CLOCK_REALTIME, &t);
    return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(t.tv_nsec);
}

// The call that this thread makes. (0: none, or nothing is traced.)
std::uint32_t current_call();

class TracedCall {
  public:
    explicit TracedCall(const char* function) {
        if (tracer.load(std::memory_order_relaxed)) [[unlikely]]
            begin(function);
    }
    ~TracedCall() {
        if (number_) [[unlikely]]
            end();
    }
    TracedCall(const TracedCall&) = delete;
    CUresult result(CUresult r) { return result_ = r; }

  private:
    void begin(const char* function);
    void end();
    const char* function_ = nullptr;
    std::uint32_t number_ = 0;
    std::uint64_t start_ = 0;
    CUresult result_ = CUDA_SUCCESS;
};

// While a stream's work runs in this thread: whose it is.
class RunningWork {
  public:
    RunningWork(std::uint64_t stream, std::uint32_t call, bool asynchronous);
    ~RunningWork();
    RunningWork(const RunningWork&) = delete;

  private:
    const std::uint64_t stream_;
    const std::uint32_t call_;
    const bool asynchronous_;
};
// The same of a graph's launch, and of each of its nodes.
void running_graph(std::uint64_t graph, std::uint64_t node);

// Measures a piece of work: `describe(work)` fills what is known of it, when it is done.
template <class Describe> class Timed {
  public:
    explicit Timed(Describe describe) : describe_(describe), tracer_(tracer.load(std::memory_order_acquire)) {
        if (tracer_) [[unlikely]]
            start_ = now();
    }
    Timed(const Timed&) = delete;
    void done();

  private:
    Describe describe_;
    Tracer* const tracer_;
    std::uint64_t start_ = 0;
};
void complete(Work& work);  // with what RunningWork knows
template <class Describe> void Timed<Describe>::done() {
    if (!tracer_) [[likely]]
        return;
    Work work;
    work.start = start_;
    work.end = now();
    complete(work);
    describe_(work);
    tracer_->did(work);
}

}  // namespace barcuda::soft::driver::tracing
