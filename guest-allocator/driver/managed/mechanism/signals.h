// SPDX-License-Identifier: Apache-2.0
// signals.h: the fault of a CPU that touches managed memory on the device's side, and the program's own handler for
// faults. The library's handler is the process's; the program's is the one that the program sees, and that gets all
// other faults.
#pragma once
#include <signal.h>

namespace barcuda::guest::managed {

// From here on faults of the CPU come to fault_in().
void take_faults() noexcept;

// While it lives, handlers of this thread's signals are deferred: by siglongjmp they could leave what other threads
// wait for. Signals without a handler act as always.
class HandlersDeferred {
  public:
    HandlersDeferred() noexcept;
    ~HandlersDeferred();
    HandlersDeferred(const HandlersDeferred&) = delete;

  private:
    sigset_t before_;
};

}  // namespace barcuda::guest::managed
