// SPDX-License-Identifier: Apache-2.0
// link.h: what bridge and worker say to each other, over a SOCK_SEQPACKET pair. Both belong to the host, but the worker
// is trusted less: the worker asks, the bridge decides.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <variant>

#include "host-bridge/between/cage_order.h"
#include "host-bridge/between/carry.h"
#include "host-bridge/between/limits.h"
#include "host-bridge/between/pause_states.h"
#include "host-bridge/between/shared.h"
#include "shm-device/layout.h"

namespace barcuda {

struct Preparation {      // bridge -> worker, once, at its start: the first grants of its client
    std::int32_t bridge;  // its pid
    std::uint64_t base;   // of the region
    unsigned devices;     // number of devices that the driver must show
    bool says_devices;    // the bridge's first worker: it reports which devices exist (probe.h)
    bool wrapped;         // a wrapper runs between the two: it ends when the worker does
    bool takes_turns;     // at the GPUs; turns_fd is the book
    bool shares_cards;    // by the places in its sheet (CardPlace); needs blocks
    bool has_soft_card;   // soft_card_fd is a file by which software GPUs of several processes share memory
    std::uint32_t group;  // in the book
    static constexpr unsigned most = 2;  // a heap's first extents: one for pinned memory, one for malloc's
    struct {
        std::uint64_t offset, bytes;  // bytes 0: none
    } extents[most];
    cage::Order cage;
};

struct Assignment {  // bridge -> worker, once: the client to serve
    std::uint64_t channel_offset;
    std::uint64_t base;     // where the client has the region; checked
    std::uint32_t channel;  // index
    std::uint32_t opening;
    bool doorbell;  // doorbell_fd interrupts the guest
};

// ---- what a worker asks its bridge, one request after the other. Each request is a struct of its own with its reply
// in it. A message begins with its form and its length; the bridge checks both once, on receipt (bridge/requests.h).
// Requests are numbered, and so are answers: a bridge that goes on behind one that was killed may answer again, and a
// worker leaves out what is no answer to its last request.
// Forms are numbered by their place in BridgeRequest: a new one comes last.
namespace request {

struct Nothing {};
// This message carries the descriptor with which the bridge answers the worker's mapper (cage/mapper.h). If the cage
// has 'extents', it is the first message, sent before the worker reads anything of its client's. It is sent once and
// has no reply.
struct Mapper {};
struct Grant {  // memory of the region
    std::uint64_t bytes;
    struct Reply {
        std::uint64_t offset, bytes;
    };
};
struct Release {
    std::uint64_t offset, bytes;
    using Reply = Nothing;
};
struct Borrow {            // device memory (bridge/quotas.h)
    std::uint64_t device;  // its number in the worker
    std::uint64_t bytes;
    struct Reply {
        std::uint64_t left;  // what the client could still borrow
    };
};
struct Repay {
    std::uint64_t device, bytes;
    using Reply = Nothing;
};
struct Share {
    Shared::Kind kind;
    Shared::Handle handle;  // the driver's; or its descriptor comes with the message
    struct Reply {
        Shared::Handle token;
    };
};
struct Find {
    Shared::Kind kind;
    Shared::Handle token;
    struct Reply {
        Shared::Handle handle;  // the driver's; or its descriptor comes with the message
    };
};
struct Withdraw {
    Shared::Handle token;
    using Reply = Nothing;
};
// The worker has changed its places in the sheet (CardPlace) so that the bridge must look now: it asks for memory, it
// has obeyed an order, or it has given memory up that others lack. CUDA_ERROR_NOT_SUPPORTED: this bridge shares no
// cards, and the worker goes on without promises.
struct Look {
    using Reply = Nothing;
};
// Host memory for what leaves a card: a file in memory that this worker alone gets, with pages behind all of it
// (fallocate: so they are charged to the bridge, and cannot be missing later). The worker maps it once, and keeps it.
struct StoreRoom {
    std::uint64_t bytes;  // a multiple of store_granule
    struct Reply {
        std::uint64_t number, bytes;  // of this file; the bytes are not more than asked, and may be fewer
    };
};
struct StoreBack {  // the worker has unmapped that file
    std::uint64_t number;
    using Reply = Nothing;
};
constexpr std::uint64_t store_granule = 32 << 20;

}  // namespace request

using BridgeRequest =
    std::variant<request::Mapper, request::Grant, request::Release, request::Borrow, request::Repay, request::Share,
                 request::Find, request::Withdraw, request::Look, request::StoreRoom, request::StoreBack>;

template <class Request, std::uint32_t number = 0> constexpr std::uint32_t form_of() {
    if constexpr (std::is_same_v<Request, std::variant_alternative_t<number, BridgeRequest>>) return number + 1;
    else return form_of<Request, number + 1>();
}

template <class Request> struct Message {  // worker -> bridge
    std::uint32_t form = form_of<Request>(), bytes = sizeof(Message);
    std::uint64_t number = 0;  // from 1 on, in the order in which the worker asks; 0: it has none (a mapper's)
    [[no_unique_address]] Request request;
};
template <class Request> struct Answer {  // bridge -> worker
    std::uint32_t form = form_of<Request>(), bytes = sizeof(Answer);
    std::uint64_t number = 0;  // of the request
    std::int64_t error = 0;    // CUresult
    [[no_unique_address]] typename Request::Reply reply{};
};

// What a client has done since it connected. The worker alone counts it, at the place where it happens.
struct Counts {
    // of a copy; a copy between two devices is on_device, too
    enum Way : unsigned { to_device, to_host, on_device, ways };
    std::uint64_t commands, launches, graph_launches, waits, copies[ways], copied[ways];  // copied: bytes
};
// Only one thread writes it, so a store is enough. A reader sees each number as it was a moment ago.
inline void add(std::uint64_t& counter, std::uint64_t more) {
    std::atomic_ref(counter).store(counter + more, std::memory_order_relaxed);
}
inline Counts read_counts(Counts& from) {
    Counts counts;
    const auto words = std::span(reinterpret_cast<std::uint64_t*>(&from), sizeof from / sizeof(std::uint64_t));
    std::ranges::transform(words, reinterpret_cast<std::uint64_t*>(&counts),
                           [](std::uint64_t& word) { return std::atomic_ref(word).load(std::memory_order_relaxed); });
    return counts;
}

// What the bridge orders its worker to do with its client, at any time, and how far the worker is. If the worker may
// sleep, the bridge rings the client's bell (Bell::relay). New fields are added at the end, and `link` grows with them.
struct Orders {
    static constexpr std::uint32_t link_of_this_build = 4;
    static constexpr std::uint32_t oldest_link = 3;  // of workers to which this build's bridge can speak
    // ---- the bridge's
    std::uint32_t link = link_of_this_build;
    std::uint32_t wanted = 0;  // Paused: running, held or away
    std::uint32_t within = 0;  // milliseconds that the GPU's work may take to end
    std::uint32_t order = 0;   // grows with each order; stored last, with release
    // ---- written by the worker
    std::uint32_t is = 0;        // Paused
    std::uint32_t obstacle = 0;  // Obstacle that the last finished order met
    std::int32_t result = 0;     // CUresult of that order
    std::uint32_t done = 0;      // the last order that was carried out or refused; stored last, with release
};

// How a client shares the memory of one card with other clients (the bridge's half: bridge/cards_desk.h; the worker's:
// worker/memory/residence.h). All bytes are of blocks: pools, arrays, code and contexts are the driver's.
//
//     on_card <= holds <= promised
//
// Only the worker moves `holds`: up, when the bridge has granted a request; and down, when it has given memory up. The
// bridge raises `promised` before it grants, and lowers it only to a `holds` that it has read, and not while a grant is
// unused. (It is unused until `needs` is 0 or `wish` is another number. The worker stores `holds` before that, so the
// bridge reads `needs` and `wish` first.) The worker reads no promise but an unused one. So a promise that falls cannot
// cross an allocation, whatever the order in which each side sees the other's words.
struct CardPlace {
    static constexpr std::uint64_t unlimited = ~std::uint64_t{0};
    // ---- the bridge's
    std::uint64_t promised = 0;
    // An order: `holds` must become this at most. It says what is left, so it may be repeated. The bridge rings the
    // client's bell, again while the order is not obeyed. The worker obeys as soon as the GPU has done all of the
    // client's work, as far as memory may leave (fixed) and the store has room. Lifted before a request is granted.
    std::uint64_t keep = unlimited;
    std::uint32_t granted = 0, refused = 0;  // numbers of the last requests that were. Stored behind the rest
    std::uint32_t pressed = 0;               // others lack memory: what is held and not used is given back at once
    std::uint32_t store_pressed = 0;         // others lack room in the store: files that nothing is in are given back
    std::uint64_t may_have = 0;              // of this card, on it or out, for cuMemGetInfo; 0: not known
    // ---- the worker's
    std::uint64_t holds = 0;
    std::uint64_t on_card = 0, out = 0;  // out: in the store
    std::uint64_t fixed = 0;             // of on_card: cannot leave (another process may have it)
    // A request: `holds` should become this. All that is out is included, and what a new allocation takes. `wish` is
    // stored last. It stands until it is granted or refused, or until `needs` is 0: withdrawn.
    std::uint64_t needs = 0;
    std::uint32_t wish = 0;
    std::uint32_t returns = 0;     // 1: no allocation is part of it. It is not refused: the client cannot go on without
    std::uint64_t idle_since = 0;  // monotonic ns; 0: it works
    std::uint64_t moved_out = 0, moved_back = 0;     // bytes, so far
    std::uint64_t leaving_ns = 0, returning_ns = 0;  // the time that those took
};

// A file in memory, of a fixed length, that both map. It shows how a worker died, whatever ended it, what its client
// has, and what the client may have. The bridge uses the worker's numbers only to show them, and to limit its own
// guest.
struct Sheet {
    // ---- written by the worker
    std::uint32_t command = nothing;  // Op: the command that the worker executes
    std::uint32_t denied = nothing;   // the system call for which the cage ended the worker
    std::uint64_t bare = 0;           // bytes of the worker's memory before it had a client
    std::uint64_t use[limits_in_sheet] = {};
    std::uint64_t device_memory[BARCUDA_MAX_DEVICES] =
        {};  // bytes its client has, of each GPU as the worker counts them
    std::uint64_t device_memory_most[BARCUDA_MAX_DEVICES] = {};  // the highest value so far
    Counts counts = {};
    std::uint64_t vain_turns = 0;  // how often the worker waited for a turn that did not come
    // ---- written by the bridge
    // until this time of CLOCK_MONOTONIC the worker waits for no turn (turns::Trust)
    std::uint64_t turns_off_until = 0;
    std::uint64_t limits[limits_in_sheet] = {};  // 0: none
    Orders orders = {};
    // ---- link 3. A card for each GPU that the worker sees; further GPUs are not shared.
    static constexpr unsigned most_cards = 16;
    CardPlace cards[most_cards] = {};
    CarryPlace carry = {};  // later, but before a release had link 3: a worker of a build between follows no order here
    static constexpr std::uint32_t nothing = ~0u;
};
// Where earlier links have it.
static_assert(offsetof(Sheet, orders) == 784);

// The worker's descriptors have fixed numbers; a wrapper (--worker-wrapper) passes them on. The worker's standard error
// belongs to the driver (worker/session/output.h): it goes into `into_errors_fd` and comes out at `errors_fd`. The
// worker's log messages go into a pipe of their own (`log_fd`), which the bridge reads (bridge/worker_log.h). The
// doorbell, the book of turns and the software GPU's file are optional.
constexpr int region_fd = 3, link_fd = 4, log_fd = 5, errors_fd = 6, sheet_fd = 7, into_errors_fd = 8, doorbell_fd = 9,
              turns_fd = 10, soft_card_fd = 11;

}  // namespace barcuda
