// SPDX-License-Identifier: Apache-2.0
// ledger.h: the bridge's books: what a new bridge needs to continue with the clients of one that was killed. They are
// plain records at fixed places of a sealed file in memory. Only the bridge maps the file; no worker gets it, and
// guests' values are in it only as copies that the bridge has checked. Each class writes its own part, and knows what a
// change that is half done means (records.h); values that follow from the records are computed when they are read. The
// file is sparse.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/failure.h"
#include "base/message.h"
#include "host-bridge/between/records.h"
#include "host-bridge/between/shared.h"
#include "host-bridge/bridge/books.h"
#include "host-bridge/bridge/grants.h"
#include "host-bridge/bridge/pausing.h"
#include "host-bridge/bridge/quotas.h"
#include "host-bridge/bridge/residents.h"
#include "host-bridge/bridge/rooms.h"
#include "shm-device/doors/shape.h"

namespace barcuda {

class Ledger {
  public:
    // Grows with every change of a record, or of what it means.
    static constexpr std::uint32_t form = 3;

    struct Head {
        std::uint64_t magic;
        std::uint32_t form;
        Word<std::uint32_t> link;       // the newest of workers that may have a client
        std::uint32_t layout, packets;  // of the bridge that has made it
        Shape shape;                    // of the region
        std::uint64_t bytes;            // of the whole ledger
        Word<std::uint32_t> whole;      // stored last
    };

    Ledger() = default;
    Ledger(Ledger&& other) noexcept;
    Ledger& operator=(Ledger&& other) noexcept;
    ~Ledger();

    // Makes a new one.
    Failure make(const Shape& shape);
    // Opens an earlier bridge's, if this bridge can read it.
    Failure open(File file);
    // A new one for a VM that was suspended, from the books that were written to a disk: what its clients are and own.
    // What their workers had borrowed, asked or been ordered went with these.
    Failure wake(int file);
    // From now on clients may get workers of this build.
    void own();
    // A new one that ends with the process, for tests. Its children see it.
    static Ledger anonymous(const Shape& shape);

    explicit operator bool() const { return at_ != nullptr; }
    int fd() const { return file_.fd(); }  // of the file; -1: it has none
    bool kept() const { return kept_; }    // it has the records of an earlier bridge
    const Head& head() const { return *reinterpret_cast<const Head*>(at_); }

    Part<Grants::Granule> granules() const { return part<Grants::Granule>(places_.granules, shape().granule_count); }
    Part<Quotas::Accounts> accounts() const { return part<Quotas::Accounts>(places_.accounts, shape().channel_count); }
    Part<Twice<KeptClient>> clients() const { return part<Twice<KeptClient>>(places_.clients, shape().channel_count); }
    Part<Twice<KeptPause>> pauses() const { return part<Twice<KeptPause>>(places_.pauses, shape().channel_count); }
    Part<Twice<KeptRequest>> requests() const {
        return part<Twice<KeptRequest>>(places_.requests, shape().channel_count);
    }
    Twice<KeptRules>* rules() const { return part<Twice<KeptRules>>(places_.rules, 1).records.data(); }
    Twice<KeptTotals>& totals() const { return *reinterpret_cast<Twice<KeptTotals>*>(at_ + places_.totals); }
    Part<KeptResidents> residents() const { return part<KeptResidents>(places_.residents, shape().channel_count); }
    Part<Rooms::Account> rooms() const { return part<Rooms::Account>(places_.rooms, shape().channel_count); }
    Part<Shared::Shown> shown() const { return part<Shared::Shown>(places_.shown, shape().channel_count); }

  private:
    struct Places {  // where each part begins
        std::size_t granules = 0, accounts = 0, rules = 0, totals = 0, clients = 0, pauses = 0, requests = 0, shown = 0,
                    residents = 0, rooms = 0, end = 0;
        explicit Places(const Shape& shape);
        Places() = default;
    };
    const Shape& shape() const { return head().shape; }
    template <class Record> Part<Record> part(std::size_t place, std::size_t count) const {
        if (!at_) return {};
        return {{reinterpret_cast<Record*>(at_ + place), count}, kept_};
    }
    bool map(std::size_t bytes, int fd);
    void begin(const Shape& shape);
    static Failure check(const Head& head, std::size_t bytes, bool with_workers);

    File file_;
    char* at_ = nullptr;
    std::size_t bytes_ = 0;
    Places places_;
    bool kept_ = false;
};

}  // namespace barcuda
