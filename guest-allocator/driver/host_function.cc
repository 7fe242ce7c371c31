// SPDX-License-Identifier: Apache-2.0
// host_function.cc: the functions that were given to streams and graphs, and the thread that runs them. The worker's
// driver calls the worker in the stream's order; the worker asks here (struct barcuda_calls in the channel) and holds
// the stream until this process has answered. One thread of this library runs the functions, one after another, as a
// driver's own thread does.
#include "guest-allocator/driver/host_function.h"

#include <string.h>

#include <atomic>
#include <condition_variable>
#include <map>
#include <thread>
#include <utility>
#include <vector>

#include "base/os/thread.h"
#include "guest-allocator/client/client.h"
#include "guest-allocator/client/id_table.h"
#include "guest-allocator/client/mutex.h"
#include "guest-allocator/client/patience.h"
#include "guest-allocator/client/watched.h"
#include "shm-device/queue/sync.h"

namespace barcuda::guest {
namespace {

struct QueuedFunction {
    enum Kind : std::uint8_t { none, host, callback } kind;
    bool once;  // a stream's, forgotten when it has run; a graph's stays
    union {
        struct {
            CUhostFn function;
            void* data;
        } host_function;
        struct {
            CUstreamCallback function;
            void* data;
            CUstream stream;
        } stream_callback;
    };
};

IdTable<QueuedFunction> functions;
Mutex mutex;
std::condition_variable_any& wake() {
    static auto* condition =
        new std::condition_variable_any;  // never destroyed: the thread waits at it until the process ends
    return *condition;
}
std::uint64_t next_number = 1;
std::vector<std::uint64_t>& free_numbers() {
    static auto* numbers = new std::vector<std::uint64_t>;
    return *numbers;
}
// The numbers of graphs' functions. Which graphs and clones still have one is not known, so it is kept; but a program
// that makes its graph again and again gives the same function with the same data.
std::map<std::pair<CUhostFn, void*>, std::uint64_t>& of_graphs() {
    static auto* numbers = new std::map<std::pair<CUhostFn, void*>, std::uint64_t>;
    return *numbers;
}
std::uint64_t awaited = 0;  // launched functions that have not returned yet
bool in_graphs = false;     // any launch of a graph may ask from now on
std::atomic<bool> started{false};
constinit thread_local bool running = false;
using Then = void (*)() noexcept;
constinit thread_local Then at_return = nullptr;  // of the function that this thread runs

void run(std::uint64_t number, CUresult status) {
    QueuedFunction f{};
    {
        std::lock_guard lock(mutex);
        QueuedFunction* kept = functions.at(number);
        if (!kept || kept->kind == QueuedFunction::none) return;
        f = *kept;
        if (f.once) {
            kept->kind = QueuedFunction::none;
            free_numbers().push_back(number);
        }
    }
    running = true;
    watch_calls();
    switch (f.kind) {
        case QueuedFunction::host: f.host_function.function(f.host_function.data); break;
        case QueuedFunction::callback:
            f.stream_callback.function(f.stream_callback.stream, status, f.stream_callback.data);
            break;
        case QueuedFunction::none: break;
    }
    if (const auto then = std::exchange(at_return, nullptr)) then();
    stop_watching_calls();
    running = false;
    if (std::lock_guard lock(mutex); f.once) --awaited;
}

void serve() {
    Client* client = Client::current();
    barcuda_calls& calls = client->channel().calls();
    for (std::uint64_t done = observe(calls.done);;) {
        if (std::unique_lock lock(mutex); true) wake().wait(lock, [] { return awaited || in_graphs; });
        for (Patience patience; observe(calls.asked) == done; patience.wait(*client))
            if (client->ended() != CUDA_SUCCESS) return;
        run(calls.function, static_cast<CUresult>(calls.status));
        publish(calls.done, ++done);
        client->bell().kick();  // the worker's thread that asked may sleep, and does not announce it
    }
}

// Under the lock. The thread is detached, and blocks all signals, since they are the program's. (Except faults:
// managed/mechanism/signals.cc.)
void start() {
    if (started) return;
    started = true;
    const os::SignalsBlocked blocked;
    std::thread(serve).detach();
}

std::uint64_t keep(const QueuedFunction& f) {
    std::lock_guard lock(mutex);
    std::uint64_t none = 0;
    std::uint64_t& known = f.once ? none : of_graphs()[{f.host_function.function, f.host_function.data}];
    if (known != 0) return known;
    std::vector<std::uint64_t>& spare = free_numbers();
    const std::uint64_t number = spare.empty() ? next_number : spare.back();
    QueuedFunction* place = functions.at(number);
    if (!place) return 0;
    if (spare.empty()) ++next_number;
    else spare.pop_back();
    known = number;
    *place = f;
    if (f.once) ++awaited;
    else in_graphs = true;
    start();
    wake().notify_one();
    return number;
}

void forget(std::uint64_t number) {  // it could not be launched
    std::lock_guard lock(mutex);
    QueuedFunction* f = functions.at(number);
    if (!f->once) return;  // a graph may have the same one
    --awaited;
    f->kind = QueuedFunction::none;
    free_numbers().push_back(number);
}

}  // namespace

std::uint64_t keep_function(CUhostFn function, void* data) noexcept {
    QueuedFunction f{};
    f.kind = QueuedFunction::host;
    f.host_function = {function, data};
    return keep(f);
}

std::uint64_t await_function(CUhostFn function, void* data) noexcept {
    QueuedFunction f{};
    f.kind = QueuedFunction::host;
    f.once = true;
    f.host_function = {function, data};
    return keep(f);
}
std::uint64_t await_callback(CUstreamCallback callback, void* data, CUstream stream) noexcept {
    QueuedFunction f{};
    f.kind = QueuedFunction::callback;
    f.once = true;
    f.stream_callback = {callback, data, stream};
    return keep(f);
}
void forget_function(std::uint64_t number) noexcept { forget(number); }

bool in_host_function() noexcept { return running; }
void when_function_returns(void (*then)() noexcept) noexcept { at_return = then; }
bool host_functions_given() noexcept { return started.load(std::memory_order_acquire); }
bool graphs_call() noexcept {
    std::lock_guard lock(mutex);
    return in_graphs;
}
bool host_functions_awaited() noexcept {
    std::lock_guard lock(mutex);
    return awaited || in_graphs;
}

bool other_functions_awaited() noexcept {
    std::lock_guard lock(mutex);
    return awaited > 1 || in_graphs;
}

bool kept_function(std::uint64_t number, CUDA_HOST_NODE_PARAMS& out) noexcept {
    std::lock_guard lock(mutex);
    const QueuedFunction* f = functions.at(number);
    if (!f || f->kind != QueuedFunction::host) return false;
    out = {f->host_function.function, f->host_function.data};
    return true;
}

}  // namespace barcuda::guest
