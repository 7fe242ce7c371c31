// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/bridge/grants.h"

#include <algorithm>

#include "shm-device/queue/sync.h"

namespace barcuda {
namespace {
constexpr std::uint32_t nobody = 0, reserved = ~0u;
}

Grants::Grants(const Shape& shape, barcuda_grant* table, std::function<void(std::uint64_t, std::uint64_t)> clear)
    : start_(shape.extents_offset), granule_(shape.granule), table_(table), clear_(std::move(clear)) {
    for (std::uint32_t i = 0; i < shape.granule_count; ++i) owner_.push_back(observe(table[i].owner));
    mapper_.assign(owner_.size(), nobody);
    dirty_.assign(owner_.size(), true);  // whatever an earlier bridge left behind
}

bool Grants::is_unused(std::size_t i) const { return owner_[i] == nobody && observe(table_[i].mapped) == 0; }

Grants::Run Grants::grant(std::uint32_t channel, std::uint64_t bytes, std::uint64_t more, const HasTime& has_time) {
    return take(channel + 1, bytes, more, has_time);
}

Grants::Run Grants::reserve(std::uint64_t bytes, const HasTime& has_time) {
    return take(reserved, bytes, ~std::uint64_t{0}, has_time);
}

void Grants::hand_over(Run run, std::uint32_t channel) { set(run, channel + 1); }

void Grants::release(Run run) { set(run, nobody); }

void Grants::set(Run run, std::uint32_t owner) {
    for (std::size_t g = first(run); g < end(run); ++g) {
        owner_[g] = owner;
        publish(table_[g].owner, owner == reserved ? nobody : owner);
    }
}

// The first run that will do: of what its owner does not hold already it adds at most `want.more` bytes.
std::optional<std::size_t> Grants::find(const Want& want, Among among) const {
    if (want.granules == 0 || want.granules > owner_.size()) return {};
    const auto can_have = [&](std::size_t i) {
        if (!is_unused(i) && (among != Among::reserved_too || owner_[i] != reserved)) return false;
        return mapper_[i] == want.owner || (among != Among::own && mapper_[i] == nobody);
    };
    std::size_t run = 0, added = 0;  // of the last granules: how many in a row, and those of them that are new
    for (std::size_t i = 0; i < owner_.size(); ++i) {
        if (!can_have(i)) {
            run = added = 0;
            continue;
        }
        added += mapper_[i] == nobody;
        if (++run > want.granules) added -= mapper_[i - want.granules] == nobody;
        if (run >= want.granules && added * granule_ <= want.more) return i + 1 - want.granules;
    }
    return {};
}

bool Grants::fits_without_reserves(std::uint32_t channel, std::uint64_t bytes, std::uint64_t more) const {
    return find({channel + 1, granules(bytes), more}, Among::reserved_too).has_value();
}

Grants::Run Grants::take(std::uint32_t owner, std::uint64_t bytes, std::uint64_t more, const HasTime& has_time) {
    const Want want{owner, granules(bytes), more};
    auto first = find(want, Among::own);
    if (!first) first = find(want, Among::any);
    if (!first) return {};
    for (std::size_t g = *first; g < *first + want.granules; ++g) {
        if (!dirty_[g]) continue;
        if (!has_time()) return {};
        clean(g);
    }
    std::fill_n(dirty_.begin() + static_cast<std::ptrdiff_t>(*first), want.granules, true);
    const Run taken{start_ + *first * granule_, want.granules * granule_};
    set(taken, owner);
    return taken;
}

bool Grants::belongs(std::uint32_t channel, Run run) const {
    if (run.offset < start_ || (run.offset - start_) % granule_ || run.bytes % granule_ || run.bytes == 0) return false;
    if (first(run) >= owner_.size() || run.bytes / granule_ > owner_.size() - first(run)) return false;
    for (std::size_t g = first(run); g < end(run); ++g)
        if (owner_[g] != channel + 1) return false;
    return true;
}

bool Grants::let_map(std::uint32_t channel, Run run) {
    if (!belongs(channel, run)) return false;
    for (std::size_t g = first(run); g < end(run); ++g) mapper_[g] = channel + 1;
    return true;
}

bool Grants::release(std::uint32_t channel, Run run) {
    if (!belongs(channel, run)) return false;
    set(run, nobody);
    return true;
}

std::size_t Grants::release_all(std::uint32_t channel) {
    std::size_t count = 0;
    for (std::size_t g = 0; g < owner_.size(); ++g) {
        if (owner_[g] == channel + 1) owner_[g] = nobody, publish(table_[g].owner, nobody), ++count;
        if (mapper_[g] == channel + 1)
            mapper_[g] = nobody, dirty_[g] = true;  // though it was emptied when it was released
    }
    return count;
}

void Grants::clean(std::size_t granule) {
    clear_(start_ + granule * granule_, granule_);
    dirty_[granule] = false;
}

bool Grants::clean_one() {
    for (; cleaned_ < owner_.size(); ++cleaned_)
        if (dirty_[cleaned_] && is_unused(cleaned_)) return clean(cleaned_), true;
    cleaned_ = 0;
    return false;
}

std::uint64_t Grants::held(std::uint32_t channel) const {
    std::uint64_t n = 0;
    for (std::size_t g = 0; g < owner_.size(); ++g) n += owner_[g] == channel + 1 || mapper_[g] == channel + 1;
    return n * granule_;
}

std::uint64_t Grants::held() const {
    std::uint64_t n = 0;
    for (std::size_t g = 0; g < owner_.size(); ++g)
        n += (owner_[g] != nobody && owner_[g] != reserved) || mapper_[g] != nobody;
    return n * granule_;
}

std::uint64_t Grants::free() const {
    std::uint64_t n = 0;
    for (std::size_t g = 0; g < owner_.size(); ++g) n += is_unused(g) && mapper_[g] == nobody;
    return n * granule_;
}

}  // namespace barcuda
