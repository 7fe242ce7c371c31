// SPDX-License-Identifier: Apache-2.0
// signals.h: the fault of a CPU that touches managed memory on the device's side, and the program's own handler for
// such faults: ours is the process's, the program's is the one that the program sees and that all other faults go to.
#pragma once
#include <signal.h>

namespace barcuda::guest::managed {

// While one lives, handlers of this thread's signals wait: they could leave by siglongjmp what others wait for.
// Signals without a handler do what they always do.
class HandlersWait {
  public:
    HandlersWait() noexcept;
    ~HandlersWait();
    HandlersWait(const HandlersWait&) = delete;

  private:
    sigset_t before_;
};

}  // namespace barcuda::guest::managed
