// SPDX-License-Identifier: Apache-2.0
// shared.h: what clients of one region show each other: by handles (cuIpc*, pointers of pools), or by descriptors
// (cuMem*ShareableHandle). The driver's handles say which process of the host to turn to, its descriptors are files of
// the host: guests never see either, nor could they hand in one of their own making. They get a token, 128 random bits,
// and only in this region does it lead back to the driver's. A descriptor keeps its memory alive, here as natively: it
// is held until its client withdraws it, or ends. Where the bridge has books (bridge/ledger.h), each token is written
// there, and its descriptor is kept outside the bridge: first the descriptor, then the record, and last the word that
// makes it one. A token is marked until the answer that has it is written down.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/message.h"
#include "host-bridge/between/records.h"
#include "shm-device/layout.h"

namespace barcuda {

class Shared {
  public:
    using Handle = std::array<char, 64>;  // CU_IPC_HANDLE_SIZE, and the size of CUmemPoolPtrExportData
    enum class Kind : std::uint64_t { memory, event, pointer, allocation, pool };
    struct Thing {
        std::uint32_t channel;  // of the owner
        Kind kind;
        Handle handle;            // the driver's
        File file;                // or its descriptor
        std::uint32_t place = 0;  // of its record
    };

    static constexpr std::size_t most = 1 << 14;              // handles of one client
    static constexpr std::size_t most_descriptors = 1 << 12;  // descriptors of one client, with any limit of open files
    struct Token {
        enum State : std::uint32_t { free, unanswered, offered };
        Word<std::uint32_t> state;  // stored last
        Kind kind;
        bool has_file;
        char random[16];
        Handle handle;
    };
    struct Shown {                                              // by one channel's client
        Word<std::uint32_t> used;                               // of the tokens: those behind them are none
        Word<std::uint64_t> opened[BARCUDA_MAX_CHANNELS / 64];  // a bit for each channel whose things it has opened
        Token tokens[most + most_descriptors];
    };
    // The store of descriptors that must outlive the bridge, by name.
    struct Keep {
        std::function<bool(const std::string& name, int fd)> keep;  // in place of what has that name. False: it cannot
        std::function<void(const std::string& name)> drop;
        std::function<File(const std::string& name)> take;  // another descriptor of the same; it stays kept
        std::function<std::vector<std::string>(const std::string& prefix)> names;  // of all that are kept
    };

    // `files`: how many descriptors one client may have. `books`: a record for each channel.
    explicit Shared(std::size_t files = 64, Part<Shown> books = {}, Keep keep = {})
        : most_files_(std::min(files, most_descriptors)), books_(books.records), keep_(std::move(keep)) {}

    // ---- after an earlier bridge was killed
    // Forgets what channels without a client have.
    void restore(const std::function<bool(std::uint32_t channel)>& lives);
    // Whether the channel's last offer was answered: otherwise its token is withdrawn.
    void settle(std::uint32_t channel, bool answered);
    // The token of a thing that this channel's client has: the same for the same handle; each descriptor has its own.
    // False: it has too many.
    bool offer(std::uint32_t channel, Kind kind, Handle& handle, File file = {});
    // The answer with that token is written down.
    void confirm(const Handle& token);
    // What is behind a token. Null: nothing of that kind.
    const Thing* find(Kind kind, const Handle& token) const;
    // The same, for a client that opens it: the two clients share something until one of them ends.
    const Thing* open(std::uint32_t channel, Kind kind, const Handle& token);
    // Another client that shares something with this one. This client's own channel: it may share something at any
    // moment. -1: none.
    std::int64_t shares_with(std::uint32_t channel) const;
    void withdraw(std::uint32_t channel, const Handle& token);  // one thing of its client's
    void forget(std::uint32_t channel);                         // everything of its client's
    std::size_t size() const { return things_.size(); }

  private:
    struct Client {
        std::map<std::pair<Kind, Handle>, Handle> tokens;  // by handle
        std::set<Handle> files;                            // by token
        std::vector<std::uint32_t> free;                   // places among those used
        std::uint32_t used = 0;
    };
    static std::string name_of(std::uint32_t channel, std::uint32_t place);
    void add(const Handle& token, Thing thing);
    bool write_down(const Handle& token, const Thing& thing);
    void drop(const Thing& thing);
    void empty(Shown& its) const;

    const std::size_t most_files_;
    std::map<Handle, Thing> things_;                            // by token
    std::map<std::uint32_t, Client> clients_;                   // by channel
    std::set<std::pair<std::uint32_t, std::uint32_t>> opened_;  // by whom, whose
    const std::span<Shown> books_;
    const Keep keep_;
};

}  // namespace barcuda
