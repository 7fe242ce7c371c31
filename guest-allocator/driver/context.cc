// SPDX-License-Identifier: Apache-2.0
// context.cc: contexts. The stack of each thread is kept here; a command carries the id of the context at its top, and
// the worker switches to it. Making, retaining and ending contexts are the worker's.
#include "guest-allocator/driver/context.h"

#include <new>
#include <utility>

#include "base/os/thread_end.h"
#include "guest-allocator/client/command.h"
#include "guest-allocator/client/id_table.h"
#include "guest-allocator/client/mutex.h"
#include "guest-allocator/client/patience.h"
#include "guest-allocator/client/watched.h"
#include "guest-allocator/driver/export.h"
#include "guest-allocator/driver/fence.h"
#include "guest-allocator/driver/managed.h"
#include "guest-allocator/driver/streams.h"

namespace barcuda::guest {
namespace {

constexpr int depth_limit = 64;  // pushes without pops: a program this deep has lost count
// Only the top is here, since a library has little room for thread-local variables (runtime.h). The rest is in memory
// of its own.
struct ContextStack {
    CUcontext top = nullptr;
    CUcontext* below = nullptr;
    int depth = 0;

    CUresult push(CUcontext context) noexcept;
    CUcontext pop() noexcept {
        const CUcontext was = top;
        top = --depth ? below[depth - 1] : nullptr;
        return was;
    }
};
thread_local constinit ContextStack stack;
constinit os::ThreadEnd thread_end{[]() noexcept {
    delete[] std::exchange(stack.below, nullptr);
    stack.depth = stack.depth ? 1 : 0;  // keys' destructors that come later find the context still
}};
CUresult ContextStack::push(CUcontext context) noexcept {
    if (depth == depth_limit) return CUDA_ERROR_OUT_OF_MEMORY;
    if (depth > 0) {
        if (!below && !(below = new (std::nothrow) CUcontext[depth_limit])) return CUDA_ERROR_OUT_OF_MEMORY;
        if (depth == 1) thread_end.await();
        below[depth - 1] = top;
    }
    top = context;
    ++depth;
    return CUDA_SUCCESS;
}

// For a core dump that a user may trigger the driver creates a FIFO on the host, where workers may not create files. An
// H100 with 580.159 reports CU_CTX_COREDUMP_ENABLE for such a context.
unsigned without_pipe(unsigned flags) {
    return flags & CU_CTX_USER_COREDUMP_ENABLE ? (flags & ~CU_CTX_USER_COREDUMP_ENABLE) | CU_CTX_COREDUMP_ENABLE
                                               : flags;
}

// While this lives the thread is in no context: for commands that need none, since the host enters none that has ended.
struct InNone {
    const CUcontext before = std::exchange(stack.top, nullptr);
    InNone() = default;
    ~InNone() { stack.top = before; }
    InNone(const InNone&) = delete;
};

// Which device a context belongs to, and the primary ones. A handful per process: a table under a lock.
struct ContextRecord {
    CUcontext context;
    CUdevice device;
    int retained;           // primary contexts: how often; -1: not a primary one
    unsigned long long id;  // of this life: a handle's value is used again after a reset
    int attached = 0;       // by cuCtxAttach, and not yet detached
};
Mutex mutex;
std::atomic<unsigned> living{0};
IdTable<std::atomic<std::uint32_t>> ends;  // by context
IdTable<std::atomic<CUdevice>> devices;    // by context, too
IdTable<std::atomic<CUcontext>> wholes;    // by context: of a green one, its device's primary one
ContextRecord known[BARCUDA_MAX_DEVICES * 4];
unsigned known_count = 0;

ContextRecord* find(CUcontext context) {
    for (unsigned i = 0; i < known_count; ++i)
        if (known[i].context == context) return &known[i];
    return nullptr;
}
ContextRecord* find_primary(CUdevice device) {
    for (unsigned i = 0; i < known_count; ++i)
        if (known[i].device == device && known[i].retained >= 0 && known[i].context) return &known[i];
    return nullptr;
}
ContextRecord* add(CUcontext context, CUdevice device, int retained, unsigned long long id = new_number()) {
    ContextRecord* at = find(nullptr);
    if (!at) {
        if (known_count == std::size(known)) return nullptr;
        at = &known[known_count++];
    }
    living.fetch_add(1, std::memory_order_relaxed);
    if (auto* its = devices.of(context)) its->store(device, std::memory_order_relaxed);
    return &(*at = {context, device, retained, id, 0});
}
// Before the context ends: then its id may be another's.
ContextRecord take(ContextRecord& k) {
    if (auto* times = ends.of(k.context)) times->fetch_add(1, std::memory_order_release);
    living.fetch_sub(1, std::memory_order_relaxed);
    return std::exchange(k, {});
}

bool ended[BARCUDA_MAX_DEVICES];  // under the mutex: the primary context has, and no other was made since
int owed[BARCUDA_MAX_DEVICES];    // under the mutex: a reset releases nothing; how often its context was still retained
unsigned primary_flags[BARCUDA_MAX_DEVICES];  // under the mutex: set before there is a primary context, or for the next
// CUDA's flags say of a context how threads wait for its work; here the last ones hold for all of the program.
void note_flags(unsigned flags) noexcept {
    const unsigned schedule = flags & CU_CTX_SCHED_MASK;
    Patience::set_usual(schedule == CU_CTX_SCHED_AUTO            ? Waits::as_usual
                        : schedule == CU_CTX_SCHED_BLOCKING_SYNC ? Waits::asleep
                                                                 : Waits::awake);
}

bool device_exists(CUdevice device) { return Client::initialized() && Client::current()->device(device); }

}  // namespace

constinit std::atomic<int> ended_primaries{0};

unsigned long long new_number() noexcept {
    static constinit std::atomic<unsigned long long> last{0};
    return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

CUcontext current_context() noexcept { return stack.top; }

InContext::InContext(CUcontext context) noexcept : before_(current_context()), changed_(context && context != before_) {
    if (changed_) cuCtxSetCurrent(context);
}
InContext::~InContext() {
    if (changed_) cuCtxSetCurrent(before_);
}

std::vector<CUcontext> living_contexts() noexcept {
    std::vector<CUcontext> all;
    std::lock_guard lock(mutex);
    for (unsigned i = 0; i < known_count; ++i)
        if (known[i].context) all.push_back(known[i].context);
    return all;
}
bool several_contexts() noexcept { return living.load(std::memory_order_relaxed) > 1; }
CUdevice device_of(CUcontext context) noexcept {
    const auto* its = devices.of(context);
    return its ? its->load(std::memory_order_relaxed) : 0;
}
CUcontext context_on(CUdevice device) noexcept {
    if (current_context() && device_of(current_context()) == device) return current_context();
    for (const CUcontext context : living_contexts())
        if (device_of(context) == device) return context;
    return nullptr;
}
std::uint32_t ends_of(CUcontext context) noexcept {
    const auto* times = ends.of(context);
    return times ? times->load(std::memory_order_acquire) : 0;
}

bool current_lives() noexcept {
    const CUcontext context = current_context();
    if (!context) return false;
    std::lock_guard lock(mutex);
    return find(context) != nullptr;
}

bool current_has_ended() noexcept {
    const CUcontext context = current_context();
    if (!ends_of(context)) return false;
    std::lock_guard lock(mutex);
    return !find(context);
}

bool is_green(CUcontext context) noexcept { return owner_of(context) != context; }
CUcontext owner_of(CUcontext context) noexcept {
    const auto* const its = context ? wholes.of(context) : nullptr;
    const CUcontext whole = its ? its->load(std::memory_order_relaxed) : nullptr;
    return whole ? whole : context;
}
std::vector<CUcontext> green_contexts_of(CUcontext whole) noexcept {
    if (!several_contexts()) return {};
    std::vector<CUcontext> all = living_contexts();
    std::erase_if(all, [=](CUcontext context) { return context == whole || owner_of(context) != whole; });
    return all;
}
bool note_green(CUcontext context, CUdevice device) noexcept {
    std::lock_guard lock(mutex);
    const ContextRecord* const primary = find_primary(device);
    auto* const whole = wholes.of(context);
    if (!primary || !whole || !add(context, device, -1)) return false;
    whole->store(primary->context, std::memory_order_relaxed);
    return true;
}

CUcontext make_own_context(CUdevice device) noexcept {
    CUcontext context = nullptr;
    if (const InNone none; bare_command<Op::create_context>(&context, 0u, device) != CUDA_SUCCESS) return nullptr;
    if (auto* its = devices.of(context)) its->store(device, std::memory_order_relaxed);
    return context;
}
void end_own_context(CUcontext context) noexcept {
    if (auto* times = ends.of(context)) times->fetch_add(1, std::memory_order_release);
    const InNone none;
    bare_command<Op::cuCtxDestroy_v2>(context);
}

namespace {

// Ends a context that no thread finds any more. If that fails, it is as before.
template <class Ask> CUresult end(const ContextRecord& gone, Ask ask) {
    managed::context_ends(gone.context);
    const CUresult r = ask();
    if (r == CUDA_SUCCESS) {
        forget_streams(gone.context);
        return r;
    }
    std::lock_guard lock(mutex);
    if (ContextRecord* const again = add(gone.context, gone.device, gone.retained, gone.id))
        again->attached = gone.attached;
    return r;
}

}  // namespace

// Current in a thread it stays so, and calls in it say that it has ended.
CUresult end_green(CUcontext context) noexcept {
    ContextRecord gone{};
    if (std::lock_guard lock(mutex); context)
        if (ContextRecord* const k = find(context); k && is_green(context)) gone = take(*k);
    if (!gone.context) return CUDA_ERROR_INVALID_CONTEXT;
    auto& whole = *wholes.of(context);
    const CUcontext its = whole.exchange(nullptr, std::memory_order_relaxed);
    const CUresult r = end(gone, [=] {
        const InNone none;
        return command<Op::cuCtxDestroy_v2>(context);
    });
    if (r != CUDA_SUCCESS) whole.store(its, std::memory_order_relaxed);
    return r;
}

}  // namespace barcuda::guest

using namespace barcuda::guest;

CU cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
    if (!context) return CUDA_ERROR_INVALID_VALUE;
    if (!Client::initialized()) return CUDA_ERROR_NOT_INITIALIZED;
    if (!device_exists(device)) return CUDA_ERROR_INVALID_DEVICE;
    std::lock_guard lock(mutex);
    ContextRecord* primary = find_primary(device);
    if (!primary && lost_context.load(std::memory_order_relaxed)) return CUDA_ERROR_DEVICE_UNAVAILABLE;
    if (!primary) {
        CUcontext fresh = nullptr;
        if (const InNone none; CUresult r = command<Op::cuDevicePrimaryCtxRetain>(&fresh, device)) return r;
        primary = find(fresh);
        if (!primary && !(primary = add(fresh, device, std::exchange(owed[device], 0))))
            return CUDA_ERROR_OUT_OF_MEMORY;
        if (std::exchange(ended[device], false)) ended_primaries.fetch_sub(1, std::memory_order_relaxed);
        managed::context_made(fresh);
    }
    ++primary->retained;
    *context = primary->context;
    return CUDA_SUCCESS;
}

