// SPDX-License-Identifier: Apache-2.0
// thread.h: a thread as its system sees it.
#pragma once
#include <pthread.h>
#include <signal.h>

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

// While one exists, this thread gets no signal, and no thread that it starts ever gets one.
class SignalsBlocked {
  public:
    SignalsBlocked() noexcept {
        sigset_t all;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before_);
    }
    ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
    SignalsBlocked(const SignalsBlocked&) = delete;

  private:
    sigset_t before_;
};

}  // namespace barcuda::os
