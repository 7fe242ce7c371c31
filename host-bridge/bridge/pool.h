// SPDX-License-Identifier: Apache-2.0
// pool.h: the workers without a client: warm ones, which wait for a client, and those that were told to end. (warm.h
// decides how many wait.) A client's worker comes from here, and the bridge never waits for a worker here: it checks
// ending ones until they have ended.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "host-bridge/bridge/grants.h"
#include "host-bridge/bridge/loop.h"
#include "host-bridge/bridge/warm.h"
#include "host-bridge/bridge/worker_process.h"

namespace barcuda {

class Pool {
  public:
    using Worker = std::unique_ptr<WorkerProcess>;
    using Clock = std::chrono::steady_clock;
    // Starts a worker that shows these devices. Null: it cannot be started, and errno says why.
    using Start = std::function<Worker(const std::vector<int>& devices)>;
    using Release = std::function<void(Grants::Run)>;  // what a worker kept for a later client

    Pool(WarmOptions options, Loop& loop, Start start, Release release);
    ~Pool() { end(); }

    // ---- for a client
    // A waiting worker with these devices, or a new one. `may_have`: whether the client may be granted this number of
    // bytes of the region, which the worker has reserved. Null: none can be started, and errno says why.
    Worker take(const std::vector<int>& devices, const std::function<bool(std::uint64_t)>& may_have,
                Clock::time_point now = Clock::now());
    // Later clients are expected to need these devices. Workers with others end.
    void expect(std::vector<int> devices);
    // A client has received a worker with these devices: if two in a row need them, the next one is expected to.
    void served(const std::vector<int>& devices);

    // ---- warm workers
    bool wants_one() { return warm_.wanted({}) > 0; }  // before any client has come
    unsigned most() const { return warm_.most(); }
    void add(Worker worker);
    struct Clients {
        bool one_starts = false;  // a worker of one of them is opening its driver
        bool one_asks = false;    // for memory that cannot be granted yet (asked.h)
    };
    // Starts workers, or tells some to end, so that the wanted number waits.
    void keep(const Clients& clients, Clock::time_point now = Clock::now());
    std::uint32_t warm() const;  // number of them
    // Releases what waiting workers reserve, for a client that finds no room. New ones start later: each costs a start
    // of the driver, and may have to end for the next such client.
    void drop_reserves(Clock::time_point now = Clock::now());
    bool reserves() const;          // a waiting worker reserves memory
    bool leaving_reserves() const;  // an ending one does

    // ---- ends
    void dismiss(Worker worker);
    void discard(Worker ended);                               // a reaped one: what it reserved is free
    void reap_leaving();                                      // those that have ended
    void reap_waiting(Clock::time_point now = Clock::now());  // those that died while they waited
    bool is_leaving() const { return !leaving_.empty(); }
    void end();  // ends all, and waits for them

    template <class F> void each(const F& f) const {
        for (const Worker& w : waiting_) f(*w);
        for (const Worker& w : leaving_) f(*w);
    }
    template <class F> void each_waiting(const F& f) const {
        for (const Worker& w : waiting_) f(*w);
    }
    std::size_t waiting() const { return waiting_.size(); }

  private:
    using Place = std::vector<Worker>::iterator;
    Place find(const std::vector<int>& devices);
    void put_off(Clock::time_point now);
    template <class Which> void dismiss_if(const Which& which);
    void release(WorkerProcess& worker);

    WarmPool warm_;
    Loop& loop_;
    const Start start_;
    const Release release_;
    std::vector<Worker> waiting_, leaving_;
    std::vector<int> likely_, last_;      // devices: of warm workers; of the last client
    Clock::time_point again_{};           // no worker is started in advance before that
    std::chrono::milliseconds pause_{0};  // grows with each that failed to start, or ended
};

}  // namespace barcuda
