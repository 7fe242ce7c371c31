// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/worker/memory/driver_pieces.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/log.h"

namespace barcuda {
namespace {

constexpr auto posix = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

CUmemAllocationProp properties_of(int device, bool exports) {
    CUmemAllocationProp its{};
    its.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    its.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
    if (exports) its.requestedHandleTypes = posix;
    return its;
}

constexpr std::uint64_t mark = 0x6b636f6c62637562;  // "bucblock"
// Both have the size of the driver's handle, in whose place they are. The second word is zero: there the software GPU's
// own handles have the process that they belong to.
struct Offer {
    std::uint64_t mark, zero, bytes, offset;
    std::array<char, 32> first;
};
struct Link {
    std::uint64_t mark, zero, bytes, also_zero;
    std::array<char, 32> next;  // zeros: this is the last piece
};
static_assert(sizeof(Offer) == sizeof(CUipcMemHandle) && sizeof(Link) == sizeof(Shared::Handle));
constexpr std::array<char, 32> none{};

Offer read(const CUipcMemHandle& handle) {
    Offer offer;
    std::memcpy(&offer, &handle, sizeof offer);
    return offer;
}
Shared::Handle whole(const std::array<char, 32>& token) {
    Shared::Handle all{};
    std::ranges::copy(token, all.begin());
    return all;
}

}  // namespace

const DriverPieces::Facts& DriverPieces::about(int device) {
    const auto [known, is_new] = facts_.try_emplace(device);
    Facts& its = known->second;
    if (!is_new) return its;
    const auto ask = [&](CUdevice_attribute which) {
        int value = 0;
        return driver_.cuDeviceGetAttribute && driver_.cuDeviceGetAttribute(&value, which, device) == CUDA_SUCCESS
                   ? value
                   : 0;
    };
    std::size_t total = 0, granularity = 0;
    its.exports = ask(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED) != 0;
    its.most_pitch = static_cast<std::uint64_t>(ask(CU_DEVICE_ATTRIBUTE_MAX_PITCH));
    const CUmemAllocationProp properties = properties_of(device, its.exports);
    its.makes_blocks = ask(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) != 0 && driver_.cuMemCreate &&
                       driver_.cuMemSetAccess && driver_.cuDeviceTotalMem_v2(&total, device) == CUDA_SUCCESS &&
                       driver_.cuMemGetAllocationGranularity(&granularity, &properties,
                                                             CU_MEM_ALLOC_GRANULARITY_MINIMUM) == CUDA_SUCCESS &&
                       granularity != 0 && block_granule % granularity == 0;
    its.bytes = total;
    if (!its.makes_blocks)
        log::warn("device {}: the driver's own allocator is used, since this GPU cannot map memory in pieces of {} KiB",
                  device, block_granule >> 10);
    return its;
}

// ---- pieces

std::uint64_t DriverPieces::reserve(std::uint64_t hint, std::uint64_t bytes) {
    CUdeviceptr at = 0;
    const CUresult r = driver_.cuMemAddressReserve(&at, bytes, block_granule, hint, 0);
    if (r != CUDA_SUCCESS) log::warn("no {} GiB of addresses: {}", bytes >> 30, driver_.error_name(r));
    else if (at != hint) log::debug("blocks are at {:#x}, since {:#x} is in use", at, hint);
    return r == CUDA_SUCCESS ? at : 0;
}

CUresult DriverPieces::create(int device, std::uint64_t bytes, Handle& piece) {
    const CUmemAllocationProp properties = properties_of(device, about(device).exports);
    CUmemGenericAllocationHandle made = 0;
    const CUresult r = driver_.cuMemCreate(&made, bytes, &properties, 0);
    piece = made;
    return r;
}

void DriverPieces::release(Handle piece) {
    driver_.cuMemRelease(piece);
    if (const auto its = exported_.extract(piece)) granter_.withdraw(whole(its.mapped()));
}

CUresult DriverPieces::map(std::uint64_t address, std::uint64_t bytes, Handle piece) {
    return driver_.cuMemMap(address, bytes, 0, piece, 0);
}

void DriverPieces::unmap(std::uint64_t address, std::uint64_t bytes) {
    if (const CUresult r = driver_.cuMemUnmap(address, bytes); r != CUDA_SUCCESS)
        log::error("the driver keeps {} bytes at {:#x}: {}", bytes, address, driver_.error_name(r));
}

CUresult DriverPieces::open(std::uint64_t address, std::uint64_t bytes, const Devices& devices, const Devices& before) {
    std::vector<CUmemAccessDesc> access;
    for (const int device : devices)
        access.push_back({{CU_MEM_LOCATION_TYPE_DEVICE, device}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE});
    for (const int device : before)
        if (std::ranges::find(devices, device) == devices.end())
            access.push_back({{CU_MEM_LOCATION_TYPE_DEVICE, device}, CU_MEM_ACCESS_FLAGS_PROT_NONE});
    return driver_.cuMemSetAccess(address, bytes, access.data(), access.size());
}

// ---- for other processes

CUresult DriverPieces::export_piece(const Block::Piece& piece, Token& next) {
    if (const auto known = exported_.find(piece.handle); known != exported_.end()) {
        next = known->second;
        return CUDA_SUCCESS;
    }
    int fd = -1;
    if (CUresult r = driver_.cuMemExportToShareableHandle(&fd, piece.handle, posix, 0); r != CUDA_SUCCESS) return r;
    auto token = std::bit_cast<Shared::Handle>(Link{mark, 0, piece.bytes, 0, next});
    if (CUresult r = granter_.share(Shared::Kind::allocation, token, File(fd)); r != CUDA_SUCCESS) return r;
    std::copy_n(token.begin(), next.size(), next.begin());
    if (whole(next) != token) return CUDA_ERROR_NOT_SUPPORTED;
    exported_[piece.handle] = next;
    return CUDA_SUCCESS;
}

CUresult DriverPieces::offer(const Block& block, std::uint64_t offset, std::uint64_t bytes, CUipcMemHandle& handle) {
    if (!about(block.device).exports || !driver_.cuMemExportToShareableHandle) return CUDA_ERROR_NOT_SUPPORTED;
    Token first = none;
    for (auto piece = block.pieces.rbegin(); piece != block.pieces.rend(); ++piece)
        if (CUresult r = export_piece(*piece, first); r != CUDA_SUCCESS) return r;
    handle = std::bit_cast<CUipcMemHandle>(Offer{mark, 0, bytes, offset, first});
    return CUDA_SUCCESS;
}

bool DriverPieces::is_ours(const CUipcMemHandle& handle) {
    const Offer offer = read(handle);
    return offer.mark == mark && offer.zero == 0;
}

bool DriverPieces::made_here(const CUipcMemHandle& handle) const {
    return std::ranges::any_of(exported_, [first = read(handle).first](const auto& e) { return e.second == first; });
}

// Another worker has written the records: they are checked.
CUresult DriverPieces::import_pieces(Token token, Offered& offered) {
    constexpr std::size_t most = Shared::most_descriptors;
    if (!driver_.cuMemImportFromShareableHandle) return CUDA_ERROR_NOT_SUPPORTED;
    while (token != none) {
        if (offered.pieces.size() == most) return CUDA_ERROR_INVALID_HANDLE;
        Shared::Handle handle = whole(token);
        File file;
        if (CUresult r = granter_.find_shared(Shared::Kind::allocation, handle, file); r != CUDA_SUCCESS) return r;
        const Link link = std::bit_cast<Link>(handle);
        if (link.mark != mark || link.bytes == 0 || link.bytes % block_granule != 0 || link.bytes > most_of_a_piece)
            return CUDA_ERROR_INVALID_HANDLE;
        CUmemGenericAllocationHandle piece = 0;
        void* const fd = reinterpret_cast<void*>(std::intptr_t{file.fd()});
        if (CUresult r = driver_.cuMemImportFromShareableHandle(&piece, fd, posix); r != CUDA_SUCCESS) return r;
        offered.pieces.push_back({piece, link.bytes, false});
        token = link.next;
    }
    return CUDA_SUCCESS;
}

CUresult DriverPieces::find(const CUipcMemHandle& handle, Offered& offered) {
    const Offer offer = read(handle);
    CUresult r = import_pieces(offer.first, offered);
    std::uint64_t bytes = 0;
    for (const Block::Piece& piece : offered.pieces) bytes += piece.bytes;
    if (r == CUDA_SUCCESS && (offer.offset >= bytes || offer.bytes == 0 || offer.bytes > bytes - offer.offset))
        r = CUDA_ERROR_INVALID_HANDLE;
    CUmemAllocationProp properties{};
    if (r == CUDA_SUCCESS)
        r = driver_.cuMemGetAllocationPropertiesFromHandle(&properties, offered.pieces.front().handle);
    if (r != CUDA_SUCCESS) {
        for (const Block::Piece& piece : offered.pieces) release(piece.handle);
        offered.pieces.clear();
        return r;
    }
    offered.device = properties.location.id;
    offered.offset = offer.offset;
    offered.bytes = offer.bytes;
    return CUDA_SUCCESS;
}

}  // namespace barcuda
