// SPDX-License-Identifier: Apache-2.0
// client.h: this process as a client of the bridge: one region, one channel, opened at the first need. The heap gets
// its extents here, commands leave here (queue.h), and whatever ends the session is noticed here.
#pragma once
#include <cuda.h>

#include <atomic>

#include "guest-allocator/client/bell.h"
#include "guest-allocator/client/mutex.h"
#include "guest-allocator/client/observer.h"
#include "guest-allocator/client/queue.h"
#include "guest-allocator/heap/extents.h"
#include "guest-allocator/heap/heap.h"
#include "shm-device/queue/wire.h"
#include "shm-device/region/region.h"

namespace barcuda::guest {

class Client final : public heap::ExtentSource {
  public:
    // The connection; made by the first caller. Null if there is none (why() says so), or CUDA does not work in this
    // process, which was forked after its parent had initialized it.
    static Client* get() noexcept;
    // cuInit: from here on CUDA does not work in forked children. The heap connects earlier; children of such a process
    // connect for themselves.
    static Client* initialize() noexcept;
    static const Error& why() noexcept;
    // The connection if it has been made already.
    static Client* current() noexcept { return ready_.load(std::memory_order_acquire); }
    // The connection, once the program has initialized CUDA: before that the driver has no devices, and so no contexts.
    static Client* initialized() noexcept { return initialized_.load(std::memory_order_acquire) ? current() : nullptr; }

    Region& region() { return region_; }
    const Shape& shape() const { return region_.shape(); }
    // The devices that the program sees: CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER as they were when it connected.
    int device_count() const { return device_count_; }
    const barcuda_device* device(int ordinal) const;  // null: no such device
    barcuda_status& status() { return channel_.status(); }
    Queue& queue() { return *queue_; }
    Bell& bell() { return bell_; }
    const Channel& channel() const { return channel_; }

    // What posted work has come to since the last question: the end of the session, a GPU fault (both for good), the
    // failure of a posted command, or success. A thread that was woken asks here why.
    CUresult take_error() noexcept;
    // Why nothing can be asked any more; CUDA_SUCCESS while the session lives.
    CUresult ended() noexcept;

    // ---- the kinds' guest (shm-device/kinds/kinds.h)
    // Memory as the device finds it: a program's own addresses may be those of registered memory outside the region.
    std::uint64_t offset_of(const void* p) const {
        if (channel_.contains(p))
            return channel_.offset + static_cast<std::uint64_t>(static_cast<const char*>(p) - channel_.memory);
        return region_.offset_of(region_.contains(p) ? p : heap::reach(p, 1));
    }
    std::uint64_t on_device(std::uint64_t address, std::size_t bytes) const {
        const void* p = region_.contains(reinterpret_cast<void*>(address))
                            ? nullptr
                            : heap::reach(reinterpret_cast<void*>(address), bytes);
        return p ? reinterpret_cast<std::uint64_t>(p) : address;
    }
    std::uint64_t new_id() noexcept;
    void free_id(std::uint64_t id) noexcept;
    bool knows(std::uint64_t id) const noexcept;

    // ---- heap::ExtentSource
    heap::Extent window() const noexcept override;
    bool grant(std::size_t bytes, heap::Extent& out) noexcept override;
    void release(heap::Extent extent) noexcept override;
    std::byte* alias(heap::Extent part) noexcept override;
    bool renew(heap::Extent pages) noexcept override;
    bool forks_by_itself() const noexcept override { return region_.properties().forks_by_itself; }
    void forked() noexcept override;  // the one handler for all layers above the heap
    bool is_full() const noexcept override { return full_.load(std::memory_order_relaxed); }
    int file() const noexcept override { return region_.properties().offset_is_place ? region_.fd() : -1; }

  private:
    friend class Patience;
    Client() = default;
    Error connect() noexcept;
    Error choose_devices() noexcept;
    bool ask_for_extent(std::size_t bytes, std::uint64_t& offset, std::uint64_t& granted) noexcept;
    void complain(const char* text) noexcept;             // of the session's end: once
    void complain_of_mapping(const char* text) noexcept;  // of an extent that cannot be mapped: once

    static std::atomic<Client*> ready_;
    static std::atomic<bool> initialized_;
    Region region_;
    Channel channel_;
    Bell bell_;
    Queue* queue_ = nullptr;
    unsigned char devices_[BARCUDA_MAX_DEVICES] = {};  // numbers in the region's table
    int device_count_ = 0;
    std::atomic<std::uint64_t> failures_seen_{0};
    std::atomic_flag complained_, complained_of_mapping_;
    std::atomic<bool> full_{false};  // the host has refused the last extent that was asked for
    Mutex ids_mutex_;
    std::uint32_t* free_ids_ = nullptr;  // a stack
    std::size_t free_count_ = 0, free_room_ = 0;
    std::uint64_t next_id_ = wire::first_id;
};

}  // namespace barcuda::guest
