// SPDX-License-Identifier: Apache-2.0
// exclusion.h: how a thread keeps others from giving the device work. managed.h has the whole protocol.
#pragma once
#include <mutex>

#include "guest-allocator/client/mutex.h"

namespace barcuda::guest::managed {

// While it lives no other thread posts a command that may touch managed memory. Not for a function in a stream: its
// stream waits for it, and perhaps so does what is being posted.
class Gate {
  public:
    Gate() noexcept;
    ~Gate();
    Gate(const Gate&) = delete;
    bool is_the_only_one() const noexcept;  // under the state's lock
};
unsigned own_gates() noexcept;  // that the calling thread has shut

// For threads that post, or wait for others, behind a gate of theirs: one at a time, or two of them would wait for each
// other's gate.
Mutex& exclusive_turn() noexcept;

// While it lives the device is quiescent: all that it was given is done, functions in streams too, and nothing more is
// given that may touch managed memory. A worker that unmaps memory waits for its device, and serves nothing meanwhile:
// also not the end of a function, for which the device would wait.
class Quiescent {
  public:
    Quiescent() noexcept;

  private:
    const std::lock_guard<Mutex> turn_{exclusive_turn()};
    const Gate gate_{};
};

// A function in a stream, which this thread has run, has used managed memory: that is the device's again. Its stream
// continues when this returns. (exclusive.cc)
void host_function_done() noexcept;

}  // namespace barcuda::guest::managed
