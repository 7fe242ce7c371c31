// SPDX-License-Identifier: Apache-2.0
// bounce.h: pinned memory of the worker's own, by which small copies to the device go whose bytes rode in a command.
// From pageable memory a driver would copy them into such memory itself, and then give the GPU a copy that starts
// later. A segment of it belongs to one stream, and is used again when the GPU has read all of it: when the event
// behind its last copy says so, or when the GPU has been idle. The client reaches this memory by no command (the driver
// calls it host memory), and what it has ever held is the client's own.
#pragma once
#include <cuda.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "host-bridge/worker/session/contexts.h"
#include "host-bridge/worker/session/in_flight.h"
#include "host-bridge/worker/session/streams.h"

namespace barcuda {

class Bounce {
  public:
    // Up to here a driver is taken to write the bytes into its queue: nothing is faster. (An H200 needs 7.2 us for 4
    // bytes and a wait; for 4 KiB 14.8 from pageable and 9.4 from pinned memory: docs/where-time-goes.md.)
    static constexpr std::size_t above = 1 << 10;
    // Larger ones go by the region, except where that is full (guest-allocator/driver/copy.cc, inline_bytes).
    static constexpr std::size_t most = 16 << 10;
    static constexpr std::size_t segment_bytes = 64 << 10;
    static constexpr std::size_t segments = 16;

    // The memory, which this process has once. Extents::lend() has it registered with the client's.
    static std::span<std::byte> memory();

    Bounce(const Driver& driver, const Extents& extents, const Contexts& contexts, const Streams& streams,
           const InFlight& in_flight)
        : driver_(driver), extents_(extents), contexts_(contexts), streams_(streams), in_flight_(in_flight) {}

    // A copy of the bytes from which the next copy of this stream, given to the driver at once, may read. Null: it must
    // go from where they are, because of its size, in a capture, or while the GPU has not yet read enough.
    const void* take(const void* bytes, std::size_t size, CUstream stream);
    void stream_gone(CUstream stream);     // its work continues
    void context_gone(CUcontext context);  // it is about to end

  private:
    enum class State : std::uint8_t {
        free,
        open,    // takes more copies of its stream
        behind,  // its event is behind its last copy
        left     // no event is: the GPU has read it when it has been idle
    };
    struct Segment {
        State state = State::free;
        CUstream stream = nullptr;
        CUcontext context = nullptr;
        std::size_t used = 0;
        std::uint64_t idle = 0;  // how often the GPU had been idle when the last copy went in
        CUevent event = nullptr;
        CUcontext event_of = nullptr;
    };

    bool fits(std::size_t size, CUstream stream) const;
    Segment* open_of(CUstream stream, CUcontext context);
    Segment* find_free();
    void look_at_one();
    void close(Segment& segment);

    const Driver& driver_;
    const Extents& extents_;
    const Contexts& contexts_;
    const Streams& streams_;
    const InFlight& in_flight_;
    std::array<Segment, segments> all_;
    std::size_t last_ = 0, looked_ = 0;
};

}  // namespace barcuda
