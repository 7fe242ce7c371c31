// SPDX-License-Identifier: Apache-2.0
// ring.cc: sessions that use the queue, the bells, the supply of extents and the channel's pages as no library would.
#include <sched.h>

#include <chrono>
#include <cstring>

#include "base/os/futex.h"
#include "shm-device/queue/sync.h"
#include "shm-device/queue/wait.h"
#include "tests/hostile/liars.h"

namespace barcuda::hostile {
namespace {

class Liar {
  public:
    Liar(const Behaviour& behaviour, Tally& tally, std::uint64_t seed)
        : behaviour_(behaviour), tally_(tally), random_(seed), session_(behaviour.patience) {}

    End run() {
        struct Act {
            End (Liar::*play)();
            Claims claims = {};
        };
        const Act acts[] = {
            {&Liar::random_bodies},
            {&Liar::random_bodies},
            {&Liar::wrong_chains},
            {&Liar::wrong_chains},
            {&Liar::full_ring},
            {&Liar::calls, {.kicks = false}},  // it said that it would kick
            {&Liar::calls, {.bell = BARCUDA_BELL_NONE}},
            {&Liar::calls, {.bell = BARCUDA_BELL_DOORBELL, .kicks = false}},
            {&Liar::calls, {.bell = static_cast<barcuda_u32>(random_.word())}},
            {&Liar::calls, {.rows_hash = random_.word()}},
            {&Liar::calls, {.device = static_cast<unsigned char>(random_.between(1, 255))}},
            {&Liar::calls, {.device_count = static_cast<barcuda_u32>(random_.between(2, ~0u))}},
            {&Liar::rings},
            {&Liar::supply},
            {&Liar::scribble},
            {&Liar::come_and_go},
        };
        const Act& act = random_.pick(acts);
        if (!session_.open(behaviour_.region, act.claims).empty()) return End::no_channel;
        tally_.sessions.fetch_add(1, std::memory_order_relaxed);
        return (this->*act.play)();
    }

  private:
    void count(std::uint64_t n = 1) { tally_.commands.fetch_add(n, std::memory_order_relaxed); }
    End end() const { return end_of(session_); }
    static void nap(unsigned milliseconds) { Os::nap(milliseconds * 1'000'000ull); }

    // Chains as they should be, around bytes that mean nothing, or next to nothing.
    End random_bodies() {
        for (unsigned n = 0; n < 200 && !session_.ended() && !done(tally_); ++n, count()) {
            if (!session_.can_post()) {
                if (const auto found = session_.await(); found == Session::Found::stuck) return End::stuck;
                else if (found == Session::Found::ended) break;
                while (!session_.empty() && session_.look() == Session::Found::reply) session_.collect();
            }
            const std::span<std::byte> request = session_.request_memory();
            const std::size_t bytes = 8 * random_.between(0, 64);
            const RequestHead head{static_cast<std::uint32_t>(random_.below(static_cast<std::size_t>(Op::count) + 2)),
                                   static_cast<std::uint32_t>(random_.below(3))};
            for (std::size_t at = 0; at < bytes; at += 8) {
                const std::uint64_t word = random_.chance(60) ? random_.below(4) : random_.word();
                std::memcpy(request.data() + at, &word, 8);
            }
            if (bytes >= 8) std::memcpy(request.data(), &head, 8);
            session_.post(bytes, random_.chance(80) ? 8 * random_.below(1024) : 0);
        }
        nap(2);
        return end();
    }

    // Descriptors of any kind, made available one by one.
    End wrong_chains() {
        const virtqueue::Parts<> queue = virtqueue::in_channel(session_.channel().memory);
        virtqueue::Place<BARCUDA_QUEUE_SIZE> place;
        const std::uint64_t memory = session_.channel().offset + BARCUDA_COMMANDS_OFFSET;
        for (unsigned n = 0; n < 64 && !session_.ended() && !done(tally_); ++n, count()) {
            const bool sane = random_.chance(70);
            auto flags = static_cast<std::uint16_t>(random_.word());
            if (random_.chance(90))
                flags = static_cast<std::uint16_t>((flags & ~(virtqueue::flag_avail | virtqueue::flag_used)) |
                                                   place.available());
            if (sane)
                flags &= virtqueue::flag_avail | virtqueue::flag_used | virtqueue::flag_next | virtqueue::flag_write;
            const std::uint64_t address =
                sane ? memory + 8 * random_.below(BARCUDA_COMMANDS_SIZE / 8) : random_.word() >> random_.below(64);
            const auto length = static_cast<std::uint32_t>(sane ? random_.below(4096) : random_.word());
            queue.ring[place.index].addr.store(address, std::memory_order_relaxed);
            queue.ring[place.index].tail.store(
                virtqueue::pack({length, static_cast<std::uint16_t>(random_.below(2048)), flags}),
                std::memory_order_release);
            place.advance(static_cast<std::uint32_t>(random_.chance(95) ? 1 : random_.below(BARCUDA_QUEUE_SIZE)));
            if (random_.chance(30)) session_.kick();
            if (random_.chance(10)) nap(1);
        }
        session_.kick();
        nap(5);
        return end();
    }

