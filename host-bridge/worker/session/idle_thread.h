// SPDX-License-Identifier: Apache-2.0
// idle_thread.h: a thread that is there before its work, since to start one takes longer than to wake one.
#pragma once
#include <functional>
#include <future>
#include <thread>
#include <utility>

namespace barcuda {

class IdleThread {
  public:
    // Throws std::system_error: there is no thread to be had.
    IdleThread() = default;
    ~IdleThread() {
        if (!begun_) work_.set_value({});
        thread_.join();
    }
    IdleThread(const IdleThread&) = delete;

    // Once: what it does until that returns. Whoever destroys this waits for it.
    void begin(std::function<void()> work) {
        begun_ = true;
        work_.set_value(std::move(work));
    }

  private:
    std::promise<std::function<void()>> work_;
    bool begun_ = false;
    std::thread thread_{[work = work_.get_future()]() mutable {
        if (const std::function<void()> f = work.get()) f();
    }};
};

}  // namespace barcuda
