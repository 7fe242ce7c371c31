// SPDX-License-Identifier: Apache-2.0
// visitors.h: how many connections the guest's service keeps open: no more than it has descriptors for, and for each
// user except root no more than leaves some for other users.
#pragma once
#include <sys/resource.h>
#include <sys/types.h>

#include <algorithm>
#include <cstddef>
#include <map>

#include "shm-device/doors/service_messages.h"

namespace barcuda::pmem {

class UserPlaces {
  public:
    static constexpr std::size_t most_wanted = 1024;  // clients, and those that only look
    // Beside the visitors: what the service has open of its own, and the files of one answer.
    static constexpr std::size_t own = 32 + door::most_files;

    explicit UserPlaces(std::size_t descriptors)
        : most_(descriptors > own ? std::min(most_wanted, descriptors - own) : 1),
          most_of_one_(std::max<std::size_t>(1, most_ / 4)) {}
    // As many descriptors as this process may have, now that it may have all that it can.
    static std::size_t raise_descriptors() {
        rlimit limit{};
        if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
        limit.rlim_cur = std::max(limit.rlim_cur, std::min<rlim_t>(limit.rlim_max, most_wanted + own));
        setrlimit(RLIMIT_NOFILE, &limit);
        getrlimit(RLIMIT_NOFILE, &limit);
        return limit.rlim_cur;
    }

    bool has_place() const { return all_ < most_; }
    bool may_come(uid_t user) const {
        const auto its = of_.find(user);
        return has_place() && (user == 0 || its == of_.end() || its->second < most_of_one_);
    }
    void came(uid_t user) {
        ++all_;
        ++of_[user];
    }
    void went(uid_t user) {
        --all_;
        if (--of_[user] == 0) of_.erase(user);
    }

  private:
    std::size_t most_, most_of_one_, all_ = 0;
    std::map<uid_t, std::size_t> of_;
};

}  // namespace barcuda::pmem
