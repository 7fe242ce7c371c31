// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/worker/session/addresses.h"

#include "base/log.h"

namespace barcuda {

Verdict Addresses::reachable(CUdeviceptr address, std::uint64_t bytes) {
    if (bytes == 0 || extents_.contains(address, bytes)) return fine;
    // No process has memory there: programs that are linked to a fixed address begin above it. So the driver may judge
    // such addresses. In a capture it accepts some of them, as null with an offset.
    constexpr CUdeviceptr no_memory_before = 4 << 20;
    if (address < no_memory_before && bytes <= no_memory_before - address) return fine;
    const auto covers = [&](CUdeviceptr start, std::uint64_t size) {
        return address >= start && address - start < size && bytes <= size - (address - start);
    };
    auto known = reachable_.upper_bound(address);
    if (known != reachable_.begin()) {
        --known;
        if (covers(known->first, known->second)) return fine;
    }
    CUpointer_attribute names[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                                   CU_POINTER_ATTRIBUTE_RANGE_SIZE};
    unsigned type = 0;
    CUdeviceptr start = 0;
    std::size_t size = 0;
    void* values[] = {&type, &start, &size};
    const CUresult known_to_driver = driver_.cuPointerGetAttributes(3, names, values, address);
    if (known_to_driver != CUDA_SUCCESS || type != CU_MEMORYTYPE_DEVICE || !covers(start, size)) {
        if (promised(address, bytes)) return fine;
        log::debug("{:#x} + {} is not the client's: {}, type {}, {:#x} + {}", address, bytes,
                   driver_.error_name(known_to_driver), type, start, size);
        return bad_value;
    }
    if (is_retired(start) || is_freed_in_order(start) || went_with_its_code(address, bytes)) return bad_value;
    reachable_[start] = size;
    return fine;
}

std::uint64_t Addresses::buffer_at(CUdeviceptr address) const {
    unsigned long long buffer = 0;
    if (!driver_.cuPointerGetAttribute ||
        driver_.cuPointerGetAttribute(&buffer, CU_POINTER_ATTRIBUTE_BUFFER_ID, address) != CUDA_SUCCESS)
        return 0;
    return buffer;
}

void Addresses::promise_in_capture(CUdeviceptr address, std::uint64_t bytes, CUstream stream) {
    if (const CUgraph graph = streams_.captured_by(stream)) promised_[address] = {bytes, graph, stream};
}

// One of several streams of a capture may have received the memory, and another one may end the capture.
void Addresses::capture_ended(CUstream stream, CUgraph graph) {
    for (auto& [address, p] : promised_)
        if (p.graph == graph) p.capturing = nullptr;
    stream_gone(stream);
}

bool Addresses::promised(CUdeviceptr address, std::uint64_t bytes) const {
    auto at = promised_.upper_bound(address);
    if (at == promised_.begin()) return false;
    const auto& [start, p] = *--at;
    if (address - start >= p.bytes || bytes > p.bytes - (address - start)) return false;
    return !p.capturing || streams_.captured_by(p.capturing) == p.graph;
}

Verdict Addresses::reachable_rows(CUdeviceptr address, std::uint64_t pitch, std::uint64_t width, std::uint64_t height) {
    if (width == 0 || height == 0) return fine;
    if (height > 1 && (pitch > ~std::uint64_t{0} / height || pitch < width)) return bad_value;
    return reachable(address, pitch * (height - 1) + width);
}

void Addresses::note_shared(CUdeviceptr address) {
    CUdeviceptr base = 0;
    if (driver_.cuMemGetAddressRange_v2(&base, nullptr, address) == CUDA_SUCCESS) allocations_.erase(base);
}

bool Addresses::close(CUdeviceptr address) {
    const auto known = opened_.find(address);
    if (known == opened_.end()) return false;
    if (--known->second == 0) opened_.erase(known);
    return true;
}

}  // namespace barcuda
