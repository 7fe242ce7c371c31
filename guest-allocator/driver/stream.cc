// SPDX-License-Identifier: Apache-2.0
// stream.cc: streams. Work is posted; a wait is a look at a fence. The guest keeps a list of each context's streams, so
// that cuCtxSynchronize can wait for all of them, and gives each thread a default stream of its own where a program
// asks for that.
#include <algorithm>
#include <utility>
#include <vector>

#include "base/os/thread_end.h"
#include "guest-allocator/client/command.h"
#include "guest-allocator/client/given_work.h"
#include "guest-allocator/client/id_table.h"
#include "guest-allocator/client/mutex.h"
#include "guest-allocator/driver/capture.h"
#include "guest-allocator/driver/context.h"
#include "guest-allocator/driver/export.h"
#include "guest-allocator/driver/fence.h"
#include "guest-allocator/driver/managed.h"
#include "guest-allocator/driver/streams.h"

namespace barcuda::guest {
namespace {

struct StreamRecord {
    std::atomic<std::uint64_t> context;  // its id; 0: no such stream
    // The rest is read and written under the lock.
    bool blocking;           // waits for, and is waited for by, the legacy default stream
    int priority;            // as the driver has it
    unsigned long long id;   // of this stream alone: handles are used again
    CUstream before, after;  // in the list of its context
    CUcontext its_context() const { return reinterpret_cast<CUcontext>(context.load(std::memory_order_relaxed)); }
};
Mutex mutex;
std::atomic<std::uint32_t> destroyed{0};  // how many streams were
std::atomic<std::uint32_t> forgotten{0};  // how many contexts were, with their streams
IdTable<StreamRecord> records;
IdTable<CUstream> newest;  // by context: where the list of its streams begins

// Null: there is no such stream.
StreamRecord* find(CUstream stream) noexcept {
    StreamRecord* const record = records.of(stream);
    return record && record->its_context() ? record : nullptr;
}

// False: there is no memory.
bool remember(CUstream stream, CUcontext context, bool blocking, int priority) noexcept {
    StreamRecord* const record = records.of(stream);
    CUstream* const list = newest.of(context);
    if (!record || !list) return false;
    record->blocking = blocking;
    record->priority = priority;
    record->id = new_number();
    record->before = nullptr;
    record->after = *list;
    if (*list) records.of(*list)->before = stream;
    *list = stream;
    // What a stream before it had this handle for is behind a fence, if it is not done.
    if (auto* const given = given_work.streams.of(stream)) given->store(0, std::memory_order_relaxed);
    record->context.store(reinterpret_cast<std::uint64_t>(context), std::memory_order_relaxed);
    return true;
}

void forget(StreamRecord& record) noexcept {
    (record.before ? records.of(record.before)->after : *newest.of(record.its_context())) = record.after;
    if (record.after) records.of(record.after)->before = record.before;
    record.context.store(0, std::memory_order_relaxed);
}

// Each stream of the context, until `f` returns true. Whether it did. `f` may forget the stream.
template <class F> bool any_of_streams(CUcontext context, F f) {
    const CUstream* const list = newest.of(context);
    for (CUstream stream = list ? *list : nullptr; stream;) {
        StreamRecord& record = *records.of(stream);
        const CUstream next = record.after;
        if (f(stream, record)) return true;
        stream = next;
    }
    return false;
}
template <class F> void each_stream(CUcontext context, F f) {
    any_of_streams(context, [&](CUstream stream, StreamRecord& record) {
        f(stream, record);
        return false;
    });
}

// Fences behind the work of streams: those of destroyed ones, whose work continues, and those that a wait for a context
// has put there. A wait for the context waits for all of them.
struct Leaving {
    Fence* fence;
    CUcontext context;
    CUstream stream;
    std::uint64_t work;  // the fence is behind all that the stream was given up to this command number (Queue::work)
};
std::vector<Leaving>& leaving() {
    static auto* list = new std::vector<Leaving>;
    return *list;
}

// Behind all that a stream was given so far: a fence, in `leaving` until it is written. Under the lock, so that the
// stream is not destroyed before. False: there is no room, or the stream is capturing.
bool watch(CUstream stream, CUcontext context) {
    Fence* f = capturing(stream) ? nullptr : take_fence(0);
    if (!f) return false;
    std::erase_if(leaving(), [](const Leaving& l) {
        if (l.fence->pending()) return false;
        recycle_fence(l.fence);
        return true;
    });
    const std::uint64_t value = f->asked.fetch_add(1, std::memory_order_relaxed) + 1;
    leaving().push_back({f, context, stream, Client::current()->queue().work()});
    if (command<Op::write_fence>(stream, ext::Fence{Client::current()->offset_of(f->word), value}) != CUDA_SUCCESS)
        publish(*f->word, value);  // the session is over: nothing is to come
    return true;
}

// Whether another wait's fence is behind all that the stream was given up to this command number. Under the lock.
bool is_watched(CUstream stream, CUcontext context, std::uint64_t given) noexcept {
    return std::ranges::any_of(leaving(), [&](const Leaving& l) {
        return l.stream == stream && l.context == context && l.work >= given && l.fence->pending();
    });
}

CUresult destroy(CUstream stream) {
    bool watched = capturing(stream);  // then it is since before_capture()
    {
        std::lock_guard lock(mutex);
        const StreamRecord* const record = find(stream);
        if (!record) return unknown_object(stream);
        watched = watched || is_idle(record->its_context(), stream) || watch(stream, record->its_context());
    }
    const CUresult r = watched ? CUDA_SUCCESS : wait_for(stream);
    {
        std::lock_guard lock(mutex);
        StreamRecord* const record = find(stream);
        if (!record) return unknown_object(stream);
        forget(*record);
    }
    managed::stream_gone(stream);
    destroyed.fetch_add(1, std::memory_order_relaxed);
    const CUresult end = command<Op::cuStreamDestroy_v2>(stream);
    return r == CUDA_SUCCESS ? end : r;
}

// This thread's default streams: one in each context where it has used it.
struct PerThread {
    struct Own {
        CUcontext context;
        CUstream stream;
    };
    std::vector<Own> all;
    std::uint32_t forgotten = 0;  // as of the last look

