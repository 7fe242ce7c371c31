// SPDX-License-Identifier: Apache-2.0
// crew.h: threads that do the work of all parts of a set, each job by the next one that is free: so parts that are
// written at once use each processor once, and no part waits for another's slowest step.
#pragma once
#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "base/failure.h"

namespace barcuda {

class Crew {
  public:
    static std::size_t threads();  // one for each processor, and not more than are worth their memory
    // Where the host starts fewer threads, there are fewer. Without any, add() does the job itself.
    explicit Crew(std::size_t count = threads());
    // Waits for all jobs.
    ~Crew();
    Crew(const Crew&) = delete;
    // A job throws nothing.
    void add(std::function<void()> job);
    std::size_t size() const { return std::max<std::size_t>(threads_.size(), 1); }

  private:
    void work();

    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<std::function<void()>> jobs_;
    bool over_ = false;
    std::vector<std::jthread> threads_;
};

// Starts threads until there are `count`, or until the host refuses another one. The work throws nothing.
void start_threads(std::size_t count, std::vector<std::jthread>& threads, const std::function<void()>& work);
// Calls f(0) to f(count - 1), in that many threads, or in fewer. Returns the first failure; what f throws is one, too.
Failure in_threads(std::size_t count, std::size_t threads, const std::function<Failure(std::size_t)>& f);

}  // namespace barcuda
