// SPDX-License-Identifier: Apache-2.0
// suspend_link.h: what `barcuda suspend` says to a running bridge, and its answer, over the socket of limits_link.h:
// one message each way. The command writes the set (suspended/set.h); the bridge gives it descriptors, because a caged
// bridge opens no files and its loop waits for no disk. (The bridge's end: bridge/suspend_desk.h; the command's:
// cli/suspend.cc.)
#pragma once
#include <cstddef>
#include <cstdint>

#include "shm-device/layout.h"

namespace barcuda {

// Each step of a command. The bridge ends a suspend of which it hears nothing for a while, and lets all clients run.
struct SuspendRequest {
    static constexpr std::uint32_t form = 2;
    std::uint32_t version = form;
    enum What : std::uint32_t {
        look,
        begin,  // new programs wait from now on; then the command pauses all clients (pause_link.h)
        // The books stay as they are; the answer has a description, the region and the books. Or the step is `begun`
        // yet: the worker of a client that has ended is ending, and the command asks again.
        freeze,
        check,   // whether one client can be carried; the answer comes in its row
        carry,   // one client; the answer has pipes with its births and its code, and a conveyor with its memory
        finish,  // the set is whole: the workers and the bridge end, and no client is told
        cancel,  // all is as before
        ahead  // one client, which runs, and while no suspend is under way: the answer has a conveyor (between/carry.h)
    } what = look;
    std::uint32_t channel = 0;  // of `check`, `carry` and `ahead`
    std::uint32_t spare = 0;
};

enum class SuspendStep : std::uint32_t { none, begun, frozen, ended };

struct SuspendRow {  // a client with a worker
    enum State : std::uint32_t {
        waiting,
        busy,     // its worker has been ordered to answer or to write
        able,     // it can be carried; of `carry`: all was written
        hindered  // it cannot
    };
    std::uint32_t channel, pid;
    std::int32_t worker;
    State state;
    char program[64];
    char text[256], cure[256];  // of `hindered`: what stands in the way
};

struct SuspendReply {
    std::uint32_t version = SuspendRequest::form;
    char error[256] = {};  // not empty: nothing was done, and why
    SuspendStep step = SuspendStep::none;
    std::uint32_t returning = 0;  // clients that were paused for a suspend that was given up, and do not run yet
    std::uint32_t count = 0;
    SuspendRow rows[BARCUDA_MAX_CHANNELS] = {};  // only `count` of them are sent
    std::size_t bytes() const { return offsetof(SuspendReply, rows) + count * sizeof(SuspendRow); }
};

}  // namespace barcuda
