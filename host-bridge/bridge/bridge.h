// SPDX-License-Identifier: Apache-2.0
// bridge.h: the supervisor of one region. It admits clients, gives each a worker process of its own, grants heap
// memory, and cleans up when a client, a worker or the whole guest ends. It never opens the CUDA driver and
// never reads a command. It serves all clients of the region in one loop, so it waits for none of them and for no worker:
// what a worker does not take it does not get, and a worker that is to end is looked after until it has.
#pragma once
#include <sys/resource.h>
#include <sys/types.h>

#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "host-bridge/between/bell.h"
#include "host-bridge/between/driver.h"
#include "host-bridge/between/limits.h"
#include "host-bridge/between/link.h"
#include "host-bridge/between/probe.h"
#include "host-bridge/between/shared.h"
#include "host-bridge/between/turns.h"
#include "host-bridge/bridge/access.h"
#include "host-bridge/bridge/admissions.h"
#include "host-bridge/bridge/asked.h"
#include "host-bridge/bridge/control.h"
#include "host-bridge/bridge/doorbell.h"
#include "host-bridge/bridge/exporting.h"
#include "host-bridge/bridge/grants.h"
#include "host-bridge/bridge/launcher.h"
#include "host-bridge/bridge/monitoring.h"
#include "host-bridge/bridge/options.h"
#include "host-bridge/bridge/place.h"
#include "host-bridge/bridge/pool.h"
#include "host-bridge/bridge/quotas.h"
#include "host-bridge/bridge/requests.h"
#include "host-bridge/bridge/service.h"
#include "host-bridge/bridge/warm.h"
#include "host-bridge/bridge/worker_process.h"
#include "host-bridge/cage/cage.h"
#include "host-bridge/cage/cgroup.h"
#include "shm-device/queue/sync.h"
#include "shm-device/region/host_region.h"

namespace barcuda {

class Bridge {
  public:
    explicit Bridge(BridgeOptions options);
    // Serves until SIGINT or SIGTERM. Returns the exit status.
    int run();

  private:
    struct Known {  // what is told of a client (listing.cc); as long as it is there, and in the log when it goes
        std::uint32_t pid = 0;
        std::string program, user;  // as the guest says
        pid_t worker = 0;
        std::chrono::system_clock::time_point since = std::chrono::system_clock::now();
        Counts counts{};
        std::uint64_t most_device_memory = 0, most_region_memory = 0;
        std::optional<End> end;
        std::string how;           // it ended
        std::string text() const;  // pid, user and program
    };
    struct Client {
        std::unique_ptr<WorkerProcess> worker;  // null: none yet, or no longer
        Known known;
        Channel channel;
        Bell bell;
        std::uint32_t opening = 0;
        std::uint64_t number = 0;      // in the order in which clients came
        std::uint32_t watching = 0;    // what it last said
        std::uint64_t vain_turns = 0;  // its worker's, of which the bridge has heard
        bool told = false;             // that it shows too much
        bool refused = false;          // its worker has been told that it cannot map something
        bool bound = false;            // its worker's own memory has the limit that it is to have
        std::array<std::optional<std::uint64_t>, limit_count> own{};  // limits of this client alone
        std::optional<Asked> asked;                                   // for memory that cannot be granted yet
    };

