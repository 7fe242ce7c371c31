// SPDX-License-Identifier: Apache-2.0
// conveyor.h: how the contents of a client's memory go from one process to another without a copy in the kernel: both
// map the same file, which has slots. The filler fills slot after slot and says so over a socket; the taker says over
// the same socket which slots are free again. A side that has gone is a socket that has ended. (Who fills and who
// takes: carry.h)
//
// What is in a slot may change while the taker reads it: it copies a slot before it looks at it.
#pragma once
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/failure.h"
#include "base/message.h"

namespace barcuda {

class Conveyor {
  public:
    static constexpr std::size_t slot_bytes = 2 << 20;
    struct Ends {
        File filler, taker, room;
    };
    // The file has that many slots, and no process can shorten it.
    static Failure make(std::size_t slots, Ends& ends);
    // As many slots as keep the threads of a machine busy.
    static std::size_t usual_slots();

    Conveyor() = default;
    ~Conveyor();
    Conveyor(const Conveyor&) = delete;
    // One of the two sides. The room is mapped, and can be closed. `within`: after this a side that says or hears
    // nothing has gone; zero: it is waited for. (A worker's cage allows no limit.)
    Failure open(File socket, const File& room, std::chrono::milliseconds within = {});

    std::size_t slots() const { return room_.size() / slot_bytes; }
    std::span<std::byte> slot(std::size_t number) const { return room_.subspan(number * slot_bytes, slot_bytes); }
    std::span<std::byte> room() const { return room_; }

    struct Word {
        static constexpr std::uint32_t end = ~0u;  // in place of a slot: all was filled
        std::uint32_t slot = end;
        std::uint32_t bytes = 0;  // 0: the slot is free
    };
    // Several threads may say words; one hears them, and waits for the next one. False: the other side has gone, or
    // says what has no meaning.
    bool say(Word word) const;
    bool hear(Word& word) const;
    bool has_word() const;  // hear() would not wait
    // Both sides hear nothing more.
    void close() const;

  private:
    File socket_;
    std::span<std::byte> room_;
    mutable std::atomic<bool> gone_{false};
};

}  // namespace barcuda
