// SPDX-License-Identifier: Apache-2.0
// limits_link.h: what `barcuda limit` and a running bridge say to each other: one message there, one back, over a socket of the
// kernel's own name space (no file, so nothing is left behind, and a region may be anything). Its name is the region's device
// and inode. Root and the bridge's user are answered; who is not, is told so. (The bridge's end: bridge/control.h; the command's:
// cli/limit.cc.)
#pragma once
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "host-bridge/limits.h"

namespace barcuda {

struct LimitRequest {
    static constexpr std::uint32_t form = 1;
    std::uint32_t version = form;
    enum Whose : std::uint32_t {
        nobodys,
        the_guests,
        each_clients,
        one_clients
    } whose = nobodys;  // nobodys: only show
    enum By : std::uint32_t { pid, channel } by = pid;
    std::uint32_t client = 0;
    bool given[limit_count] = {};
    std::uint64_t values[limit_count] = {};  // of those that are given; 0: no limit
};

struct LimitRow {  // a client
    std::uint32_t channel;
    std::int32_t worker;    // its pid; 0: none yet
    std::uint32_t pid;      // its own, as it says
    bool own[limit_count];  // a limit that it does not have as a client among others
    std::uint64_t limits[limit_count], use[limit_count];
};

struct LimitReply {
    std::uint32_t version = LimitRequest::form;
    char error[256] = {};  // not empty: nothing was changed, and why
    std::uint64_t client[limit_count] = {}, guest[limit_count] = {}, use[limit_count] = {};  // use: the guest's
    std::uint32_t count = 0;
    LimitRow rows[BARCUDA_MAX_CHANNELS] = {};  // of which only `count` are sent
    std::size_t bytes() const { return offsetof(LimitReply, rows) + count * sizeof(LimitRow); }
};

// The address's length, or 0.
inline socklen_t limits_address(const struct stat& region, sockaddr_un& address) {
    const std::string name = "barcuda-limits/" + std::to_string(region.st_dev) + "/" + std::to_string(region.st_ino);
    address = {};
    address.sun_family = AF_UNIX;
    if (name.size() + 1 > sizeof address.sun_path) return 0;
    name.copy(address.sun_path + 1, name.size());  // behind a 0: no file
    return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
}

}  // namespace barcuda
