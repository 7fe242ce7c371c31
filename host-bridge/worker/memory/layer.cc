// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/worker/memory/layer.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "host-bridge/worker/memory/allocations.h"
#include "host-bridge/worker/memory/driver_pieces.h"
#include "host-bridge/worker/memory/moves.h"
#include "host-bridge/worker/memory/promised_pieces.h"
#include "host-bridge/worker/memory/residence.h"

namespace barcuda {
namespace {

using Kind = Allocation::Kind;

class Memory {
  public:
    Memory(const Driver& driver, Granter& granter, GpuWork& work, std::span<CardPlace> cards)
        : real(driver),
          work_(work),
          pieces_(driver, granter),
          cards_(cards.begin(), cards.end()),
          promised_(pieces_, cards_),
          all_(promised_) {
        if (!cards_.empty()) moves_.emplace(real, granter, work, mutex, cards_, promised_, all_);
    }
    Residence* residence() { return moves_ ? &moves_->residence() : nullptr; }

    const Driver real;
    std::recursive_mutex mutex;

    CUdeviceptr wish = 0;  // of the next allocation

    // ---- allocations
    CUresult allocate(CUdeviceptr* address, std::size_t bytes) {
        CUcontext context = nullptr;
        const int device = here(context);
        if (!address || bytes == 0 || device < 0) return real.cuMemAlloc_v2(address, bytes);
        if (bytes > pieces_.about(device).bytes) return CUDA_ERROR_OUT_OF_MEMORY;
        collect(false);
        CUresult r = try_to_allocate(context, device, bytes, address);
        const auto again_if = [&](const auto& may) {
            if (r == CUDA_ERROR_OUT_OF_MEMORY && may()) r = try_to_allocate(context, device, bytes, address);
        };
        again_if([&] { return moves_ && moves_->asks_for_more(); });
        again_if([&] { return make_room(); });
        wish = 0;
        return r;
    }
    CUresult allocate_rows(CUdeviceptr* address, std::size_t* pitch, std::size_t width, std::size_t height,
                           unsigned element) {
        constexpr std::size_t alignment = 512;  // as NVIDIA's driver pads rows
        CUcontext context = nullptr;
        const int device = here(context);
        const bool may = element == 4 || element == 8 || element == 16;
        if (!address || !pitch || !may || width == 0 || height == 0 || device < 0 ||
            width > pieces_.about(device).most_pitch)
            return real.cuMemAllocPitch_v2(address, pitch, width, height, element);
        const std::size_t padded = (width + alignment - 1) / alignment * alignment;
        if (height > pieces_.about(device).bytes / padded) return CUDA_ERROR_OUT_OF_MEMORY;
        const CUresult r = allocate(address, padded * height);
        if (r == CUDA_SUCCESS) *pitch = padded;
        return r;
    }
    CUresult free(CUdeviceptr address) {
        if (!is_ours(address)) return real.cuMemFree_v2(address);
        const Allocations::Found found = all_.starting_at(address);
        if (!found || found.allocation->kind == Kind::opened) return CUDA_ERROR_INVALID_VALUE;
        const CUresult r = wait(found.allocation->owner);
        all_.free(address);
        return r;
    }
    // Freed when the GPU is next seen idle, or when memory runs out.
    CUresult free_in_order(CUdeviceptr address, CUstream stream) {
        if (!is_ours(address)) return real.cuMemFreeAsync(address, stream);
        CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
        if (CUresult r = real.cuStreamIsCapturing(stream, &capture); r != CUDA_SUCCESS) return r;
        const Allocations::Found found = all_.starting_at(address);
        if (!found || found.allocation->kind == Kind::opened || capture != CU_STREAM_CAPTURE_STATUS_NONE)
            return CUDA_ERROR_INVALID_VALUE;
        found.allocation->leaving = true;
        leaving_.push_back(address);
        return CUDA_SUCCESS;
    }
    CUresult room(std::size_t* free, std::size_t* total) {
        collect(false);
        const CUresult r = real.cuMemGetInfo_v2(free, total);
        CUcontext context = nullptr;
        const auto device = static_cast<std::size_t>(here(context));
        if (r != CUDA_SUCCESS || !free || !total || device >= cards_.size()) return r;
        // Memory of other clients that they would release.
        const Promise& card = cards_[device];
        const std::uint64_t has = card.on_card() + card.out(),
                            may_have = std::min<std::uint64_t>(card.may_have(), *total);
        if (may_have != 0) *free = may_have - std::min(may_have, has);
        return r;
    }

