// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/worker/memory/store.h"

#include <vector>

namespace barcuda {

// ---- copies

DriverCopies::~DriverCopies() {
    if (stream_) driver_.cuStreamDestroy_v2(stream_);
}
CUresult DriverCopies::begin() {
    return stream_ ? CUDA_SUCCESS : driver_.cuStreamCreateWithPriority(&stream_, CU_STREAM_NON_BLOCKING, 0);
}
CUresult DriverCopies::to_host(std::byte* host, std::uint64_t device, std::uint64_t bytes) {
    if (CUresult r = begin(); r != CUDA_SUCCESS) return r;
    return driver_.cuMemcpyDtoHAsync_v2(host, device, bytes, stream_);
}
CUresult DriverCopies::to_device(std::uint64_t device, const std::byte* host, std::uint64_t bytes) {
    if (CUresult r = begin(); r != CUDA_SUCCESS) return r;
    return driver_.cuMemcpyHtoDAsync_v2(device, host, bytes, stream_);
}
CUresult DriverCopies::finish() { return stream_ ? driver_.cuStreamSynchronize(stream_) : CUDA_SUCCESS; }

// ---- pieces

void Store::give_up(std::map<Place, Held>::iterator its) {
    holes_.give(its->second.offset, its->second.bytes);
    held_ -= its->second.bytes;
    pieces_.erase(its);
}

CUresult Store::put_out(std::uint64_t address, std::uint64_t wanted, std::uint64_t& moved) {
    const Block& block = blocks_.at(address);
    std::vector<Place> leaving;
    std::uint64_t at = address + block.bytes, bytes = 0;
    CUresult r = CUDA_SUCCESS;
    for (std::size_t piece = block.pieces.size(); piece-- != 0 && bytes < wanted;) {
        const std::uint64_t its = block.pieces[piece].bytes;
        at -= its;
        if (!blocks_.may_leave(block, piece)) continue;
        const auto offset = holes_.take(its);
        if (!offset) continue;  // a smaller piece may find room
        pieces_[{address, piece}] = {*offset, its};
        leaving.emplace_back(address, piece);
        held_ += its;
        bytes += its;
        r = copies_.to_host(room_ + *offset, at, its);
        if (r != CUDA_SUCCESS) break;
    }
    // Also after a failure: the copies that were begun write into the room.
    if (const CUresult finished = copies_.finish(); r == CUDA_SUCCESS) r = finished;
    moved = r == CUDA_SUCCESS ? bytes : 0;
    for (const Place& place : leaving)
        if (r == CUDA_SUCCESS) blocks_.leave(place.first, place.second);
        else give_up(pieces_.find(place));
    return r;
}

CUresult Store::bring_back(std::uint64_t address) {
    const Block& block = blocks_.at(address);
    std::vector<Place> back;
    CUresult r = CUDA_SUCCESS, copied = CUDA_SUCCESS;
    std::uint64_t at = address;
    for (std::size_t piece = 0; piece < block.pieces.size() && r == CUDA_SUCCESS; ++piece) {
        const auto its = pieces_.find({address, piece});
        if (its != pieces_.end()) {
            r = blocks_.come_back(address, piece);
            if (r != CUDA_SUCCESS) break;
            back.push_back(its->first);
            r = copied = copies_.to_device(at, room_ + its->second.offset, its->second.bytes);
        }
        at += block.pieces[piece].bytes;
    }
    if (const CUresult finished = copies_.finish(); copied == CUDA_SUCCESS) copied = finished;
    for (const Place& place : back)
        if (copied == CUDA_SUCCESS) give_up(pieces_.find(place));
        else blocks_.leave(place.first, place.second);  // the contents are still here
    return copied != CUDA_SUCCESS ? copied : r;
}

void Store::forget(std::uint64_t address) {
    for (auto its = pieces_.lower_bound({address, 0}); its != pieces_.end() && its->first.first == address;)
        give_up(its++);
}

std::uint64_t Store::held(std::uint64_t address) const {
    std::uint64_t sum = 0;
    for (auto its = pieces_.lower_bound({address, 0}); its != pieces_.end() && its->first.first == address; ++its)
        sum += its->second.bytes;
    return sum;
}

}  // namespace barcuda
