// SPDX-License-Identifier: Apache-2.0
// upgrade_link.h: what `barcuda upgrade` says to a running bridge, and its answer, over the socket of limits_link.h:
// one message each way. The bridge answers at once. The command polls for progress; the last answers come from the
// bridge that has replaced the first one. (The bridge's end: bridge/upgrade_desk.h; the command's: cli/upgrade.cc.)
#pragma once
#include <cstddef>
#include <cstdint>

#include "host-bridge/between/keeping.h"

namespace barcuda {

struct UpgradeRequest {
    static constexpr std::uint32_t form = 1;
    std::uint32_t version = form;
    enum What : std::uint32_t { look, check, upgrade } what = look;
    std::uint32_t within = 0;  // milliseconds
    char program[640] = {};    // the file, from the root on; empty: the one that is at the bridge's own path now
};

struct UpgradeReply {
    std::uint32_t version = UpgradeRequest::form;
    char error[256] = {};  // not empty: nothing was ordered, and why
    char build[64] = {};   // of the bridge that answers
    char program[640] = {};
    std::int32_t pid = 0;
    std::uint32_t clients = 0;
    keeping::Step step = keeping::Step::none;
    std::uint32_t attempt = 0;  // of the last order
    std::uint32_t count = 0;
    char rows[2048] = {};  // text: what the file said, or why it was refused; only `count` of them are sent
    std::size_t bytes() const { return offsetof(UpgradeReply, rows) + count; }
};

}  // namespace barcuda
