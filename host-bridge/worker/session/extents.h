// SPDX-License-Identifier: Apache-2.0
// extents.h: the parts of the region that one worker may touch: its channel and its client's extents. Each is mapped
// at the base plus its offset (the region's base, unless the client has one of its own), and extents are registered
// with the driver there, so that host address = guest address = device address. An offset that a command names
// becomes a pointer here alone (of a buffer in the channel: ChannelReader::locate).
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "base/failure.h"
#include "host-bridge/between/driver.h"
#include "host-bridge/cage/mapper.h"

namespace barcuda {

class Extents {
  public:
    // `region_fd` -1: a client in this process maps the region (tests), at the same addresses. Then nothing is mapped
    // here.
    Extents(int region_fd, std::uint64_t base) : fd_(region_fd), base_(base) {}
    ~Extents();
    // From now on the mapper maps; only its thread has `region_fd`.
    void map_by(cage::Mapper& mapper) { mapper_ = &mapper; }
    Extents(const Extents&) = delete;
    Extents& operator=(const Extents&) = delete;

    // Maps [offset, offset + bytes) of the region, unless it is mapped.
    Failure map(std::uint64_t offset, std::uint64_t bytes);
    // The first half of map(), for any thread.
    Failure map_only(std::uint64_t offset, std::uint64_t bytes) const;
    void add(std::uint64_t offset, std::uint64_t bytes) {
        extents_[offset] = {bytes, true, false};
        all_registered_ = false;
    }
    // Maps at this base from now on, also what is mapped already; that must be registered again.
    Failure move_to(const Driver& driver, std::uint64_t base);
    // The client's channel: its session needs it to the end, and the GPU not at all, unless it writes fences there.
    Failure map_channel(std::uint64_t offset, std::uint64_t bytes) {
        if (Failure failure = map(offset, bytes)) return failure;
        channel_ = offset;
        channel_bytes_ = bytes;
        extents_[offset].wanted = false;
        return {};
    }
    // Whether the client may release it: it must be exactly one of its extents.
    bool releasable(std::uint64_t offset, std::uint64_t bytes) const {
        return holds(offset, bytes) && !in_channel(at(offset));
    }
    // The GPU will write here. True: it cannot until this is registered.
    bool want(const void* word) {
        if (in_channel(word) && !std::exchange(extents_[channel_].wanted, true)) all_registered_ = false;
        return !all_registered_ && !is_registered(word);
    }
    bool holds(std::uint64_t offset, std::uint64_t bytes) const {  // mapped as a whole
        const auto extent = extents_.find(offset);
        return bytes && extent != extents_.end() && extent->second.bytes == bytes;
    }
    // Each that is the client's, in the order of offsets: where it is, and its bytes.
    std::vector<std::pair<std::uint64_t, std::uint64_t>> all() const;
    // Unregisters and unmaps what one map() mapped. False: there is no such extent.
    bool unmap(const Driver& driver, std::uint64_t offset, std::uint64_t bytes);

    // Registers everything that is mapped, wanted by the GPU and not yet registered; a context must be current. Returns
    // the first error, but registers the others, too.
    CUresult register_all(const Driver& driver);
    void unregister_all(const Driver& driver);
    // Memory of this process, whole pages, that is registered and unregistered with them (bounce.h). Where the driver
    // refuses it, nothing else changes.
    void lend(std::span<std::byte> memory) { lent_ = memory; }
    std::span<std::byte> lent() const { return lent_; }
    bool lent_is_registered() const { return lent_is_registered_; }

    // The address of [offset, offset + bytes) if it is within one run of adjacent extents; null otherwise.
    std::byte* locate(std::uint64_t offset, std::uint64_t bytes) const;
    bool contains(std::uint64_t address, std::uint64_t bytes) const {
        return address >= base_ && locate(address - base_, bytes) != nullptr;
    }

  private:
    struct Extent {
        std::uint64_t bytes;
        bool wanted, registered;  // by the driver
    };
    bool in_channel(const void* p) const {
        return static_cast<std::uint64_t>(static_cast<const std::byte*>(p) - at(channel_)) < channel_bytes_;
    }
    std::byte* at(std::uint64_t offset) const { return reinterpret_cast<std::byte*>(base_ + offset); }
    void unmap_only(std::uint64_t offset, std::uint64_t bytes) const;
    bool is_registered(const void* word) const;

    int fd_;
    std::uint64_t base_;
    std::uint64_t channel_ = 0, channel_bytes_ = 0;
    bool all_registered_ = true;  // of those that are wanted
    std::span<std::byte> lent_;
    bool lent_is_registered_ = false;
    cage::Mapper* mapper_ = nullptr;
    std::map<std::uint64_t, Extent> extents_;  // by offset; never overlapping
};

}  // namespace barcuda
