// SPDX-License-Identifier: Apache-2.0
// allocate.cc: liveness over basic blocks, then a linear scan. Each thread's registers are a column of the slots, so
// what is true for one thread's flow is true for the warp, however its lanes diverge.
#include "soft-gpu/ptx/allocate.h"

#include <algorithm>
#include <map>

namespace barcuda::soft {
namespace {

using Bits = std::vector<std::uint64_t>;

struct BasicBlock {
    std::uint32_t begin = 0, end = 0;  // instructions
    std::vector<std::uint32_t> next;
    Bits live_in, live_out, uses, kills;
};

bool leaves(const ast::Instruction& in) { return in.name == "ret" || in.name == "exit" || in.name == "trap"; }
bool branches(const ast::Instruction& in) { return in.name == "bra" || in.name == "brx"; }

std::vector<BasicBlock> blocks_of(const ast::Function& f) {
    const auto n = static_cast<std::uint32_t>(f.body.size());
    std::vector<bool> starts(n + 1, false);
    starts[0] = true;
    for (const auto& [name, at] : f.labels) starts[at] = true;
    for (std::uint32_t i = 0; i < n; ++i)
        if (branches(f.body[i]) || leaves(f.body[i])) starts[i + 1] = true;
    std::vector<BasicBlock> blocks;
    std::vector<std::uint32_t> block_at(n + 1, ~std::uint32_t{0});
    for (std::uint32_t i = 0; i < n; ++i) {
        if (starts[i]) {
            block_at[i] = static_cast<std::uint32_t>(blocks.size());
            blocks.push_back({i, i, {}, {}, {}, {}, {}});
        }
        blocks.back().end = i + 1;
    }
    const auto link = [&](BasicBlock& b, std::string_view label) {
        const auto at = f.labels.find(label);
        if (at != f.labels.end() && at->second < n) b.next.push_back(block_at[at->second]);
    };
    for (std::uint32_t k = 0; k < blocks.size(); ++k) {
        BasicBlock& b = blocks[k];
        const auto& last = f.body[b.end - 1];
        if (last.name == "bra" && !last.operands.empty()) link(b, last.operands[0].name_text);
        if (last.name == "brx" && last.operands.size() > 1) {
            const auto table = f.tables.find(last.operands[1].name_text);
            if (table != f.tables.end())
                for (const auto label : table->second) link(b, label);
        }
        const bool falls = last.guard >= 0 || (!branches(last) && !leaves(last));
        if (falls && k + 1 < blocks.size()) b.next.push_back(k + 1);
    }
    return blocks;
}

bool get(const Bits& b, int i) { return (b[static_cast<std::size_t>(i) / 64] >> (i % 64) & 1) != 0; }
void set(Bits& b, int i) { b[static_cast<std::size_t>(i) / 64] |= std::uint64_t{1} << (i % 64); }

// live_in = uses | (live_out & ~kills), until nothing changes
void solve(std::vector<BasicBlock>& blocks, std::size_t words) {
    for (bool changed = true; changed;) {
        changed = false;
        for (auto b = blocks.rbegin(); b != blocks.rend(); ++b) {
            for (const auto next : b->next)
                for (std::size_t i = 0; i < words; ++i) b->live_out[i] |= blocks[next].live_in[i];
            for (std::size_t i = 0; i < words; ++i) {
                const auto in = b->uses[i] | (b->live_out[i] & ~b->kills[i]);
                changed |= in != b->live_in[i];
                b->live_in[i] = in;
            }
        }
    }
}

}  // namespace

std::vector<Interval> live_intervals(const ast::Function& f, const std::vector<Access>& accesses) {
    const auto registers = f.registers.size(), words = (registers + 63) / 64;
    std::vector<Interval> intervals(registers);
    const auto extend = [&](int reg, std::uint32_t from, std::uint32_t to) {
        auto& v = intervals[static_cast<std::size_t>(reg)];
        v.first = std::min(v.first, from);
        v.last = std::max(v.last, to);
    };
    const auto n = static_cast<std::uint32_t>(f.body.size());
    std::vector<BasicBlock> blocks = n == 0 ? std::vector<BasicBlock>{} : blocks_of(f);
    constexpr std::size_t most_words =
        std::size_t{1}  // 512 MiB of sets: for more than that every register keeps its own slot
        << 26;
    if (blocks.size() * words * 4 > most_words) {
        for (const auto& a : accesses) extend(a.reg, 0, n);
        return intervals;
    }
    for (auto& b : blocks) b.live_in = b.live_out = b.uses = b.kills = Bits(words);
    std::size_t block = 0;
    for (std::size_t i = 0; i < accesses.size();) {  // an instruction's reads come before its writes
        const auto at = accesses[i].instruction;
        while (block + 1 < blocks.size() && blocks[block].end <= at) ++block;
        std::size_t end = i;
        while (end < accesses.size() && accesses[end].instruction == at) ++end;
        for (std::size_t k = i; k < end; ++k) {
            extend(accesses[k].reg, at, at);
            if (!accesses[k].write && !blocks.empty() && !get(blocks[block].kills, accesses[k].reg))
                set(blocks[block].uses, accesses[k].reg);
        }
        for (std::size_t k = i; k < end; ++k)
            if (accesses[k].write && !blocks.empty()) set(blocks[block].kills, accesses[k].reg);
        i = end;
    }
    solve(blocks, words);
    for (const auto& b : blocks)
        for (std::size_t word = 0; word < words; ++word) {
            for (auto in = b.live_in[word]; in != 0; in &= in - 1)
                extend(static_cast<int>(word * 64) + __builtin_ctzll(in), b.begin, b.begin);
            for (auto out = b.live_out[word]; out != 0; out &= out - 1)
                extend(static_cast<int>(word * 64) + __builtin_ctzll(out), b.end - 1, b.end - 1);
        }
    return intervals;
}

std::vector<std::uint32_t> assign(const std::vector<Interval>& intervals, const std::vector<unsigned>& bytes,
                                  std::uint32_t begin, std::uint32_t* end) {
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < intervals.size(); ++i)
        if (intervals[i].first <= intervals[i].last) order.push_back(i);
    std::stable_sort(order.begin(), order.end(),
                     [&](auto x, auto y) { return intervals[x].first < intervals[y].first; });
    std::vector<std::uint32_t> slots(intervals.size(), ~std::uint32_t{0});
    std::map<unsigned, std::vector<std::uint32_t>> unused;  // by size
    std::multimap<std::uint32_t, std::size_t> ends;         // of live intervals
    for (const auto i : order) {
        // Sources and results of one instruction never share: an instruction may be several steps.
        while (!ends.empty() && ends.begin()->first < intervals[i].first) {
            const auto over = ends.begin()->second;
            unused[bytes[over]].push_back(slots[over]);
            ends.erase(ends.begin());
        }
        auto& same = unused[bytes[i]];
        if (same.empty()) {
            if (bytes[i] >= 64) begin = (begin + 63) / 64 * 64;
            slots[i] = begin;
            begin += bytes[i];
        } else {
            slots[i] = same.back();
            same.pop_back();
        }
        ends.emplace(intervals[i].last, i);
    }
    *end = begin;
    return slots;
}

}  // namespace barcuda::soft
