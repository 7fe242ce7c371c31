// SPDX-License-Identifier: Apache-2.0
// keeping.h: the messages between a bridge and its keeper (keeper/keeper.h), over a SOCK_SEQPACKET pair. The bridge
// asks, and waits for the answer. The keeper trusts its bridge with nothing: each message is checked once, on receipt.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "shm-device/layout.h"

namespace barcuda::keeping {

constexpr std::size_t longest_name = 95;
// What all clients of a region may share, and what their workers and the bridge need beside it: a bound for a bridge
// that was taken over. The number of descriptors that a process may have is usually lower.
constexpr std::size_t most_shared_of_each = 4096;  // segments of 20 MiB, as PyTorch uses them, of 80 GiB
constexpr std::size_t most_kept = BARCUDA_MAX_CHANNELS * (most_shared_of_each + 16);
// Grows with each change of a message: a keeper lives longer than the build that it comes from (bridge/numbers.h).
constexpr std::uint32_t form_of_messages = 1;
// The exit status of a file that was asked whether it could follow, and says yes: no other program has it by chance.
constexpr int could_follow = 87;

enum class Form : std::uint32_t {
    keep = 1,  // the descriptor that comes with it, under that name; in place of an earlier one
    drop,      // forget that name
    take,      // a descriptor of that name; it stays kept
    list,      // the next name after that one, in alphabetical order
    reap,      // the status of a child of the keeper that has ended
    look,      // whether it has ended; it stays a zombie
    ready,     // the bridge serves from now on
    done,      // the bridge has released everything, and ends
    alive,     // the bridge still serves; has no answer
    check,     // whether the bridge in the file that comes with it could go on with the clients of this one
    upgrade,   // the same; and if it can, it takes this bridge's place
    progress,  // how far that is; with a descriptor of what there is to say
    count
};

// What has become of the last `check` or `upgrade`.
enum class Step : std::int32_t {
    none,       // there was none
    checking,   // the file is asked whether its build understands the numbers of the bridge that serves
    fits,       // it does; nothing was changed
    refused,    // it does not, or may not be run; nothing was changed
    replacing,  // the bridge that served is ended
    trying,     // the new one starts
    replaced,   // the new one serves
    failed,     // it did not come to serve: the earlier file's bridge goes on
    count
};

struct Request {  // bridge -> keeper
    std::uint32_t form = 0, bytes = sizeof(Request);
    std::int32_t process = 0;        // of `reap` and `look`
    std::uint32_t milliseconds = 0;  // of `check` and `upgrade`: what each of check and start may take
    char name[longest_name + 1] = {};

    // Checks a message. Nothing: no bridge of this version sends it.
    static std::optional<Request> read(std::span<const char> message);
    std::string_view name_text() const { return name; }  // of `check` and `upgrade`: Numbers::words
};
constexpr std::uint32_t longest_wait = 600'000;  // milliseconds

struct Answer {  // keeper -> bridge
    std::uint32_t form = 0, bytes = sizeof(Answer);
    std::int32_t error = 0;     // an errno; EAGAIN: that process still runs; EBUSY: an upgrade is under way
    std::int32_t status = 0;    // as of waitpid(2); of `progress`: a Step
    std::uint32_t attempt = 0;  // of `check`, `upgrade` and `progress`: its number, from 1 on
    char name[longest_name + 1] = {};
};

Request request(Form form, std::string_view name = {}, std::int32_t process = 0);

}  // namespace barcuda::keeping
