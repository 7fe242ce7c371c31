#include "host-bridge/worker/session.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "shm-device/sync.h"

namespace barcuda {
namespace {
constexpr std::size_t scratch_bytes =
    1 << 20;  // several counted results and lists of one command; each is at most 64 KiB
Session* running = nullptr;

// After these a context, and with it the process, does no more work for anybody: <cuda.h> says so of most of them, and
// drivers answer every later call alike after the others.
constexpr bool is_lasting(CUresult error) {
    switch (error) {
        case CUDA_ERROR_ECC_UNCORRECTABLE:
        case CUDA_ERROR_NVLINK_UNCORRECTABLE:
        case CUDA_ERROR_CONTAINED:
        case CUDA_ERROR_ILLEGAL_ADDRESS:
        case CUDA_ERROR_LAUNCH_TIMEOUT:
        case CUDA_ERROR_ASSERT:
        case CUDA_ERROR_HARDWARE_STACK_ERROR:
        case CUDA_ERROR_ILLEGAL_INSTRUCTION:
        case CUDA_ERROR_MISALIGNED_ADDRESS:
        case CUDA_ERROR_INVALID_ADDRESS_SPACE:
        case CUDA_ERROR_INVALID_PC:
        case CUDA_ERROR_LAUNCH_FAILED:
        case CUDA_ERROR_TENSOR_MEMORY_LEAK:
        case CUDA_ERROR_MPS_CLIENT_TERMINATED:
        case CUDA_ERROR_EXTERNAL_DEVICE: return true;
        default: return false;
    }
}
}  // namespace

Session& session() { return *running; }
SessionScope::SessionScope(Session& s) { running = &s; }
SessionScope::~SessionScope() { running = nullptr; }

Session::Session(const Driver& driver, Extents& extents, Granter& granter, barcuda_status& status, barcuda_calls* calls,
                 const Bell& bell)
    : driver_(driver),
      extents_(extents),
      granter_(granter),
      status_(status),
      bell_(bell),
      calls_(calls, bell),
      libraries_(driver.library),
      scratch_(new std::byte[scratch_bytes]) {
    // All of the client's threads are this one thread here: a capture of one must not forbid calls to the others.
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    if (driver_.cuThreadExchangeStreamCaptureMode) driver_.cuThreadExchangeStreamCaptureMode(&mode);
}

void Session::begin_command(std::uint32_t op) {
    scratch_used_ = 0;
    promised_ = {};
    if (op >= static_cast<std::uint32_t>(Op::count)) return;
    const unsigned traits = traits_of(static_cast<Op>(op));
    if (traits & trait::held) return;
    libraries_.need(static_cast<Op>(op));
    launches_.give();
    if (traits & trait::configures) launches_.forget();
    if (traits & trait::counts) tidy();
}

void Session::end_command(std::uint32_t op, CUresult result, bool answered) {
    if (result != CUDA_SUCCESS && !answered) posted_failure(op, result);
    else note(result);
    if (!promised_.word) return;
    promised_.refused = true;
    fences_.push_back(std::exchange(promised_, {}));
    collect_fences();
}

bool Session::add_part(std::uint64_t place, const void* bytes, std::size_t size) {
    constexpr std::size_t most = 1 << 30;  // of the worker's own memory
    if (place == 0) parts_.clear();
    if (place != parts_.size() || size > most - place) return parts_.clear(), false;
    parts_.append(static_cast<const char*>(bytes), size);
    return true;
}

void* Session::scratch(std::size_t bytes) {
    if (bytes > scratch_bytes - scratch_used_) return nullptr;
    void* at = scratch_.get() + scratch_used_;
    scratch_used_ += padded(bytes);
    return std::memset(at, 0, bytes);
}

Verdict Session::reachable(CUdeviceptr address, std::uint64_t bytes) {
    if (bytes == 0 || extents_.contains(address, bytes)) return fine;
    const auto covers = [&](CUdeviceptr start, std::uint64_t size) {
        return address >= start && address - start < size && bytes <= size - (address - start);
    };
    auto known = reachable_.upper_bound(address);
    if (known != reachable_.begin() && (--known, covers(known->first, known->second))) return fine;
    CUpointer_attribute names[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                                   CU_POINTER_ATTRIBUTE_RANGE_SIZE};
    unsigned type = 0;
    CUdeviceptr start = 0;
    std::size_t size = 0;
    void* values[] = {&type, &start, &size};
    const CUresult known_to_driver = driver_.cuPointerGetAttributes(3, names, values, address);
    if (known_to_driver != CUDA_SUCCESS || type != CU_MEMORYTYPE_DEVICE || !covers(start, size)) {
        spdlog::debug("channel {}: {:#x} + {} is not the client's: {}, type {}, {:#x} + {}", status_.channel, address,
                      bytes, driver_.error_name(known_to_driver), type, start, size);
        return bad_value;
    }
    if (is_leaving(start)) return bad_value;
    reachable_[start] = size;
    return fine;
}

Verdict Session::reachable_rows(CUdeviceptr address, std::uint64_t pitch, std::uint64_t width, std::uint64_t height) {
    if (width == 0 || height == 0) return fine;
    if (height > 1 && (pitch > ~std::uint64_t{0} / height || pitch < width)) return bad_value;
    return reachable(address, pitch * (height - 1) + width);
}

Verdict Session::point(cublasHandle_t handle, bool device) {
    if (libraries_.cublasSetPointerMode_v2)
        libraries_.cublasSetPointerMode_v2(handle, device ? CUBLAS_POINTER_MODE_DEVICE : CUBLAS_POINTER_MODE_HOST);
    return fine;
}

bool Session::capturing(CUstream stream) const {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    return captures_ && driver_.cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS &&
           status != CU_STREAM_CAPTURE_STATUS_NONE;
}

Verdict Session::enter(std::uint32_t id) {
    if (id == 0) {
        if (ending_ && current_ == ending_->context) driver_.cuCtxSetCurrent(nullptr), current_ = nullptr;
        return fine;
    }
    CUcontext context = nullptr;
    if (!handles_.find(id, context)) return {CUDA_ERROR_INVALID_CONTEXT};
    if (context == current_) return fine;
    launches_.give();
    if (CUresult r = driver_.cuCtxSetCurrent(context); r != CUDA_SUCCESS) return {r};
    current_ = context;
    return fine;
}

CUresult Session::context_ready(const Living& fresh) {
    if (CUresult r = driver_.cuCtxSetCurrent(fresh.context); r != CUDA_SUCCESS) return r;
    current_ = fresh.context;
    if (std::ranges::find(contexts_, fresh.context, &Living::context) == contexts_.end()) contexts_.push_back(fresh);
    return register_at_home();
}

CUresult Session::retain(CUcontext& context, CUdevice device) {
    const auto known = std::ranges::find(contexts_, device, &Living::primary_of);
    if (device >= 0 && known != contexts_.end()) return context = known->context, CUDA_SUCCESS;
    const bool made = ending_ && ending_->primary_of == device;  // the driver's own is not free yet
    if (made && !driver_.cuCtxCreate_v4) return CUDA_ERROR_NOT_SUPPORTED;
    const CUresult r = made ? driver_.cuCtxCreate_v4(&context, nullptr, 0, device)
                            : driver_.cuDevicePrimaryCtxRetain(&context, device);
    return r == CUDA_SUCCESS ? context_ready({context, device, made}) : r;
}

CUresult Session::register_at_home() {
    if (!home_) home_ = current_;
    if (home_ != current_)
        if (CUresult r = driver_.cuCtxSetCurrent(home_); r != CUDA_SUCCESS) return r;
    const CUresult r = extents_.register_all(driver_);
    if (home_ != current_) driver_.cuCtxSetCurrent(current_);
    return r;
}

CUresult Session::register_extents() {
    if (contexts_.empty()) return CUDA_SUCCESS;
    if (!current_) switch_to(contexts_.front().context);
    return register_at_home();
}

void Session::context_gone(CUcontext context) {
    std::erase_if(contexts_, [&](const Living& l) { return l.context == context; });
    for (const std::uint64_t id : handles_.within(handles_.name(context))) drop(id);
    forget_memory(context);
}

// What is registered in a context would go with it, under the hands of other contexts' work.
CUresult Session::end(const Living& l) {
    const std::uint64_t id = handles_.name(l.context);
    if (l.context != home_ || contexts_.size() == 1 || idle()) {
        context_gone(l.context);
        if (l.made) handles_.drop(id);  // the driver's primary context keeps its handle
        return end_now(l);
    }
    ending_ = {l, {}};
    for (const std::uint64_t part : handles_.within(id))
        if (CUstream stream; handles_.find(part, stream)) ending_->streams.push_back(stream);
    context_gone(l.context);
    handles_.drop(id);
    if (current_ == l.context) switch_to(contexts_.front().context);
    return CUDA_SUCCESS;
}

CUresult Session::end_now(const Living& l) {
    const CUcontext before = current_;
    const bool registered = l.context == home_;
    if (registered) switch_to(l.context), extents_.unregister_all(driver_), home_ = nullptr;
    const CUresult r = l.made ? driver_.cuCtxDestroy_v2(l.context) : driver_.cuDevicePrimaryCtxReset_v2(l.primary_of);
    if (current_ == l.context) driver_.cuCtxSetCurrent(nullptr), current_ = nullptr;
    if (before != l.context) switch_to(before);
    if (registered) register_extents();
    for (Fence& f : fences_)  // the GPU's work is over, and the context is nobody's to ask
        if (f.context == l.context) f.refused = true, f.stream = nullptr, f.context = nullptr;
    collect_fences();
    return r;
}

CUresult Session::reset(CUdevice device) {
    const auto primary = std::ranges::find(contexts_, device, &Living::primary_of);
    if (device < 0 || primary == contexts_.end()) return CUDA_SUCCESS;  // the client has nothing there
    return end(Living(*primary));
}

CUresult Session::destroy(CUcontext context) {
    const auto known = std::ranges::find(contexts_, context, &Living::context);
    if (known == contexts_.end() || known->primary_of != not_primary) return CUDA_ERROR_INVALID_CONTEXT;
    return end(Living(*known));
}

bool Session::Fence::reached() const { return observe(*word) >= value; }

Verdict Session::promise(const ext::Fence& fence) {
    if (fence.offset == 0) return fine;
    promised_.word = reinterpret_cast<std::uint64_t*>(extents_.locate(fence.offset, 8));
    promised_.value = fence.value;
    return honest(fence.offset % 8 == 0 && promised_.word);
}

CUresult Session::write_fence(CUstream stream) {
    if (!promised_.word) return CUDA_SUCCESS;
    // A stream's own context, whichever is current: that is where a fault will show.
    CUcontext its = nullptr;
    if (contexts_.size() > 1 && reinterpret_cast<std::uintptr_t>(stream) > 2 &&
        driver_.cuStreamGetCtx(stream, &its) == CUDA_SUCCESS)
        switch_to(its);
    // A fence in a graph would be written at each of its launches. To wait in a capture is an error: the driver's own.
    if (capturing(stream)) return driver_.cuStreamSynchronize(stream);
    const CUresult r = driver_.cuStreamWriteValue64_v2(stream, reinterpret_cast<CUdeviceptr>(promised_.word),
                                                       promised_.value, CU_STREAM_WRITE_VALUE_DEFAULT);
    if (r != CUDA_SUCCESS) return r;
    if (fences_.size() >= 4096) watch_fences();
    promised_.stream = stream, promised_.context = current_;
    fences_.push_back(std::exchange(promised_, {}));
    return r;
}

void Session::drop(std::uint64_t id) {
    CUstream stream = nullptr;
    if (handles_.find(id, stream)) {
        launches_.forget(stream);
        for (Fence& f : fences_)  // its work goes on without it: from now on the default stream tells of a fault
            if (f.stream == stream) f.stream = nullptr;
    }
    CUlinkState link = nullptr;
    if (handles_.find(id, link)) links_.erase(link);
    handles_.drop(id);
}

bool Session::collect_fences() {
    // Those that the GPU will not write are written here; behind earlier values of the same word, which would else come
    // over them.
    for (auto f = fences_.begin(); f != fences_.end(); ++f)
        if (f->refused && std::none_of(fences_.begin(), f, [&](const Fence& earlier) {
                return earlier.word == f->word && !earlier.reached();
            }))
            release(*f);
    if (std::erase_if(fences_, [](const Fence& f) { return f.reached(); })) bell_.wake();
    return !fences_.empty();
}

void Session::watch_fences() {
    if (!collect_fences()) return;
    std::vector<CUcontext> asked;  // each tells of its own faults; one may be held up while another one ends
    for (const Fence& f : fences_) {
        if (f.refused) continue;
        if (std::ranges::find(asked, f.context) != asked.end()) continue;
        asked.push_back(f.context);
        switch_to(f.context);
        const CUresult r = askable(f.stream) ? driver_.cuStreamQuery(f.stream) : CUDA_SUCCESS;
        if (r != CUDA_SUCCESS && r != CUDA_ERROR_NOT_READY) return fault(r);
    }
}

// What a command has come to, whoever is told of it.
void Session::note(CUresult result) {
    errors_.note(result);
    if (is_lasting(result)) fault(result);
}

// After a fault the GPU writes nothing more in this process: the CPU does it for every waiter.
void Session::fault(CUresult error) {
    errors_.note(error);
    if (observe(status_.context_error) == 0) {
        spdlog::warn("channel {}: the GPU reported {}; the client's context is lost", status_.channel,
                     driver_.error_name(error));
        publish(status_.context_error, static_cast<std::int32_t>(error));
    }
    for (const Fence& f : fences_) release(f);
    fences_.clear();
    bell_.wake();
}

// Here alone the CPU writes a fence: whoever calls this has published why.
void Session::release(const Fence& f) {
    if (!f.reached()) publish(*f.word, f.value);
}

void Session::posted_failure(std::uint32_t op, CUresult result) {
    spdlog::debug("channel {}: posted {} failed: {}", status_.channel, op < op_names.size() ? op_names[op] : "?",
                  driver_.error_name(result));
    status_.posted_op = op;
    publish(status_.posted_error, static_cast<std::int32_t>(result));
    publish(status_.posted_count, ++posted_failures_);
    note(result);
}

}  // namespace barcuda