    // ---- questions
    // What the driver says of its own memory; false: it is not ours, or has no such attribute.
    bool tell(void* to, CUpointer_attribute attribute, CUdeviceptr address) {
        const Allocations::Found found = all_.find(address);
        if (!found) return false;
        const Allocation& its = *found.allocation;
        constexpr CUdeviceptr unit = 2 << 20;  // of mappings
        const auto put = [to](auto value) {
            std::memcpy(to, &value, sizeof value);
            return true;
        };
        switch (attribute) {
            case CU_POINTER_ATTRIBUTE_CONTEXT: return put(its.owner);
            case CU_POINTER_ATTRIBUTE_MEMORY_TYPE: return put(unsigned{CU_MEMORYTYPE_DEVICE});
            case CU_POINTER_ATTRIBUTE_DEVICE_POINTER: return put(address);
            case CU_POINTER_ATTRIBUTE_IS_MANAGED: return put(false);
            case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: return put(its.device);
            case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: return put(found.address);
            case CU_POINTER_ATTRIBUTE_RANGE_SIZE: return put(its.bytes);
            case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR: return put(found.address / unit * unit);
            case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
                return put((found.address % unit + its.bytes + unit - 1) / unit * unit);
            case CU_POINTER_ATTRIBUTE_MAPPED: return put(true);
            case CU_POINTER_ATTRIBUTE_BUFFER_ID:
            case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID: return put(beyond_the_drivers | its.number);
            case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS: return put(its.sync_memops);
            case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
                return put(its.kind != Kind::opened && pieces_.about(its.device).exports);
            case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES: return put(std::uint64_t{CU_MEM_HANDLE_TYPE_NONE});
            case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS: return put(unsigned{CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE});
            case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE: return put(CUmemoryPool{});
            default: return false;
        }
    }
    CUresult attribute(void* to, CUpointer_attribute which, CUdeviceptr address) {
        return to && tell(to, which, address) ? CUDA_SUCCESS : real.cuPointerGetAttribute(to, which, address);
    }
    CUresult attributes(unsigned count, CUpointer_attribute* which, void** to, CUdeviceptr address) {
        const CUresult r = real.cuPointerGetAttributes(count, which, to, address);
        if (r == CUDA_SUCCESS)
            for (unsigned i = 0; i < count; ++i) tell(to[i], which[i], address);
        return r;
    }
    CUresult set_attribute(const void* value, CUpointer_attribute which, CUdeviceptr address) {
        const Allocations::Found found = all_.find(address);
        const CUresult r = real.cuPointerSetAttribute(value, which, address);
        if (!found || which != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS || !value) return r;
        unsigned wanted = 0;
        std::memcpy(&wanted, value, sizeof wanted);
        found.allocation->sync_memops = wanted != 0;
        return CUDA_SUCCESS;
    }
    CUresult range(CUdeviceptr* start, std::size_t* bytes, CUdeviceptr address) {
        const Allocations::Found found = all_.find(address);
        if (!found)
            return is_ours(address) ? CUDA_ERROR_NOT_FOUND : real.cuMemGetAddressRange_v2(start, bytes, address);
        if (start) *start = found.address;
        if (bytes) *bytes = found.allocation->bytes;
        return CUDA_SUCCESS;
    }
    // A program that maps memory by itself cannot touch what is behind these addresses.
    bool is_ours(CUdeviceptr address, std::size_t bytes = 1) const {
        return all_.may_have(address, std::max<std::size_t>(bytes, 1));
    }

