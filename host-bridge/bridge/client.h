// SPDX-License-Identifier: Apache-2.0
// client.h: one client, from the opening of a slot until the slot is reclaimed: its channel, its worker, its own
// limits, and what the bridge knows about it.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "host-bridge/between/bell.h"
#include "host-bridge/between/link.h"
#include "host-bridge/bridge/asked.h"
#include "host-bridge/bridge/books.h"
#include "host-bridge/bridge/worker_process.h"
#include "shm-device/region/host_region.h"

namespace barcuda {

class Client {
  public:
    // `doorbell`: an eventfd that interrupts the guest; -1: there is none. `number`: in the order in which clients
    // came. `books`: where the bridge writes down what it must know of it.
    struct Books {  // null: nowhere
        Twice<KeptClient>* client = nullptr;
        Twice<KeptRequest>* request = nullptr;
    };
    Client(const Channel& channel, int doorbell, std::uint64_t number, Books books);
    Client(const Channel& channel, int doorbell, std::uint64_t number) : Client(channel, doorbell, number, Books()) {}

    std::uint32_t slot() const { return channel.index; }
    barcuda_client& page() const { return channel.client(); }  // the client's own fields
    std::uint32_t pid() const;                                 // as the client reports

    // Why the bridge ends a session: it does not admit the client; the worker has died or broken the protocol; or the
    // bridge stops.
    enum class Ending { refused, died, stopped };
    // Ends the session once, for that reason, which goes into the log, the record and the status page. Wakes the
    // client's threads.
    void end(Ending ending, const std::string& why);
    // The same, for what only a worker under an attacker's control does: also tells the worker to end.
    void end_worker(const std::string& why);
    bool has_ended() const;

    // What has become of its request for a worker. (`served` in its slot is for the guest, which can write it.)
    enum class Admission { awaited, granted, refused, restored };
    bool awaits_admission() const { return admission == Admission::awaited; }
    // Its worker has ended before the client could notice one: once, it may be given another.
    bool may_begin_again() const;
    void begin_again();
    bool is_served() const { return worker && !worker->is_leaving(); }
    // Writes it down, as it is now: for a bridge that comes after this one. Nothing of one that has not been given a
    // worker, and was not refused.
    void write_down();
    // Goes on with a client of an earlier bridge, as it was written down. (Its worker comes from elsewhere.)
    void restore(const KeptClient& kept);

    // Reads from its page which program it is: once, when it wants a worker.
    void introduce();
    // Records what its worker has counted so far. `region_memory`: the bytes of the region that it holds.
    void note(std::uint64_t region_memory);
    // Whether it has asked NVML since the last call.
    bool has_watched();

    // Its worker asks that, from now on until it is answered. `lent`: what a bridge that comes later must know.
    void begin_request(std::uint64_t number, std::span<const char> message, std::uint64_t lent);
    // The last one, as it is written down: of an earlier bridge, perhaps.
    KeptRequest request() const { return books_.request ? books_.request->get() : KeptRequest{}; }
    void go_on_with(const KeptRequest& request) { number_asked_ = request.number; }
    // Answers its worker, once that is written down. A worker that does not read its answers ends.
    template <class Request> void answer(Answer<Request> answer, int file = -1) {
        static_assert(sizeof answer <= sizeof KeptRequest::message);
        answer.number = number_asked_;
        write_down_answer({reinterpret_cast<const char*>(&answer), sizeof answer});
        send(&answer, sizeof answer, file);
    }
    // Again, as an earlier bridge has written it down.
    void repeat(const KeptRequest& answered) { send(answered.message, answered.bytes, -1); }

    const Channel channel;
    const Bell bell;
    const std::uint64_t number;
    std::unique_ptr<WorkerProcess> worker;  // null: none yet, or no longer
    Admission admission = Admission::awaited;
    std::uint64_t base = 0;  // where it has the region, once it has a worker
    ClientRecord record;
    OwnLimits own{};
    std::optional<Asked> asked;       // for memory of the region that cannot be granted yet
    std::uint64_t vain_turns = 0;     // its worker's, of which the bridge has heard
    bool bound = false;               // its worker's memory has the limit that it is to have
    std::uint64_t away = 0;           // beyond that limit: what the worker keeps of the client's that is off the GPU
    bool has_begun_again = false;     // its first worker ended before it did anything
    bool goes_on = false;             // an earlier bridge has served it
    bool told = false;                // its worker has been sent its Assignment
    bool told_too_much = false;       // the log has said that it shows too much
    bool told_store_is_full = false;  // and that what it has does not fit into the store, since it last got room there
    std::uint64_t told_store_at = 0;  // when it said so; 0: never
    bool told_no_mapping = false;     // and that its worker asked for a mapping that it may not have

  private:
    void send(const void* answer, std::size_t bytes, int file);
    std::uint32_t watched_ = 0;
    std::uint64_t worker_start_ = 0;
    void write_down_answer(std::span<const char> answer);

    const Books books_;
    std::uint64_t number_asked_ = 0;
};

}  // namespace barcuda
