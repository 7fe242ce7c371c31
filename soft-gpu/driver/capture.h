// SPDX-License-Identifier: Apache-2.0
// capture.h: a stream that captures turns its work into a graph's nodes. Other streams join the capture when they wait
// for an event that was recorded in it, and must be joined again before it ends. The context's order guards all of it.
#pragma once
#include <memory>
#include <thread>

#include "soft-gpu/driver/stream.h"

namespace barcuda::soft::driver {

struct Graph;

struct Capture {
    explicit Capture(std::shared_ptr<Graph> graph);
    ~Capture() { end(); }
    Capture(const Capture&) = delete;
    void end();

    const std::shared_ptr<Graph> graph;  // its nodes stay until the end
    std::uint64_t id = 0;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
    std::thread::id thread;  // of the thread that began it
    const Stream* origin = nullptr;
    std::vector<std::shared_ptr<Stream>> members;  // all streams of the capture, including the origin
    bool invalid = false, ended = false;
};

// Each returns true if it was handled by a capture.
bool record_in_capture(Stream& stream, Event& event);
bool wait_in_capture(Stream& stream, const std::shared_ptr<Event>& event, unsigned flags);

// The stream is destroyed: a capture that began in it can no longer end, and must block no other stream. Needs the
// context's order.
void abandon_capture(Stream& stream);

// A captured event has no state of its own: CUDA_ERROR_CAPTURED_EVENT.
void refuse_captured(Event& event);

}  // namespace barcuda::soft::driver
