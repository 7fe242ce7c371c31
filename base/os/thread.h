// SPDX-License-Identifier: Apache-2.0
// thread.h: a thread as its system sees it.
#pragma once
#include <pthread.h>

namespace barcuda::os {

// While one exists, pthread_cancel() of this thread waits. malloc, free and fork are no cancellation points, and no
// function of CUDA is documented as one, but their work here (sleep, read, close) is.
class Uncancelled {
  public:
    Uncancelled() noexcept { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
    ~Uncancelled() { pthread_setcancelstate(before_, nullptr); }
    Uncancelled(const Uncancelled&) = delete;

  private:
    int before_;
};

}  // namespace barcuda::os