    std::uint64_t find_contents(CUdeviceptr address, std::uint64_t bytes, const std::byte*& at) {
        const Allocations::Found found = all_.find(address);
        if (!found || !moves_) return bytes;
        const Block& block = all_.block_of(*found.allocation);
        std::uint64_t begin = found.allocation->block;
        for (std::size_t i = 0; i < block.pieces.size(); begin += block.pieces[i++].bytes) {
            if (address - begin >= block.pieces[i].bytes) continue;
            if (const std::byte* const piece = moves_->contents(found.allocation->block, i))
                at = piece + (address - begin);
            return std::min<std::uint64_t>(bytes, begin + block.pieces[i].bytes - address);
        }
        return bytes;
    }

    // ---- other processes
    CUresult offer(CUipcMemHandle* handle, CUdeviceptr address) {
        const Allocations::Found found = all_.find(address);
        if (!found && !is_ours(address)) return real.cuIpcGetMemHandle(handle, address);
        if (!found || !handle || found.allocation->kind == Kind::opened) return CUDA_ERROR_INVALID_VALUE;
        return pieces_.offer(all_.block_of(*found.allocation), found.address - found.allocation->block,
                             found.allocation->bytes, *handle);
    }
    CUresult open(CUdeviceptr* address, const CUipcMemHandle& handle, unsigned flags) {
        CUcontext context = nullptr;
        const int device = here(context);
        if (!DriverPieces::is_ours(handle) || !address || device < 0)
            return real.cuIpcOpenMemHandle_v2(address, handle, flags);
        if (flags & ~unsigned{CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS}) return CUDA_ERROR_INVALID_VALUE;
        if (pieces_.made_here(handle)) return CUDA_ERROR_INVALID_CONTEXT;  // as the driver answers
        for (Opened& known : opened_)
            if (std::memcmp(&known.handle, &handle, sizeof handle) == 0) {
                ++known.times;
                *address = known.address;
                return CUDA_SUCCESS;
            }
        DriverPieces::Offered offered;
        if (CUresult r = pieces_.find(handle, offered); r != CUDA_SUCCESS) return r;
        Pieces::Devices devices{offered.device};
        if (device != offered.device) devices.push_back(device);
        std::uint64_t made = 0;
        const CUresult r = all_.adopt(owner(context), offered.device, std::move(offered.pieces), devices,
                                      offered.offset, offered.bytes, made);
        if (r == CUDA_SUCCESS) opened_.push_back({handle, *address = made, 1});
        return r;
    }
    CUresult close(CUdeviceptr address) {
        if (!is_ours(address)) return real.cuIpcCloseMemHandle(address);
        const auto its = std::ranges::find(opened_, address, &Opened::address);
        if (its == opened_.end()) return CUDA_ERROR_INVALID_VALUE;
        const CUresult r = wait(all_.at(address).owner);
        if (--its->times == 0) {
            all_.free(address);
            opened_.erase(its);
        }
        return r;
    }

