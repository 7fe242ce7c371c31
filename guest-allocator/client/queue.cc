// SPDX-License-Identifier: Apache-2.0
#include "guest-allocator/client/queue.h"

#include <algorithm>

#include "base/os/process.h"
#include "base/trace.h"
#include "guest-allocator/client/client.h"
#include "guest-allocator/client/patience.h"
#include "shm-device/queue/sync.h"
#include "shm-device/region/status.h"

namespace barcuda::guest {
namespace {

// Half of the processors: the worker needs some, and so does the program.
unsigned most_awake() noexcept { return static_cast<unsigned>(std::max(1, os::processors() / 2)); }

}  // namespace

Queue::Queue(Client& client, const Channel& channel)
    : client_(client),
      channel_(channel),
      fenced_(client.bell().fenced()),
      queue_(virtqueue::in_channel(channel.memory)),
      crowd_(most_awake()) {
    queue_.disable_wake();  // no thread sleeps
}

void Queue::kick() noexcept { client_.bell().kick(); }

void Queue::announce() noexcept {
    std::lock_guard lock(mutex_);
    ++sleepers_;
    queue_.enable_wake();  // each fences for itself: what follows is its own last look
}

void Queue::retract() noexcept {
    std::lock_guard lock(mutex_);
    if (--sleepers_ == 0) queue_.disable_wake();
}

void Queue::reap() noexcept {
    const auto completed = static_cast<unsigned long long>(queue_.reap());
    if (queue_.broken()) [[unlikely]]  // what is under way is never completed
        end_session(
            client_.status(), BARCUDA_STATE_GONE, CUDA_ERROR_DEVICE_UNAVAILABLE,
            "the bridge has completed a command that it was not given, or something has overwritten the channel");
    publish(completed_, completed);
    unsigned long long freed = freed_;
    while (freed < queue_.completed() && !held_[(freed + 1) % BARCUDA_QUEUE_SIZE].load(std::memory_order_acquire))
        tail_ = ends_[++freed % BARCUDA_QUEUE_SIZE];
    publish(freed_, freed);
}

char* Queue::reserve(std::unique_lock<Mutex>& lock, std::size_t bytes, unsigned descriptors) noexcept {
    if (bytes > BARCUDA_COMMANDS_SIZE / 2) {
        failed_ = CUDA_ERROR_INVALID_VALUE;
        return nullptr;
    }
    for (;;) {
        std::uint64_t start = head_;
        const std::uint64_t left = BARCUDA_COMMANDS_SIZE - start % BARCUDA_COMMANDS_SIZE;
        if (left < bytes) start += left;  // a command does not wrap
        const bool room = start + bytes - tail_ <= BARCUDA_COMMANDS_SIZE;
        // ends_ and held_ are by sequence: one that is not freed yet must not be overwritten.
        if (room && queue_.can_post(descriptors) && queue_.posted() - freed_ < BARCUDA_QUEUE_SIZE - 1) {
            head_ = start + bytes;
            return channel_.commands() + start % BARCUDA_COMMANDS_SIZE;
        }
        const std::uint64_t before = freed_;
        reap();
        if (freed_ != before) continue;
        if ((failed_ = client_.ended()) != CUDA_SUCCESS) return nullptr;
        lock.unlock();
        wait_for_room(before);
        lock.lock();
    }
}

// Called without the lock: at its end a Patience that has slept takes the lock to retract its announcement.
void Queue::wait_for_room(std::uint64_t freed) noexcept {
    const trace::Slice slice("wait for room");
    waiting_for_room_.fetch_add(1, std::memory_order_relaxed);
    for (Patience patience({&freed_, freed + 1, true});;) {
        patience.wait(client_);
        std::lock_guard lock(mutex_);
        reap();
        if (freed_ != freed || client_.ended() != CUDA_SUCCESS) break;
    }
    waiting_for_room_.fetch_sub(1, std::memory_order_relaxed);
}

void Queue::make_room() noexcept {
    if (std::lock_guard lock(mutex_); true) reap();
    crowd_.call_next();
}

Queue::Ticket Queue::post(char* at, std::size_t request_bytes, std::size_t reply_bytes) noexcept {
    const std::uint64_t offset = channel_.offset + static_cast<std::uint64_t>(at - channel_.memory);
    const virtqueue::Buffer chain[] = {{offset, static_cast<std::uint32_t>(request_bytes), false},
                                       {offset + request_bytes, static_cast<std::uint32_t>(reply_bytes), true}};
    const std::uint64_t sequence = queue_.posted() + 1;
    ends_[sequence % BARCUDA_QUEUE_SIZE] = head_;
    held_[sequence % BARCUDA_QUEUE_SIZE].store(reply_bytes != 0, std::memory_order_relaxed);
    queue_.post(std::span(chain, reply_bytes ? 2 : 1));
    return {sequence, {reinterpret_cast<std::byte*>(at) + request_bytes, reply_bytes}, CUDA_SUCCESS};
}

CUresult Queue::await(const Ticket& ticket) noexcept {
    for (Patience patience({&completed_, ticket.sequence}); observe(completed_) < ticket.sequence;) {
        look();
        if (observe(completed_) >= ticket.sequence) break;
        if (CUresult r = client_.ended(); r != CUDA_SUCCESS) return r;
        patience.wait(client_);
    }
    return CUDA_SUCCESS;
}

}  // namespace barcuda::guest