// `retained`: though it is retained.
static CUresult end_primary(CUdevice device, bool retained) {
    ContextRecord gone{};
    for (const CUcontext context : living_contexts())  // its parts end with it
        if (device_of(context) == device) end_green(context);
    {
        std::lock_guard lock(mutex);
        ContextRecord* const primary = find_primary(device);
        if (!primary || (primary->retained > 0 && !retained)) return CUDA_SUCCESS;
        owed[device] = primary->retained;
        gone = take(*primary);
    }
    if (lost_context.load(std::memory_order_relaxed)) {  // the worker has ended it already
        lost_context.store(CUDA_ERROR_CONTEXT_IS_DESTROYED, std::memory_order_relaxed);
        return CUDA_SUCCESS;
    }
    const CUresult r = end(gone, [=] {
        const InNone none;
        return command<Op::cuDevicePrimaryCtxReset_v2>(device);
    });
    if (std::lock_guard lock(mutex); r == CUDA_SUCCESS && !find_primary(device) && !std::exchange(ended[device], true))
        ended_primaries.fetch_add(1, std::memory_order_relaxed);
    return r;
}

// The last release ends the context as a reset does. (The worker keeps one: the client's memory is registered in it.)
CU cuDevicePrimaryCtxRelease_v2(CUdevice device) {
    if (!device_exists(device)) return CUDA_ERROR_INVALID_DEVICE;
    {
        std::lock_guard lock(mutex);
        ContextRecord* const primary = find_primary(device);
        int& times = primary ? primary->retained : owed[device];
        if (times == 0) return CUDA_ERROR_INVALID_CONTEXT;
        if (--times > 0 || !primary) return CUDA_SUCCESS;
    }
    return end_primary(device, false);
}

