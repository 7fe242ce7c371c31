// SPDX-License-Identifier: Apache-2.0
// bridge_link.h: what a worker asks its bridge (between/link.h), one request after the other, and the descriptors that
// the bridge hands over without being asked (between/carry.h). From the first of those on the bridge answers nothing:
// a request that waits is left, others fail at once, until the client goes on here.
#pragma once
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "base/message.h"
#include "host-bridge/between/link.h"
#include "host-bridge/worker/quota/granter.h"

namespace barcuda {

// Thread-safe: the clerk uses it, too (supply.h).
class BridgeLink : public Granter {
  public:
    explicit BridgeLink(int link) : link_(link) {}

    CUresult grant(std::uint64_t bytes, std::uint64_t& offset, std::uint64_t& granted) override;
    void release(std::uint64_t offset, std::uint64_t bytes) override;
    bool borrow(int device, std::uint64_t bytes, std::uint64_t& left) override;
    void repay(int device, std::uint64_t bytes) override;
    CUresult share(Shared::Kind kind, Shared::Handle& handle, const File& file) override;
    CUresult find_shared(Shared::Kind kind, Shared::Handle& handle, File& file) override;
    void withdraw(const Shared::Handle& token) override;
    bool look() override;
    CUresult store_room(std::uint64_t& number, std::uint64_t& bytes, File& file) override;
    void give_store_back(std::uint64_t number) override;

    // ---- carrying
    using Parts = std::array<File, carrying::parts>;
    // The parts that were handed over since the last call. `waits`: for those that are missing. False: one is.
    bool take(Parts& parts, bool waits);
    // The same of those for an order `ahead`, which has memory and room alone. They close nothing.
    bool take_ahead(Parts& parts);
    // The client runs, so the bridge answers again: orders up to this one are over. What was left is not asked again.
    // What the bridge has handed over for an order that it took back may be in the link still, and stops nothing.
    // Waits for no request.
    void go_on(std::uint64_t order) { over_ = order; }

  private:
    struct Asked {
        std::uint64_t number = 0;  // 0: nothing
        std::uint32_t form = 0;
    };
    enum class Heard { answer, hand, end };

    template <class Request> Answer<Request> ask(const Request& request, int with = -1, File* got = nullptr);
    template <class Request> Answer<Request> exchange(const Request& request, int with, File* got);
    Heard hear(const Asked& asked, int flags = 0);
    template <class Request> bool read(Answer<Request>& answer) const;
    Answer<request::Look> head() const;
    bool take_hand();
    bool closed() const { return handed_ > over_; }  // the bridge answers nothing
    void settle_left();

    const int link_;
    std::mutex mutex_;
    std::uint64_t count_ = 0;   // of requests
    std::uint64_t handed_ = 0;  // the last order for which the bridge has handed something over
    std::atomic<std::uint64_t> over_ = 0;
    Asked left_;                       // a request that has no answer yet
    request::Grant::Reply late_ = {};  // the answer to a grant that was left; no bytes: there is none
    std::uint64_t late_room_ = 0;      // the number of a file for the store that came too late; 0: none did
    Parts parts_, ahead_;
    static constexpr std::size_t longest = 256;
    std::array<std::byte, longest> message_{};  // the last one that was heard,
    std::size_t length_ = 0;
    File file_;  // and its descriptor
};

}  // namespace barcuda
