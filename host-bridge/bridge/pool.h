// SPDX-License-Identifier: Apache-2.0
// pool.h: the workers that have no client: warm ones, which wait for a client, and those that have been told to end.
// (warm.h says how many wait.) A client's worker comes from here, and the bridge waits for no worker here: what leaves
// is looked at until it has ended.
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
    // Starts a worker that shows these devices. Null, with errno: it cannot be started.
    using Start = std::function<Worker(const std::vector<int>& devices)>;
    using Release = std::function<void(Grants::Run)>;  // of what a worker kept for a client to come

    Pool(WarmOptions options, Loop& loop, Start start, Release release);
    ~Pool() { end(); }

    // ---- for a client
    // A worker that waits with these devices, or a new one. `may_have`: whether the client may be granted this number of bytes
    // of the region, which the worker has reserved. Null, with errno: none can be started.
    Worker take(const std::vector<int>& devices, const std::function<bool(std::uint64_t)>& may_have,
                Clock::time_point now = Clock::now());
    // Clients that come are expected to want these devices. Workers with others end.
    void expect(std::vector<int> devices);
    // A client has been given a worker with these devices: if two in a row want them, the next one is expected to.
    void served(const std::vector<int>& devices);

    // ---- warm workers
    bool wants_one() { return warm_.wanted({}) > 0; }  // before any client has come
    unsigned most() const { return warm_.most(); }
    void add(Worker worker);
    struct Clients {
        bool one_starts = false;  // the worker of one of them opens its driver
        bool one_asks = false;    // for memory that cannot be granted yet (asked.h)
    };
    // As many as are wanted: starts workers, or tells some to end.
    void keep(const Clients& clients, Clock::time_point now = Clock::now());
    std::uint32_t warm() const;  // how many
    // What waiting workers reserve is for a client that finds no room. Others come later: each costs a start of the
    // driver, and may have to go for the next such client.
    void drop_reserves(Clock::time_point now = Clock::now());
    bool reserves() const;          // a waiting worker has reserved memory
    bool leaving_reserves() const;  // so has one that leaves

    // ---- ends
    void dismiss(Worker worker);
    void discard(Worker ended);                               // one that has been reaped: what it has reserved is free
    void reap_leaving();                                      // those that have ended by now
    void reap_waiting(Clock::time_point now = Clock::now());  // those that have died while they waited
    bool is_leaving() const { return !leaving_.empty(); }
    void end();  // of all: waits for it

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
    Clock::time_point again_{};           // none is started in advance before that
    std::chrono::milliseconds pause_{0};  // grows with each that could not be started, or ended
};

}  // namespace barcuda
