// SPDX-License-Identifier: Apache-2.0
// stream.h: how a VM moves to another bridge: messages over two descriptors, one for each direction, of which any
// transport (ssh) carries the bytes.
//
//   source               destination
//     offer    ------->               which VM of which source; the move has a number of its own
//              <-------  welcome      nothing was paused before
//     early    ------->               frames of any part, while the programs run
//     part, bytes, part_end -->       of each part of the set
//     description ---->
//                           [QEMU has read the guest, which is stopped]
//              <-------  have         the set is whole, and stays there, whatever is killed
//     [its bridge ends]
//     go       ------->
//              <-------  awake        its bridge serves, and the guest goes on
//     [its QEMU ends]
//
// The source decides. Until it has heard `have`, it goes on if anything fails. Once its bridge has ended, the
// destination is to go on: `go` is said again over a new connection until it is answered. Between the two the
// destination keeps the set and waits, however long: `go` lets it go on, `drop` says that the source does.
#pragma once
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/failure.h"
#include "base/message.h"

namespace barcuda {

enum class MoveWord : std::uint32_t {
    alive,  // each second, from both sides
    offer,
    go,
    drop,
    early,      // a frame, or a piece of one: its number in place of the part's
    early_end,  // the hash of all of them
    part,       // begins: its name
    bytes,      // of it
    again,      // an early frame of it: its number
    part_end,   // its hash
    description,
    // from the destination
    welcome,
    have,
    awake,
    dropped,
    failed  // from either side: why; nothing follows
};

// What a connection begins with: of `offer`, `go` and `drop`.
struct MoveOrder {
    static constexpr std::uint32_t right_number = 3;  // of the stream's form
    std::string id;                                   // of the move
    std::string name{}, region{}, source{};           // of `offer`: the VM's; source: which region of which boot
    bool guest = false;                               // QEMU's part comes, too
    std::string text() const;
    static Failure parse(std::string_view text, MoveOrder& order);
};

class Stream {
  public:
    // A side that receives nothing for this long treats the connection as cut; one that cannot write, later.
    static constexpr std::chrono::seconds silence{15}, stall{120};
    static constexpr std::size_t most_bytes = 1 << 20;  // of a message

    struct Message {
        MoveWord word = MoveWord::alive;
        std::uint32_t part = 0;
        std::vector<std::byte> bytes{};
        std::string text() const { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }
    };

    // SIGPIPE must be ignored. `out` may be non-blocking.
    Stream(File in, File out) : in_(std::move(in)), out_(std::move(out)) {}
    ~Stream();
    Stream(const Stream&) = delete;

    // Says `alive` each second from now on.
    void beat();
    // Any thread may send. More than most_bytes become several messages.
    Failure send(MoveWord word, std::span<const std::byte> bytes, std::uint32_t part = 0);
    Failure send(MoveWord word, std::string_view text = {}, std::uint32_t part = 0);
    // The next one, `alive` excepted. What the other side says has failed is a failure of that text.
    Failure receive(Message& message);
    // The same; only this one is right now.
    Failure expect(MoveWord word, Message& message);
    Failure expect(MoveWord word);
    // The other side has said `failed`.
    bool refused() const { return refused_; }

  private:
    struct Head {
        MoveWord word;
        std::uint32_t part, bytes;
    };
    Failure write(std::span<const std::byte> bytes);
    Failure read(std::span<std::byte> bytes);

    const File in_, out_;
    std::mutex one_sends_;
    bool refused_ = false;
    bool broken_ = false;  // half a message may have been written
    std::atomic<bool> stop_{false};
    std::thread beats_;
};

}  // namespace barcuda
