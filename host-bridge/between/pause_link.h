// SPDX-License-Identifier: Apache-2.0
// pause_link.h: what `barcuda pause` and `resume` say to a running bridge, and what it answers, over the door of limits_link.h: one
// message there, one back. A pause takes its time: the bridge answers at once, and the command asks again how far it is. (The bridge's
// end: bridge/pause_desk.cc; the command's: cli/pause.cc.)
#pragma once
#include <cstddef>
#include <cstdint>

#include "host-bridge/between/pause_states.h"
#include "shm-device/layout.h"

namespace barcuda {

struct PauseRequest {
    static constexpr std::uint32_t form = 1;
    std::uint32_t version = form;
    enum What : std::uint32_t { look, pause, resume } what = look;
    enum By : std::uint32_t { all, pid, channel } by = all;  // which clients are meant
    std::uint32_t client = 0;
    std::uint32_t within = 0;  // milliseconds that a client's GPU work may take to end
    bool keep_memory = false;  // on the GPU
};

struct PauseRow {  // a client that is meant
    std::uint32_t channel, pid;
    std::int32_t worker;
    Paused state;
    std::uint32_t busy;  // it is on its way to another state
    char text[256];      // why the last order was refused; empty: it was not
};

struct PauseReply {
    std::uint32_t version = PauseRequest::form;
    char error[256] = {};  // not empty: nothing was ordered, and why
    std::uint32_t count = 0;
    PauseRow rows[BARCUDA_MAX_CHANNELS] = {};  // of which only `count` are sent
    std::size_t bytes() const { return offsetof(PauseReply, rows) + count * sizeof(PauseRow); }
};

}  // namespace barcuda
