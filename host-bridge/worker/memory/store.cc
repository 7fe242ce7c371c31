// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/worker/memory/store.h"

#include <algorithm>
#include <utility>

namespace barcuda {
namespace {

// Copied before the next batch begins. While a batch is copied, the pieces of the one before it leave: on an H100 a
// batch takes 5 ms to copy, and its pieces 1 ms to leave.
constexpr std::uint64_t batch = 256 << 20;

}  // namespace

// ---- copies

CUresult DriverCopies::begin() {
    CUresult r = CUDA_SUCCESS;
    if (!stream_) r = driver_.cuStreamCreateWithPriority(&stream_, CU_STREAM_NON_BLOCKING, 0);
    for (CUevent& event : ends_)
        if (!event && r == CUDA_SUCCESS) r = driver_.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
    return r;
}
void DriverCopies::end() {
    for (CUevent& event : ends_)
        if (event) driver_.cuEventDestroy_v2(std::exchange(event, nullptr));
    if (stream_) driver_.cuStreamDestroy_v2(std::exchange(stream_, nullptr));
    batches_ = 0;
}
CUresult DriverCopies::to_host(std::byte* host, std::uint64_t device, std::uint64_t bytes) {
    if (CUresult r = begin(); r != CUDA_SUCCESS) return r;
    return driver_.cuMemcpyDtoHAsync_v2(host, device, bytes, stream_);
}
CUresult DriverCopies::to_device(std::uint64_t device, const std::byte* host, std::uint64_t bytes) {
    if (CUresult r = begin(); r != CUDA_SUCCESS) return r;
    return driver_.cuMemcpyHtoDAsync_v2(device, host, bytes, stream_);
}
CUresult DriverCopies::end_batch() {
    if (!stream_) return CUDA_SUCCESS;
    if (CUresult r = driver_.cuEventRecord(ends_[batches_ % 2], stream_); r != CUDA_SUCCESS) return r;
    return ++batches_ == 1 ? CUDA_SUCCESS : driver_.cuEventSynchronize(ends_[batches_ % 2]);
}
CUresult DriverCopies::finish() {
    const CUresult r = stream_ ? driver_.cuStreamSynchronize(stream_) : CUDA_SUCCESS;
    end();
    return r;
}

// ---- room

std::optional<Store::Part> Store::take_empty_room() {
    const auto empty = std::ranges::find_if(rooms_, [](const Room& room) { return room.free == room.bytes; });
    if (empty == rooms_.end()) return {};
    const Part part{empty->number, empty->at, empty->bytes};
    rooms_.erase(empty);
    return part;
}

std::uint64_t Store::next_part(std::uint64_t lacking, std::uint64_t has) {
    // Registering takes 57 ms a GiB; meanwhile the copies into earlier room go on.
    constexpr std::uint64_t most = std::uint64_t{1} << 30;
    const std::uint64_t pieces = (std::max(lacking, has / 16) + most_of_a_piece - 1) / most_of_a_piece;
    return std::min(pieces * most_of_a_piece, most);
}

std::uint64_t Store::free() const {
    std::uint64_t sum = 0;
    for (const Room& room : rooms_) sum += room.free;
    return sum;
}

// Null: no part has so much room.
std::byte* Store::take(const Place& place, std::uint64_t bytes) {
    for (Room& room : rooms_) {
        const auto offset = room.holes.take(bytes);
        if (!offset) continue;
        room.free -= bytes;
        held_ += bytes;
        pieces_[place] = {room.number, *offset, bytes};
        return room.at + *offset;
    }
    return nullptr;
}

Store::Room& Store::room_of(const Held& held) { return *std::ranges::find(rooms_, held.room, &Room::number); }

void Store::give_up(Pieces::iterator its) {
    const Held& held = its->second;
    Room& room = room_of(held);
    room.holes.give(held.offset, held.bytes);
    room.free += held.bytes;
    held_ -= held.bytes;
    pieces_.erase(its);
}

// ---- pieces

CUresult Store::put_out(std::span<const std::uint64_t> blocks, std::uint64_t wanted, std::uint64_t& moved) {
    std::vector<Place> copied, copying;  // the batch before, and this one
    std::uint64_t begun = 0, in_batch = 0;
    CUresult r = CUDA_SUCCESS;
    bool grows = static_cast<bool>(grow_);
    moved = 0;
    const auto leave = [&](std::vector<Place>& places) {
        for (const Place& place : places) {
            moved += pieces_.at(place).bytes;
            blocks_.leave(place.first, place.second);
        }
        places.clear();
    };
    const auto move = [&](std::uint64_t address, std::size_t piece, std::uint64_t at, std::uint64_t its) {
        std::byte* host = take({address, piece}, its);
        if (!host && grows) {
            grows = grow_(std::max(its, wanted - begun));
            host = take({address, piece}, its);
        }
        if (!host) return;  // a smaller piece may find room
        copying.emplace_back(address, piece);
        begun += its;
        in_batch += its;
        r = copies_.to_host(host, at, its);
        if (r != CUDA_SUCCESS || in_batch < batch) return;
        r = copies_.end_batch();
        if (r == CUDA_SUCCESS) leave(copied);
        copied.insert(copied.end(), copying.begin(), copying.end());
        copying.clear();
        in_batch = 0;
    };
    for (const bool exact : {true, false})  // first those that are not more than what is wanted
        for (const std::uint64_t address : blocks) {
            const Block& block = blocks_.at(address);
            std::uint64_t at = address + block.bytes;
            for (std::size_t piece = block.pieces.size(); piece-- != 0 && begun < wanted && r == CUDA_SUCCESS;) {
                const std::uint64_t its = block.pieces[piece].bytes;
                at -= its;
                const bool fits = !exact || its <= wanted - begun;
                if (fits && blocks_.may_leave(block, piece) && !pieces_.contains({address, piece}))
                    move(address, piece, at, its);
            }
        }
    // Also after a failure: the copies that were begun write into the room.
    if (const CUresult finished = copies_.finish(); r == CUDA_SUCCESS) r = finished;
    for (auto* places : {&copied, &copying})
        if (r == CUDA_SUCCESS) leave(*places);
        else
            for (const Place& place : *places) give_up(pieces_.find(place));
    return r;
}

CUresult Store::bring_back(std::span<const std::uint64_t> blocks) {
    std::vector<Place> back;
    CUresult r = CUDA_SUCCESS, copied = CUDA_SUCCESS;
    for (const std::uint64_t address : blocks) {
        const Block& block = blocks_.at(address);
        std::uint64_t at = address;
        for (std::size_t piece = 0; piece < block.pieces.size() && r == CUDA_SUCCESS; ++piece) {
            const auto its = pieces_.find({address, piece});
            if (its != pieces_.end()) {
                r = blocks_.come_back(address, piece);
                if (r != CUDA_SUCCESS) break;
                back.push_back(its->first);
                r = copied = copies_.to_device(at, room_of(its->second).at + its->second.offset, its->second.bytes);
            }
            at += block.pieces[piece].bytes;
        }
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

const std::byte* Store::contents(std::uint64_t address, std::size_t piece) {
    const auto its = pieces_.find({address, piece});
    return its == pieces_.end() ? nullptr : room_of(its->second).at + its->second.offset;
}

std::uint64_t Store::held(std::uint64_t address) const {
    std::uint64_t sum = 0;
    for (auto its = pieces_.lower_bound({address, 0}); its != pieces_.end() && its->first.first == address; ++its)
        sum += its->second.bytes;
    return sum;
}

}  // namespace barcuda
