// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/suspended/crew.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "base/caught.h"
#include "base/os/thread.h"

namespace barcuda {

std::size_t Crew::threads() { return std::clamp(std::thread::hardware_concurrency(), 1U, 16U); }

void start_threads(std::size_t count, std::vector<std::jthread>& threads, const std::function<void()>& work) {
    (void)caught([&]() -> Failure {
        threads.reserve(count);
        while (threads.size() < count) threads.emplace_back(work);
        return {};
    });
}

Crew::Crew(std::size_t count) {
    const os::SignalsBlocked blocked;
    start_threads(count, threads_, [this] { work(); });
}

Crew::~Crew() {
    {
        const std::lock_guard lock(mutex_);
        over_ = true;
    }
    changed_.notify_all();
}

void Crew::add(std::function<void()> job) {
    if (threads_.empty()) return job();
    {
        const std::lock_guard lock(mutex_);
        jobs_.push_back(std::move(job));
    }
    changed_.notify_one();
}

void Crew::work() {
    std::unique_lock lock(mutex_);
    for (;;) {
        changed_.wait(lock, [this] { return over_ || !jobs_.empty(); });
        if (jobs_.empty()) return;
        const std::function<void()> job = std::move(jobs_.front());
        jobs_.pop_front();
        lock.unlock();
        job();
        lock.lock();
    }
}

Failure in_threads(std::size_t count, std::size_t threads, const std::function<Failure(std::size_t)>& f) {
    std::atomic<std::size_t> next{0};
    std::mutex mutex;
    Failure first;
    const auto work = [&] {
        for (std::size_t i = next++; i < count; i = next++) {
            Failure failure = caught([&] { return f(i); });
            if (!failure) continue;
            const std::lock_guard lock(mutex);
            if (!first) first = std::move(failure);
            next = count;
        }
    };
    {
        const os::SignalsBlocked blocked;
        std::vector<std::jthread> all;  // what a thread keeps for its work ends with it
        start_threads(std::min(count, threads), all, work);
        if (all.empty()) work();
    }
    return first;
}

}  // namespace barcuda
