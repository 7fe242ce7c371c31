// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/worker/session/print_search.h"

#include <exception>
#include <new>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

#include "shm-device/cuda/fat_binary_reader.h"
#include "shm-device/queue/sync.h"

namespace barcuda {
namespace {

// How much code may wait for the search: it takes memory that the driver does not need. Code beyond that is searched at
// once.
constexpr std::size_t most_waiting = 256 << 20;

void say(barcuda_status& status, barcuda_prints what) { publish(status.prints, static_cast<barcuda_u32>(what)); }

}  // namespace

PrintSearch::PrintSearch(barcuda_status& status) : status_(status) { say(status_, BARCUDA_PRINTS_NOT); }

PrintSearch::~PrintSearch() {
    {
        const std::lock_guard lock(mutex_);
        ends_ = true;
    }
    added_.notify_one();
    searcher_.reset();
}

// The caller holds the lock. Throws std::system_error if no thread can be started.
void PrintSearch::begin() {
    if (begun_) return;
    if (!searcher_) searcher_ = std::make_unique<IdleThread>();
    searcher_->begin([this] { look(); });
    begun_ = true;
}

void PrintSearch::add(std::shared_ptr<const LargeString> image) {
    std::unique_lock lock(mutex_);
    if (found_) return;
    ++unseen_;
    say(status_, BARCUDA_PRINTS_PERHAPS);
    bool now = image->size() > most_waiting - bytes_;
    try {
        if (!now) begin();
    } catch (const std::system_error&) { now = true; }
    if (!now) {
        bytes_ += image->size();
        images_.push_back(std::move(image));
        return added_.notify_one();
    }
    lock.unlock();
    const bool prints = holds_printf(*image);
    lock.lock();
    seen(prints);
}

// Counts one more searched image; needs the lock.
void PrintSearch::seen(bool prints) {
    found_ = found_ || prints;
    if (--unseen_ == 0 && !found_) say(status_, BARCUDA_PRINTS_NOT);
}

bool PrintSearch::may_print() const { return observe(status_.prints) != BARCUDA_PRINTS_NOT; }

bool PrintSearch::looks() const {
    const std::lock_guard lock(mutex_);
    return unseen_ != 0;
}

bool PrintSearch::found() const {
    const std::lock_guard lock(mutex_);
    return found_;
}

void PrintSearch::restore(bool found) {
    const std::lock_guard lock(mutex_);
    if (found) {
        found_ = true;
        say(status_, BARCUDA_PRINTS_PERHAPS);
    }
}

void PrintSearch::look() {
    for (std::unique_lock lock(mutex_);;) {
        added_.wait(lock, [this] { return ends_ || !images_.empty(); });
        if (ends_) return;
        const std::shared_ptr<const LargeString> image = images_.front();
        bool prints = false;
        if (!found_) {
            lock.unlock();
            prints = holds_printf(*image);
            lock.lock();
        }
        bytes_ -= image->size();
        images_.pop_front();
        seen(prints);
    }
}

// Kernels that print name the function that prints. nvcc compresses its images (uncompressed code has been searched by
// now). Bytes that cannot be decompressed are left to the driver.
bool PrintSearch::holds_printf(const LargeString& image) {
    constexpr std::string_view name = "vprintf";
    if (image.find(name) != image.npos) return true;
    try {
        for (const fatbin::Entry& entry : fatbin::entries(std::as_bytes(std::span(image))))
            if (entry.plain_size && fatbin::holds(entry, name)) return true;
    } catch (const std::bad_alloc&) {
        return true;  // unknown
    } catch (const std::exception&) {
    } catch (const fatbin::Error&) {}
    return false;
}

}  // namespace barcuda
