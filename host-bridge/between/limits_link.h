// SPDX-License-Identifier: Apache-2.0
// limits_link.h: what `barcuda limit` and a running bridge say to each other: one message each way, over a socket to
// which only root and the bridge's user may connect. Every user may write to the socket's folder, so the command checks
// the owner of the socket. The socket's name is the region's device and inode, and a number in case another process has
// taken the name. (The bridge's end: bridge/control.h; the command's: cli/limit.cc.)
#pragma once
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "host-bridge/between/limits.h"
#include "host-bridge/between/turns.h"

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
    std::uint64_t values[limit_count] = {};  // of the limits that are given; 0: no limit
    bool weight_given = false, priority_given = false;
    turns::Share share;  // the guest's
};

struct LimitRow {  // a client
    std::uint32_t channel;
    std::int32_t worker;    // pid; 0: none yet
    std::uint32_t pid;      // in the guest, as the client says
    bool own[limit_count];  // limits of this client alone
    std::uint64_t limits[limit_count], use[limit_count];
};

struct LimitReply {
    std::uint32_t version = LimitRequest::form;
    char error[256] = {};  // not empty: nothing was changed, and why
    std::uint64_t client[limit_count] = {}, guest[limit_count] = {}, use[limit_count] = {};  // use: the guest's
    turns::Share share;                                                                      // the guest's
    std::uint32_t count = 0;
    LimitRow rows[BARCUDA_MAX_CHANNELS] = {};  // only `count` of them are sent
    std::size_t bytes() const { return offsetof(LimitReply, rows) + count * sizeof(LimitRow); }
};

constexpr auto limits_folder = "/dev/shm", limits_name = "barcuda-limits-";

// The names of a region's sockets begin with this.
inline std::string limits_name_of(const struct stat& region) {
    return limits_name + std::to_string(region.st_dev) + "-" + std::to_string(region.st_ino) + "-";
}

}  // namespace barcuda