    // ---- contexts
    CUresult enable(CUcontext peer, unsigned flags) {
        CUcontext context = nullptr;
        const CUresult r = real.cuCtxEnablePeerAccess(peer, flags);
        if (r != CUDA_SUCCESS) return r;
        const int device = here(context), other = device_of(peer);
        if (device < 0 || other < 0) return r;
        if (const CUresult opened = all_.allow(owner(peer), other, device); opened != CUDA_SUCCESS) {
            real.cuCtxDisablePeerAccess(peer);
            return opened;
        }
        peers_.push_back({context, peer, device});
        return r;
    }
    CUresult disable(CUcontext peer) {
        const CUresult r = real.cuCtxDisablePeerAccess(peer);
        CUcontext context = nullptr;
        real.cuCtxGetCurrent(&context);
        const auto its =
            std::ranges::find_if(peers_, [&](const Peer& p) { return p.user == context && p.owner == peer; });
        if (r != CUDA_SUCCESS || its == peers_.end()) return r;
        wait(owner(context));
        all_.forbid(owner(peer), its->device);
        peers_.erase(its);
        return r;
    }
    template <class End> CUresult end(CUcontext context, const End& really) {
        for (const Peer& p : peers_)
            if (p.owner == context) wait_in(p.user);
        const CUresult r = really();
        if (r != CUDA_SUCCESS || !context) return r;
        std::erase_if(peers_, [&](const Peer& p) {
            if (p.user == context) all_.forbid(owner(p.owner), p.device);
            return p.user == context || p.owner == context;
        });
        std::erase_if(opened_, [&](const Opened& o) { return of(o.address, context); });
        std::erase_if(leaving_, [&](CUdeviceptr address) { return of(address, context); });
        all_.owner_gone(owner(context));
        return r;
    }
    CUcontext primary(CUdevice device) const {
        unsigned flags = 0;
        int active = 0;
        CUcontext context = nullptr;
        if (real.cuDevicePrimaryCtxGetState(device, &flags, &active) != CUDA_SUCCESS || !active) return nullptr;
        if (real.cuDevicePrimaryCtxRetain(&context, device) != CUDA_SUCCESS) return nullptr;
        real.cuDevicePrimaryCtxRelease_v2(device);
        return context;
    }
    std::uint64_t bytes() const { return all_.bytes(); }
    void note_lack_of_the_driver(std::uint64_t bytes) {
        CUcontext context = nullptr;
        const int device = here(context);
        if (moves_ && device >= 0) moves_->note_lack_of_the_driver(static_cast<std::size_t>(device), bytes);
    }

  private:
    static constexpr std::uint64_t beyond_the_drivers = std::uint64_t{1} << 40;  // numbers of buffers
    struct Opened {
        CUipcMemHandle handle;
        CUdeviceptr address;
        unsigned times;
    };
    struct Peer {
        CUcontext user, owner;
        int device;  // the user's
    };
    static Allocation::Owner owner(CUcontext context) { return reinterpret_cast<Allocation::Owner>(context); }
    bool of(CUdeviceptr address, CUcontext context) const { return all_.at(address).owner == owner(context); }

    // The current context and its device. -1: there is none, or the device has no blocks: the driver answers.
    int here(CUcontext& context) {
        CUdevice device = -1;
        if (real.cuCtxGetCurrent(&context) != CUDA_SUCCESS || !context ||
            real.cuCtxGetDevice(&device) != CUDA_SUCCESS || !pieces_.about(device).makes_blocks)
            return -1;
        return device;
    }
    int device_of(CUcontext context) {
        CUdevice device = -1;
        within(context, [&] { return real.cuCtxGetDevice(&device); });
        return device >= 0 && pieces_.about(device).makes_blocks ? device : -1;
    }
    template <class F> CUresult within(CUcontext context, const F& f) { return barcuda::within(real, context, f); }

    CUresult try_to_allocate(CUcontext context, int device, std::size_t bytes, CUdeviceptr* address) {
        // The promise for all of it, or none.
        if (bytes >= Slabs::below &&
            !promised_.has_room(device, (bytes + block_granule - 1) / block_granule * block_granule))
            return CUDA_ERROR_OUT_OF_MEMORY;
        // A block that does not fit takes no memory from others, not even for a moment.
        std::size_t free = 0, total = 0;
        if (bytes > most_of_a_piece && real.cuMemGetInfo_v2(&free, &total) == CUDA_SUCCESS && bytes > free)
            return CUDA_ERROR_OUT_OF_MEMORY;
        std::uint64_t made = 0;
        const CUresult r = all_.allocate(owner(context), device, bytes, made, wish);
        if (r != CUDA_SUCCESS) return r;
        *address = made;
        promised_.forget_lack();
        // Of an attempt before this one, when less was free.
        if (const auto card = static_cast<std::size_t>(device); card < cards_.size() && cards_[card].wishes())
            cards_[card].withdraw();
        return r;
    }
    // ---- waiting, as the driver does in its cuMemFree
    CUresult wait_in(CUcontext context) {
        return within(context, [&] {
            CUdeviceptr small = 0;
            if (!work_.may_capture() || real.cuMemAlloc_v2(&small, 1) != CUDA_SUCCESS) return real.cuCtxSynchronize();
            return real.cuMemFree_v2(small);  // waits, and spoils no capture
        });
    }
    // For all work that may use memory of this owner.
    CUresult wait(Allocation::Owner owner) {
        if (work_.idle()) return CUDA_SUCCESS;
        const auto context = reinterpret_cast<CUcontext>(owner);
        CUcontext current = nullptr;
        real.cuCtxGetCurrent(&current);
        CUresult r = wait_in(context);
        if (current && current != context) r = wait_in(current);
        for (const Peer& p : peers_)
            if (p.owner == context && p.user != current) wait_in(p.user);
        return r;
    }

