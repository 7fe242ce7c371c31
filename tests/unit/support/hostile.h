// SPDX-License-Identifier: Apache-2.0
// hostile.h: a queue whose memory is a liar. Every load returns fresh bytes from a source, whatever was stored there
// and whatever was read before: who reads a word twice, or trusts what it wrote, is found out. Shared by the unit test
// (random bytes) and by the fuzz target (chosen ones).
#pragma once
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <set>
#include <span>

#include "shm-device/queue/virtqueue.h"

namespace barcuda::hostile {

// What the memory says next, and what was asked of it.
struct Source {
    std::span<const std::uint8_t> bytes;
    std::set<const void*> read;  // words read since the last forget()
    std::uint64_t loads = 0;

    static Source*& current() {
        static Source* source = nullptr;
        return source;
    }
    bool empty() const { return bytes.empty(); }
    template <class T> T take() {
        T value{};
        const std::size_t n = bytes.size() < sizeof value ? bytes.size() : sizeof value;
        std::memcpy(&value, bytes.data(), n);
        bytes = bytes.subspan(n);
        return value;
    }
    void forget() { read.clear(); }
};

inline void expect(bool ok, const char* what) {
    if (ok) return;
    std::fprintf(stderr, "hostile memory: %s\n", what);
    std::abort();
}

struct Sync {
    template <class T> class Atomic {
      public:
        T load(std::memory_order) const {
            Source& s = *Source::current();
            ++s.loads;
            expect(s.read.insert(this).second, "a word was read twice");
            return s.take<T>();
        }
        void store(T value, std::memory_order) { stored_ = value; }

      private:
        T stored_ = 0;  // written, never believed
    };
    static void fence() {}
    static bool fence_all() { return true; }
};

template <unsigned queue_size> struct Ring {
    virtqueue::Descriptor<Sync> ring[queue_size];
    virtqueue::Event<Sync> driver_event, device_event;
    virtqueue::Parts<Sync> parts() { return {ring, &driver_event, &device_event}; }
};

// The device half against such memory, until the bytes run out or it has called the driver a liar.
template <unsigned queue_size> void torment_device(std::span<const std::uint8_t> bytes) {
    Source source{bytes, {}, 0};
    Source::current() = &source;
    Ring<queue_size> ring;
    virtqueue::Device<queue_size, Sync> device(ring.parts());
    virtqueue::Chain under_way[queue_size];
    unsigned taken = 0, done = 0, descriptors = 0;
    std::uint64_t sequence = 0;
    while (!source.empty()) {
        const auto act = source.take<std::uint8_t>();
        source.forget();
        const std::uint64_t before = source.loads;
        switch (act % 4) {
            case 0:
            case 1:
                if (auto c = device.next()) {
                    expect(device.lie() == virtqueue::Lie::none, "a chain after a lie");
                    expect(c->sequence == ++sequence, "a chain was counted wrong");
                    expect(c->count == (c->reply.writable ? 2 : 1) && !c->request.writable,
                           "a chain that is no command");
                    descriptors += c->count;
                    expect(descriptors <= queue_size, "more descriptors under way than there are");
                    under_way[taken++ % queue_size] = *c;
                }
                expect(source.loads - before <= 2 * virtqueue::max_chain, "next() reads more than a chain");
                break;
            case 2:
                if (done != taken) {
                    const virtqueue::Chain& c = under_way[done++ % queue_size];
                    descriptors -= c.count;
                    device.complete(c, act & 4 ? c.reply.len : 0);
                }
                if (act & 8) device.flush();
                expect(source.loads == before, "completing reads the ring");
                break;
            case 3:
                if (act & 4) device.enable_kick();
                else device.should_wake();
                expect(source.loads - before <= 1, "an event reads more than its word");
        }
    }
    Source::current() = nullptr;
}

// The driver half against a device that has lost its mind. It need not get on; it must not get lost.
template <unsigned queue_size> void torment_driver(std::span<const std::uint8_t> bytes) {
    Source source{bytes, {}, 0};
    Source::current() = &source;
    Ring<queue_size> ring;
    virtqueue::Driver<queue_size, Sync> driver(ring.parts());
    const virtqueue::Buffer call[] = {{0, 8, false}, {0, 8, true}};
    std::uint64_t completed = 0;
    while (!source.empty()) {
        const auto act = source.take<std::uint8_t>();
        const unsigned count = act & 4 && queue_size > 1 ? 2 : 1;
        source.forget();
        switch (act % 3) {
            case 0:
                if (driver.can_post(count)) driver.post(std::span(call, count));
                break;
            case 1: {
                const std::uint64_t before = source.loads;
                const std::uint64_t now = driver.reap();
                expect(now >= completed && now <= driver.posted(), "more is completed than was posted");
                expect(source.loads - before <= now - completed + 1, "reap() reads on without end");
                completed = now;
                expect(completed != driver.posted() || driver.can_post(queue_size), "an idle queue with a full ring");
                break;
            }
            case 2:
                if (act & 8) driver.enable_wake();
                else driver.should_kick();
        }
    }
    Source::current() = nullptr;
}

}  // namespace barcuda::hostile
