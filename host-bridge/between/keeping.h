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

namespace barcuda::keeping {

constexpr std::size_t longest_name = 95;

enum class Form : std::uint32_t {
    keep = 1,  // the descriptor that comes with it, under that name; in place of an earlier one
    drop,      // forget that name
    take,      // a descriptor of that name; it stays kept
    list,      // the next name after that one, in alphabetical order
    reap,      // the status of a child of the keeper that has ended
    look,      // whether it has ended; it stays a zombie
    ready,     // the bridge serves from now on
    done,      // the bridge has released everything, and ends
    count
};

struct Request {  // bridge -> keeper
    std::uint32_t form = 0, bytes = sizeof(Request);
    std::int32_t process = 0;  // of `reap` and `look`
    char name[longest_name + 1] = {};

    // Checks a message. Nothing: no bridge of this version sends it.
    static std::optional<Request> read(std::span<const char> message);
    std::string_view name_text() const { return name; }
};
struct Answer {  // keeper -> bridge
    std::uint32_t form = 0, bytes = sizeof(Answer);
    std::int32_t error = 0;   // an errno; EAGAIN: that process still runs
    std::int32_t status = 0;  // as of waitpid(2)
    char name[longest_name + 1] = {};
};

Request request(Form form, std::string_view name = {}, std::int32_t process = 0);

}  // namespace barcuda::keeping
