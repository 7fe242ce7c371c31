// SPDX-License-Identifier: Apache-2.0
// print_search.h: whether kernels of the client's code may print. If they do not, the client never asks for output; if
// they may, each of its waits does. To find out, all loaded code is searched, and most of it is compressed: that takes
// a second for 100 MB, more than the start of a program that opens NVIDIA's libraries. So a thread searches while the
// driver loads the code and the client continues. Until it has seen everything, the code counts as code that prints.
// (The guest's half: may_print() in guest-allocator/driver/fence.cc.)
#pragma once
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>

#include "base/huge_pages.h"
#include "host-bridge/worker/session/idle_thread.h"
#include "shm-device/layout.h"

namespace barcuda {

class PrintSearch {
  public:
    explicit PrintSearch(barcuda_status& status);
    ~PrintSearch();
    PrintSearch(const PrintSearch&) = delete;

    // The thread that will search, if there is one already; else the first image makes it. Nothing was added yet.
    void take(std::unique_ptr<IdleThread> searcher) { searcher_ = std::move(searcher); }
    // Adds code that is being loaded, or will be: it must not change any more. After this call `status.prints` says
    // that the code may print, or that it does not.
    void add(std::shared_ptr<const LargeString> image);
    bool may_print() const;  // for guests that ask with each function
    bool looks() const;      // code waits to be looked through, or is
    bool found() const;      // some that prints
    void restore(bool found);

  private:
    void begin();
    void look();
    void seen(bool prints);
    static bool holds_printf(const LargeString& image);

    barcuda_status& status_;
    mutable std::mutex mutex_;
    std::condition_variable added_;
    std::deque<std::shared_ptr<const LargeString>> images_;  // for the thread, which searches the first one
    std::size_t bytes_ = 0;                                  // of these images
    unsigned unseen_ = 0;                                    // images, also those that add() itself looks through
    bool found_ = false, ends_ = false, begun_ = false;
    std::unique_ptr<IdleThread> searcher_;  // exists from the first image on, at the latest
};

}  // namespace barcuda
