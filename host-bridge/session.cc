#include "host-bridge/session.h"

#include <spdlog/spdlog.h>

#include <cstring>
#include <stdexcept>

#include "shm-device/sync.h"

namespace barcuda {
namespace {
constexpr std::size_t scratch_bytes =
    1 << 20;  // several counted results and lists of one command; each is at most 64 KiB
Session* running = nullptr;
}  // namespace

Session& session() { return *running; }
SessionScope::SessionScope(Session& s) { running = &s; }
SessionScope::~SessionScope() { running = nullptr; }

Session::Session(const Driver& driver, Extents& extents, Granter& granter, barcuda_status& status)
    : driver_(driver), extents_(extents), granter_(granter), status_(status), scratch_(new std::byte[scratch_bytes]) {}

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
        spdlog::debug("channel {}: {:#x} + {} is not the client's: {}, type {}, {:#x} + {}", status_.channel, address, bytes,
                      driver_.error_name(known_to_driver), type, start, size);
        return bad_value;
    }
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

Verdict Session::enter(std::uint32_t id) {
    if (id == 0) return fine;
    CUcontext context = nullptr;
    if (!handles_.find(id, context)) return {CUDA_ERROR_INVALID_CONTEXT};
    if (context == current_) return fine;
    if (CUresult r = driver_.cuCtxSetCurrent(context); r != CUDA_SUCCESS) return {r};
    current_ = context;
    return fine;
}

CUresult Session::context_ready(CUcontext context) {
    if (CUresult r = driver_.cuCtxSetCurrent(context); r != CUDA_SUCCESS) return r;
    current_ = context;
    has_context_ = true;
    return extents_.register_all(driver_);
}

CUresult Session::register_extents() {
    if (!has_context_) return CUDA_SUCCESS;
    if (!current_)
        handles_.each<CUcontext>([&](CUcontext c) {
            if (!current_ && driver_.cuCtxSetCurrent(c) == CUDA_SUCCESS) current_ = c;
        });
    return extents_.register_all(driver_);
}

void Session::context_gone() {
    driver_.cuCtxSetCurrent(nullptr);
    current_ = nullptr;
    has_context_ = false;
    forget_addresses();
}

CUresult Session::write_fence(CUstream stream, std::uint64_t offset, std::uint64_t value) {
    auto* word = reinterpret_cast<std::uint64_t*>(extents_.locate(offset, 8));
    if (offset % 8 || !word) return CUDA_ERROR_INVALID_VALUE;
    const CUresult r = driver_.cuStreamWriteValue64_v2(stream, reinterpret_cast<CUdeviceptr>(word), value,
                                                       CU_STREAM_WRITE_VALUE_DEFAULT);
    if (r == CUDA_SUCCESS) {
        if (fences_.size() >= 4096) watch_fences();
        fences_.push_back({word, value, stream, current_});
    } else {
        publish(*word, value);  // whoever waits must not wait for ever; the error is in the status page
    }
    return r;
}

void Session::watch_fences() {
    std::erase_if(fences_, [](const Fence& f) { return observe(*f.word) >= f.value; });
    if (fences_.empty()) return;
    const Fence oldest = fences_.front();
    if (oldest.context != current_ && driver_.cuCtxSetCurrent(oldest.context) == CUDA_SUCCESS)
        current_ = oldest.context;
    const CUresult r = driver_.cuStreamQuery(oldest.stream);
    if (r != CUDA_SUCCESS && r != CUDA_ERROR_NOT_READY) fault(r);
}

// After a fault the GPU writes nothing more in this process: the CPU does it for every waiter.
void Session::fault(CUresult error) {
    if (observe(status_.context_error) == 0) {
        spdlog::warn("channel {}: the GPU reported {}; the client's context is lost", status_.channel,
                     driver_.error_name(error));
        publish(status_.context_error, static_cast<std::int32_t>(error));
    }
    for (Fence& f : fences_)
        if (observe(*f.word) < f.value) publish(*f.word, f.value);
    fences_.clear();
}

void Session::posted_failure(std::uint32_t op, CUresult result) {
    spdlog::debug("channel {}: posted {} failed: {}", status_.channel, op < op_names.size() ? op_names[op] : "?",
                  driver_.error_name(result));
    status_.posted_op = op;
    publish(status_.posted_error, static_cast<std::int32_t>(result));
    publish(status_.posted_count, ++posted_failures_);
}

}  // namespace barcuda