    // Ends what was freed in the order of a stream.
    bool collect(bool wait_for_it) {
        if (leaving_.empty() || !(wait_for_it || work_.idle())) return false;
        for (const CUdeviceptr address : std::exchange(leaving_, {})) {
            if (wait_for_it) wait(all_.at(address).owner);
            all_.free(address);
        }
        return true;
    }
    bool make_room() {
        const bool some = collect(true);
        return all_.shrink() || some;
    }

    GpuWork& work_;
    DriverPieces pieces_;
    std::vector<Promise> cards_;  // none: the client shares no cards
    PromisedPieces promised_;
    Allocations all_;
    std::optional<Moves> moves_;  // with cards
    std::vector<CUdeviceptr> leaving_;
    std::vector<Opened> opened_;
    std::vector<Peer> peers_;
};

Memory* of_this_process = nullptr;  // the driver's table has room for functions only

template <class F> CUresult in_layer(const F& f) {
    const std::lock_guard lock(of_this_process->mutex);
    return f(*of_this_process);
}

CUdeviceptr to_address(CUdeviceptr address) { return address; }
CUdeviceptr to_address(void* address) { return reinterpret_cast<CUdeviceptr>(address); }

// A function that acts on mappings of the program's own: addresses of blocks have none, as the driver's memory.
// `bytes_at`: which argument has the number of bytes behind the first one; 0: the address is the last argument.
template <auto function, std::size_t bytes_at, class> struct Guarded;
template <auto function, std::size_t bytes_at, class... P> struct Guarded<function, bytes_at, CUresult (*)(P...)> {
    static CUresult call(P... given) {
        const std::tuple<P...> all(given...);
        const CUdeviceptr address = to_address(std::get < bytes_at == 0 ? sizeof...(P) - 1 : 0 > (all));
        const std::size_t bytes = [&]() -> std::size_t {
            if constexpr (bytes_at == 0) return 1;
            else return std::get<bytes_at>(all);
        }();
        return in_layer([&](Memory& m) {
            return m.is_ours(address, bytes) ? CUDA_ERROR_INVALID_VALUE : (m.real.*function)(given...);
        });
    }
};
template <auto function, std::size_t bytes_at> void guard(Driver& table) {
    using Prototype = std::remove_reference_t<decltype(table.*function)>;
    if (table.*function) table.*function = &Guarded<function, bytes_at, Prototype>::call;
}

}  // namespace

std::uint64_t bytes_of_blocks() {
    if (!of_this_process) return 0;
    const std::lock_guard lock(of_this_process->mutex);
    return of_this_process->bytes();
}

void place_next(CUdeviceptr address) {
    if (!of_this_process) return;
    const std::lock_guard lock(of_this_process->mutex);
    of_this_process->wish = address;
}

std::uint64_t find_contents(CUdeviceptr address, std::uint64_t bytes, const std::byte*& at) {
    at = nullptr;
    if (!of_this_process) return bytes;
    const std::lock_guard lock(of_this_process->mutex);
    return of_this_process->find_contents(address, bytes, at);
}

Residence* residence() { return of_this_process ? of_this_process->residence() : nullptr; }

void allocate_in_blocks(Driver& table, Granter& granter, GpuWork& work, std::span<CardPlace> cards) {
    delete of_this_process;                                     // an earlier test's
    of_this_process = new Memory(table, granter, work, cards);  // lives as long as the process, as the quota does
    if (!cards.empty())
        on_lack_of_the_driver = [](std::uint64_t bytes) {
            const std::lock_guard lock(of_this_process->mutex);
            of_this_process->note_lack_of_the_driver(bytes);
        };
    const auto put = [](auto& function, auto ours) {
        if (function) function = ours;  // a driver may lack it
    };
    put(table.cuMemAlloc_v2, [](CUdeviceptr* address, std::size_t bytes) {
        return in_layer([&](Memory& m) { return m.allocate(address, bytes); });
    });
    put(table.cuMemAllocPitch_v2,
        [](CUdeviceptr* address, std::size_t* pitch, std::size_t width, std::size_t height, unsigned element) {
            return in_layer([&](Memory& m) { return m.allocate_rows(address, pitch, width, height, element); });
        });
    put(table.cuMemFree_v2, [](CUdeviceptr address) { return in_layer([&](Memory& m) { return m.free(address); }); });
    put(table.cuMemFreeAsync, [](CUdeviceptr address, CUstream stream) {
        return in_layer([&](Memory& m) { return m.free_in_order(address, stream); });
    });
    put(table.cuMemGetInfo_v2,
        [](std::size_t* free, std::size_t* total) { return in_layer([&](Memory& m) { return m.room(free, total); }); });
    put(table.cuPointerGetAttribute, [](void* to, CUpointer_attribute which, CUdeviceptr address) {
        return in_layer([&](Memory& m) { return m.attribute(to, which, address); });
    });
    put(table.cuPointerGetAttributes, [](unsigned count, CUpointer_attribute* which, void** to, CUdeviceptr address) {
        return in_layer([&](Memory& m) { return m.attributes(count, which, to, address); });
    });
    put(table.cuPointerSetAttribute, [](const void* value, CUpointer_attribute which, CUdeviceptr address) {
        return in_layer([&](Memory& m) { return m.set_attribute(value, which, address); });
    });
    put(table.cuMemGetAddressRange_v2, [](CUdeviceptr* start, std::size_t* bytes, CUdeviceptr address) {
        return in_layer([&](Memory& m) { return m.range(start, bytes, address); });
    });
    put(table.cuIpcGetMemHandle, [](CUipcMemHandle* handle, CUdeviceptr address) {
        return in_layer([&](Memory& m) { return m.offer(handle, address); });
    });
    put(table.cuIpcOpenMemHandle_v2, [](CUdeviceptr* address, CUipcMemHandle handle, unsigned flags) {
        return in_layer([&](Memory& m) { return m.open(address, handle, flags); });
    });
    put(table.cuIpcCloseMemHandle,
        [](CUdeviceptr address) { return in_layer([&](Memory& m) { return m.close(address); }); });
    put(table.cuCtxEnablePeerAccess,
        [](CUcontext peer, unsigned flags) { return in_layer([&](Memory& m) { return m.enable(peer, flags); }); });
    put(table.cuCtxDisablePeerAccess,
        [](CUcontext peer) { return in_layer([&](Memory& m) { return m.disable(peer); }); });
    put(table.cuCtxDestroy_v2, [](CUcontext context) {
        return in_layer([&](Memory& m) { return m.end(context, [&] { return m.real.cuCtxDestroy_v2(context); }); });
    });
    put(table.cuDevicePrimaryCtxReset_v2, [](CUdevice device) {
        return in_layer([&](Memory& m) {
            return m.end(m.primary(device), [&] { return m.real.cuDevicePrimaryCtxReset_v2(device); });
        });
    });
    guard<&Driver::cuMemMap, 1>(table);
    guard<&Driver::cuMemUnmap, 1>(table);
    guard<&Driver::cuMemSetAccess, 1>(table);
    guard<&Driver::cuMemAddressFree, 1>(table);
    guard<&Driver::cuMemGetAccess, 0>(table);
    guard<&Driver::cuMemRetainAllocationHandle, 0>(table);
}

}  // namespace barcuda
