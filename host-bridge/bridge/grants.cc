// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/bridge/grants.h"

#include <algorithm>

#include "shm-device/sync.h"

namespace barcuda {
namespace {
constexpr std::uint32_t nobody = 0, reserved = ~0u;
}

Grants::Grants(const barcuda_header& header, barcuda_grant* table,
               std::function<void(std::uint64_t, std::uint64_t)> clear)
    : start_(header.extents_offset), granule_(header.granule), table_(table), clear_(std::move(clear)) {
    for (std::uint32_t i = 0; i < header.granule_count; ++i) owner_.push_back(observe(table[i].owner));
    dirty_.assign(owner_.size(), true);  // whatever an earlier bridge left behind
}

bool Grants::is_free(std::size_t i) const { return owner_[i] == 0 && observe(table_[i].mapped) == 0; }

Grants::Run Grants::grant(std::uint32_t channel, std::uint64_t bytes) { return take(channel + 1, bytes); }

Grants::Run Grants::reserve(std::uint64_t bytes) { return take(reserved, bytes); }

void Grants::hand_over(Run run, std::uint32_t channel) { set(run, channel + 1); }

void Grants::release(Run run) { set(run, nobody); }

void Grants::set(Run run, std::uint32_t owner) {
    const std::size_t first = (run.offset - start_) / granule_;
    for (std::size_t g = first; g < first + run.bytes / granule_; ++g) {
        owner_[g] = owner;
        publish(table_[g].owner, owner == reserved ? nobody : owner);
    }
}

Grants::Run Grants::take(std::uint32_t owner, std::uint64_t bytes) {
    if (bytes == 0 || bytes > owner_.size() * granule_) return {};
    const std::size_t need = (bytes + granule_ - 1) / granule_;
    std::size_t run = 0;
    for (std::size_t i = 0; i < owner_.size(); ++i) {
        run = is_free(i) ? run + 1 : 0;
        if (run < need) continue;
        const std::size_t first = i + 1 - need;
        for (std::size_t g = first; g <= i; ++g) {
            if (dirty_[g]) clear_(start_ + g * granule_, granule_);
            dirty_[g] = true;
        }
        const Run taken{start_ + first * granule_, need * granule_};
        set(taken, owner);
        return taken;
    }
    return {};
}

bool Grants::release(std::uint32_t channel, Run run) {
    if (run.offset < start_ || (run.offset - start_) % granule_ || run.bytes % granule_ || run.bytes == 0) return false;
    const std::size_t first = (run.offset - start_) / granule_, count = run.bytes / granule_;
    if (first >= owner_.size() || count > owner_.size() - first) return false;
    for (std::size_t g = first; g < first + count; ++g)
        if (owner_[g] != channel + 1) return false;
    set(run, nobody);
    return true;
}

std::size_t Grants::release_all(std::uint32_t channel) {
    std::size_t count = 0;
    for (std::size_t g = 0; g < owner_.size(); ++g)
        if (owner_[g] == channel + 1) owner_[g] = 0, publish(table_[g].owner, 0), ++count;
    return count;
}

bool Grants::clean_one() {
    for (; cleaned_ < owner_.size(); ++cleaned_) {
        if (!dirty_[cleaned_] || !is_free(cleaned_)) continue;
        clear_(start_ + cleaned_ * granule_, granule_);
        dirty_[cleaned_] = false;
        return true;
    }
    cleaned_ = 0;
    return false;
}

std::uint64_t Grants::held(std::uint32_t channel) const {
    return static_cast<std::uint64_t>(std::count(owner_.begin(), owner_.end(), channel + 1)) * granule_;
}

std::uint64_t Grants::held() const {
    return static_cast<std::uint64_t>(std::ranges::count_if(
               owner_, [](std::uint32_t owner) { return owner != nobody && owner != reserved; })) *
           granule_;
}

std::uint64_t Grants::free() const {
    std::uint64_t n = 0;
    for (std::size_t g = 0; g < owner_.size(); ++g) n += is_free(g);
    return n * granule_;
}

}  // namespace barcuda
