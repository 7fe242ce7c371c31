// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/worker/memory/blocks.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace barcuda {
namespace {

std::uint64_t rounded(std::uint64_t bytes, std::uint64_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace

// ---- addresses

std::optional<std::uint64_t> Spans::take(std::uint64_t bytes) {
    for (auto& [start, span] : spans_)
        if (const auto address = span.holes.take(bytes)) return address;
    if (bytes > end - next_) return {};
    const std::uint64_t whole = rounded(bytes, unit), start = pieces_.reserve(next_, whole);
    if (start == 0) return {};
    next_ += whole;
    return (spans_[start] = {whole, Holes(start, whole)}).holes.take(bytes);
}

void Spans::give(std::uint64_t address, std::uint64_t bytes) {
    std::prev(spans_.upper_bound(address))->second.holes.give(address, bytes);
}

bool Spans::meet(std::uint64_t address, std::uint64_t bytes) const {
    return std::ranges::any_of(spans_, [&](const auto& s) {
        const auto& [start, span] = s;
        return address < start ? bytes > start - address : address - start < span.bytes;
    });
}

bool Spans::all_free() const {
    return std::ranges::all_of(spans_, [](const auto& s) { return s.second.holes.is_one_of(s.second.bytes); });
}

// ---- blocks

CUresult Blocks::make(int device, std::uint64_t bytes, const Pieces::Devices& devices, std::uint64_t& address) {
    if (bytes > Spans::end - Spans::begin) return CUDA_ERROR_OUT_OF_MEMORY;
    Block block{device, 0, {}, devices};
    for (std::uint64_t left = rounded(bytes, block_granule); left != 0;) {
        const std::uint64_t here = std::min(left, most_of_a_piece);
        Pieces::Handle piece = 0;
        if (CUresult r = pieces_.create(device, here, piece); r != CUDA_SUCCESS) {
            release(block);
            return r;
        }
        block.pieces.push_back({piece, here});
        left -= here;
    }
    return place(std::move(block), address);
}

CUresult Blocks::adopt(int device, std::vector<Block::Piece> pieces, const Pieces::Devices& devices,
                       std::uint64_t& address) {
    return place({device, 0, std::move(pieces), devices}, address);
}

CUresult Blocks::place(Block block, std::uint64_t& address) {
    for (const Block::Piece& piece : block.pieces) block.bytes += piece.bytes;
    const auto start = spans_.take(block.bytes);
    std::uint64_t mapped = 0;
    CUresult r = start ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    for (const Block::Piece& piece : block.pieces) {
        if (r == CUDA_SUCCESS) r = pieces_.map(*start + mapped, piece.bytes, piece.handle);
        if (r != CUDA_SUCCESS) break;
        mapped += piece.bytes;
    }
    if (r == CUDA_SUCCESS) r = pieces_.open(*start, block.bytes, block.devices, {});
    if (r != CUDA_SUCCESS) {
        if (mapped != 0) pieces_.unmap(*start, mapped);
        if (start) spans_.give(*start, block.bytes);
        release(block);
        return r;
    }
    bytes_ += block.bytes;
    blocks_[address = *start] = std::move(block);
    return CUDA_SUCCESS;
}

void Blocks::release(const Block& block) {
    for (const Block::Piece& piece : block.pieces) pieces_.release(piece.handle);
}

void Blocks::end(std::uint64_t address) {
    const auto its = blocks_.extract(address);
    const Block& block = its.mapped();
    pieces_.unmap(address, block.bytes);
    spans_.give(address, block.bytes);
    release(block);
    bytes_ -= block.bytes;
}

CUresult Blocks::open(std::uint64_t address, const Pieces::Devices& devices) {
    Block& block = blocks_.at(address);
    const CUresult r = pieces_.open(address, block.bytes, devices, block.devices);
    if (r == CUDA_SUCCESS) block.devices = devices;
    return r;
}

}  // namespace barcuda
