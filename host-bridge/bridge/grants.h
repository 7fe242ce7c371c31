// SPDX-License-Identifier: Apache-2.0
// grants.h: which client holds which granule of the heap. First fit over a table of at most 8,192 granules. A granule
// is granted again only when its owner has ended *and* the guest's module reports no mapping of it, and only after its
// contents are cleared. A granule that a worker was once allowed to map, and that its client has released, is granted
// only to that client until the worker has ended: a worker under an attacker's control may still have it mapped.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "host-bridge/between/records.h"
#include "shm-device/doors/shape.h"
#include "shm-device/layout.h"

namespace barcuda {

class Grants {
  public:
    struct Run {
        std::uint64_t offset = 0, bytes = 0;
    };  // bytes == 0: none
    struct Granule {
        Word<std::uint32_t> owner;       // channel + 1, or `reserved`; ours: the table in the region is only told
        Word<std::uint32_t> mapper;      // channel + 1, whose worker may have it mapped; 0: none
        Word<std::uint32_t> dirty;       // it may hold what a client has written
        Word<std::uint32_t> unanswered;  // it was granted, and the answer is not written down yet
    };

    // `table` is the region's; `clear` empties a run of bytes at an offset before it is granted again. `books`: one
    // record for each granule; of an earlier bridge: restore() is to follow.
    Grants(const Shape& shape, barcuda_grant* table, std::function<void(std::uint64_t, std::uint64_t)> clear,
           Part<Granule> books = {});

    // ---- after an earlier bridge was killed
    // Releases the granules of channels without a client, and writes the owners to the region's table.
    void restore(const std::function<bool(std::uint32_t channel)>& lives);
    // Whether the channel's last grant was answered: otherwise it is released.
    void settle(std::uint32_t channel, bool answered);
    // Releases what was reserved for workers that have ended without a client.
    void release_reserves();
    // Completes a release that was half done.
    void release_rest(std::uint32_t channel, Run run);

    using HasTime = std::function<bool()>;
    static bool always() { return true; }
    // A run of at least `bytes` for this channel, which then holds at most `more` bytes more than before: one that it
    // has released, if it can be. To empty a granule takes milliseconds where it was used: when `has_time` says no,
    // what has been emptied stays so, and nothing is granted yet.
    Run grant(std::uint32_t channel, std::uint64_t bytes, std::uint64_t more = ~std::uint64_t{0},
              const HasTime& has_time = always);
    // The answer is recorded: the channel owns the run even if this bridge ends now.
    void confirm(Run granted);
    // A run that a worker prepares while it waits for a client. Owned by no channel until handed over or released.
    Run reserve(std::uint64_t bytes, const HasTime& has_time = always);
    // False, and nothing changes: not all of it is reserved, or this channel's already.
    bool hand_over(Run reserved, std::uint32_t channel);
    // The channel's worker is about to map the run, or has mapped it. False: not all of it is this channel's.
    bool let_map(std::uint32_t channel, Run run);
    void release(Run reserved);
    // False: not all of it is this channel's.
    bool release(std::uint32_t channel, Run run);
    // Whether grant() would find that much without reserves.
    bool fits_without_reserves(std::uint32_t channel, std::uint64_t bytes,
                               std::uint64_t more = ~std::uint64_t{0}) const;
    // Releases everything that a channel holds. Returns the number of granules.
    std::size_t release_all(std::uint32_t channel);
    // Empties a free granule that was used: its pages go back to the host. False: there is none.
    bool clean_one();
    // Bytes that it holds, and those that only it can get.
    std::uint64_t held(std::uint32_t channel) const;
    std::uint64_t held() const;  // by all channels
    std::uint64_t free() const;  // bytes

  private:
    struct Want {
        std::uint32_t owner;
        std::size_t granules;
        std::uint64_t more;
    };
    enum class Among { own, any, reserved_too };  // own: only this owner can get them
    std::optional<std::size_t> find(const Want& want, Among among) const;
    bool is_unused(std::size_t i) const;
    bool belongs(std::uint32_t channel, Run run) const;
    Run take(std::uint32_t owner, std::uint64_t bytes, std::uint64_t more, const HasTime& has_time);
    void clean(std::size_t granule);
    void set(Run run, std::uint32_t owner);
    void set_owner(std::size_t granule, std::uint32_t owner);
    void forget_mapper(std::size_t granule);
    bool is_in_heap(Run run) const;
    // As many as hold that; more than there are for what no table holds.
    std::size_t granules_in(std::uint64_t bytes) const { return bytes / granule_ + (bytes % granule_ != 0); }
    std::size_t first(Run run) const { return (run.offset - start_) / granule_; }
    std::size_t end(Run run) const { return first(run) + run.bytes / granule_; }

    const std::uint64_t start_, granule_;
    barcuda_grant* const table_;
    std::vector<Granule> own_;  // where there are no books
    const std::span<Granule> granules_;
    std::size_t cleaned_ = 0;  // where clean_one() goes on
    std::function<void(std::uint64_t, std::uint64_t)> clear_;
};

}  // namespace barcuda