    CUstream in(CUcontext context) noexcept {
        if (const std::uint32_t now = guest::forgotten.load(std::memory_order_acquire); forgotten != now) {
            std::lock_guard lock(mutex);
            std::erase_if(all, [](const Own& o) { return !find(o.stream); });
            forgotten = now;
        }
        for (const Own& o : all)
            if (o.context == context) return o.stream;
        return nullptr;
    }
};
constinit thread_local PerThread* per_thread = nullptr;
constinit os::ThreadEnd thread_end{[]() noexcept {
    if (!Client::current() || forked_after_init()) return;
    for (const PerThread::Own& o : per_thread->all) destroy(o.stream);
    delete std::exchange(per_thread, nullptr);
}};

// The driver takes the nearest one that there is.
int nearest_priority(int priority) {
    static constinit std::atomic<int> greatest{0}, least{0};
    if (priority == 0) return 0;
    if (greatest.load(std::memory_order_relaxed) == 0) {
        int from = 0, to = 0;
        if (command<Op::cuCtxGetStreamPriorityRange>(&from, &to) != CUDA_SUCCESS) return 0;
        least.store(from, std::memory_order_relaxed);
        greatest.store(to, std::memory_order_relaxed);
    }
    return std::clamp(priority, greatest.load(std::memory_order_relaxed), least.load(std::memory_order_relaxed));
}

CUresult create(CUstream* stream, unsigned flags, int priority) {
    if (flags & ~unsigned{CU_STREAM_NON_BLOCKING}) return CUDA_ERROR_INVALID_VALUE;
    if (!current_context()) return CUDA_ERROR_INVALID_CONTEXT;
    if (CUresult r = command<Op::cuStreamCreateWithPriority>(stream, flags, priority); r != CUDA_SUCCESS) return r;
    priority = nearest_priority(priority);
    const bool remembered = [&] {
        std::lock_guard lock(mutex);
        return remember(*stream, current_context(), !(flags & CU_STREAM_NON_BLOCKING), priority);
    }();
    if (remembered) return CUDA_SUCCESS;
    command<Op::cuStreamDestroy_v2>(*stream);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

}  // namespace

thread_local constinit bool no_stream_is_mine = false;

CUstream real(CUstream stream) noexcept {
    if (!stream && no_stream_is_mine) stream = CU_STREAM_PER_THREAD;
    if (stream != CU_STREAM_PER_THREAD) return stream == CU_STREAM_LEGACY ? nullptr : stream;
    const CUcontext context = current_context();
    CUstream own = per_thread ? per_thread->in(context) : nullptr;
    if (own || create(&own, CU_STREAM_DEFAULT, 0) != CUDA_SUCCESS) return own;
    if (!per_thread) {
        per_thread = new PerThread;
        thread_end.await();
    }
    per_thread->all.push_back({context, own});
    return own;
}

CUcontext context_of(CUstream stream) noexcept {
    stream = real(stream);
    if (!stream) return current_context();
    const StreamRecord* const record = records.of(stream);
    return record ? record->its_context() : nullptr;
}

CUresult stream_id(CUstream stream, unsigned long long* id) noexcept {
    if (!id) return CUDA_ERROR_INVALID_VALUE;
    if (!stream) return cuCtxGetId(nullptr, id);  // each context has one legacy stream: it has the context's number
    std::lock_guard lock(mutex);
    const StreamRecord* const record = find(stream);
    if (!record) return unknown_object(stream);
    *id = record->id;
    return CUDA_SUCCESS;
}

std::uint64_t order_of(CUstream stream) noexcept {
    static std::atomic<std::uint64_t> threads{0};
    static thread_local const std::uint64_t thread = threads.fetch_add(1, std::memory_order_relaxed) + 1;
    constexpr unsigned id_bits = 24, bits = 20;
    stream = real(stream);
    // A default stream has its context's id, which either side may have chosen; a stream's the guest has.
    const auto context = reinterpret_cast<std::uint64_t>(current_context());
    const std::uint64_t kind = stream ? 0 : context >> 31 & 1 ? 2 : 1;
    const std::uint64_t id = stream ? reinterpret_cast<std::uint64_t>(stream) : context;
    return thread << (bits + id_bits) | (destroyed.load(std::memory_order_relaxed) & ((1u << bits) - 1)) << id_bits |
           kind << (id_bits - 2) | (id & ((1u << (id_bits - 2)) - 1));
}

namespace {

// If it is known which streams were given work, and none is being captured: a fence behind each of these only. False:
// it is not known.
bool wait_for_busy_streams(CUcontext context, std::uint64_t work, bool quiet, bool& idle, CUresult& result) noexcept {
    std::vector<CUstream> others;
    std::vector<std::pair<Fence*, std::uint64_t>> fences;
    {
        std::lock_guard lock(mutex);
        if (open_captures.load(std::memory_order_relaxed) != 0 || unnamed_may_be_busy(context)) return false;
        const auto look = [&](CUstream stream, CUstream known_as) {
            if (!may_be_busy(context, stream)) return;
            const std::uint64_t given = given_work.of_stream(context, stream).load(std::memory_order_relaxed);
            if (!is_watched(known_as, context, given) && !watch(known_as, context)) others.push_back(known_as);
        };
        look(nullptr, CU_STREAM_LEGACY);
        each_stream(context, [&](CUstream stream, const StreamRecord&) { look(stream, stream); });
        for (const Leaving& l : leaving())
            if (l.context == context && l.fence->pending())
                fences.emplace_back(l.fence, l.fence->asked.load(std::memory_order_relaxed));
    }
    for (const auto& [fence, value] : fences)
        if (CUresult r = wait_until(*fence->word, value); r != CUDA_SUCCESS) result = r;
    for (CUstream s : others)
        if (CUresult r = quiet ? wait_quietly(s) : wait_for(s); r != CUDA_SUCCESS) result = r;
    if (quiet) {
        idle = false;
        return true;
    }
    if (CUresult r = finish_wait(CU_STREAM_LEGACY, work); r != CUDA_SUCCESS) result = r;
    idle = idle && result == CUDA_SUCCESS;
    if (idle) note_idle(context, work);
    return true;
}

// For all that the context was given up to command number `work`. `idle`: whether what else counts as its is known to
// be done; and then whether all is.
CUresult wait_for_one(CUcontext context, std::uint64_t work, bool captures, bool quiet, bool& idle) noexcept {
    const InContext in(context);
    CUresult result = CUDA_SUCCESS;
    if (wait_for_busy_streams(context, work, quiet, idle, result)) return result;
    bool all = true, legacy = true;
    std::vector<CUstream> others;
    std::vector<std::pair<Fence*, std::uint64_t>> fences;
    {
        // No capture begins meanwhile, or a fence would fall into it. What a stream was given before its capture is
        // behind a fence: before_capture().
        std::lock_guard lock(mutex);
        const bool none_is_open = open_captures.load(std::memory_order_relaxed) == 0;
        each_stream(context, [&](CUstream stream, const StreamRecord& record) {
            if (!captures && capturing(stream)) {
                all = false;
                legacy = legacy && !record.blocking;
            } else if (!(record.blocking && (captures || none_is_open)) && !watch(stream, context)) {
                others.push_back(stream);
            }
        });
        if (!captures && legacy && !watch(CU_STREAM_LEGACY, context)) others.push_back(CU_STREAM_LEGACY);
        for (const Leaving& l : leaving())
            if (l.context == context) fences.emplace_back(l.fence, l.fence->asked.load(std::memory_order_relaxed));
    }
    for (const auto& [fence, value] : fences)
        if (CUresult r = wait_until(*fence->word, value); r != CUDA_SUCCESS) result = r;
    for (CUstream s : others)
        if (CUresult r = quiet ? wait_quietly(s) : wait_for(s); r != CUDA_SUCCESS) result = r;
    // The legacy stream waits for every blocking one; last, since it shows what kernels have printed. A wait that does
    // not concern captures has its fence already: a capture may have begun by now.
    const auto wait_for_legacy = [&] {
        if (quiet) return captures ? wait_quietly(CU_STREAM_LEGACY) : CUDA_SUCCESS;
        return captures ? wait_for(CU_STREAM_LEGACY) : finish_wait(CU_STREAM_LEGACY, work);
    };
    if (CUresult r = wait_for_legacy(); r != CUDA_SUCCESS) result = r;
    idle = idle && all && result == CUDA_SUCCESS;
    if (idle) note_idle(context, work);
    return result;
}

// A wait for a device's primary context is one for its green contexts, too; and only then is it known to be idle.
CUresult wait_for_all(CUcontext context, bool captures, bool quiet) noexcept {
    if (forked_after_init()) return CUDA_ERROR_NOT_INITIALIZED;
    const std::uint64_t work = Client::current()->queue().work();  // first: what comes later is not waited for
    CUresult parts = CUDA_SUCCESS;
    bool idle = true;
    for (const CUcontext part : green_contexts_of(context)) {
        bool its = true;
        const CUresult r = wait_for_one(part, work, captures, quiet, its);
        if (r != CUDA_SUCCESS && is_green(part)) parts = r;  // else it has ended meanwhile
        idle = idle && its;
    }
    const CUresult whole = wait_for_one(context, work, captures, quiet, idle);
    return whole == CUDA_SUCCESS ? parts : whole;
}

}  // namespace

CUresult wait_for_streams(CUcontext context, bool captures) noexcept { return wait_for_all(context, captures, false); }

void wait_for_contexts_quietly() noexcept {
    for (CUcontext context : living_contexts())
        if (gpu_busy(context)) wait_for_all(context, false, true);
}

void wait_for_streams_quietly(std::span<const std::pair<CUstream, CUcontext>> streams) noexcept {
    std::vector<std::pair<Fence*, std::uint64_t>> fences;
    std::vector<Fence*> own;
    std::vector<std::pair<CUstream, CUcontext>> rest;
    {
        std::lock_guard lock(mutex);  // no capture begins meanwhile
        for (const auto& [stream, context] : streams) {
            const InContext in(context);
            const bool closed = (real(stream) && !find(stream)) || is_closed(stream, context);
            Fence* const f = closed ? nullptr : take_fence(0);
            if (closed)  // what it was given before is behind one of these: destroy(), before_capture()
                for (const Leaving& l : leaving())
                    if (l.context == context)
                        fences.emplace_back(l.fence, l.fence->asked.load(std::memory_order_relaxed));
            if (!f) {
                if (!closed) rest.emplace_back(stream, context);
                continue;
            }
            const std::uint64_t value = f->asked.fetch_add(1, std::memory_order_relaxed) + 1;
            if (command<Op::write_fence>(stream, ext::Fence{Client::current()->offset_of(f->word), value}) !=
                CUDA_SUCCESS)
                publish(*f->word, value);
            fences.emplace_back(f, value);
            own.push_back(f);
        }
    }
    for (const auto& [fence, value] : fences) wait_until(*fence->word, value);
    for (Fence* f : own) recycle_fence(f);
    for (const auto& [stream, context] : rest) {
        const InContext in(context);
        wait_quietly(stream);
    }
}

std::unique_lock<Mutex> hold_captures() noexcept { return std::unique_lock(mutex); }

bool all_is_idle(CUcontext context) noexcept {
    if (!is_idle(context, nullptr)) return false;
    unsigned few = 64;
    return !any_of_streams(context, [&](CUstream stream, const StreamRecord&) {
        return few-- == 0 || may_be_busy(context, stream);
    }) && std::ranges::none_of(leaving(), [&](const Leaving& l) { return l.context == context && l.fence->pending(); });
}

bool is_closed(CUstream stream, CUcontext context) noexcept {
    if (open_captures.load(std::memory_order_relaxed) == 0) return false;
    if (real(stream)) return capturing(stream);
    return any_of_streams(
        context, [](CUstream blocking, const StreamRecord& record) { return record.blocking && capturing(blocking); });
}

std::unique_lock<Mutex> before_capture(CUstream stream) noexcept {
    stream = real(stream);
    const CUcontext context = context_of(stream);
    // During the capture only a thread that touches managed memory waits for what the legacy stream was given.
    bool legacy = managed::exists() && context && (unnamed_may_be_busy(context) || may_be_busy(context, nullptr));
    std::unique_lock lock(mutex);
    const StreamRecord* const record = find(stream);
    legacy = legacy && record && record->blocking;
    lock.unlock();
    managed::capture_begins(stream, legacy);
    lock.lock();
    watch(stream, context);
    if (legacy) {
        const InContext in(context);
        if (!is_closed(CU_STREAM_LEGACY, context)) watch(CU_STREAM_LEGACY, context);
    }
    return lock;
}

CUresult wait_for_contexts() noexcept {
    CUresult result = CUDA_SUCCESS;
    for (CUcontext context : living_contexts())
        if (CUresult r = gpu_busy(context) ? wait_for_streams(context, false) : CUDA_SUCCESS; r != CUDA_SUCCESS)
            result = r;
    return result;
}

void forget_streams(CUcontext context) noexcept {
    managed::context_gone(context);
    std::lock_guard lock(mutex);
    each_stream(context, [](CUstream, StreamRecord& record) { forget(record); });
    forgotten.fetch_add(1, std::memory_order_release);
}

}  // namespace barcuda::guest

using namespace barcuda::guest;

CU cuStreamCreate(CUstream* stream, unsigned flags) { return create(stream, flags, 0); }
CU cuStreamCreateWithPriority(CUstream* stream, unsigned flags, int priority) {
    return create(stream, flags, priority);
}

CU cuStreamDestroy_v2(CUstream stream) {
    if (reinterpret_cast<std::uintptr_t>(stream) <= 2) return CUDA_ERROR_INVALID_HANDLE;
    return destroy(stream);
}

CU cuStreamSynchronize(CUstream stream) {
    const InStreamsContext in{stream};
    const CUresult r = in.error ? in.error : synchronize(stream);
    return r == CUDA_ERROR_INVALID_CONTEXT && current_context() && !context_of(stream) ? unknown_object(stream) : r;
}

CU cuStreamQuery(CUstream stream) {
    if (!current_context() && !real(stream)) return CUDA_ERROR_INVALID_CONTEXT;
    // The driver may take a stream for busy for a moment longer than the fence that a wait has seen.
    const CUcontext context = Client::current() ? context_of(stream) : nullptr;
    const bool idle = context && (idle_since_wait(stream) || !gpu_busy(context));
    const bool asked = !idle || open_captures.load(std::memory_order_relaxed) > 0;  // is it one that captures?
    const CUresult r = asked ? command<Op::cuStreamQuery>(stream) : CUDA_SUCCESS;
    return r == CUDA_SUCCESS || (idle && r == CUDA_ERROR_NOT_READY) ? Client::current()->take_error() : r;
}

CU cuStreamGetId(CUstream stream, unsigned long long* id) {
    stream = real(stream);
    if (stream && open_captures.load(std::memory_order_relaxed) > 0 && capturing(stream)) {  // NVIDIA's driver (580)
        spoil_capture(stream);
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    return stream_id(stream, id);
}

CU cuStreamGetCtx(CUstream stream, CUcontext* context) {
    if (!context) return CUDA_ERROR_INVALID_VALUE;
    if (reinterpret_cast<std::uintptr_t>(stream) <= 2) {
        *context = current_context();
        return *context ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
    }
    const StreamRecord* const record = find(stream);
    if (!record) return unknown_object(stream);
    *context = record->its_context();
    return *context ? CUDA_SUCCESS : unknown_object(stream);
}

// What a stream is. A forked child is told what the process's own books say of its parent's.
template <Op op, class Value, class Known> static CUresult tell(CUstream stream, Value* value, Known known) {
    if (!forked_after_init()) return command<op>(stream, value);
    const StreamRecord* const record = find(stream);
    if (!record || !value) return CUDA_ERROR_NOT_INITIALIZED;
    *value = known(*record);
    return CUDA_SUCCESS;
}
CU cuStreamGetFlags(CUstream stream, unsigned* flags) {
    return tell<Op::cuStreamGetFlags>(
        stream, flags, [](const StreamRecord& record) { return unsigned{!record.blocking} * CU_STREAM_NON_BLOCKING; });
}
CU cuStreamGetPriority(CUstream stream, int* priority) {
    return tell<Op::cuStreamGetPriority>(stream, priority, [](const StreamRecord& record) { return record.priority; });
}
CU cuStreamGetDevice(CUstream stream, CUdevice* device) {
    return tell<Op::cuStreamGetDevice>(stream, device,
                                       [](const StreamRecord& record) { return device_of(record.its_context()); });
}
