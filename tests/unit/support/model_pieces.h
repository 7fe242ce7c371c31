// SPDX-License-Identifier: Apache-2.0
// model_pieces.h: a model of the driver's memory below blocks: it knows which addresses have which memory, and which
// devices may use it, counts what exists, and fails on order.
#pragma once
#include <gtest/gtest.h>

#include <cstdint>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "host-bridge/worker/memory/blocks.h"

namespace barcuda {

constexpr std::uint64_t mib = 1 << 20;

struct ModelPieces : Pieces {
    struct Mapping {
        std::uint64_t bytes;
        Handle piece;
        std::set<int> devices;
    };
    std::map<Handle, std::pair<int, std::uint64_t>> pieces;  // device and bytes of those with a handle
    std::map<std::uint64_t, Mapping> mappings;
    std::map<std::uint64_t, std::uint64_t> reserved;
    std::map<Handle, std::uint64_t> words;  // what is in a piece: one word stands for all of it
    std::set<Handle> shared;
    Handle last = 0;
    std::uint64_t calls = 0, fails_at = 0;  // which call fails, once
    bool elsewhere = false;                 // the addresses that are asked for are in use

    bool fails() { return ++calls == fails_at; }
    std::uint64_t reserve(std::uint64_t hint, std::uint64_t bytes) override {
        if (fails()) return 0;
        const std::uint64_t at = elsewhere ? hint + (std::uint64_t{1} << 40) : hint;
        reserved[at] = bytes;
        return at;
    }
    CUresult create(int device, std::uint64_t bytes, Handle& piece) override {
        EXPECT_EQ(0u, bytes % block_granule);
        EXPECT_LE(bytes, most_of_a_piece);
        if (fails()) return CUDA_ERROR_OUT_OF_MEMORY;
        pieces[piece = ++last] = {device, bytes};
        return CUDA_SUCCESS;
    }
    void release(Handle piece) override {
        EXPECT_EQ(1u, pieces.erase(piece)) << "released twice";
        words.erase(piece);
        for (const auto& [address, m] : mappings) EXPECT_NE(piece, m.piece) << "it is still mapped";
    }
    CUresult map(std::uint64_t address, std::uint64_t bytes, Handle piece) override {
        EXPECT_EQ(0u, address % block_granule);
        EXPECT_EQ(bytes, pieces.at(piece).second);
        const auto span = std::prev(reserved.upper_bound(address));
        EXPECT_LE(address + bytes, span->first + span->second) << "beyond what was reserved";
        EXPECT_FALSE(mapped(address, bytes));
        if (fails()) return CUDA_ERROR_OUT_OF_MEMORY;
        mappings[address] = {bytes, piece, {}};
        return CUDA_SUCCESS;
    }
    void unmap(std::uint64_t address, std::uint64_t bytes) override {
        const std::uint64_t end = address + bytes;
        while (address < end) address += mappings.extract(address).mapped().bytes;
        EXPECT_EQ(end, address);
    }
    CUresult open(std::uint64_t address, std::uint64_t bytes, const Devices& devices, const Devices&) override {
        if (fails()) return CUDA_ERROR_INVALID_VALUE;
        for (const std::uint64_t end = address + bytes; address < end; address += mappings.at(address).bytes)
            mappings.at(address).devices = {devices.begin(), devices.end()};
        return CUDA_SUCCESS;
    }

    bool is_shared(Handle piece) const override { return shared.contains(piece); }

    // The word at the start of a mapping. As the GPU sees it: memory without access is a fault.
    std::uint64_t& word(std::uint64_t address) {
        const Mapping& m = mappings.at(address);
        EXPECT_FALSE(m.devices.empty());
        return words[m.piece];
    }
    const Mapping* mapped(std::uint64_t address, std::uint64_t bytes = 1) const {
        const auto next = mappings.lower_bound(address);
        if (next != mappings.end() && next->first < address + bytes) return &next->second;
        if (next == mappings.begin()) return nullptr;
        const auto& [start, m] = *std::prev(next);
        return address - start < m.bytes ? &m : nullptr;
    }
    std::set<int> devices(std::uint64_t address) const {
        const Mapping* m = mapped(address);
        return m ? m->devices : std::set<int>{};
    }
    std::uint64_t bytes() const {
        std::uint64_t sum = 0;
        for (const auto& [handle, piece] : pieces) sum += piece.second;
        return sum;
    }
};

}  // namespace barcuda
