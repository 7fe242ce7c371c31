// SPDX-License-Identifier: Apache-2.0
// residence.h: whether a client's memory is on its cards, as its bridge orders (between/link.h, CardPlace). Memory
// leaves between two commands, when the GPU has done all of the client's work, and comes back before the next command.
// So a command always finds all of the client's memory where it was.
//
//   resident   everything is on the cards
//   leaving    an order stands: no command is taken, until the GPU has done all work
//   outside    some memory is in the store, and there is no command
//   waiting    there is a command, and the client lacks memory for it: what is outside, or what the command allocates.
//              The bridge has been asked for it
//   returning  the request was granted, and the memory is on its way back
//   away       the client is paused, and the driver has moved all of it from the cards (worker/hold.h): it holds
//              nothing
//   lost       the GPU does not take it back, by an error that is no lack of room: no command can run any more
//
// The GPU may wait for a command that the worker does not take. So `leaving` ends after a short time; then the worker
// takes commands for a moment, and tries again for longer. In a capture it takes commands at once. An order has no end:
// it stands until the bridge lifts it.
#pragma once
#include <cuda.h>

#include <cstdint>
#include <span>
#include <string_view>

#include "host-bridge/worker/memory/promise.h"

namespace barcuda {

class Residence {
  public:
    enum class State : std::uint8_t { resident, leaving, outside, waiting, returning, away, lost, count };
    static std::string_view name(State state);
    static bool permits(State from, State to);

    // What it moves, and what it asks. In a worker: moves.h.
    struct Memory {
        virtual ~Memory() = default;
        // The GPU has done all of the client's work.
        virtual bool quiet() = 0;
        // A stream is in a capture: only later commands end it, and nothing leaves before.
        virtual bool captures() = 0;
        // Moves `bytes` of this card's blocks, or a little more, to the store; or as many as may leave and have room.
        virtual void put_out(std::size_t card, std::uint64_t bytes) = 0;
        // Moves everything back. After an error, some of it may be back. Out of memory: the card has no room at the
        // moment.
        virtual CUresult bring_back(std::size_t card) = 0;
        // The card and the bytes that the last command lacked; no bytes: it lacked none.
        struct Lack {
            std::size_t card = 0;
            std::uint64_t bytes = 0;
            bool of_driver = false;  // for its own memory (a pool's, an array's), which is not promised
        };
        virtual Lack lacks() = 0;
        virtual void forget_lack() = 0;
        // The bridge is to look at the cards' places.
        virtual void look() = 0;
        // Room of the store that nothing is in is given back.
        virtual void shrink_store() = 0;
    };
    Residence(std::span<Promise> cards, Memory& memory) : cards_(cards), memory_(memory) {}

    // Called before each command: whether the worker must not take one, nor go on with the one that it has. Carries out
    // orders and answers.
    bool stops() { return (state_ != State::resident || is_called()) && go_on(); }
    // Carries out orders only.
    void obey();
    // The client is paused: what it waits for is for others. It asks again when it goes on. Makes no call of the
    // driver.
    void ask_nothing();
    // The driver has moved all that the client has from the cards; and has moved it back. The bridge hears of the
    // second one before it hears that the client goes on: until then it keeps what it has promised for the return. Make
    // no call of the driver.
    void leave_cards();
    void return_to_cards();
    // There is a command, while the client is away. The bridge may bring it back for that.
    void call_for_return();
    // The worker has a command. False: not now; it stays with the worker until stops() is false again.
    bool begin();
    // The command has ended. True: it lacked memory, and is to be done again when stops() is false.
    bool end(CUresult result) {
        if (result == CUDA_ERROR_OUT_OF_MEMORY) return end_short();
        refused_ = false;
        memory_.forget_lack();  // of a first attempt of this command
        if (tries_end_ != 0) [[unlikely]]
            end_tries();
        return false;
    }
    // An allocation lacks memory: whether the bridge gives it at once. It does when no other client lacks any. If not,
    // the client may still find what it has freed itself.
    bool asks_for_more(std::size_t which, std::uint64_t bytes);
    // The worker is idle, and the GPU too.
    void rest();

    State state() const { return state_; }
    // Nanoseconds for which the worker waits for the GPU next. `before`: its last attempt, too short (0: none).
    static std::uint64_t attempt_after(std::uint64_t before);
    // Why the client's memory does not come back, once the state is `lost`. The session has to end.
    CUresult loss() const { return loss_; }
    bool waits() const { return state_ == State::leaving || state_ == State::waiting; }

  private:
    bool is_called() const;  // by a word of the bridge
    bool is_ordered() const;
    bool is_out() const;
    bool go_on();
    void attempt();
    void leave();
    bool end_short();
    void end_tries();
    struct Asked {
        bool refused = false, lacks = false, wished = false;
    };
    Asked ask();
    bool may_come_back();
    bool come_back();
    void become(State state);

    const std::span<Promise> cards_;
    Memory& memory_;
    State state_ = State::resident;
    CUresult loss_ = CUDA_SUCCESS;
    bool refused_ = false;  // the command is to find no memory
    Memory::Lack lack_;     // of the command that waits
    // Nanoseconds, and times of the monotonic clock
    std::uint64_t attempt_ = 0, attempt_ends_ = 0, next_attempt_ = 0, next_return_ = 0;
    std::uint64_t wished_ = 0;     // bytes, for a driver that lacks memory of its own
    std::uint64_t tries_end_ = 0;  // of a driver that lacks memory of its own; 0: it does not
    unsigned vain_returns_ = 0;
};

}  // namespace barcuda
