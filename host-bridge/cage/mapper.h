// SPDX-License-Identifier: Apache-2.0
// mapper.h: the one thread of a worker's that has a descriptor of the region, and a table of descriptors for itself to
// keep it in. It can map and do next to nothing else, and each mapping the kernel asks the bridge about (seccomp's
// user notification): the worker decides what it asks for, the bridge what it gets (judge). The registers of a thread
// that waits in the kernel are nobody's to change, nor is its table: what was judged is what is done.
#pragma once
#include <linux/filter.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <vector>

namespace barcuda::cage {

class Mapper {
  public:
    // Two steps of a worker's, before close() and after it: from the first on no other thread has the region; with the
    // second the thread gives up everything else, and the bridge is told whom to answer, by the link. False, with
    // errno: it cannot be had.
    bool take();
    bool confine();
    // As mmap, shared, at this address and at no other. From any thread.
    void* map(void* at, std::size_t bytes, std::uint64_t offset);

  private:
    enum class Errand { take, confine, map };
    void run();
    int ask(Errand errand);
    bool shed() const;
    bool tell_bridge() const;

    std::vector<sock_filter> program_;
    std::mutex mutex_;  // one errand at a time
    Errand errand_ = Errand::take;
    void* at_ = nullptr;
    std::size_t bytes_ = 0;
    std::uint64_t offset_ = 0;
    int error_ = 0;
    std::atomic<int> asked_ = 1, done_ = 0;  // numbers of errands
};

// The bridge's half: answers one question of a mapper, if there is one. Waits for nobody where poll() has said that
// there is (though who asked may have been killed since). `may`: of a mapping of [offset, offset + bytes) at its own
// address.
void judge(int listener, std::uint64_t base, const std::function<bool(std::uint64_t, std::uint64_t)>& may);

}  // namespace barcuda::cage
