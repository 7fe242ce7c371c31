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

bool Spans::take_at(std::uint64_t address, std::uint64_t bytes) {
    const auto after = spans_.upper_bound(address);
    if (after != spans_.begin())
        if (auto& [start, span] = *std::prev(after); address - start < span.bytes)
            return span.holes.take_at(address, bytes);
    if (address < next_ || address > end || bytes > end - address) return false;
    const std::uint64_t whole = rounded(address + bytes - next_, unit);
    if (whole > end - next_) return false;
    const std::uint64_t start = pieces_.reserve(next_, whole);
    if (start == 0) return false;
    next_ += whole;
    return (spans_[start] = {whole, Holes(start, whole)}).holes.take_at(address, bytes);
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

CUresult Blocks::make(int device, std::uint64_t bytes, const Pieces::Devices& devices, std::uint64_t& address,
                      std::uint64_t wish) {
    if (bytes > Spans::end - Spans::begin) return CUDA_ERROR_OUT_OF_MEMORY;
    Block block{device, 0, {}, devices, false};
    for (std::uint64_t left = rounded(bytes, block_granule); left != 0;) {
        const std::uint64_t here = std::min(left, most_of_a_piece);
        Pieces::Handle piece = 0;
        if (CUresult r = pieces_.create(device, here, piece); r != CUDA_SUCCESS) {
            release(block);
            return r;
        }
        block.pieces.push_back({piece, here, false});
        left -= here;
    }
    return place(std::move(block), address, wish);
}

CUresult Blocks::adopt(int device, std::vector<Block::Piece> pieces, const Pieces::Devices& devices,
                       std::uint64_t& address) {
    return place({device, 0, std::move(pieces), devices, true}, address);
}

CUresult Blocks::place(Block block, std::uint64_t& address, std::uint64_t wish) {
    for (const Block::Piece& piece : block.pieces) block.bytes += piece.bytes;
    std::optional<std::uint64_t> start;
    if (wish == 0) start = spans_.take(block.bytes);
    else if (spans_.take_at(wish, block.bytes)) start = wish;
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
    for (const Block::Piece& piece : block.pieces)
        if (!piece.is_out) pieces_.release(piece.handle);
}

// f(address, bytes) for each run of pieces that are on the GPU.
template <class F> static void each_run(std::uint64_t address, const Block& block, const F& f) {
    std::uint64_t bytes = 0;
    for (const Block::Piece& piece : block.pieces) {
        if (!piece.is_out) {
            bytes += piece.bytes;
            continue;
        }
        if (bytes != 0) f(address, bytes);
        address += bytes + piece.bytes;
        bytes = 0;
    }
    if (bytes != 0) f(address, bytes);
}

void Blocks::end(std::uint64_t address) {
    if (before_end_) before_end_(address);
    const auto its = blocks_.extract(address);
    const Block& block = its.mapped();
    each_run(address, block, [&](std::uint64_t at, std::uint64_t bytes) {
        pieces_.unmap(at, bytes);
        bytes_ -= bytes;
    });
    spans_.give(address, block.bytes);
    release(block);
}

CUresult Blocks::open(std::uint64_t address, const Pieces::Devices& devices) {
    Block& block = blocks_.at(address);
    CUresult r = CUDA_SUCCESS;
    each_run(address, block, [&](std::uint64_t at, std::uint64_t bytes) {
        if (r == CUDA_SUCCESS) r = pieces_.open(at, bytes, devices, block.devices);
    });
    if (r == CUDA_SUCCESS) block.devices = devices;
    return r;
}

// ---- pieces that leave

namespace {
std::uint64_t address_of(std::uint64_t block_address, const Block& block, std::size_t piece) {
    for (std::size_t i = 0; i < piece; ++i) block_address += block.pieces[i].bytes;
    return block_address;
}
}  // namespace

bool Blocks::may_leave(const Block& block, std::size_t piece) const {
    const Block::Piece& its = block.pieces[piece];
    return !its.is_out && !block.adopted && !pieces_.is_shared(its.handle);
}

void Blocks::leave(std::uint64_t address, std::size_t piece) {
    Block& block = blocks_.at(address);
    Block::Piece& its = block.pieces[piece];
    pieces_.unmap(address_of(address, block, piece), its.bytes);
    pieces_.release(its.handle);
    its.is_out = true;
    bytes_ -= its.bytes;
}

CUresult Blocks::come_back(std::uint64_t address, std::size_t piece) {
    Block& block = blocks_.at(address);
    Block::Piece& its = block.pieces[piece];
    const std::uint64_t at = address_of(address, block, piece);
    Pieces::Handle fresh = 0;
    if (CUresult r = pieces_.create(block.device, its.bytes, fresh); r != CUDA_SUCCESS) return r;
    CUresult r = pieces_.map(at, its.bytes, fresh);
    if (r == CUDA_SUCCESS) {
        r = pieces_.open(at, its.bytes, block.devices, {});
        if (r != CUDA_SUCCESS) pieces_.unmap(at, its.bytes);
    }
    if (r != CUDA_SUCCESS) {
        pieces_.release(fresh);
        return r;
    }
    its.handle = fresh;
    its.is_out = false;
    bytes_ += its.bytes;
    return CUDA_SUCCESS;
}

}  // namespace barcuda
