// SPDX-License-Identifier: Apache-2.0
// carry.h: how a client leaves its worker, and how another worker goes on with it: what bridge and worker say to each
// other about that. (The worker's half: worker/leave.h, worker/wake.h. The reasons: docs/decisions/0080-births.md)
//
// A client is three parts. Births and code are streams of bytes, each with a descriptor of its own: a pipe, a socket or
// a file, from where it stands. They have hashes inside; a part that is cut or damaged is noticed. Memory goes by a
// conveyor (conveyor.h), in frames: the set on the disk has a hash of each, and compares it as it fills a slot.
//
//   births   from what its objects were born, and what the worker alone knows: the queue's place, answered requests,
//            the client's ids and extents (worker/carried_format.h). Megabytes
//   code     the images that births name, each once, one behind the other, in the order of births' list
//   memory   the contents of its device memory (worker/memory_bytes.h): the socket of the conveyor
//   room     no part, but the conveyor's room
//
// Out:  the client is `held` (pause_states.h). The bridge sends Hands: for `write` one with each part's descriptor, for
//       `check` one without. Then it writes the order into the sheet (CarryPlace), and rings the client's bell, as for
//       a pause. The worker writes births, code and memory, in this order, closes each of them when it is done, and
//       says `done`. It stays held, whatever the result; it can be resumed, or carried again. A reader that has gone
//       ends the attempt.
//       From the first Hand on, until it takes commands again, the worker asks nothing, and does not answer its
//       client's requests for memory. So the bridge may leave unanswered what the worker has asked before. If the
//       client goes on here, the bridge answers that as ever.
// Ahead: the client runs. A Hand with `ahead` brings a conveyor, and the order says `ahead`: between commands the
//       worker passes its code on, and what its memory has at that moment. The taker compares it later.
// Back: a new worker with the driver's devices of the old one, `--device-memory blocks`, and no extents of its own
//       (Preparation::extents). The books say of the slot what they said: its extents, its pause (`held`). The bridge
//       forgets the number of the last request, because this worker counts from 1. It writes the order `read` into the
//       sheet, then sends the Assignment, then a Hand with each part. It answers the worker's requests meanwhile
//       (Borrow, Look, the mapper's). The worker makes everything again, compares all of it, and says `done`; then it
//       obeys its pause before it takes a command. If it is not `able`, it ends, and has changed nothing in the region.
#pragma once
#include <cstdint>
#include <string_view>

namespace barcuda {

namespace carrying {

enum class Which : std::uint32_t { births, code, memory, room, none };  // of the parts
constexpr unsigned parts = 4;
constexpr std::string_view name_of(Which part) {
    constexpr std::string_view names[] = {"births", "code", "memory", "room", "none"};
    return part <= Which::none ? names[static_cast<unsigned>(part)] : "unknown";
}

// Bridge -> worker over the link, with the descriptor of a part, and no answer to anything. It begins as an Answer
// does, and no request has its form. A later one of the same part takes the place of an earlier one.
struct Hand {
    static constexpr std::uint32_t right_form = 0x646e6168;  // "hand"
    std::uint32_t form = right_form, bytes = sizeof(Hand);
    std::uint64_t number = 0;  // of the order that follows; 0: its bridge is of an earlier build
    Which part = Which::none;
    std::uint32_t ahead = 0;  // 1: for a client that runs; the bridge answers requests as ever
};

enum class Wanted : std::uint32_t {
    nothing,
    check,  // say whether the client can be carried; nothing is written
    write,
    read,  // only of a new worker, before its Assignment
    ahead
};

}  // namespace carrying

// In the sheet (link.h): an order to carry the client, and how far it is. It is followed while the client is held. A
// worker of an earlier build may follow none.
struct CarryPlace {
    // ---- the bridge's
    carrying::Wanted wanted = carrying::Wanted::nothing;
    std::uint32_t order = 0;  // grows with each order; stored last, with release
    // ---- the worker's
    std::uint32_t done = 0;  // the last order that was carried out or refused; stored last, with release
    std::uint32_t able = 0;  // 1: yes, and what follows is empty
    char what[384] = {};     // what stands in the way, or how the attempt failed; ends with a zero
    char cure[256] = {};     // what its user can do about it; may be empty
    std::uint64_t births = 0, code = 0, memory = 0;  // bytes that were written or read, so far
};

}  // namespace barcuda
