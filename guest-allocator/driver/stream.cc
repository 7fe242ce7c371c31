// stream.cc: streams. Work is posted; a wait is a look at a fence. The guest keeps a list of each context's streams, so
// that cuCtxSynchronize can wait for all of them, and gives each thread a default stream of its own where a program
// asks for that.
#include <mutex>
#include <vector>

#include "guest-allocator/command.h"
#include "guest-allocator/driver/export.h"
#include "guest-allocator/fence.h"

namespace barcuda {
namespace {

struct Known {
    CUstream stream;
    CUcontext context;
    bool blocking;  // waits for, and is waited for by, the legacy default stream
};
std::mutex mutex;
std::vector<Known>& known() {
    static auto* list = new std::vector<Known>;  // never destroyed: programs use streams in static destructors
    return *list;
}

// This thread's default stream in the context where it was last used.
struct PerThread {
    CUstream stream = nullptr;
    CUcontext context = nullptr;
    ~PerThread() {
        if (stream && Client::current()) command<Op::cuStreamDestroy_v2>(stream);
    }
};
thread_local PerThread per_thread;

CUresult create(CUstream* stream, unsigned flags, int priority) {
    if (flags & ~unsigned{CU_STREAM_NON_BLOCKING}) return CUDA_ERROR_INVALID_VALUE;
    if (!current_context()) return CUDA_ERROR_INVALID_CONTEXT;
    if (CUresult r = command<Op::cuStreamCreateWithPriority>(stream, flags, priority); r != CUDA_SUCCESS) return r;
    std::lock_guard lock(mutex);
    known().push_back({*stream, current_context(), !(flags & CU_STREAM_NON_BLOCKING)});
    return CUDA_SUCCESS;
}

}  // namespace

thread_local constinit bool no_stream_is_mine = false;

CUstream real(CUstream stream) noexcept {
    if (!stream && no_stream_is_mine) stream = CU_STREAM_PER_THREAD;
    if (stream != CU_STREAM_PER_THREAD) return stream == CU_STREAM_LEGACY ? nullptr : stream;
    if (!per_thread.stream || per_thread.context != current_context()) {
        per_thread.stream = nullptr;
        if (create(&per_thread.stream, CU_STREAM_DEFAULT, 0) != CUDA_SUCCESS) return nullptr;
        per_thread.context = current_context();
    }
    return per_thread.stream;
}

CUresult wait_for_streams(CUcontext context) noexcept {
    std::vector<CUstream> streams{nullptr};  // the legacy stream waits for every blocking one
    {
        std::lock_guard lock(mutex);
        for (const Known& k : known())
            if (k.context == context && !k.blocking) streams.push_back(k.stream);
    }
    return wait_for(streams.data(), static_cast<unsigned>(streams.size()));
}

void forget_streams(CUcontext context) noexcept {
    std::lock_guard lock(mutex);
    std::erase_if(known(), [&](const Known& k) { return k.context == context; });
    if (per_thread.context == context) per_thread.stream = nullptr;
}

}  // namespace barcuda

using namespace barcuda;

CU cuStreamCreate(CUstream* stream, unsigned flags) { return create(stream, flags, 0); }
CU cuStreamCreateWithPriority(CUstream* stream, unsigned flags, int priority) {
    return create(stream, flags, priority);
}

CU cuStreamDestroy_v2(CUstream stream) {
    if (reinterpret_cast<std::uintptr_t>(stream) <= 2) return CUDA_ERROR_INVALID_HANDLE;
    {
        std::lock_guard lock(mutex);
        if (std::erase_if(known(), [&](const Known& k) { return k.stream == stream; }) == 0)
            return CUDA_ERROR_INVALID_HANDLE;
    }
    return command<Op::cuStreamDestroy_v2>(stream);
}

CU cuStreamSynchronize(CUstream stream) { return current_context() ? wait_for(stream) : CUDA_ERROR_INVALID_CONTEXT; }

CU cuStreamQuery(CUstream stream) {
    const CUresult r = command<Op::cuStreamQuery>(stream);
    return r == CUDA_SUCCESS ? Client::current()->take_error() : r;
}

CU cuStreamGetCtx(CUstream stream, CUcontext* context) {
    if (!context) return CUDA_ERROR_INVALID_VALUE;
    if (reinterpret_cast<std::uintptr_t>(stream) <= 2)
        return *context = current_context(), *context ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
    std::lock_guard lock(mutex);
    for (const Known& k : known())
        if (k.stream == stream) return *context = k.context, CUDA_SUCCESS;
    return CUDA_ERROR_INVALID_HANDLE;
}

// Managed memory is region memory: every stream sees it at any time, whatever it is attached to.
CU cuStreamAttachMemAsync(CUstream, CUdeviceptr, size_t, unsigned) { return CUDA_SUCCESS; }
