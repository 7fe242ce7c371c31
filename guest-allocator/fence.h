// fence.h: a wait in the guest is a look at memory that the GPU writes. Each waiting thread has a fence of its own in
// the channel's fence page: it asks for its next value to be written when the stream has got that far, and looks until
// it is.
#pragma once
#include <cuda.h>

namespace barcuda {

// Waits until all work that was posted to the stream before this call is done. Returns the error of that work, if any.
CUresult wait_for(CUstream stream) noexcept;

// For several streams at once: ask all, then wait for all.
CUresult wait_for(const CUstream* streams, unsigned count) noexcept;

// Has the fence at this address of the region (host-visible, 8 bytes) reached the value? Waits until it has.
CUresult wait_until(const unsigned long long& fence, unsigned long long value) noexcept;

// Whether anything has been posted since all work was last waited for.
bool gpu_busy() noexcept;

// Device printf and assert text that the host has collected goes to this process's standard output. After a wait.
void show_output() noexcept;
void module_prints() noexcept;  // a module that may print is loaded: waits look for output from now on
bool may_print() noexcept;

}  // namespace barcuda