CU cuDevicePrimaryCtxReset_v2(CUdevice device) {
    if (!device_exists(device)) return CUDA_ERROR_INVALID_DEVICE;
    return end_primary(device, true);
}

CU cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* active) {
    if (!flags || !active) return CUDA_ERROR_INVALID_VALUE;
    if (!device_exists(device)) return CUDA_ERROR_INVALID_DEVICE;
    std::lock_guard lock(mutex);
    const ContextRecord* primary = find_primary(device);
    *flags = primary_flags[device];
    *active = primary && primary->retained > 0;
    return CUDA_SUCCESS;
}

CU cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned flags) {
    if (!device_exists(device)) return CUDA_ERROR_INVALID_DEVICE;
    const InNone none;
    flags = without_pipe(flags);
    if (CUresult r = command<Op::cuDevicePrimaryCtxSetFlags_v2>(device, flags); r != CUDA_SUCCESS) return r;
    std::lock_guard lock(mutex);
    primary_flags[device] = flags;
    note_flags(flags);
    return CUDA_SUCCESS;
}
CU cuCtxSetFlags(unsigned flags) {
    flags = without_pipe(flags);
    const CUresult r = command<Op::cuCtxSetFlags>(flags);
    if (r != CUDA_SUCCESS) return r;
    std::lock_guard lock(mutex);
    if (const ContextRecord* k = find(current_context()); k && k->retained >= 0) primary_flags[k->device] = flags;
    note_flags(flags);
    return CUDA_SUCCESS;
}

