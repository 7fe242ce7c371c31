// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/worker/session/extents.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <iterator>

namespace barcuda {

Extents::~Extents() {
    for (auto& [offset, extent] : extents_) unmap_only(offset, extent.bytes);
}

Failure Extents::map(std::uint64_t offset, std::uint64_t bytes) {
    if (holds(offset, bytes)) return {};
    if (Failure failure = map_only(offset, bytes)) return failure;
    add(offset, bytes);
    return {};
}

Failure Extents::map_only(std::uint64_t offset, std::uint64_t bytes) const {
    if (fd_ < 0) return {};
    void* got = mapper_ ? mapper_->map(at(offset), bytes, offset)
                        : mmap(at(offset), bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE, fd_,
                               static_cast<off_t>(offset));
    if (got == MAP_FAILED)
        return fmt::format("cannot map {} MiB of the region at {}: {}", bytes >> 20, fmt::ptr(at(offset)),
                           strerror(errno));
    // Huge pages, if the system allows them for shared memory: the GPU then needs fewer of its own page tables.
    madvise(at(offset), bytes, MADV_HUGEPAGE);
    return {};
}

void Extents::unmap_only(std::uint64_t offset, std::uint64_t bytes) const {
    if (fd_ >= 0) munmap(at(offset), bytes);
}

Failure Extents::move_to(const Driver& driver, std::uint64_t base) {
    if (base == base_) return {};
    unregister_all(driver);
    for (const auto& [offset, extent] : extents_) unmap_only(offset, extent.bytes);
    base_ = base;
    for (auto extent = extents_.begin(); extent != extents_.end(); ++extent)
        if (Failure failure = map_only(extent->first, extent->second.bytes)) {
            extents_.erase(extent, extents_.end());  // it is mapped nowhere
            return failure;
        }
    return {};
}

std::vector<std::pair<std::uint64_t, std::uint64_t>> Extents::all() const {
    std::vector<std::pair<std::uint64_t, std::uint64_t>> all;
    for (const auto& [offset, extent] : extents_)
        if (!in_channel(at(offset))) all.emplace_back(offset, extent.bytes);
    return all;
}

bool Extents::unmap(const Driver& driver, std::uint64_t offset, std::uint64_t bytes) {
    auto extent = extents_.find(offset);
    if (extent == extents_.end() || extent->second.bytes != bytes) return false;
    if (extent->second.registered) driver.cuMemHostUnregister(at(offset));
    unmap_only(offset, bytes);
    extents_.erase(extent);
    return true;
}

CUresult Extents::register_all(const Driver& driver) {
    const auto enter = [&](std::byte* memory, std::size_t bytes) {
        return driver.cuMemHostRegister_v2(memory, bytes, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
    };
    if (!lent_.empty() && !lent_is_registered_) lent_is_registered_ = enter(lent_.data(), lent_.size()) == CUDA_SUCCESS;
    CUresult first = CUDA_SUCCESS;
    for (auto& [offset, extent] : extents_) {
        if (extent.registered || !extent.wanted) continue;
        const CUresult r = enter(at(offset), extent.bytes);
        extent.registered = r == CUDA_SUCCESS;
        if (first == CUDA_SUCCESS) first = r;
    }
    all_registered_ = first == CUDA_SUCCESS;
    return first;
}

bool Extents::is_registered(const void* word) const {
    const auto offset = static_cast<std::uint64_t>(static_cast<const std::byte*>(word) - at(0));
    const auto behind = extents_.upper_bound(offset);
    return behind != extents_.begin() && std::prev(behind)->second.registered;
}

void Extents::unregister_all(const Driver& driver) {
    if (lent_is_registered_) driver.cuMemHostUnregister(lent_.data());
    lent_is_registered_ = false;
    for (auto& [offset, extent] : extents_)
        if (extent.registered) {
            driver.cuMemHostUnregister(at(offset));
            extent.registered = false;
        }
    all_registered_ = false;
}

std::byte* Extents::locate(std::uint64_t offset, std::uint64_t bytes) const {
    auto extent = extents_.upper_bound(offset);
    if (extent == extents_.begin()) return nullptr;
    --extent;
    std::uint64_t end = extent->first + extent->second.bytes;
    if (offset > end || (offset == end && bytes != 0)) return nullptr;
    while (end - offset < bytes) {  // a block may span adjacent extents
        if (++extent == extents_.end() || extent->first != end) return nullptr;
        end += extent->second.bytes;
    }
    return at(offset);
}

}  // namespace barcuda
