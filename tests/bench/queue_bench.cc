// SPDX-License-Identifier: Apache-2.0
// queue_bench.cc: the control queue alone, with no program around it: what it costs to make a command available and to
// learn that it was used; from one thread for the instructions, from two for the cache lines that travel between cores.
// These are the floor under every posting cost of cuda_bench. JSON lines, as cuda_bench prints them.
#include <memory>
#include <thread>

#include "shm-device/queue/virtqueue.h"
#include "tests/bench/measure.h"

namespace {

using namespace barcuda;
using namespace barcuda::virtqueue;

Bench bench;

// A queue as it lies in a channel, and 64 bytes of command memory for each entry.
struct Memory {
    alignas(64) Descriptor<> ring[BARCUDA_QUEUE_SIZE]{};
    alignas(64) Event<> driver_event{};
    alignas(64) Event<> device_event{};
    alignas(64) std::uint64_t commands[BARCUDA_QUEUE_SIZE][8]{};

    Parts<> parts() { return {ring, &driver_event, &device_event}; }
};

struct Pair {
    std::unique_ptr<Memory> memory = std::make_unique<Memory>();
    Driver<> driver{memory->parts()};
    Device<> device{memory->parts()};

    void post(std::uint64_t n, bool answered) {
        std::uint64_t* command = memory->commands[n % BARCUDA_QUEUE_SIZE];
        for (int i = 0; i < 8; ++i) command[i] = n + static_cast<std::uint64_t>(i);
        const Buffer chain[] = {{n % BARCUDA_QUEUE_SIZE * 64, 48, false}, {n % BARCUDA_QUEUE_SIZE * 64 + 48, 16, true}};
        driver.post(std::span(chain, answered ? 2 : 1));
    }
    // The device's half of one command. False: there is none.
    bool take() {
        const auto chain = device.next();
        if (!chain) {
            device.flush();
            return false;
        }
        std::uint64_t* command = &memory->commands[0][0] + chain->request.offset / 8;
        sum += command[0] + command[5];
        if (chain->reply.writable) command[6] = sum;
        device.complete(*chain, chain->reply.len);
        return true;
    }
    std::uint64_t sum = 0;
};

void one_thread() {
    constexpr int batch = 512, times = 200;
    for (const bool posting : {true, false}) {
        bench.row(posting ? "queue_post" : "queue_take", "ns", [&] {
            Pair q;
            double seconds = 0;
            std::uint64_t n = 0;
            for (int t = 0; t < times; ++t) {
                const double post = timed([&] {
                    for (int i = 0; i < batch; ++i) q.post(++n, false);
                });
                const double take = timed([&] {
                    while (q.take()) {}
                    q.driver.reap();
                });
                seconds += posting ? post : take;
            }
            return seconds / (batch * times) * 1e9;
        });
    }
}

// The device's half on a thread of its own, until told to stop.
struct Worker {
    explicit Worker(Pair& q)
        : thread([this, &q] {
              while (!stop.load(std::memory_order_relaxed))
                  if (!q.take()) std::this_thread::yield();
          }) {}
    ~Worker() {
        stop = true;
        thread.join();
    }

    std::atomic<bool> stop{false};
    std::thread thread;
};

void two_threads() {
    bench.row("queue_stream", "ns", [] {  // posts with no answers, as fast as the ring lets them
        Pair q;
        Worker worker(q);
        constexpr int n = 200000;
        return timed([&] {
                   for (std::uint64_t i = 1; i <= n; ++i) {
                       while (!q.driver.can_post(1)) {
                           if (q.driver.reap(); !q.driver.can_post(1)) std::this_thread::yield();
                       }
                       q.post(i, false);
                   }
                   while (q.driver.reap() != n) std::this_thread::yield();
               }) /
               n * 1e9;
    });
    bench.row("queue_round_trip", "ns", [] {  // one command and its answer at a time
        Pair q;
        Worker worker(q);
        constexpr int n = 5000;
        return timed([&] {
                   for (std::uint64_t i = 1; i <= n; ++i) {
                       q.post(i, true);
                       while (q.driver.reap() != i) std::this_thread::yield();
                   }
               }) /
               n * 1e9;
    });
}

}  // namespace

int main(int argc, char** argv) {
    if (argc > 1) bench.only = argv[1];
    bench.budget = 0.5;
    one_thread();
    two_threads();
}
