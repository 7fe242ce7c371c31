// capture.h: a stream that captures turns its work into a graph's nodes. Other streams join the capture when they wait
// for an event that was recorded in it, and must be joined again before it ends.
#pragma once
#include <memory>

#include "host-bridge/soft-gpu/driver/stream.h"

namespace barcuda::soft::driver {

// Each returns true if it was a capture's affair and is done.
bool record_in_capture(Stream& stream, Event& event);
bool wait_in_capture(Stream& stream, const std::shared_ptr<Event>& event, unsigned flags);

// A captured event has no state of its own: CUDA_ERROR_CAPTURED_EVENT.
void refuse_captured(Event& event);

}  // namespace barcuda::soft::driver
