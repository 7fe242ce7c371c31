// SPDX-License-Identifier: Apache-2.0
// rooms.h: host memory for what leaves shared cards: the store (--store). A worker gets it as files in memory, each for
// this worker alone, with pages behind all of it. Pages take long (0.75 s for a GiB), so a thread makes the files, and
// keeps some ready (--store-ready). The first files of a client have no more than most_bytes: its worker gets a part of
// what it asks for early, and asks again. Later ones may be larger, so that all of them can be the whole store.
//
// The worker cannot change a file's length. A file that comes back is emptied here: a worker that was taken over may
// keep it mapped, and must not keep pages that are no longer counted. (Pages that it touches after that are its own.)
// No file is used twice, so no client sees what another one had.
//
// The accounts are a part of the bridge's books (ledger.h). A bridge that comes later goes on counting what workers
// have; their files it does not need.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "base/failure.h"
#include "base/message.h"
#include "host-bridge/between/link.h"
#include "host-bridge/between/records.h"
#include "shm-device/layout.h"

namespace barcuda {

class Rooms {
  public:
    static constexpr std::uint64_t granule = request::store_granule, most_bytes = 256 << 20;
    static constexpr std::uint32_t most_of_a_client = 512;  // files
    struct Account {                                        // of a slot
        Word<std::uint32_t> granules[most_of_a_client];     // of the file with that number, less 1; 0: there is none
    };
    struct Limits {  // of the store; 0: none
        std::uint64_t client = 0, guest = 0;
    };
    // `store`: of all clients. `ready`: how much of it is kept ready. `clients`: the number of slots.
    Rooms(std::uint64_t store, std::uint64_t ready, std::uint32_t clients, Part<Account> books = {});
    // Descriptors that a store may take: of the files that it counts, and of as many that are to be emptied.
    static std::size_t most_files(std::uint64_t store) { return 2 * (store / granule); }
    ~Rooms();
    Rooms(const Rooms&) = delete;

    // Starts the thread. Before that, and without a store, there is none.
    Failure start();
    int fd() const { return done_.fd(); }  // readable when the thread has made something

    // The most that a client's file of that number has.
    std::uint64_t most_of(std::uint32_t number) const;
    // The number of the next file of that client.
    std::uint32_t next(std::uint32_t slot) const;
    enum class Asked : std::uint8_t {
        begun,
        full,            // the store, or a limit
        has_most_files,  // that a client may have
        busy,            // a file for this slot is being made, or one for the client before it
    };
    // Begins to make a file of at most `bytes`, and counts it.
    Asked ask(std::uint32_t slot, std::uint64_t bytes, const Limits& limits);
    // The same file again, for a worker that may not have got it from an earlier bridge. False: it has no such file.
    bool ask_again(std::uint32_t slot, std::uint32_t number);
    bool makes(std::uint32_t slot) const { return jobs_[slot].state != Job::none; }
    struct Room {
        std::uint32_t number;
        std::uint64_t bytes;
        int file;  // as long as this object has it; -1: the host lacks the memory, and nothing is counted
    };
    // Nothing: it is not made yet.
    std::optional<Room> take(std::uint32_t slot);
    // False: there is no such file.
    bool give_back(std::uint32_t slot, std::uint32_t number);
    void forget(std::uint32_t slot);                      // its worker has ended
    void drop(std::uint32_t slot, std::uint32_t number);  // what an earlier bridge did not finish
    void restore(const std::function<bool(std::uint32_t slot)>& lives);

    std::uint64_t held(std::uint32_t slot) const;
    std::uint64_t held() const;
    std::uint64_t store() const { return store_; }
    std::uint64_t ready() const;  // made, and not given to a client

    // What the thread does, once, for tests without one. False: there was nothing to do.
    bool work();

  private:
    // The thread takes no memory of malloc's: a fork of the other thread's may come at any moment.
    struct Job {
        enum State : std::uint32_t { none, wanted, made, failed, dropped };  // dropped: when it is made, it ends
        std::atomic<std::uint32_t> state{none};
        std::uint32_t number = 0;
        std::uint64_t bytes = 0;
        int file = -1;
    };
    void wake();
    void run();
    bool do_job(Job& job);
    void keep_ready();
    void end(File file);

    const std::uint64_t store_;
    std::vector<Account> own_;  // where there are no books
    const std::span<Account> of_;
    std::vector<std::uint64_t> held_;  // by slot: the sum of its account
    std::vector<Job> jobs_;            // by slot; behind them, those that are kept ready
    const std::size_t slots_;
    std::size_t turn_ = 0;                // the slot at which the thread begins to look
    std::vector<std::atomic<int>> ends_;  // files to empty; -1: none
    std::map<std::pair<std::uint32_t, std::uint32_t>, File> given_;
    File done_;  // eventfd
    std::uint32_t work_ = 0;
    std::atomic<bool> over_ = false;
    std::thread thread_;
};

}  // namespace barcuda
