// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/bridge/grants.h"

#include <algorithm>

#include "shm-device/queue/sync.h"

namespace barcuda {
namespace {
constexpr std::uint32_t no_owner = 0, reserved = ~0u;
}

Grants::Grants(const Shape& shape, barcuda_grant* table, std::function<void(std::uint64_t, std::uint64_t)> clear,
               Part<Granule> books)
    : start_(shape.extents_offset),
      granule_(shape.granule),
      table_(table),
      own_(books.records.empty() ? shape.granule_count : 0),
      granules_(books.records.empty() ? std::span(own_) : books.records.first(shape.granule_count)),
      clear_(std::move(clear)) {
    if (books.kept) return;
    for (std::size_t g = 0; g < granules_.size(); ++g) {
        granules_[g].owner = observe(table[g].owner);
        granules_[g].dirty = 1;  // whatever an earlier bridge left behind
    }
}

void Grants::restore(const std::function<bool(std::uint32_t)>& lives) {
    const auto is_gone = [&](std::uint32_t owner) {
        return owner != no_owner && owner != reserved && !lives(owner - 1);
    };
    for (std::size_t g = 0; g < granules_.size(); ++g) {
        const Granule& its = granules_[g];
        if (is_gone(its.mapper)) forget_mapper(g);
        set_owner(g, is_gone(its.owner) ? no_owner : its.owner);
    }
}

void Grants::settle(std::uint32_t channel, bool answered) {
    for (std::size_t g = 0; g < granules_.size(); ++g) {
        Granule& its = granules_[g];
        if (its.owner != channel + 1 || !its.unanswered) continue;
        if (!answered) set_owner(g, no_owner);
        its.unanswered = 0;
    }
}

void Grants::release_reserves() {
    for (std::size_t g = 0; g < granules_.size(); ++g)
        if (granules_[g].owner == reserved) set_owner(g, no_owner);
}

void Grants::release_rest(std::uint32_t channel, Run run) {
    if (!is_in_heap(run)) return;
    for (std::size_t g = first(run); g < end(run); ++g)
        if (granules_[g].owner == channel + 1) set_owner(g, no_owner);
}

void Grants::confirm(Run granted) {
    for (std::size_t g = first(granted); g < end(granted); ++g) granules_[g].unanswered = 0;
}

bool Grants::is_unused(std::size_t i) const { return granules_[i].owner == no_owner && observe(table_[i].mapped) == 0; }

Grants::Run Grants::grant(std::uint32_t channel, std::uint64_t bytes, std::uint64_t more, const HasTime& has_time) {
    return take(channel + 1, bytes, more, has_time);
}

Grants::Run Grants::reserve(std::uint64_t bytes, const HasTime& has_time) {
    return take(reserved, bytes, ~std::uint64_t{0}, has_time);
}

bool Grants::hand_over(Run run, std::uint32_t channel) {
    if (!is_in_heap(run)) return false;
    for (std::size_t g = first(run); g < end(run); ++g)
        if (granules_[g].owner != reserved && granules_[g].owner != channel + 1) return false;
    set(run, channel + 1);
    return true;
}

void Grants::release(Run run) { set(run, no_owner); }

void Grants::set(Run run, std::uint32_t owner) {
    for (std::size_t g = first(run); g < end(run); ++g) set_owner(g, owner);
}

void Grants::set_owner(std::size_t granule, std::uint32_t owner) {
    granules_[granule].owner = owner;
    publish(table_[granule].owner, owner == reserved ? no_owner : owner);
}

// Its worker may have written there since the granule was emptied. The other order would give the next client what this
// one has written, after a bridge that ends in between.
void Grants::forget_mapper(std::size_t granule) {
    granules_[granule].dirty = 1;
    granules_[granule].mapper = no_owner;
}

// The first run that fits: it adds at most `want.more` bytes to what its owner already holds.
std::optional<std::size_t> Grants::find(const Want& want, Among among) const {
    if (want.granules == 0 || want.granules > granules_.size()) return {};
    const auto can_have = [&](std::size_t i) {
        if (!is_unused(i) && (among != Among::reserved_too || granules_[i].owner != reserved)) return false;
        const std::uint32_t mapper = granules_[i].mapper;
        return mapper == want.owner || (among != Among::own && mapper == no_owner);
    };
    std::size_t run = 0, added = 0;  // of the last granules: how many in a row, and those of them that are new
    for (std::size_t i = 0; i < granules_.size(); ++i) {
        if (!can_have(i)) {
            run = added = 0;
            continue;
        }
        added += granules_[i].mapper == no_owner;
        if (++run > want.granules) added -= granules_[i - want.granules].mapper == no_owner;
        if (run >= want.granules && added * granule_ <= want.more) return i + 1 - want.granules;
    }
    return {};
}

bool Grants::fits_without_reserves(std::uint32_t channel, std::uint64_t bytes, std::uint64_t more) const {
    return find({channel + 1, granules_in(bytes), more}, Among::reserved_too).has_value();
}

Grants::Run Grants::take(std::uint32_t owner, std::uint64_t bytes, std::uint64_t more, const HasTime& has_time) {
    const Want want{owner, granules_in(bytes), more};
    auto first = find(want, Among::own);
    if (!first) first = find(want, Among::any);
    if (!first) return {};
    for (std::size_t g = *first; g < *first + want.granules; ++g) {
        if (!granules_[g].dirty) continue;
        if (!has_time()) return {};
        clean(g);
    }
    for (std::size_t g = *first; g < *first + want.granules; ++g) {
        granules_[g].dirty = 1;
        granules_[g].unanswered = owner != reserved;
    }
    const Run taken{start_ + *first * granule_, want.granules * granule_};
    set(taken, owner);
    return taken;
}

bool Grants::is_in_heap(Run run) const {
    if (run.offset < start_ || (run.offset - start_) % granule_ || run.bytes % granule_ || run.bytes == 0) return false;
    return first(run) < granules_.size() && run.bytes / granule_ <= granules_.size() - first(run);
}

bool Grants::belongs(std::uint32_t channel, Run run) const {
    if (!is_in_heap(run)) return false;
    for (std::size_t g = first(run); g < end(run); ++g)
        if (granules_[g].owner != channel + 1) return false;
    return true;
}

bool Grants::let_map(std::uint32_t channel, Run run) {
    if (!belongs(channel, run)) return false;
    for (std::size_t g = first(run); g < end(run); ++g) granules_[g].mapper = channel + 1;
    return true;
}

bool Grants::release(std::uint32_t channel, Run run) {
    if (!belongs(channel, run)) return false;
    set(run, no_owner);
    return true;
}

std::size_t Grants::release_all(std::uint32_t channel) {
    std::size_t count = 0;
    for (std::size_t g = 0; g < granules_.size(); ++g) {
        if (granules_[g].owner == channel + 1) {
            set_owner(g, no_owner);
            ++count;
        }
        if (granules_[g].mapper == channel + 1) forget_mapper(g);
    }
    return count;
}

void Grants::clean(std::size_t granule) {
    clear_(start_ + granule * granule_, granule_);
    granules_[granule].dirty = 0;
}

bool Grants::clean_one() {
    for (; cleaned_ < granules_.size(); ++cleaned_)
        if (granules_[cleaned_].dirty && is_unused(cleaned_)) {
            clean(cleaned_);
            return true;
        }
    cleaned_ = 0;
    return false;
}

std::uint64_t Grants::held(std::uint32_t channel) const {
    std::uint64_t n = 0;
    for (std::size_t g = 0; g < granules_.size(); ++g)
        n += granules_[g].owner == channel + 1 || granules_[g].mapper == channel + 1;
    return n * granule_;
}

std::uint64_t Grants::held() const {
    std::uint64_t n = 0;
    for (const Granule& its : granules_)
        n += (its.owner != no_owner && its.owner != reserved) || its.mapper != no_owner;
    return n * granule_;
}

std::uint64_t Grants::free() const {
    std::uint64_t n = 0;
    for (std::size_t g = 0; g < granules_.size(); ++g) n += is_unused(g) && granules_[g].mapper == no_owner;
    return n * granule_;
}

}  // namespace barcuda
