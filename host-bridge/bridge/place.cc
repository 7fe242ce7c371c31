// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/bridge/place.h"

#include <utility>

#include "base/log.h"

namespace barcuda {

Place::Place(std::string path, int fd) : path_(std::move(path)) {
    if (fstat(fd, &own_) != 0) path_.clear();
}

void Place::look(Clock::time_point now) {
    constexpr std::chrono::milliseconds interval{500};
    if (path_.empty() || now < next_) return;
    next_ = now + interval;
    struct stat there {};
    const State state = stat(path_.c_str(), &there) != 0                             ? State::gone
                        : there.st_dev == own_.st_dev && there.st_ino == own_.st_ino ? State::there
                                                                                     : State::another;
    if (state == std::exchange(state_, state)) return;
    if (state == State::there) return log::info("{}: the region's file is there again", path_);
    log::error(
        "{}: the region's file was {}: a VM or a program that starts now does not find this bridge; end the VM, "
        "{}start the bridge again, then the VM",
        path_, state == State::gone ? "removed" : "replaced by another one",
        state == State::gone ? "" : "remove that file, ");
}

}  // namespace barcuda
