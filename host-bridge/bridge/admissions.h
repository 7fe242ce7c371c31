// SPDX-License-Identifier: Apache-2.0
// admissions.h: which of the clients that have come may begin now. A client costs the bridge a worker, a driver's start
// and two lines in the log. So a guest may begin only so many in a second (Limit::starts), and one process of it far
// fewer: a process is one client for its life, unless it opens channels again and again. Those of such a process wait,
// and clients of other processes pass them. (A process is what a client says that its pid is. A guest that lies there
// is held by its own limit.)
#pragma once
#include <cstddef>
#include <cstdint>
#include <unordered_map>

#include "base/bucket.h"

namespace barcuda {

class Admissions {
  public:
    using Time = Bucket::Time;
    enum class Answer { now, process_waits, guest_waits };
    // Programs that begin together, as a batch of jobs does: so many seconds' worth at once.
    static constexpr double seconds_at_once = 4;
    // Of one process. Containers of one guest may have programs of the same pid, which begin together, too.
    static constexpr Bucket::Rate one_process{.a_second = 4, .at_once = 64};

    // A client of that process is next; `now` is counted. `a_second`: of the guest; 0: any number, from any process.
    Answer ask(std::uint32_t process, std::uint64_t a_second, Time now) {
        if (a_second == 0) return Answer::now;
        forget(now);
        Bucket& its = of_[process];
        if (its.held(one_process, now) < 1) return Answer::process_waits;
        const auto rate = static_cast<double>(a_second);
        if (!all_.take(1, {rate, seconds_at_once * rate}, now)) return Answer::guest_waits;
        its.take(1, one_process, now);
        return Answer::now;
    }
    std::size_t known() const { return of_.size(); }

  private:
    // A bucket that is full again is as good as none.
    void forget(Time now) {
        constexpr std::size_t many = 256;
        if (of_.size() >= many)
            std::erase_if(
                of_, [&](const auto& entry) { return entry.second.held(one_process, now) >= one_process.at_once; });
    }
    Bucket all_;
    std::unordered_map<std::uint32_t, Bucket> of_;
};

}  // namespace barcuda