    // No reply is ever taken; the ring goes round and round under the worker's hands.
    End full_ring() {
        const virtqueue::Parts<> queue = virtqueue::in_channel(session_.channel().memory);
        const std::uint64_t memory = session_.channel().offset + BARCUDA_COMMANDS_OFFSET;
        const RequestHead head{session_.number_of(Op::cuProfilerStop), 0};
        std::memcpy(session_.request_memory().data(), &head, sizeof head);
        virtqueue::Place<BARCUDA_QUEUE_SIZE> place;
        for (unsigned n = 0; n < 4 * BARCUDA_QUEUE_SIZE && !session_.ended(); ++n, count()) {
            queue.ring[place.index].addr.store(memory, std::memory_order_relaxed);
            queue.ring[place.index].tail.store(virtqueue::pack({sizeof head, 0, place.available()}),
                                               std::memory_order_release);
            place.advance(1);
            if (n % 256 == 0) session_.kick();
        }
        session_.kick();
        nap(5);
        return end();
    }

    // Commands that are right, from a client that has said what is not so.
    End calls() {
        for (unsigned n = 0; n < 6 && !done(tally_); ++n, count()) {
            const RequestHead head{session_.number_of(Op::cuDeviceCanAccessPeer), 0};
            const std::uint64_t devices[2] = {};
            std::memcpy(session_.request_memory().data(), &head, sizeof head);
            std::memcpy(session_.request_memory().data() + 8, devices, sizeof devices);
            session_.post(24, 64);
            if (const auto found = session_.await(); found != Session::Found::reply)
                return found == Session::Found::stuck ? End::stuck : end();
            session_.collect();
            if (random_.chance(30)) nap(static_cast<unsigned>(random_.below(40)));  // long enough for a worker to sleep
        }
        return end();
    }

    // Bells without end, of the worker's, of the clerk's, of the bridge's.
    End rings() {
        for (unsigned n = 0; n < 20'000 && !session_.ended() && !done(tally_); ++n) {
            session_.kick();
            if (n % 4 == 0) session_.region().knock();
            auto& supply = session_.channel().supply();
            if (n % 8 == 0) futex_wake(reinterpret_cast<const std::uint32_t&>(supply.asked), Among::processes);
            if (n % 1024 == 0) nap(1);
        }
        count();
        return end();
    }

    // Extents: none, too many, of no size that there is, and the question changed while it is being answered.
    End supply() {
        barcuda_supply& page = session_.channel().supply();
        for (unsigned n = 0; n < 40 && !session_.ended() && !done(tally_); ++n, count()) {
            page.bytes = random_.one_of<std::uint64_t>({0, 1, BARCUDA_GRANULE, 2 * BARCUDA_GRANULE, BARCUDA_GRANULE + 1,
                                                        ~std::uint64_t{0}, std::uint64_t{1} << 40, random_.word()});
            publish(page.asked, random_.chance(80) ? observe(page.asked) + 1 : random_.word());
            futex_wake(reinterpret_cast<const std::uint32_t&>(page.asked), Among::processes);
            if (random_.chance(30)) publish(page.answered, random_.word());
            if (random_.chance(30)) page.bytes = random_.word();
            if (random_.chance(50)) nap(static_cast<unsigned>(random_.below(8)));
        }
        return end();
    }

    // Any byte of the channel.
    End scribble() {
        const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(random_.between(5, 100));
        auto* words = reinterpret_cast<std::uint64_t*>(session_.channel().memory);
        const std::uint64_t all = random_.chance(70) ? BARCUDA_COMMANDS_OFFSET / 8 : BARCUDA_CHANNEL_SIZE / 8;
        while (std::chrono::steady_clock::now() < until) {
            for (unsigned n = 0; n < 64; ++n) {
                std::uint64_t& word = words[random_.below(all)];
                std::atomic_ref(word).store(random_.chance(50) ? random_.below(16) : random_.word());
            }
            session_.kick();
            count();
            sched_yield();
        }
        return observe(session_.channel().status().state) == BARCUDA_STATE_REFUSED ? End::refused : End::finished;
    }

    End come_and_go() {
        for (unsigned n = 0; n < 5; ++n, count()) {
            session_.close();
            if (random_.chance(50)) nap(1);
            if (!session_.open(behaviour_.region).empty()) return End::no_channel;
        }
        return end();
    }

    const Behaviour& behaviour_;
    Tally& tally_;
    Random random_;
    Session session_;
};

}  // namespace

End ring(const Behaviour& behaviour, Tally& tally, std::uint64_t seed) { return Liar(behaviour, tally, seed).run(); }

}  // namespace barcuda::hostile
