// context.h: which context is current in the calling thread: a stack, kept here; the worker is told with each command.
#pragma once
#include <cuda.h>

#include <cstdint>

#include "guest-allocator/client/observer.h"

namespace barcuda {

// How many contexts have come to their end, and whether there has been more than one at a time.
std::uint32_t contexts_ended() noexcept;
bool several_contexts() noexcept;
// A number that nothing else of this process has had: the id of a context, and of a stream.
unsigned long long new_number() noexcept;

// While it lives a context is current in this thread; none: as it is.
class Within {
  public:
    explicit Within(CUcontext context) noexcept;
    ~Within();
    Within(const Within&) = delete;

  private:
    const bool pushed_;
};

}  // namespace barcuda
