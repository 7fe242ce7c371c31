// SPDX-License-Identifier: Apache-2.0
// startup.h: the foundation of a bridge, and the steps that open it before the first client. Each step returns what is
// wrong; empty: nothing.
#pragma once
#include <sys/resource.h>

#include <functional>
#include <memory>
#include <string>

#include "base/failure.h"
#include "host-bridge/between/cards.h"
#include "host-bridge/between/device_choice.h"
#include "host-bridge/between/probe.h"
#include "host-bridge/between/turns.h"
#include "host-bridge/bridge/control.h"
#include "host-bridge/bridge/doorbell.h"
#include "host-bridge/bridge/exporting.h"
#include "host-bridge/bridge/kept.h"
#include "host-bridge/bridge/launcher.h"
#include "host-bridge/bridge/ledger.h"
#include "host-bridge/bridge/options.h"
#include "host-bridge/bridge/pool.h"
#include "host-bridge/cage/cage.h"
#include "host-bridge/suspended/set.h"
#include "shm-device/region/host_region.h"

namespace barcuda {

struct Ground {
    BridgeOptions options;
    Kept kept;                       // before what it keeps
    bool adopted = false;            // an earlier bridge's region and books: its clients go on
    std::unique_ptr<SetReader> set;  // that this bridge wakes; null: none
    HostRegion region;
    Ledger ledger;
    Doorbell doorbell;
    turns::Member turns;
    cards::Member cards;
    cage::Plan cage;  // for each worker
    Host host;
    rlimit files{};  // the limit of open files that the bridge was given: workers get it
    Control control;
    Exporting exporting;
};

class Startup {
  public:
    // The startup stops waiting when `stop` becomes readable.
    Startup(Ground& ground, int stop) : ground_(ground), options_(ground.options), stop_(stop) {}

    Failure check();         // the options; and the bridge becomes its user
    Failure find_devices();  // or leaves it to the first worker to report them
    Failure open_region();   // with the doorbell and the book of turns
    Failure start_driver(Launcher& launcher, Pool& pool);
    Failure open_to_tools();  // `barcuda limit`, metrics; and the bridge takes its own part of the cage
    Failure publish_devices();

    // The workers that wait for clients: none with a wrapper. A profile is of a client's work, and the tool that writes
    // it may not be started twice.
    static WarmOptions warm(const BridgeOptions& options);
    // How many descriptors the bridge may hold for a client: an equal share of what it does not need itself. Raises the
    // bridge's own limit, and leaves in `given` the one that workers get.
    static std::size_t files_of_each(std::size_t clients, unsigned most_warm, std::size_t of_the_store, rlimit& given);

  private:
    Failure adopt_region(const Format& format);
    Failure open_set();
    Failure wake_region(const Format& format);
    static Failure refuse_client(const KeptClient& client, const Shape& shape, std::size_t gpus);
    Failure make_region(const Format& format);
    Failure open_books();
    Failure plan_cage(const std::function<void()>& meanwhile = {});
    Failure start_first(Launcher& launcher, Pool& pool);

    Ground& ground_;
    BridgeOptions& options_;
    const int stop_;
    DeviceChoice choice_;
    bool first_worker_says_ = false;  // which devices there are
};

}  // namespace barcuda
