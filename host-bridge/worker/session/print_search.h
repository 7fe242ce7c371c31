// SPDX-License-Identifier: Apache-2.0
// print_search.h: whether kernels of the client's code may print. A client whose code does not never asks for output; for one whose code
// may each wait does. To know it is to look through all code that is loaded, most of which is packed: a second for 100 MB, of a program that
// opens NVIDIA's libraries more than their own start. So a thread looks, while the driver loads the code and the client goes on; until it
// has seen all, the code counts as code that prints. (The guest's half: may_print() in guest-allocator/driver/fence.cc.)
#pragma once
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

#include "base/huge_pages.h"
#include "shm-device/layout.h"

namespace barcuda {

class PrintSearch {
  public:
    explicit PrintSearch(barcuda_status& status);
    ~PrintSearch();
    PrintSearch(const PrintSearch&) = delete;

    // Code that is about to be loaded, or is being: it does not change any more. When this returns `status.prints` says that it may print,
    // or that it is known not to.
    void add(std::shared_ptr<const LargeString> image);
    bool may_print() const;  // for guests that ask with each function
    bool looks() const;      // code waits to be looked through, or is

  private:
    void look();
    void seen(bool prints);
    static bool holds_printf(const LargeString& image);

    barcuda_status& status_;
    mutable std::mutex mutex_;
    std::condition_variable added_;
    std::deque<std::shared_ptr<const LargeString>> images_;  // for the thread, which looks at the first
    std::size_t bytes_ = 0;                                  // of these
    unsigned unseen_ = 0;                                    // images, also those that add() itself looks through
    bool found_ = false, ends_ = false;
    std::thread searcher_;  // from the first image on
};

}  // namespace barcuda
