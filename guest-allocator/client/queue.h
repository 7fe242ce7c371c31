// SPDX-License-Identifier: Apache-2.0
// queue.h: the guest's end of the channel: commands leave in order, replies are waited for. All threads of the process
// share it under one short lock, so that CUDA's order between threads is the queue's order.
//
//   submit   reserve command memory, let the caller write the request there, make it available; returns a ticket
//   await    until the worker has used the ticket's chain
//   finish   the reply has been read: its memory may be used again
#pragma once
#include <cuda.h>

#include <atomic>
#include <span>

#include "guest-allocator/client/crowd.h"
#include "guest-allocator/client/mutex.h"
#include "shm-device/queue/packet.h"
#include "shm-device/queue/virtqueue.h"
#include "shm-device/region/region.h"

namespace barcuda::guest {

class Client;

class Queue {
  public:
    Queue(Client& client, const Channel& channel);

    struct Ticket {
        std::uint64_t sequence = 0;  // 0: nothing was submitted
        std::span<const std::byte> reply;
        CUresult error = CUDA_SUCCESS;
    };
    // `write(std::span<std::byte>)` fills exactly `request_bytes`. `reply_bytes` 0: no thread waits. `given`: the time
    // at which the GPU got work by this command (given_work.h); null: it gets none.
    template <class Write> Ticket submit(std::size_t request_bytes, std::size_t reply_bytes,
                                         std::atomic<std::uint64_t>* given, Write write) noexcept {
        request_bytes = padded(request_bytes);
        reply_bytes = padded(reply_bytes);
        std::unique_lock lock(mutex_);
        char* at = reserve(lock, request_bytes + reply_bytes, reply_bytes ? 2 : 1);
        if (!at) return {0, {}, failed_};
        if (given) {  // a thread that sees the count sees where it went
            const std::uint64_t now = work_.load(std::memory_order_relaxed) + 1;
            given->store(now, std::memory_order_relaxed);
            work_.store(now, std::memory_order_release);
        }
        write(std::span(reinterpret_cast<std::byte*>(at), request_bytes));
        const Ticket ticket = post(at, request_bytes, reply_bytes);
        if (!queue_.should_kick(fenced_)) [[likely]]
            return ticket;
        lock.unlock();
        kick();
        return ticket;
    }
    // Commands so far that were work.
    std::uint64_t work() const noexcept { return work_.load(std::memory_order_acquire); }
    CUresult await(const Ticket& ticket) noexcept;
    // A thread is about to sleep (bell.h); it no longer sleeps. The worker sends wake-ups while at least one does.
    void announce() noexcept;
    void retract() noexcept;
    void finish(const Ticket& ticket) noexcept {
        held_[ticket.sequence % BARCUDA_QUEUE_SIZE].store(false, std::memory_order_release);
        if (waiting_for_room_.load(std::memory_order_relaxed)) [[unlikely]]
            make_room();
    }
    // What the worker has answered, for all threads; and whether the ring is what it should be.
    void look() noexcept {
        if (std::unique_lock lock(mutex_, std::try_to_lock); lock) reap();
    }
    Crowd& crowd() noexcept { return crowd_; }

  private:
    char* reserve(std::unique_lock<Mutex>& lock, std::size_t bytes, unsigned descriptors) noexcept;
    void wait_for_room(std::uint64_t freed) noexcept;  // until more chains than these have been freed, or the end
    Ticket post(char* at, std::size_t request_bytes, std::size_t reply_bytes) noexcept;
    void make_room() noexcept;
    void reap() noexcept;  // under the lock
    void kick() noexcept;

    Client& client_;
    const Channel channel_;
    const bool fenced_;  // the worker fences for us: virtqueue.h, should_kick()
    Mutex mutex_;
    virtqueue::Driver<> queue_;
    unsigned sleepers_ = 0;                         // threads
    alignas(64) unsigned long long completed_ = 0;  // published: threads wait for both
    unsigned long long freed_ = 0;                  // chains
    std::atomic<std::uint64_t> work_{0};            // written under the lock
    // Command memory is a ring: positions only grow; position % size is where. A chain's memory is free again when the
    // worker has used it, its reply has been read, and all earlier ones are free.
    std::uint64_t head_ = 0, tail_ = 0;            // positions
    std::uint64_t ends_[BARCUDA_QUEUE_SIZE] = {};  // by sequence: the position behind a chain
    std::atomic<bool> held_[BARCUDA_QUEUE_SIZE] = {};
    CUresult failed_ = CUDA_SUCCESS;
    std::atomic<unsigned> waiting_for_room_{0};  // threads
    Crowd crowd_;
};

}  // namespace barcuda::guest
