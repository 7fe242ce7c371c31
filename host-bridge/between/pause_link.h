// SPDX-License-Identifier: Apache-2.0
// pause_link.h: what `barcuda pause` and `resume` say to a running bridge, and its answer, over the socket of
// limits_link.h: one message each way. A pause takes time: the bridge answers at once, and the command asks for
// progress again and again. (The bridge's end: bridge/pause_desk.cc; the commands': cli/pause.cc.)
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

struct PauseRow {  // one of the clients meant
    std::uint32_t channel, pid;
    std::int32_t worker;
    Paused state;
    std::uint32_t busy;  // it is between two states
    char text[256];      // why the last order was refused; empty: it was not
};

struct PauseReply {
    std::uint32_t version = PauseRequest::form;
    char error[256] = {};  // not empty: nothing was ordered, and why
    std::uint32_t count = 0;
    PauseRow rows[BARCUDA_MAX_CHANNELS] = {};  // only `count` of them are sent
    std::size_t bytes() const { return offsetof(PauseReply, rows) + count * sizeof(PauseRow); }
};

}  // namespace barcuda
