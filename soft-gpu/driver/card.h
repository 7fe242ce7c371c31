// SPDX-License-Identifier: Apache-2.0
// card.h: what processes use of cards that they share, as natively: in a file that all of them map (BARCUDA_SOFT_CARD).
// Without one, each process has cards of its own. A process needs a system call only when it joins, because a worker's
// cage allows few: a process that ends is known by a mutex that it held, which the kernel marks.
#pragma once
#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "soft-gpu/driver/ledger.h"

namespace barcuda::soft {

class Card {
  public:
    // From now on this process shares the cards of that file; -1: of the one that BARCUDA_SOFT_CARD names, if any.
    // False: it shares none.
    static bool join(int file = -1);
    static Card* shared() { return shared_; }  // null: none
    // A part of its own in that file, until this process ends. Null: the file cannot be used.
    static Card* open(int file);

    // Bytes of a device, by the machine's number. False: the processes together would use more than `total`.
    bool take(int number, std::uint64_t bytes, std::uint64_t total);
    void give(int number, std::uint64_t bytes);
    std::uint64_t used(int number);  // by all processes

  private:
    static constexpr std::uint64_t form = 0x31647261636f7362;  // "bsocard1"
    static constexpr std::size_t most = 256;
    struct Process {
        pthread_mutex_t life;  // held as long as it lives
        std::atomic<std::uint64_t> used[most_devices];
    };
    struct Shared {
        std::uint64_t format;
        pthread_mutex_t change;
        Process processes[most];
    };
    class Locked;

    explicit Card(Shared& file) : file_(file) {}
    static Shared* map(int file);
    bool enter();
    std::uint64_t sum(int number);
    static bool has_ended(Process& process);

    Shared& file_;
    Process* own_ = nullptr;
    static inline Card* shared_ = nullptr;
};

}  // namespace barcuda::soft
