// SPDX-License-Identifier: Apache-2.0
// calls.cc: what is recorded of the program's own calls, in the threads that make them: their times, ids that the
// program has pushed, and the calls of its subscriber. A call has one number, by which records of what the GPU does for
// it name it (client/activity.h). A call that another makes, the runtime's of the driver, is a part of it: it has the
// same number and no record, and a subscriber hears of it, as natively.
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include <cstring>
#include <iterator>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "base/os/thread_end.h"
#include "guest-allocator/client/activity.h"
#include "guest-allocator/client/mutex.h"
#include "guest-allocator/client/observer.h"
#include "guest-allocator/cupti/asked.h"
#include "guest-allocator/cupti/gpu.h"
#include "guest-allocator/cupti/records.h"

namespace barcuda::guest::cupti {

constinit Profiling asked;

std::uint64_t system_time() noexcept {
    timespec t{};
    clock_gettime(CLOCK_REALTIME, &t);
    return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(t.tv_nsec);
}
std::uint64_t now() noexcept {
    const auto clock = asked.clock.load(std::memory_order_relaxed);
    return clock ? clock() : system_time();
}

namespace {

struct MadeCall {
    const Function* function = nullptr;
    bool heard = false;
    // For the subscriber: between a call's two callbacks.
    std::uint64_t subscribers_word = 0;
    const char* symbol = nullptr;
    alignas(16) std::byte parameters[most_parameter_bytes];
};
struct Caller {
    unsigned depth = 0;      // of calls in one another
    bool calls_out = false;  // the subscriber runs: what it calls is not looked at
    MadeCall made[2];        // the program's, and the driver's within the runtime's
    bool recorded = false;
    std::uint64_t start = 0;
    std::vector<std::uint64_t> ids[CUPTI_EXTERNAL_CORRELATION_KIND_SIZE];
};
// This thread's own; null: it has made no call that was looked at.
constinit thread_local Caller* caller = nullptr;
constinit os::ThreadEnd thread_end{[]() noexcept { delete std::exchange(caller, nullptr); }};
Caller& this_caller() noexcept {
    if (!caller) {
        thread_end.await();
        caller = new Caller;
    }
    return *caller;
}

std::uint32_t thread_id() noexcept {
    return asked.thread_ids.load(std::memory_order_relaxed) == CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM
               ? static_cast<std::uint32_t>(gettid())
               : static_cast<std::uint32_t>(pthread_self());
}

// Of a launch of the driver's: the kernel's name.
const char* symbol_of(const MadeCall& c) noexcept {
    const std::string_view name = c.function->name;
    if (!c.function->gather || !name.starts_with("cuLaunch") || name.starts_with("cuLaunchHost")) return nullptr;
    // The function stands before or behind a struct that describes the launch.
    CUfunction function = nullptr;
    std::memcpy(&function, c.parameters + (name.starts_with("cuLaunchKernelEx") ? sizeof(void*) : 0), sizeof function);
    const char* symbol = nullptr;
    return cuFuncGetName(&symbol, function) == CUDA_SUCCESS ? symbol : nullptr;
}

void tell_subscriber(Caller& caller, MadeCall& c, CUpti_ApiCallbackSite site, std::uint64_t* result) noexcept {
    const auto subscriber = asked.subscriber.load(std::memory_order_acquire);
    if (!subscriber) return;
    CUpti_CallbackData data{};
    data.callbackSite = site;
    data.functionName = c.function->name;
    data.functionParams = c.function->gather ? c.parameters : nullptr;
    data.functionReturnValue = result;
    data.symbolName = c.symbol;
    data.context = current_context();
    data.correlationData = &c.subscribers_word;
    data.correlationId = activity::call;
    caller.calls_out = true;
    subscriber(asked.subscribers_data.load(std::memory_order_relaxed), c.function->domain, c.function->id, &data);
    caller.calls_out = false;
}

void record(const Caller& c, std::uint32_t call, std::uint64_t end, std::uint64_t result) noexcept {
    if (asked.has(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION))
        for (int kind = 0; kind < CUPTI_EXTERNAL_CORRELATION_KIND_SIZE; ++kind)
            if (!c.ids[kind].empty())
                records().add(CUpti_ActivityExternalCorrelation{CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION,
                                                                static_cast<CUpti_ExternalCorrelationKind>(kind),
                                                                c.ids[kind].back(), call, 0});
    CUpti_ActivityAPI api{};
    const Function& function = *c.made[0].function;
    api.kind =
        function.domain == CUPTI_CB_DOMAIN_RUNTIME_API ? CUPTI_ACTIVITY_KIND_RUNTIME : CUPTI_ACTIVITY_KIND_DRIVER;
    api.cbid = function.id;
    api.start = c.start;
    api.end = end;
    api.processId = static_cast<std::uint32_t>(getpid());
    api.threadId = thread_id();
    api.correlationId = call;
    api.returnValue = static_cast<std::uint32_t>(result);
    records().add(api);
}

std::atomic<std::uint32_t> last_call{0};

void hear_begin(Caller& caller, MadeCall& c, const activity::Given& given, const std::uint64_t* on_stack) noexcept {
    c.heard = c.function && asked.heard.has(c.function->domain, c.function->id);
    if (!c.heard) return;
    c.subscribers_word = 0;
    c.symbol = nullptr;
    if (c.function->gather) {
        c.function->gather(given, on_stack, c.parameters);
        caller.calls_out = true;
        c.symbol = symbol_of(c);
        caller.calls_out = false;
    }
    tell_subscriber(caller, c, CUPTI_API_ENTER, nullptr);
}

void begins(std::uint32_t entry, const activity::Given* given, const std::uint64_t* on_stack) noexcept {
    Caller& c = this_caller();
    const unsigned outside = c.depth++;
    if (c.calls_out || outside >= std::size(c.made)) return;
    MadeCall& made = c.made[outside];
    made.function = function_at(entry);
    if (outside == 1) {
        const Function* const whose = c.made[0].function;
        const bool is_within_runtimes = whose && whose->domain == CUPTI_CB_DOMAIN_RUNTIME_API && made.function &&
                                        made.function->domain == CUPTI_CB_DOMAIN_DRIVER_API;
        if (!is_within_runtimes) made.function = nullptr;
        return hear_begin(c, made, *given, on_stack);
    }
    std::uint32_t call = last_call.fetch_add(1, std::memory_order_relaxed) + 1;
    if (call == 0) call = last_call.fetch_add(1, std::memory_order_relaxed) + 1;
    activity::call = call;
    c.recorded = made.function && asked.recorded.has(made.function->domain, made.function->id);
    hear_begin(c, made, *given, on_stack);
    if (c.recorded) c.start = now();
}

void ends(std::uint32_t, std::uint64_t result) noexcept {
    Caller& c = this_caller();
    const unsigned outside = c.depth - 1;
    if (!c.calls_out && outside < std::size(c.made)) {
        if (outside == 0) {
            if (c.recorded) record(c, activity::call, now(), result);
            c.calls_out = true;
            if (c.recorded || asked.kinds.load(std::memory_order_relaxed) & gpu_kinds) records().begin_buffer();
            c.calls_out = false;
        }
        if (MadeCall& made = c.made[outside]; made.heard) tell_subscriber(c, made, CUPTI_API_EXIT, &result);
        if (outside == 0) activity::call = 0;
    }
    c.depth = outside;
}

constexpr activity::Recorder recorder{begins, ends, cuda_is_there};

}  // namespace

void look_at_calls() noexcept {
    static Mutex mutex;
    std::lock_guard lock(mutex);
    const bool wanted = asked.kinds.load() & gpu_kinds || asked.recorded.any() || asked.heard.any();
    if (wanted == (barcuda_recorder.load() != nullptr)) return;
    if (wanted) {
        watch_calls();
        barcuda_recorder.store(&recorder, std::memory_order_release);
    } else {
        barcuda_recorder.store(nullptr, std::memory_order_release);
        stop_watching_calls();
    }
}

CUptiResult push_id(CUpti_ExternalCorrelationKind kind, std::uint64_t id) noexcept {
    if (kind <= CUPTI_EXTERNAL_CORRELATION_KIND_INVALID || kind >= CUPTI_EXTERNAL_CORRELATION_KIND_SIZE)
        return CUPTI_ERROR_INVALID_PARAMETER;
    this_caller().ids[kind].push_back(id);
    return CUPTI_SUCCESS;
}
CUptiResult pop_id(CUpti_ExternalCorrelationKind kind, std::uint64_t* last) noexcept {
    if (kind <= CUPTI_EXTERNAL_CORRELATION_KIND_INVALID || kind >= CUPTI_EXTERNAL_CORRELATION_KIND_SIZE)
        return CUPTI_ERROR_INVALID_PARAMETER;
    auto& ids = this_caller().ids[kind];
    if (ids.empty()) return CUPTI_ERROR_QUEUE_EMPTY;
    if (last) *last = ids.back();
    ids.pop_back();
    return CUPTI_SUCCESS;
}

}  // namespace barcuda::guest::cupti
