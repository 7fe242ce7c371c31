// SPDX-License-Identifier: Apache-2.0
// conditions.h: the values of conditional graph nodes. Kernels set them by their handles (cudaGraphSetConditional),
// graphs read them. A handle is a number that is never reused.
#pragma once
#include <cstdint>
#include <mutex>
#include <unordered_map>

namespace barcuda::soft {

class Conditions {
  public:
    std::uint64_t add();
    void remove(std::uint64_t handle);
    bool set(std::uint64_t handle, unsigned value);  // false: there is none
    unsigned get(std::uint64_t handle) const;        // 0 if there is none

  private:
    mutable std::mutex mutex_;
    std::uint64_t last_ = 0;
    std::unordered_map<std::uint64_t, unsigned> values_;
};
Conditions& conditions();

}  // namespace barcuda::soft
