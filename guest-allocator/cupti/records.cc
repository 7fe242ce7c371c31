// SPDX-License-Identifier: Apache-2.0
#include "guest-allocator/cupti/records.h"

#include <cstring>
#include <mutex>
#include <new>
#include <utility>

namespace barcuda::guest::cupti {

Records& records() noexcept {
    static Records& all = *new Records;  // programs flush in destructors
    return all;
}

std::size_t size_of(const CUpti_Activity& record) noexcept {
    switch (record.kind) {
        case CUPTI_ACTIVITY_KIND_MEMCPY: return sizeof(CUpti_ActivityMemcpy6);
        case CUPTI_ACTIVITY_KIND_MEMSET: return sizeof(CUpti_ActivityMemset4);
        case CUPTI_ACTIVITY_KIND_KERNEL:
        case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: return sizeof(CUpti_ActivityKernel10);
        case CUPTI_ACTIVITY_KIND_MEMCPY2: return sizeof(CUpti_ActivityMemcpyPtoP4);
        case CUPTI_ACTIVITY_KIND_DRIVER:
        case CUPTI_ACTIVITY_KIND_RUNTIME: return sizeof(CUpti_ActivityAPI);
        case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION: return sizeof(CUpti_ActivityExternalCorrelation);
        case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION: return sizeof(CUpti_ActivitySynchronization2);
        default: return 0;
    }
}

void Records::add_bytes(const void* record, std::size_t bytes) noexcept {
    std::lock_guard lock(mutex_);
    const std::size_t at = waiting_.size();
    if ((at * sizeof waiting_[0]) + bytes > most_bytes) {
        ++lost_;
        return;
    }
    try {
        waiting_.resize(at + bytes / sizeof waiting_[0]);
    } catch (const std::bad_alloc&) {
        ++lost_;
        return;
    }
    std::memcpy(&waiting_[at], record, bytes);
}

void Records::lose(std::uint64_t records) noexcept {
    std::lock_guard lock(mutex_);
    lost_ += records;
}
std::uint64_t Records::lost() noexcept {
    std::lock_guard lock(mutex_);
    return std::exchange(lost_, 0);
}

void Records::give_to(CUpti_BuffersCallbackRequestFunc request, CUpti_BuffersCallbackCompleteFunc complete) noexcept {
    std::lock_guard lock(mutex_);
    request_ = request;
    complete_ = complete;
}

bool Records::many_wait() noexcept {
    constexpr std::size_t usual_bytes = 1 << 20;
    std::lock_guard lock(mutex_);
    return waiting_.size() * sizeof waiting_[0] >= usual_bytes;
}

CUpti_BuffersCallbackRequestFunc Records::requester() noexcept {
    std::lock_guard lock(mutex_);
    return request_;
}
bool Records::open_buffer() noexcept {
    std::size_t most = 0;
    buffer_ = nullptr;
    size_ = used_ = count_ = 0;
    if (const auto request = requester()) request(&buffer_, &size_, &most);
    most_ = most ? most : SIZE_MAX;
    has_buffer_ = buffer_ != nullptr;
    return buffer_ != nullptr;
}
void Records::open_first() noexcept {
    const std::unique_lock turn(delivering_, std::try_to_lock);
    if (turn && !buffer_) open_buffer();  // else one is being filled
}
void Records::close_buffer() noexcept {
    if (!buffer_) return;
    has_buffer_ = false;
    CUpti_BuffersCallbackCompleteFunc complete = nullptr;
    {
        std::lock_guard lock(mutex_);
        complete = complete_;
    }
    complete(nullptr, 0, std::exchange(buffer_, nullptr), size_, used_);
}

void Records::deliver(bool all) noexcept {
    std::lock_guard turn(delivering_);
    std::vector<std::uint64_t> ready;
    {
        std::lock_guard lock(mutex_);
        if (!request_ || !complete_) return;
        ready.swap(waiting_);
    }
    std::uint64_t lost = 0;
    const auto* const begin = reinterpret_cast<const std::byte*>(ready.data());
    for (std::size_t at = 0, end = ready.size() * sizeof ready[0]; at < end;) {
        const auto* const record = reinterpret_cast<const CUpti_Activity*>(begin + at);
        const std::size_t bytes = size_of(*record);
        if (buffer_ && (size_ - used_ < bytes || count_ == most_)) close_buffer();
        if ((buffer_ || open_buffer()) && size_ - used_ >= bytes) {
            std::memcpy(buffer_ + used_, record, bytes);
            used_ += bytes;
            ++count_;
        } else {
            ++lost;
        }
        at += bytes;
    }
    if (lost) lose(lost);
    if (all) close_buffer();
}

}  // namespace barcuda::guest::cupti
