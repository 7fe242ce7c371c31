// SPDX-License-Identifier: Apache-2.0
// checkpoint.h: the gate that every call passes (api.h). cuCheckpointProcessLock shuts the gate: later calls wait in
// front of it, calls that are inside finish. (checkpoint_calls.cc has the functions.)
#pragma once
#include <atomic>
#include <cstdint>

namespace barcuda::soft::driver {

class Gate {
  public:
    // One call of the program. A call made by another call is a part of that call.
    class Call {
      public:
        Call() {
            if (depth_++ == 0) enter();
        }
        ~Call() {
            if (--depth_ == 0) inside_.fetch_sub(1);
        }
        Call(const Call&) = delete;

      private:
        static void enter() {
            for (inside_.fetch_add(1); shut_.load(); inside_.fetch_add(1)) {
                inside_.fetch_sub(1);
                shut_.wait(true);
            }
        }
        inline static thread_local unsigned depth_ = 0;
    };

    static void shut() { shut_ = true; }
    static void open() {
        shut_ = false;
        shut_.notify_all();
    }
    static bool empty() { return inside_ == 0; }  // while the gate is shut no call enters

  private:
    inline static std::atomic<bool> shut_{false};
    inline static std::atomic<std::uint32_t> inside_{0};
};

}  // namespace barcuda::soft::driver
