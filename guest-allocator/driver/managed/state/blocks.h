// SPDX-License-Identifier: Apache-2.0
// blocks.h: on which side each block of a range is valid, which blocks the CPU may touch, and how many neighbours it is
// worth fetching with the one that was touched. Only records: mechanism/access.cc protects memory.
//
//   device   the CPU may not touch it: the device's copy is the only one that counts
//   both     the CPU may read it, and nothing on the device has changed it since it was fetched
//   host     the CPU may write it: the device's copy is old
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace barcuda::guest::managed {

// The smallest unit of a fetch. 64 KiB take little longer than 4 KiB, and what shares a block is mostly used together.
constexpr std::size_t grain = std::size_t{64} << 10;

// The largest run that is fetched or sent at once: less than a millisecond of a link.
constexpr std::size_t most_ahead = (std::size_t{32} << 20) / grain;

enum class Side : std::uint8_t { device, both, host };

struct Run {  // blocks [first, last)
    std::size_t first, last;
    bool empty() const { return first >= last; }
    std::size_t count() const { return empty() ? 0 : last - first; }
    Run with(const Run& other) const { return {std::max(first, other.first), std::min(last, other.last)}; }
};

class Blocks {
  public:
    explicit Blocks(std::size_t bytes) : sides_((bytes + grain - 1) / grain, Side::device) {}

    std::size_t count() const { return sides_.size(); }
    Side operator[](std::size_t block) const { return sides_[block]; }
    bool allows(std::size_t block, bool write) const { return sides_[block] >= (write ? Side::host : Side::both); }

    // The blocks to fetch when the CPU touches `block`, which it may not touch: at least up to `least`, and more if the
    // CPU goes through the memory in order. All are on the side that `block` is on.
    Run fetch(std::size_t block, std::size_t least) {
        std::size_t length = 1;
        for (Walk& walk : walks_)
            if (walk.next == block && walk.length) {
                length = std::min(walk.length * 2, most_ahead);
                walk.length = 0;
                break;
            }
        Run run{block, block + 1};
        const std::size_t end = std::min(std::max(block + length, least), count());
        while (run.last < end && sides_[run.last] == sides_[block]) ++run.last;
        walks_[turn_++ % walks] = {run.last, run.count()};
        return run;
    }

    // The CPU may touch these from now on. A block that it could write before stays writable.
    void open(const Run& run, bool write) {
        for (std::size_t i = run.first; i < run.last; ++i)
            sides_[i] = std::max(sides_[i], write ? Side::host : Side::both);
        if (!run.empty()) open_.push_back(run);
    }
    bool any_open() const { return !open_.empty(); }

    // The CPU may touch none of these from now on. Calls protect(run) for what the CPU could touch, then send(run) for
    // what it may have written, each block once. It does so in pieces, so that one is on its way while the next is
    // protected. False: protect() has failed, and the rest of that run has not changed.
    template <class Protect, class Send> bool close(const Run& within, Protect protect, Send send) {
        std::vector<Run> left;
        bool all = true;
        // In order of addresses: neighbouring runs are protected, and sent, as one.
        std::sort(open_.begin(), open_.end(), [](const Run& a, const Run& b) { return a.first < b.first; });
        for (std::size_t i = 0; i < open_.size();) {
            Run whole = open_[i++];
            while (i < open_.size() && open_[i].first <= whole.last) whole.last = std::max(whole.last, open_[i++].last);
            const Run out = whole.with(within);
            if (out.empty()) {
                left.push_back(whole);
                continue;
            }
            if (whole.first < out.first) left.push_back({whole.first, out.first});
            std::size_t at = out.first;
            for (Run piece; at < out.last; at = piece.last) {
                piece = {at, std::min(at + most_ahead, out.last)};
                if (!protect(piece)) break;
                send_written(piece, send);
            }
            all = all && at == out.last;
            if (at < whole.last) left.push_back({at, whole.last});
        }
        open_ = std::move(left);
        return all;
    }

  private:
    static constexpr std::size_t walks = 4;  // threads that go through the memory at the same time

    struct Walk {
        std::size_t next = 0, length = 0;
    };
    template <class Send> void send_written(const Run& run, Send send) {
        for (std::size_t at = run.first; at < run.last;) {
            const std::size_t first = at;
            while (at < run.last && sides_[at] == Side::host) ++at;
            if (first < at) send(Run{first, at});
            else ++at;
        }
        std::fill(sides_.begin() + static_cast<std::ptrdiff_t>(run.first),
                  sides_.begin() + static_cast<std::ptrdiff_t>(run.last), Side::device);
    }
    std::vector<Side> sides_;
    std::vector<Run> open_;  // what close() must look at; neither disjoint nor sorted
    Walk walks_[walks];
    std::size_t turn_ = 0;
};

}  // namespace barcuda::guest::managed
