// SPDX-License-Identifier: Apache-2.0
// idle_thread.h: a thread that is started before its work is known: waking a thread is faster than starting one.
#pragma once
#include <functional>
#include <future>
#include <thread>
#include <utility>

namespace barcuda {

class IdleThread {
  public:
    // Throws std::system_error if no thread can be started.
    IdleThread() = default;
    ~IdleThread() {
        if (!begun_) work_.set_value({});
        thread_.join();
    }
    IdleThread(const IdleThread&) = delete;

    // Gives the thread its work, once. The destructor waits until the work returns.
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
