// SPDX-License-Identifier: Apache-2.0
// admissions.h: which of the waiting clients may begin now. A client costs the bridge a worker, a driver's start and
// two lines in the log. So a guest may begin only a limited number in a second (Limit::starts), and each of its
// processes far fewer: a process is one client for its life, unless it opens channels repeatedly. Clients of such a
// process wait, and clients of other processes pass them. (The process is the pid that a client reports. A guest that
// lies about it is still held by its own limit.)
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
    // Programs that begin together, as in a batch of jobs: this many seconds' worth at once.
    static constexpr double seconds_at_once = 4;
    // For one process. Containers of one guest may have programs with the same pid, which also begin together.
    static constexpr Bucket::Rate one_process{.a_second = 4, .at_once = 64};

    // The next client belongs to that process; `now` is counted. `a_second`: limit of the guest; 0: any number, from
    // any process.
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
    // A full bucket need not be kept.
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
