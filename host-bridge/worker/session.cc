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

Verdict Session::admit(CUDA_RESOURCE_DESC& desc) {
    switch (desc.resType) {
        case CU_RESOURCE_TYPE_ARRAY:
            return find(reinterpret_cast<std::uint64_t>(desc.res.array.hArray), desc.res.array.hArray);
        case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
            return find(reinterpret_cast<std::uint64_t>(desc.res.mipmap.hMipmappedArray),
                        desc.res.mipmap.hMipmappedArray);
        case CU_RESOURCE_TYPE_LINEAR: return reachable(desc.res.linear.devPtr, desc.res.linear.sizeInBytes);
        case CU_RESOURCE_TYPE_PITCH2D:
            return reachable_rows(desc.res.pitch2D.devPtr, desc.res.pitch2D.pitchInBytes, 1, desc.res.pitch2D.height);
    }
    return bad_value;
}

// Sharing between processes needs file descriptors and security attributes, which do not cross: refused, not ignored.
Verdict Session::admit(CUmemPoolProps& props) {
    props.win32SecurityAttributes = nullptr;
    return props.handleTypes == CU_MEM_HANDLE_TYPE_NONE ? fine : Verdict{CUDA_ERROR_NOT_SUPPORTED};
}
Verdict Session::admit(CUmemAllocationProp& prop) {
    prop.win32HandleMetaData = nullptr;
    return prop.requestedHandleTypes == CU_MEM_HANDLE_TYPE_NONE ? fine : Verdict{CUDA_ERROR_NOT_SUPPORTED};
}

Verdict Session::admit_box(bool host, std::uint64_t address, std::uint64_t pitch, std::uint64_t rows, std::uint64_t x,
                           std::uint64_t y, std::uint64_t z, const CUDA_MEMCPY3D& copy) {
    // No number that a copy needs reaches 2^40; below, sums and one product fit into 64 bits with room to spare, and
    // the second product is checked.
    constexpr std::uint64_t most = 1ull << 40;
    for (std::uint64_t n : {pitch, rows, x, y, z, copy.WidthInBytes, copy.Height, copy.Depth})
        if (n >= most) return bad_value;
    if (copy.WidthInBytes == 0 || copy.Height == 0 || copy.Depth == 0) return fine;
    const std::uint64_t last_z = z + copy.Depth - 1, last_y = y + copy.Height - 1, width = x + copy.WidthInBytes;
    if ((last_y || last_z) && pitch < width) return bad_value;
    if (last_z && rows <= last_y) return bad_value;
    const unsigned __int128 lines = static_cast<unsigned __int128>(last_z) * rows + last_y;
    if (lines * pitch >= static_cast<unsigned __int128>(1) << 62) return bad_value;
    const std::uint64_t bytes = static_cast<std::uint64_t>(lines * pitch) + width;
    if (!host) return reachable(address, bytes);
    return extents_.contains(address, bytes) ? fine : bad_value;
}

Verdict Session::admit(CUDA_MEMCPY3D& c) {
    c.reserved0 = c.reserved1 = nullptr;
    const auto side = [&](CUmemorytype type, CUarray& array, std::uint64_t address, std::uint64_t pitch,
                          std::uint64_t rows, std::uint64_t x, std::uint64_t y, std::uint64_t z) {
        switch (type) {
            case CU_MEMORYTYPE_ARRAY: return find(reinterpret_cast<std::uint64_t>(array), array);
            case CU_MEMORYTYPE_DEVICE: return admit_box(false, address, pitch, rows, x, y, z, c);
            case CU_MEMORYTYPE_HOST: return admit_box(true, address, pitch, rows, x, y, z, c);
            default: return a_lie;  // the library says which of the two a unified address is
        }
    };
    const bool from_host = c.srcMemoryType == CU_MEMORYTYPE_HOST, to_host = c.dstMemoryType == CU_MEMORYTYPE_HOST;
    if (c.srcMemoryType != CU_MEMORYTYPE_ARRAY) c.srcArray = nullptr;
    if (c.dstMemoryType != CU_MEMORYTYPE_ARRAY) c.dstArray = nullptr;
    if (!from_host) c.srcHost = nullptr;
    if (!to_host) c.dstHost = nullptr;
    const Verdict source =
        side(c.srcMemoryType, c.srcArray, from_host ? reinterpret_cast<std::uint64_t>(c.srcHost) : c.srcDevice,
             c.srcPitch, c.srcHeight, c.srcXInBytes, c.srcY, c.srcZ);
    if (!source.ok()) return source;
    return side(c.dstMemoryType, c.dstArray, to_host ? reinterpret_cast<std::uint64_t>(c.dstHost) : c.dstDevice,
                c.dstPitch, c.dstHeight, c.dstXInBytes, c.dstY, c.dstZ);
}

Verdict Session::admit(CUDA_MEMSET_NODE_PARAMS& f) {
    if (f.elementSize != 1 && f.elementSize != 2 && f.elementSize != 4) return bad_value;
    if (f.width > ~std::size_t{0} / f.elementSize) return bad_value;
    return reachable_rows(f.dst, f.pitch, f.width * f.elementSize, f.height);
}

Verdict Session::admit(CUstreamBatchMemOpParams& operation) {
    switch (operation.operation) {
        case CU_STREAM_MEM_OP_WAIT_VALUE_32:
        case CU_STREAM_MEM_OP_WRITE_VALUE_32: return reachable(operation.waitValue.address, 4);
        case CU_STREAM_MEM_OP_WAIT_VALUE_64:
        case CU_STREAM_MEM_OP_WRITE_VALUE_64: return reachable(operation.waitValue.address, 8);
        case CU_STREAM_MEM_OP_BARRIER:
        case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES: return fine;
        default: return bad_value;
    }
}

Verdict Session::admit(CUDA_MEM_ALLOC_NODE_PARAMS& node) {
    if (node.accessDescCount) return {CUDA_ERROR_NOT_SUPPORTED};
    node.accessDescs = nullptr;
    return admit(node.poolProps);
}

void Session::disclose(CUDA_RESOURCE_DESC& desc) {
    if (desc.resType == CU_RESOURCE_TYPE_ARRAY)
        desc.res.array.hArray = reinterpret_cast<CUarray>(name(desc.res.array.hArray));
    if (desc.resType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY)
        desc.res.mipmap.hMipmappedArray = reinterpret_cast<CUmipmappedArray>(name(desc.res.mipmap.hMipmappedArray));
}
void Session::disclose(CUDA_MEMCPY3D& copy) {
    copy.srcArray = reinterpret_cast<CUarray>(copy.srcMemoryType == CU_MEMORYTYPE_ARRAY ? name(copy.srcArray) : 0);
    copy.dstArray = reinterpret_cast<CUarray>(copy.dstMemoryType == CU_MEMORYTYPE_ARRAY ? name(copy.dstArray) : 0);
    copy.reserved0 = copy.reserved1 = nullptr;
}
void Session::disclose(CUDA_MEM_ALLOC_NODE_PARAMS& node) {
    node.accessDescs = nullptr;
    node.accessDescCount = 0;
    node.poolProps.win32SecurityAttributes = nullptr;
}
void Session::disclose(CUgraphExecUpdateResultInfo& info) {
    info.errorNode = reinterpret_cast<CUgraphNode>(name(info.errorNode));
    info.errorFromNode = reinterpret_cast<CUgraphNode>(name(info.errorFromNode));
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