CU cuCtxCreate_v4(CUcontext* context, CUctxCreateParams* parameters, unsigned flags, CUdevice device) {
    if (!context) return CUDA_ERROR_INVALID_VALUE;
    if (!Client::initialized()) return CUDA_ERROR_NOT_INITIALIZED;
    if (!device_exists(device)) return CUDA_ERROR_INVALID_DEVICE;
    if (parameters && (parameters->numExecAffinityParams || parameters->cigParams)) return CUDA_ERROR_NOT_SUPPORTED;
    if (stack.depth == depth_limit) return CUDA_ERROR_OUT_OF_MEMORY;
    if (const InNone none; CUresult r = command<Op::create_context>(context, without_pipe(flags), device)) return r;
    std::lock_guard lock(mutex);
    if (!add(*context, device, -1)) {
        end_own_context(*context);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    note_flags(flags);
    managed::context_made(*context);
    return stack.push(*context);
}
CU cuCtxCreate_v2(CUcontext* context, unsigned flags, CUdevice device) {
    return cuCtxCreate_v4(context, nullptr, flags, device);
}

CU cuCtxDestroy_v2(CUcontext context) {
    if (!context) return CUDA_ERROR_INVALID_VALUE;
    ContextRecord gone{};
    {
        std::lock_guard lock(mutex);
        if (ContextRecord* k = find(context); k && k->retained < 0 && !is_green(context)) gone = take(*k);
    }
    if (!gone.context) return ends_of(context) ? CUDA_ERROR_CONTEXT_IS_DESTROYED : CUDA_ERROR_INVALID_CONTEXT;
    const CUresult r = end(gone, [=] {
        const InNone none;
        return command<Op::cuCtxDestroy_v2>(context);
    });
    if (r == CUDA_SUCCESS && current_context() == context) stack.pop();
    return r;
}

// Uses of a context, as CUDA counted them before version 4; the last one of a context that was made ends it.
CU cuCtxAttach(CUcontext* context, unsigned flags) {
    if (!context || flags) return CUDA_ERROR_INVALID_VALUE;
    if (!Client::initialized()) return CUDA_ERROR_NOT_INITIALIZED;
    std::lock_guard lock(mutex);
    ContextRecord* const k = current_context() ? find(current_context()) : nullptr;
    if (!k) return CUDA_ERROR_INVALID_CONTEXT;
    ++k->attached;
    *context = k->context;
    return CUDA_SUCCESS;
}
CU cuCtxDetach(CUcontext context) {
    {
        std::lock_guard lock(mutex);
        ContextRecord* const k = context ? find(context) : nullptr;
        if (!k) return CUDA_ERROR_INVALID_CONTEXT;
        if (k->attached > 0) {
            --k->attached;
            return CUDA_SUCCESS;
        }
        if (k->retained >= 0) return CUDA_SUCCESS;  // its device's own
    }
    return cuCtxDestroy_v2(context);
}

CU cuCtxPushCurrent_v2(CUcontext context) {
    if (!context) return CUDA_ERROR_INVALID_VALUE;
    if (stack.depth == depth_limit) return CUDA_ERROR_INVALID_CONTEXT;
    return stack.push(context);
}

CU cuCtxPopCurrent_v2(CUcontext* context) {
    if (!stack.depth) return CUDA_ERROR_INVALID_CONTEXT;
    const CUcontext top = stack.pop();
    if (context) *context = top;
    return CUDA_SUCCESS;
}

CU cuCtxSetCurrent(CUcontext context) {
    if (!Client::current()) return CUDA_ERROR_NOT_INITIALIZED;
    if (!context) {
        if (stack.depth) stack.pop();
        return CUDA_SUCCESS;
    }
    if (!stack.depth) stack.depth = 1;
    stack.top = context;
    return CUDA_SUCCESS;
}

CU cuCtxGetCurrent(CUcontext* context) {
    if (!context) return CUDA_ERROR_INVALID_VALUE;
    if (!Client::current()) return CUDA_ERROR_NOT_INITIALIZED;
    *context = current_context();
    return CUDA_SUCCESS;
}

CU cuCtxGetDevice(CUdevice* device) {
    if (!device) return CUDA_ERROR_INVALID_VALUE;
    if (!Client::current()) return CUDA_ERROR_NOT_INITIALIZED;
    std::lock_guard lock(mutex);
    ContextRecord* k = current_context() ? find(current_context()) : nullptr;
    if (!k) return CUDA_ERROR_INVALID_CONTEXT;
    *device = k->device;
    return CUDA_SUCCESS;
}

CU cuCtxGetDevice_v2(CUdevice* device, CUcontext context) {
    if (!context) return cuCtxGetDevice(device);
    std::lock_guard lock(mutex);
    ContextRecord* k = find(context);
    if (!device || !k) return CUDA_ERROR_INVALID_CONTEXT;
    *device = k->device;
    return CUDA_SUCCESS;
}

CU cuCtxGetId(CUcontext context, unsigned long long* id) {
    if (!id) return CUDA_ERROR_INVALID_VALUE;
    if (!context) context = current_context();
    if (!context) return CUDA_ERROR_INVALID_CONTEXT;
    std::lock_guard lock(mutex);
    const ContextRecord* k = find(context);
    if (!k) return CUDA_ERROR_INVALID_CONTEXT;
    *id = k->id;
    return CUDA_SUCCESS;
}

CU cuCtxGetApiVersion(CUcontext context, unsigned* version) {
    if (!version) return CUDA_ERROR_INVALID_VALUE;
    if (!context && !current_context()) return CUDA_ERROR_INVALID_CONTEXT;
    *version = 3020;  // what the driver answers for every context since CUDA 3.2
    return CUDA_SUCCESS;
}

CU cuCtxSynchronize() {
    const CUcontext context = current_context();
    if (!context) return CUDA_ERROR_INVALID_CONTEXT;
    // A green context may end where it is current.
    if (ends_of(context) && !lost_context.load(std::memory_order_relaxed)) {
        std::lock_guard lock(mutex);
        if (!find(context)) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    }
    CUresult r = CUDA_SUCCESS;
    if (managed::exists()) [[unlikely]]
        if (const CUstream only = managed::only_busy_stream(context)) r = synchronize(only);
    if (r == CUDA_SUCCESS) r = wait_for_streams(context);
    // To the wait for a whole context it is no matter which stream captures.
    return r == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : r;
}
CU cuCtxSynchronize_v2(CUcontext context) {
    if (!context) return cuCtxSynchronize();
    if (std::lock_guard lock(mutex); !find(context)) return CUDA_ERROR_INVALID_CONTEXT;
    return wait_for_streams(context);
}
