// SPDX-License-Identifier: Apache-2.0
// thread.h: what a thread is to its system.
#pragma once
#include <pthread.h>

namespace barcuda::os {

// While one lives, pthread_cancel() of this thread waits. malloc, free and fork are no cancellation points, and no
// function of CUDA says that it is one; but what they do here is: they nap, read and close.
class Uncancelled {
  public:
    Uncancelled() noexcept { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
    ~Uncancelled() { pthread_setcancelstate(before_, nullptr); }
    Uncancelled(const Uncancelled&) = delete;

  private:
    int before_;
};

}  // namespace barcuda::os
