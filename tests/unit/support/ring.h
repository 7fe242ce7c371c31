// SPDX-License-Identifier: Apache-2.0
// ring.h: a queue in memory with both of its halves, for the tests of single clauses.
#pragma once
#include <gtest/gtest.h>

#include <cstring>
#include <span>

#include "shm-device/queue/virtqueue.h"

namespace barcuda::virtqueue {

// A queue's memory, zero-initialized (2.8.13), with the raw view that the specification draws.
template <unsigned queue_size> struct Ring {
    struct Raw {
        std::uint64_t addr;
        std::uint32_t len;
        std::uint16_t id;
        std::uint16_t flags;
    };
    alignas(64) Descriptor<> ring[queue_size]{};
    alignas(64) Event<> driver_event{};
    alignas(64) Event<> device_event{};

    Parts<> parts() { return {ring, &driver_event, &device_event}; }
    Raw raw(unsigned i) const {
        Raw r;
        std::memcpy(&r, static_cast<const void*>(&ring[i]), sizeof r);
        return r;
    }
    void write(unsigned i, Raw r) { std::memcpy(static_cast<void*>(&ring[i]), &r, sizeof r); }
};

inline const Buffer request_buffer{0x1000, 64, false};
inline const Buffer reply_buffer{0x2000, 32, true};
inline const Buffer call_chain[] = {request_buffer, reply_buffer};  // a command that wants an answer
inline const Buffer post_chain[] = {request_buffer};                // one that does not

template <unsigned queue_size> struct Pair {
    Ring<queue_size> ring;
    Driver<queue_size> driver{ring.parts()};
    Device<queue_size> device{ring.parts()};

    void round(std::span<const Buffer> chain) {  // one chain all the way
        const std::uint64_t n = driver.post(chain);
        auto c = device.next();
        ASSERT_TRUE(c);
        device.complete(*c, c->reply.len);
        device.flush();
        ASSERT_EQ(driver.reap(), n);
    }
};

}  // namespace barcuda::virtqueue
