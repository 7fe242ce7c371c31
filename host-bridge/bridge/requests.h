// SPDX-License-Identifier: Apache-2.0
// requests.h: what workers ask the bridge (link.h), and its answers: one function for each request. A message is
// checked once, on receipt; after that there are only requests of known forms. A worker's mapper also asks, through the
// kernel (cage/mapper.h).
// Each request is carried out once, whichever bridge answers it: it is written down before it is served, its answer
// before that is sent, and it stays in the link until then. A bridge that finds it there again knows how far the
// earlier one came. (A grant of memory, and a room in the store, can wait: such a request leaves the
// link as soon as it is written down.)
#pragma once
#include <cstddef>
#include <optional>
#include <span>

#include "base/message.h"
#include "host-bridge/between/link.h"
#include "host-bridge/between/shared.h"
#include "host-bridge/bridge/cards_desk.h"
#include "host-bridge/bridge/clients.h"
#include "host-bridge/bridge/grants.h"
#include "host-bridge/bridge/heap_desk.h"
#include "host-bridge/bridge/limits_desk.h"
#include "host-bridge/bridge/loop.h"
#include "host-bridge/bridge/quotas.h"

namespace barcuda {

// The longest request. A longer message is not a request.
constexpr std::size_t longest_request = sizeof(Message<request::Share>);

// Null: the message has an unknown form, another length than its form, or names an unknown kind.
std::optional<BridgeRequest> read_request(std::span<const char> message);

class Requests {
  public:
    struct Desks {
        const Clients& clients;
        Grants& grants;
        Shared& shared;
        Quotas& quotas;
        const LimitsDesk& limits;
        HeapDesk& heap;
        CardsDesk& cards;
    };
    Requests(Desks desks, Loop& loop) : desks_(desks), loop_(loop) {}

    // Listens to that client's worker while it serves. False: it cannot be watched.
    bool hear(Client& client);
    // Behind an earlier bridge that was killed: finishes what that client's worker has asked, or makes it undone. The
    // worker is heard after that.
    void restore(Client& client);
    // Takes a request from the link of that client's worker, if there is one, and answers it.
    void receive(Client& client);
    // Ends a worker that has lost its mapper and does not end by itself.
    static void look_at_mapper(Client& client);

  private:
    std::uint64_t lent(const Client& client, const BridgeRequest& request) const;
    void serve(Client& client, const BridgeRequest& request, File file, bool again);
    // Of which poll() has said `events`: a worker maps its client's channel and its client's grants.
    void answer_mapper(Client& client, short events);
    void serve(Client& client, const request::Mapper&, File listener);
    void serve(Client& client, const request::Grant& asked, File);
    void serve(Client& client, const request::Release& asked, File);
    void serve(Client& client, const request::Borrow& asked, File);
    void serve(Client& client, const request::Repay& asked, File);
    void serve(Client& client, const request::Share& asked, File file);
    void serve(Client& client, const request::Find& asked, File);
    void serve(Client& client, const request::Withdraw& asked, File);
    void serve(Client& client, const request::Look&, File);
    void serve(Client& client, const request::StoreRoom& asked, File);
    void serve(Client& client, const request::StoreBack& asked, File);

    const Desks desks_;
    Loop& loop_;
};

}  // namespace barcuda
