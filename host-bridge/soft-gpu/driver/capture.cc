// capture.cc
#include "host-bridge/soft-gpu/driver/capture.h"

#include "host-bridge/soft-gpu/driver/driver.h"
#include "host-bridge/soft-gpu/driver/operations.h"

namespace barcuda::soft::driver {
void capture_operation(Stream&, std::shared_ptr<Operation>) {}
void refuse_in_capture(Stream&) {}
bool record_in_capture(Stream&, Event&) { return false; }
bool wait_in_capture(Stream&, const std::shared_ptr<Event>&, unsigned) { return false; }
void refuse_captured(Event&) {}
}  // namespace barcuda::soft::driver
