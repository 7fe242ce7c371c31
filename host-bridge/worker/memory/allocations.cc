// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/worker/memory/allocations.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace barcuda {

Pieces::Devices Allocations::Home::devices() const {
    Pieces::Devices all{device};
    for (const int other : others)
        if (std::ranges::find(all, other) == all.end()) all.push_back(other);
    return all;
}

CUresult Allocations::allocate(Owner owner, int device, std::uint64_t bytes, std::uint64_t& address,
                               std::uint64_t wish) {
    Home& its = home(owner, device);
    const bool small = bytes < Slabs::below;
    const CUresult r = small ? its.slabs.allocate(bytes, its.devices(), address, wish)
                             : blocks_.make(device, bytes, its.devices(), address, wish);
    if (r != CUDA_SUCCESS) return r;
    all_[address] = {.owner = owner,
                     .device = device,
                     .kind = small ? Kind::slab : Kind::block,
                     .bytes = bytes,
                     .block = small ? its.slabs.slab_of(address) : address,
                     .number = ++numbers_};
    return CUDA_SUCCESS;
}

CUresult Allocations::adopt(Owner owner, int device, std::vector<Block::Piece> pieces, const Pieces::Devices& devices,
                            std::uint64_t offset, std::uint64_t bytes, std::uint64_t& address) {
    std::uint64_t block = 0;
    if (CUresult r = blocks_.adopt(device, std::move(pieces), devices, block); r != CUDA_SUCCESS) return r;
    address = block + offset;
    all_[address] = {
        .owner = owner, .device = device, .kind = Kind::opened, .bytes = bytes, .block = block, .number = ++numbers_};
    return CUDA_SUCCESS;
}

void Allocations::end(std::uint64_t address, const Allocation& allocation) {
    if (allocation.kind == Kind::slab) homes_.at(allocation.owner).slabs.free(address);
    else blocks_.end(allocation.block);
}

void Allocations::free(std::uint64_t address) {
    const auto its = all_.extract(address);
    end(address, its.mapped());
}

void Allocations::owner_gone(Owner owner) {
    std::erase_if(all_, [&](const auto& each) {
        const auto& [address, allocation] = each;
        if (allocation.owner != owner) return false;
        if (allocation.kind != Kind::slab) blocks_.end(allocation.block);
        return true;
    });
    if (const auto its = homes_.extract(owner)) its.mapped().slabs.end();
}

bool Allocations::shrink() {
    bool some = false;
    for (auto& [owner, its] : homes_) some |= its.slabs.shrink();
    return some;
}

Allocations::Found Allocations::find(std::uint64_t address) {
    const auto after = all_.upper_bound(address);
    if (after == all_.begin()) return {};
    auto& [start, allocation] = *std::prev(after);
    if (allocation.leaving || address - start >= allocation.bytes) return {};
    return {start, &allocation};
}

Allocations::Found Allocations::starting_at(std::uint64_t address) {
    const Found found = find(address);
    return found.address == address ? found : Found{};
}

Allocations::Owner Allocations::owner_on(int device) const {
    const auto its = std::ranges::find_if(homes_, [device](const auto& home) { return home.second.device == device; });
    return its == homes_.end() ? 0 : its->first;
}

CUresult Allocations::open_all(Owner owner, const Home& its) {
    const Pieces::Devices devices = its.devices();
    CUresult worst = CUDA_SUCCESS;
    const auto open = [&](std::uint64_t block) {
        if (const CUresult r = blocks_.open(block, devices); r != CUDA_SUCCESS) worst = r;
    };
    for (const auto& [address, allocation] : all_)
        if (allocation.owner == owner && allocation.kind == Kind::block) open(allocation.block);
    its.slabs.each(open);
    return worst;
}

CUresult Allocations::allow(Owner owner, int device, int other) {
    Home& its = home(owner, device);
    its.others.insert(other);
    const CUresult r = open_all(owner, its);
    if (r != CUDA_SUCCESS) forbid(owner, other);
    return r;
}

void Allocations::forbid(Owner owner, int other) {
    const auto its = homes_.find(owner);
    if (its == homes_.end()) return;
    const auto known = its->second.others.find(other);
    if (known == its->second.others.end()) return;
    its->second.others.erase(known);
    open_all(owner, its->second);
}

}  // namespace barcuda
