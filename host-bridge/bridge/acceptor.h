// SPDX-License-Identifier: Apache-2.0
// acceptor.h: admits new clients: gives each a worker, or refuses it. (admissions.h limits how many may begin in a
// second.)
#pragma once
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "base/bucket.h"
#include "base/failure.h"
#include "host-bridge/between/probe.h"
#include "host-bridge/bridge/admissions.h"
#include "host-bridge/bridge/books.h"
#include "host-bridge/bridge/clients.h"
#include "host-bridge/bridge/heap_desk.h"
#include "host-bridge/bridge/limits_desk.h"
#include "host-bridge/bridge/pool.h"

namespace barcuda {

class Acceptor {
  public:
    using Clock = std::chrono::steady_clock;
    // `interrupts`: whether a VM is connected to the doorbell, so that the worker can interrupt the guest.
    Acceptor(Clients& clients, Pool& pool, const LimitsDesk& limits, HeapDesk& heap, const Host& host, Totals& totals,
             std::function<bool()> interrupts);

    // Clients begin in the order of their arrival. `arrived`: called with each that has received a worker.
    void admit(const std::vector<Client*>& waiting, const std::function<void(Client&)>& arrived,
               Clock::time_point now = Clock::now());
    // Goes on with a client of an earlier bridge that was killed, perhaps before its worker was told of it. (A worker
    // leaves out a second Assignment.)
    void restore(Client& client);
    bool some_wait() const { return some_wait_; }  // since too many have come

  private:
    // Gives the client a worker, or returns the refusal.
    Failure serve(Client& client);
    void assign(Client& client);
    void tell_of_waiting(Admissions::Answer answer, std::uint32_t process, Clock::time_point now);
    Failure devices_of(const Client& client, std::vector<int>& devices) const;
    Failure base_of(const Client& client, std::uint64_t& base) const;

    Clients& clients_;
    Pool& pool_;
    const LimitsDesk& limits_;
    HeapDesk& heap_;
    const Host& host_;
    Totals& totals_;
    const std::function<bool()> interrupts_;
    Admissions admissions_;
    bool some_wait_ = false;
    Bucket told_of_waiting_;
};

}  // namespace barcuda