    std::size_t files_of_each();
    void release_pages();
    template <class F> void each_worker(const F& f) const {
        pool_.each(f);
        for (const auto& client : clients_)
            if (client && client->worker) f(*client->worker);
    }
    void publish_heartbeat();  // says to the clients, and to systemd, that the bridge lives
    void await_end(const WorkerProcess& worker) const;
    std::string start();
    std::string plan_cage(const DeviceChoice& choice, const std::function<void()>& meanwhile = {});
    std::string start_first(const DeviceChoice& choice);
    void keep_warm();
    static WarmOptions warm_options(const BridgeOptions& options);
    int patience() const;
    void look_at_slots();
    bool meet(std::uint32_t slot);
    void admit_waiting();
    void admit(Client& client);
    void refuse(Client& client, const char* why);
    void reclaim(std::uint32_t slot);
    void worker_ended(Client& client);
    void answer_request(Client& client);
    void serve(Client& client, const request::Mapper&, File listener);
    void serve(Client& client, const request::Grant& asked, File);
    void serve(Client& client, const request::Release& asked, File);
    void serve(Client& client, const request::Borrow& asked, File);
    void serve(Client& client, const request::Repay& asked, File);
    void serve(Client& client, const request::Share& asked, File file);
    void serve(Client& client, const request::Find& asked, File);
    void serve(Client& client, const request::Withdraw& asked, File);
    template <class Request> void answer(Client& client, const Answer<Request>& answer, int file = -1) {
        send_answer(client, &answer, sizeof answer, file);
    }
    void send_answer(Client& client, const void* answer, std::size_t bytes, int file);
    void end_worker(Client& client, const char* why);
    // ---- extents.cc
    Grants::Run grant(std::uint32_t channel, std::uint64_t bytes);
    Grants::Run reserve(std::uint64_t bytes);
    bool has_time();
    void answer_asked();
    void answer_asked(Client& client);
    bool has_room(std::uint64_t bytes) const;
    void hand_over(Client& client);
    void meet_mapper(Client& client, File listener);
    void answer_mapper(Client& client, short events);
    bool is_worker(const Visitor& visitor) const;
    // ---- limiting.cc
    std::uint64_t limit_of(const Client& client, Limit limit) const;
    MemoryLimits memory_limits(const Client& client) const;
    void tell_limits(Client& client);
    void show_memory();
    void bound_host_memory(Client& client);
    std::uint64_t group_bound(const Client& client) const;
    static void warn_unbounded(const Client& client);
    void note_memory();
    bool may_reserve(std::uint64_t bytes) const;
    std::uint64_t room_of(std::uint32_t channel) const;
    bool may_be_granted(std::uint32_t channel, std::uint64_t bytes) const { return bytes <= room_of(channel); }
    bool has_a_channel_left() const;
    std::uint64_t served_clients() const;
    std::string share(const LimitRequest& request);
    void look_at_turns(Client& client);
    void describe(const Client& client, LimitRow& row);
    void serve_limits(const LimitRequest& request, LimitReply& reply, const ucred& by);
    void change_limits(const LimitRequest& request, Client* one, const ucred& by);

    // ---- listing.cc
    static void introduce(Client& client);
    void note(Client& client);
    void note_end(Client& client, End end, const std::string& how);
    std::string farewell(Client& client);
    std::uint64_t queued() const;
    void describe(const Client& client, ListedClient& row) const;
    void serve_list(const ListRequest& request, ListReply& reply);

    void clear(std::uint64_t offset, std::uint64_t bytes);
    void shut_down();

    BridgeOptions options_;
    std::chrono::steady_clock::time_point heard_ = std::chrono::steady_clock::now();  // when anything last happened
    std::chrono::steady_clock::time_point owners_looked_{};
    std::size_t next_asked_ = 0;  // the slot whose client has been granted nothing for longest
    bool short_of_time_ =
        false;  // there is more to empty than this turn of the loop has time for, which is until then:
    std::chrono::steady_clock::time_point time_ends_ = decltype(time_ends_)::max();
    std::string library_;
    mode_t mode_ = 0;  // what the region is: a file, or a device
    cage::Plan cage_;  // of each worker
    HostRegion region_;
    Monitoring monitoring_;
    Doorbell doorbell_;
    Service service_;
    Place place_;
    Control control_;
    Exporting exporting_;
    int signals_ = -1;  // that end the bridge
    int opens_ = -1;    // inotify: somebody opens, reads or closes the region's file
    std::unique_ptr<Grants> grants_;
    std::unique_ptr<Shared> shared_;
    std::vector<std::unique_ptr<Client>> clients_;  // by slot; null: nobody
    Quotas quotas_;
    const std::chrono::system_clock::time_point since_ = std::chrono::system_clock::now();
    Admissions admissions_;
    std::vector<Client*> to_admit_;  // in this turn of the loop
    bool some_wait_ = false;         // of those
    Bucket told_of_waiting_;
    std::uint64_t met_ = 0;
    std::uint64_t came_ = 0, went_[all_ends] = {};
    Counts gone_{};  // what clients have done that are gone
    turns::Member turns_;
    turns::Trust turns_trust_;
    HostDevices devices_;
    bool software_ = false;   // they are the software GPU
    std::vector<int> every_;  // all devices
    Launcher launcher_;
    Pool pool_;
};

}  // namespace barcuda
